"""Matrices of dyadic rationals: floats without rounding, over a power of two."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from quadlens.base.errors import BadConfig
from quadlens.network.activation import NONLINEARITIES, Activation
from quadlens.network.ring import Heads, Ring


def _fmpz_mat(rows: int, columns: int, entries: list[Any]) -> Any:
    from flint import fmpz_mat

    return fmpz_mat(rows, columns, entries)


@dataclass(frozen=True, eq=False)
class Dyadic:
    """The matrix `numerators · 2^-shift`, exactly.

    Every float32 or float64 array is one.

    Attributes:
        numerators: python-flint's fmpz_mat.
        shift: The common exponent; never negative.
    """

    numerators: Any
    shift: int

    @classmethod
    def from_floats(cls, array: Float[np.ndarray, "rows columns"]) -> "Dyadic":
        """Convert floats without rounding, to the smallest exponent among them.

        >>> exact = Dyadic.from_floats(np.array([[0.75, -2.0]]))
        >>> exact.numerators.tolist(), exact.shift
        ([[3, -8]], 2)
        """
        mantissa, exponent = np.frexp(array.astype(np.float64))
        integers = np.ldexp(mantissa, 53).astype(np.int64).ravel()
        exponents = (exponent.astype(np.int64) - 53).ravel()
        # Strip trailing zero bits so that float32 weights stay small integers.
        lowest_bit = np.maximum(integers & -integers, 1)
        trailing = np.log2(lowest_bit.astype(np.float64)).astype(np.int64)
        integers >>= trailing
        exponents = np.where(integers == 0, 0, exponents + trailing)
        shift = max(0, -int(exponents.min(initial=0)))
        entries = [
            n << e for n, e in zip(integers.tolist(), (exponents + shift).tolist(), strict=True)
        ]
        rows, columns = array.shape
        return cls(_fmpz_mat(rows, columns, entries), shift)

    @classmethod
    def from_entries(cls, rows: int, columns: int, entries: list[Any], shift: int) -> "Dyadic":
        """Return the matrix of these integers, row by row, over 2^shift."""
        return cls(_fmpz_mat(rows, columns, entries), shift)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.numerators.nrows()), int(self.numerators.ncols())

    def at_shift(self, shift: int) -> "Dyadic":
        """Return the same matrix over a larger power of two."""
        if shift < self.shift:
            raise ValueError(
                f"cannot lower the shift from {self.shift} to {shift} without rounding"
            )
        return type(self)(self.numerators * (1 << (shift - self.shift)), shift)

    def __matmul__(self, other: "Dyadic") -> "Dyadic":
        return type(self)(self.numerators * other.numerators, self.shift + other.shift)

    def __add__(self, other: "Dyadic") -> "Dyadic":
        shift = max(self.shift, other.shift)
        return type(self)(self.at_shift(shift).numerators + other.at_shift(shift).numerators, shift)

    def __sub__(self, other: "Dyadic") -> "Dyadic":
        return self + other.scaled(-1.0)

    def __getitem__(self, index: Any) -> "Dyadic":
        """Return the rows, or rows and columns, that NumPy's indexing chooses."""
        chosen = self.integers()[index]
        rows, columns = chosen.shape
        return type(self).from_entries(rows, columns, chosen.ravel().tolist(), self.shift)

    def integers(self, shift: int | None = None) -> Shaped[np.ndarray, "rows columns"]:
        """Return the numerators as Python integers.

        They stand over 2^shift, or over the matrix's own power of two without `shift`.

        >>> Dyadic.from_floats(np.array([[0.75, -2.0]])).integers(3).tolist()
        [[6, -16]]
        """
        entries = (self if shift is None else self.at_shift(shift)).numerators.entries()
        array = np.empty(len(entries), dtype=object)
        array[:] = [int(entry) for entry in entries]
        return array.reshape(self.shape)

    def to_floats(self) -> Float[np.ndarray, "rows columns"]:
        """Return the nearest doubles: Python's division of integers rounds once."""
        unit = 1 << self.shift
        return np.array([int(n) / unit for n in self.numerators.entries()]).reshape(self.shape)

    def scaled(self, factor: float) -> "Dyadic":
        """Multiply by a float, exactly."""
        numerator, denominator = factor.as_integer_ratio()
        return type(self)(self.numerators * numerator, self.shift + denominator.bit_length() - 1)

    def repeated(self, rows: int) -> "Dyadic":
        """A matrix of one row, repeated."""
        if self.shape[0] != 1:
            raise ValueError(f"expected one row, got {self.shape[0]}")
        entries = list(self.numerators.entries()) * rows
        return type(self)(_fmpz_mat(rows, self.shape[1], entries), self.shift)

    def transposed(self) -> "Dyadic":
        """The transpose."""
        return type(self)(self.numerators.transpose(), self.shift)


def exact_activation(activation: Activation) -> tuple[Callable[[Any], Any], int]:
    """Return σ of integers, and its degree d: σ(n/2^s) = σ(n)/2^(d s).

    Raises:
        BadConfig: when σ of a rational is not rational.
    """
    sigma = NONLINEARITIES[activation]
    if sigma.exact is None or sigma.degree is None:
        raise BadConfig(
            f"this model's activation is {activation!r}, which exact arithmetic cannot express; "
            "expected one of "
            f"{', '.join(name for name, other in NONLINEARITIES.items() if other.exact)}"
        )
    return sigma.exact, sigma.degree


class Dyadics:
    """Arithmetic without rounding, for networks without softmax and norms.

    e^x and 1/√x are not rational.
    """

    def of(self, floats: Float[np.ndarray, "rows columns"]) -> Dyadic:
        return Dyadic.from_floats(floats)

    def scaled(self, x: Dyadic, factor: float) -> Dyadic:
        """Multiply by a float, taken as the double it is."""
        return x.scaled(factor)

    def repeated(self, x: Dyadic, rows: int) -> Dyadic:
        """A matrix of one row, repeated."""
        return x.repeated(rows)

    def transposed(self, x: Dyadic) -> Dyadic:
        """The transpose."""
        return x.transposed()

    def diagonal(self, x: Dyadic, along_a: bool) -> Dyadic:
        n = x.shape[0]
        entries = [x.numerators[i, i] for i in range(n)]
        return Dyadic.from_entries(*((n, 1) if along_a else (1, n)), entries, x.shift)

    def heads(self, tables: Sequence[Dyadic]) -> Heads[Dyadic]:
        return tuple(tables)

    def sigma(self, activation: Activation, x: Dyadic) -> Dyadic:
        """σ(n/2^s) = σ(n)/2^(d s) for σ of degree d.

        Raises:
            BadConfig: when σ of a rational is not rational.
        """
        sigma, degree = exact_activation(activation)
        return Dyadic.from_entries(
            *x.shape, [sigma(n) for n in x.numerators.entries()], degree * x.shift
        )

    def softmax(self, scores: Sequence[Dyadic]) -> Sequence[Dyadic]:
        """Refuse softmax: e^x is not rational."""
        raise BadConfig("this model's attention depends on the tokens, and e^x is not rational")

    def inner(self, x: Dyadic, y: Dyadic, divisor: float) -> Dyadic:
        """Refuse what only softmax and norms need."""
        raise BadConfig(
            "this model has softmax or a norm: e^x is not rational, and neither is 1/√x"
        )

    def inverse_root(self, x: Dyadic) -> Dyadic:
        """Refuse a norm: 1/√x is not rational."""
        raise BadConfig("this model has a norm, and 1/√x is not rational")


DYADICS: Ring[Dyadic] = Dyadics()
