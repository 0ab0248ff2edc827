"""One statement or one value as the text of a cell, the same in the terminal and in Markdown."""

from typing import Any

from quadlens.population.statement import Statement


def ours(one: Statement) -> str:
    """Our number; for a count also of how many."""
    return "none" if one.ours is None else number(one.ours, 4) + _of(one.of)


def interval(one: Statement) -> str:
    """The 95 % interval; empty where there is none."""
    return "" if one.ci95 is None else f"{one.ci95[0]:.3g} … {one.ci95[1]:.3g}"


def paper(one: Statement) -> str:
    """The paper's number; empty where it has none."""
    return "" if one.paper is None else number(one.paper, 4) + _of(one.paper_of)


def cell(value: Any) -> str:
    """A value of a row by model or by setting."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value, 3)
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


def number(value: float | int, digits: int) -> str:
    """So many significant digits, and more where less than 1 would read as 1: only perfection does.

    >>> number(0.04585, 3), number(0.99996, 3), number(1.0, 3)
    ('0.0459', '0.99996', '1')
    """
    text = f"{value:.{digits}g}"
    while value < 1 <= float(text):
        digits += 1
        text = f"{value:.{digits}g}"
    return text


def _of(count: int | None) -> str:
    return "" if count is None else f" of {count}"
