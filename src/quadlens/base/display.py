"""How a value shows itself: one short line in a terminal, a small table in a notebook."""

import dataclasses
import html
import re
from abc import ABC, abstractmethod
from typing import Any, TypeVar

LONGEST_REPR = 199
# Of a value that is part of others.
LONGEST_INNER = 119
LONGEST_TUPLE, LONGEST_WORD = 4, 40
C = TypeVar("C", bound=type)
# Characters that do something to a terminal: C0 and C1 but tab and newline, and those that turn the
# direction of text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""Return the text with control characters but tab and newline as escapes.

    The escapes are JSON's.

    >>> printable("a\x1b[2Kb")
    'a\\u001b[2Kb'
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Displayed(ABC):
    """A value with a short `repr` and a table for notebooks, both made of a few facts."""

    @abstractmethod
    def _facts(self) -> dict[str, object]:
        """What to show, in order; an empty name shows the value alone."""

    def __repr__(self) -> str:
        """`Type(name=value, …)` in under 200 characters."""
        words = ", ".join(
            f"{name}={value}" if name else str(value) for name, value in self._facts().items()
        )
        return _cut(printable(f"{type(self).__name__}({words})"))

    def _repr_html_(self) -> str:
        """The facts as a table."""
        return facts_html(type(self).__name__, self._facts())


def short(cls: C) -> C:
    """Give a dataclass a `repr` of one short line.

    An array is shown by its shape, a value inside by its type.

    Fields that find no room are left out.

    >>> from dataclasses import dataclass
    >>> @short
    ... @dataclass
    ... class Cluster:
    ...     k: int
    ...     phases: tuple[float, ...]
    >>> Cluster(5, (0.1,) * 176)
    Cluster(k=5, phases=176 × float)
    """

    def line(self: Any) -> str:
        text = f"{type(self).__name__}("
        for number, field in enumerate(dataclasses.fields(self)):
            more = f"{', ' if number else ''}{field.name}={_brief(getattr(self, field.name))}"
            if len(text) + len(more) > LONGEST_INNER - len(", …)"):
                return f"{text}, …)"
            text += more
        return f"{text})"

    cls.__repr__ = line  # type: ignore[assignment]
    return cls


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_REPR else text[: LONGEST_REPR - 2] + "…)"


def _brief(value: Any) -> str:
    """A value in a word or two."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype}{list(value.shape)}"
    if dataclasses.is_dataclass(value) or isinstance(value, Displayed):
        return f"{type(value).__name__}(…)"
    if isinstance(value, tuple | list):
        if len(value) > LONGEST_TUPLE:
            return f"{len(value)} × {type(value[0]).__name__}"
        return f"({', '.join(map(_brief, value))})"
    if isinstance(value, dict):
        return f"{len(value)} entries"
    return f"{value:.6g}" if isinstance(value, float) else _word(repr(value))


def _word(text: str) -> str:
    return text if len(text) <= LONGEST_WORD else f"{text[: LONGEST_WORD - 1]}…"


def claim(kind: str, number: str, quantity: str) -> str:
    """A bound as one short line: the number with all its digits, and what it is about."""
    return f"{kind}({number}, {_word(quantity)!r}, …)"


def facts_html(title: str, facts: dict[str, object]) -> str:
    """A table of two columns."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table><caption>{html.escape(title)}</caption>{rows}</table>"
