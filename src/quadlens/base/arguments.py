"""Arguments of the public functions: one of a wrong type is told what to pass, in a sentence."""

import dataclasses
import functools
import inspect
import math
import os
import types
from collections.abc import Callable, Collection, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin

from quadlens.base.errors import BadConfig, WrongArgument, kind_of

F = TypeVar("F", bound=Callable[..., Any])


def checked(function: F) -> F:
    """Return the function with its arguments checked against its annotations.

    Only annotations of numbers, text, paths and lists are checked.

    >>> @checked
    ... def add(x: int, more: Sequence[int] = ()) -> int:
    ...     return x + sum(more)
    >>> add(1, 2)
    Traceback (most recent call last):
    quadlens.base.errors.WrongArgument: more = 2: got an int; expected integers in a list, as [2]
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            check_argument(name, value, signature.parameters[name].annotation)
        return function(*args, **kwargs)

    return public  # type: ignore[return-value]


def check_fields(value: Any) -> None:
    """Check the fields of a dataclass against its annotations, when it is built."""
    for field in dataclasses.fields(value):
        check_argument(field.name, getattr(value, field.name), field.type)


def check_argument(name: str, value: object, kind: Any) -> None:
    """Refuse a value that is not of a kind, where the kind is one of those known here.

    Raises:
        WrongArgument: with what came and what to pass.
    """
    options = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    wanted = [_WORDS.get(_plain(option)) for option in options]
    if None in wanted or any(_fits(value, _plain(option)) for option in options):
        return
    words = list(dict.fromkeys(text for text in wanted if text is not None and text != "None"))
    remedy = (
        f", as [{value}]"
        if isinstance(value, Integral) and _plain(options[0]) == "integers"
        else ""
    )
    text = repr(value)
    raise WrongArgument(
        f"{name} = {text if len(text) <= 80 else text[:79] + '…'}: got {kind_of(value)}; "
        f"expected {' or '.join(words)}{remedy}"
    )


def as_double(what: str, value: float) -> float:
    """Return a number as the double that files have of it.

    Exact statements are about this double, not about the number that was given.

    Raises:
        BadConfig: when it is too large for one.
    """
    try:
        return float(value)
    except OverflowError:
        raise BadConfig(f"{what} is beyond float64; expected a finite number") from None


def above_zero(words: str, value: float) -> float:
    """Return a number as a double, if it is finite and above 0.

    A message names it after these words.

    Raises:
        BadConfig: when it is not.
    """
    number = as_double(f"{words} a number that", value)
    if not (math.isfinite(number) and number > 0):
        raise BadConfig(f"{words} {number}; expected a finite number above 0")
    return number


_WORDS = {
    int: "an integer",
    float: "a number",
    str: "a string",
    bool: "True or False",
    Path: "a path",
    type(None): "None",
    "integers": "integers in a list",
    "numbers": "numbers in a list",
}


def _plain(kind: Any) -> Any:
    """A type that is known here; anything else as it is."""
    origin = get_origin(kind)
    inner = set(get_args(kind)) - {Ellipsis} if origin in (Sequence, Collection, tuple) else None
    if inner in ({int}, {float}):
        return "integers" if inner == {int} else "numbers"
    return kind if isinstance(kind, type) and origin is None else str(kind)


def _fits(value: object, kind: Any) -> bool:
    number = not isinstance(value, bool)
    if kind in ("integers", "numbers"):
        each: type = int if kind == "integers" else float
        return isinstance(value, Collection) and all(_fits(x, each) for x in value)
    if kind is int:
        return number and isinstance(value, Integral)
    if kind is float:
        return number and isinstance(value, Real)
    return isinstance(value, os.PathLike | str) if kind is Path else isinstance(value, kind)
