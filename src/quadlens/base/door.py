"""The door (`quadlens/__init__.py`) as the wings see it.

It makes a study of anything that stands for a network, and it names the parts of a study.

The door opens when the package is imported. A room that calls it imports nothing for it, and no
reader.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

# A part of a study: what a function of the study says, or a function of more than the study.
Part = Callable[[Any], Any]


@dataclass
class Door:
    """What the door does for the rooms; `quadlens/__init__.py` replaces all of it.

    Attributes:
        study_of: Makes a study of anything that stands for a network, under a name where one is
            given.
        read: Reads another program's checkpoint, where its activation may have to be said.
        checker: The program that checks certificates, which shares no code with this one.
        load: Loads a module that a list names: a figure, a command, what a help text lists.
        part_named: Finds the function that computes a part by the name that users write after
            `study.`.
        parts: Each part by that name: the module and the name of its function.
        methods: The same of functions that take more than the study.
    """

    study_of: Callable[..., Any]
    read: Callable[..., Any]
    checker: Callable[[], Any]
    load: Callable[[str], ModuleType]
    part_named: Callable[[str], Part]
    parts: dict[str, tuple[str, str]]
    methods: dict[str, tuple[str, str]]


def _closed(*given: object) -> Any:
    raise RuntimeError("import quadlens first")


DOOR = Door(_closed, _closed, _closed, _closed, _closed, {}, {})
