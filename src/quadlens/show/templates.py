"""Templates (Jinja) of pages and captions, with the package's ways to print a number as filters."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

from quadlens.analysis.integration import doubles
from quadlens.base.numbers import (
    at_least,
    at_most,
    bound,
    cost,
    decimals,
    fit,
    listed,
    margin,
    percent,
)

if TYPE_CHECKING:
    from jinja2 import Environment, Template


def environment(**options: Any) -> "Environment":
    """Return an environment that refuses unknown names and unrounded numbers.

    A name that is not there is an error; so is a number that no filter has rounded.

    Filters: those of `quadlens.base.numbers`; `f`, as in `{{ share | f(".2f") }}`; `median`;
    `doubles`.
    """
    import jinja2
    import numpy as np

    made = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, finalize=_rounded, **options
    )
    printed = (at_least, at_most, bound, cost, decimals, doubles, fit, listed, margin, percent)
    made.filters.update({function.__name__: _of_number(function) for function in printed})
    made.filters["f"] = format
    made.filters["median"] = lambda values: float(np.median(values))
    return made


def _rounded(printed: Any) -> Any:
    """What a template prints, unless it is a number with all its digits."""
    if isinstance(printed, float | Fraction):
        raise TypeError(f"{printed!r} is printed without a filter, which says how it is rounded")
    return printed


def _of_number(printed: Callable[..., str]) -> Callable[..., str]:
    """The same for a number of an array, too."""

    def filter_(value: Any, *options: Any, **named: Any) -> str:
        return printed(value.item() if hasattr(value, "item") else value, *options, **named)

    return filter_


@cache
def _plain() -> "Environment":
    return environment()


@cache
def compiled(text: str) -> "Template":
    """The template of a plain text, compiled once."""
    return _plain().from_string(text)
