"""Arithmetic for networks: float64, rationals without rounding, or enclosures.

The same lines of `collapse.py` and `forward.py` run over each: over float64 they are what
evaluation and the lens use, over `Dyadic` what exact proofs start from, and over `Enclosed` every
number with all that rounding can have done to it.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float

from quadlens.network.activation import Activation, apply_activation

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Array = Float[np.ndarray, "..."]


@runtime_checkable
class Heads(Protocol[R_co]):
    """One matrix per head: a tuple of them, or for floats one array [head, …]."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[R_co]: ...

    def __getitem__(self, head: int, /) -> R_co: ...


@runtime_checkable
class Ring(Protocol[R]):
    """An arithmetic for matrices.

    Its matrices have `+` and `@`, and those that gates multiply have `*` as well.
    """

    def of(self, floats: Array) -> R:
        """Return these floats, without rounding."""

    def scaled(self, x: R, factor: float) -> R:
        """X times a float."""

    def repeated(self, x: R, rows: int) -> R:
        """Repeat a matrix of one row."""

    def transposed(self, x: R) -> R:
        """The transpose."""

    def diagonal(self, x: R, along_a: bool) -> R:
        """Return a square matrix's diagonal: a column (along a) or a row (along b)."""

    def heads(self, tables: Sequence[R]) -> "Heads[R]":
        """One matrix for each head, kept together."""

    def sigma(self, activation: Activation, x: R) -> R:
        """σ of every entry."""

    def softmax(self, scores: Sequence[R]) -> Sequence[R]:
        """Return the share e^score / Σ e^score of each position, for each input.

        Scores are columns, one for each position.
        """

    def inner(self, x: R, y: R, divisor: float) -> R:
        """Return Σ x y / divisor of each row, as a column."""

    def inverse_root(self, x: R) -> R:
        """1 / √x of every entry, all of them above 0."""


class Floats:
    """Arithmetic in float64, without bounds on its rounding."""

    def of(self, floats: Array) -> Array:
        return np.asarray(floats, dtype=np.float64)

    def scaled(self, x: Array, factor: float) -> Array:
        """X times a float."""
        return factor * x

    def repeated(self, x: Array, rows: int) -> Array:
        """Return one row as it is: sums spread it over the rows."""
        return np.broadcast_to(x, (rows, x.shape[-1]))

    def transposed(self, x: Array) -> Array:
        """The transpose."""
        return x.T

    def diagonal(self, x: Array, along_a: bool) -> Array:
        return np.diagonal(x)[:, None] if along_a else np.diagonal(x)[None, :]

    def heads(self, tables: Sequence[Array]) -> "Heads[Array]":
        return np.stack(tables)

    def sigma(self, activation: Activation, x: Array) -> Array:
        """σ of every entry."""
        return apply_activation(activation, x)

    def softmax(self, scores: Sequence[Array]) -> Sequence[Array]:
        """Subtract the largest score first, so that nothing overflows."""
        top = np.max(scores, axis=0)
        powers = [np.exp(score - top) for score in scores]
        return [power / np.sum(powers, axis=0) for power in powers]

    def inner(self, x: Array, y: Array, divisor: float) -> Array:
        return np.asarray((x * y).sum(axis=-1, keepdims=True) / divisor)

    def inverse_root(self, x: Array) -> Array:
        return np.asarray(1 / np.sqrt(x))


FLOATS: Ring[Array] = Floats()
