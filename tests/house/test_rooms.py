"""Data flows one way: a room imports only rooms that come before it in CONTRIBUTING.md's table."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from beartype.roar import BeartypeCallHintParamViolation
from jaxtyping import TypeCheckError

import quadlens
from places import ROOT

PACKAGE = Path(quadlens.__file__).parent
CONTRIBUTING = ROOT / "CONTRIBUTING.md"


def rooms() -> list[str]:
    """The rooms in the order of the table; what is not a room (errors, schema, …) is below all of them."""
    cells = re.findall(r"^\| (`\w+/`[^|]*)\|", CONTRIBUTING.read_text(encoding="utf-8"), re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`(\w+)/`", cell)]


def imported(source: str) -> Iterator[str]:
    """First names below `quadlens` that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            whole = [node.module] if node.module != "quadlens" else [f"quadlens.{one.name}" for one in node.names]
        elif isinstance(node, ast.Import):
            whole = [one.name for one in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in whole if name.startswith("quadlens."))


def test_the_table_names_every_room() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert len(rooms()) == len(set(rooms()))
    assert set(rooms()) == packages


def test_rooms_import_only_rooms_before_them() -> None:
    order = {name: place for place, name in enumerate(rooms())}
    back = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for room, place in order.items()
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for name in imported(path.read_text(encoding="utf-8"))
        if order.get(name, -1) > place
    ]
    assert back == []


def test_what_is_no_room_imports_no_room() -> None:
    doors = {"__init__", "__main__", "edit", "named"}  # `named` is for types alone
    for path in PACKAGE.glob("*.py"):
        if path.stem not in doors:
            assert not set(imported(path.read_text(encoding="utf-8"))) & set(rooms()), path.name


@pytest.mark.parametrize(
    "line",
    ["import quadlens.cli", "from quadlens.cli.output import emit", "def f():\n    from quadlens import cli"],
)
def test_an_import_is_seen(line: str) -> None:
    assert list(imported(line)) == ["cli"]


def test_types_and_shapes_are_checked_while_testing() -> None:
    """Of functions with shapes, which tie arguments to each other; without; and whose annotations are text."""
    from quadlens.model import Weights
    from quadlens.model.config import Config, check_modulus
    from quadlens.model.handmade import waves

    violations = (BeartypeCallHintParamViolation, TypeCheckError)
    assert waves(5, np.arange(2), np.zeros(2)).shape == (5, 2)
    wrong: list[Callable[[], object]] = [
        lambda: waves(5, np.arange(2), np.zeros(3)),
        lambda: check_modulus("5"),  # type: ignore[arg-type]
        lambda: Weights.with_zero_biases(Config.paper(5), W_E="0"),  # type: ignore[arg-type]
    ]
    for call in wrong:
        with pytest.raises(violations):
            call()
