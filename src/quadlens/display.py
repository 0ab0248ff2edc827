"""How a value shows itself: one short line in a terminal, a small table in a notebook."""

import html
from abc import ABC, abstractmethod

LONGEST_REPR = 199


class Displayed(ABC):
    """A value with a short `repr` and a table for notebooks, both made of a few facts."""

    @abstractmethod
    def _facts(self) -> dict[str, object]:
        """What to show, in order; an empty name shows the value alone."""

    def __repr__(self) -> str:
        """`Type(name=value, …)` in under 200 characters."""
        words = ", ".join(f"{name}={value}" if name else str(value) for name, value in self._facts().items())
        text = f"{type(self).__name__}({words})"
        return text if len(text) <= LONGEST_REPR else text[: LONGEST_REPR - 2] + "…)"

    def _repr_html_(self) -> str:
        """The facts as a table."""
        return facts_html(type(self).__name__, self._facts())


def facts_html(title: str, facts: dict[str, object]) -> str:
    """A table of two columns."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table><caption>{html.escape(title)}</caption>{rows}</table>"


def paragraph_html(text: str) -> str:
    """A paragraph."""
    return f"<p>{html.escape(text)}</p>"


def rows_html(title: str, header: list[str], rows: list[list[str]]) -> str:
    """A table with a header; every cell is text."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{html.escape(title)}</caption><tr>{head}</tr>{body}</table>"
