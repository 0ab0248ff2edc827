"""Errors a user can cause and fix: one type, one clear message, exit code 2 at the command line."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quadlens.base.display import printable


class QuadlensError(Exception):
    """An error that a user can fix.

    The message contains what came, what was expected and what to do.

    Attributes:
        settings: Names of the arguments to give, change or leave out; the command line says which
            flags they are.
    """

    def __init__(self, message: str = "", *, settings: Sequence[str] = ()) -> None:
        super().__init__(printable(message))
        self.settings = tuple(settings)

    def about(self, subject: str) -> "QuadlensError":
        """Put the subject before the message, and return the error."""
        self.args = (printable(f"{subject}: {self}"),)
        return self


class BadFile(QuadlensError):
    """A file that cannot be read as what it should be, or cannot be written."""


class BadConfig(QuadlensError):
    """A setting with a value, a name or a combination that is not supported."""


class BadWeights(QuadlensError):
    """Weights whose shapes or values no model can have (wrong shape, NaN, infinity)."""


@contextmanager
def within_float64(what: str) -> Iterator[None]:
    """Turn an overflow in the block into an error in words.

    NumPy would go on with infinity and NaN.

    Args:
        what: What the numbers are for, as a subject of the message.

    Raises:
        BadWeights: when a number is too large for float64, or is made of such.
    """
    import numpy as np

    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            yield
    except (FloatingPointError, OverflowError):
        raise BadWeights(
            f"{what} takes squares and sums of this model's numbers that are too large for "
            "float64; `quadlens evaluate` and `quadlens certify` need none: use them, or scale "
            "the weights down"
        ) from None


@contextmanager
def refusals_of_a_check(model_path: str) -> Iterator[None]:
    """Refuse a file that a checker cannot open, or limits that no check can have.

    Raises:
        BadFile: for the file.
        BadConfig: for the limits.
    """
    try:
        yield
    except OSError as error:
        wanted = (
            "a model's file" if error.filename == model_path else "a certificate that certify wrote"
        )
        raise BadFile(
            f"{error.filename}: {(error.strerror or str(error)).lower()}; give {wanted}"
        ) from None
    except ValueError as error:
        raise BadConfig(
            f"{error}; choose another limit", settings=("max_seconds", "max_memory")
        ) from None


class WrongArgument(QuadlensError, TypeError):
    """A Python argument of a type that nothing can be made of; the message says what to pass."""


def kind_of(value: object) -> str:
    """What a value is, with its article.

    >>> kind_of(3), kind_of("x"), kind_of(None)
    ('an int', 'a str', 'None')
    """
    name = type(value).__name__
    return (
        "None"
        if value is None
        else f"{'an' if name[0] in 'aeioAEIO' or name == 'ndarray' else 'a'} {name}"
    )


def a_path(value: Any) -> Path:
    """A file's path as a Python caller gave it.

    Raises:
        WrongArgument: for anything that is no path; the message says what to do with it.
    """
    if isinstance(value, str | Path):
        return Path(value)
    hint = "as a string or a pathlib.Path"
    if isinstance(value, Mapping):
        hint = "and a state dict in memory is for quadlens.from_state_dict(state, …)"
    elif hasattr(value, "state_dict"):
        hint = (
            "and a network in memory is for quadlens.study(network), or from_module(network, "
            "inputs=…)"
        )
    elif hasattr(value, "tensors"):
        hint = "and this is a model already, which every function takes as it is"
    raise WrongArgument(f"got {kind_of(value)}; expected a file's path, {hint}")


class MissingExtra(QuadlensError):
    """A feature whose optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        """Say which extra has the feature `what`."""
        super().__init__(
            f"{what} needs the extra '{extra}'. Install it with: pip install 'quadlens[{extra}]'"
        )
