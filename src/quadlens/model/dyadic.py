"""Matrices of dyadic rationals: floats without rounding, as integers over one power of two."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float


def _fmpz_mat(rows: int, columns: int, entries: list[Any]) -> Any:
    from flint import fmpz_mat

    return fmpz_mat(rows, columns, entries)


@dataclass(frozen=True, eq=False)
class Dyadic:
    """The matrix `numerators · 2^-shift`, exactly; every float32 or float64 array is one.

    Attributes:
        numerators: python-flint's fmpz_mat.
        shift: The common exponent; never negative.
    """

    numerators: Any
    shift: int

    @classmethod
    def from_floats(cls, array: Float[np.ndarray, "rows columns"]) -> "Dyadic":
        """Every float is mantissa · 2^exponent; bring all to the smallest exponent present.

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
        entries = [int(n) << int(e + shift) for n, e in zip(integers, exponents, strict=True)]
        rows, columns = array.shape
        return cls(_fmpz_mat(rows, columns, entries), shift)

    @classmethod
    def from_entries(cls, rows: int, columns: int, entries: list[Any], shift: int) -> "Dyadic":
        """Integers, row by row, over 2^shift."""
        return cls(_fmpz_mat(rows, columns, entries), shift)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.numerators.nrows()), int(self.numerators.ncols())

    def at_shift(self, shift: int) -> "Dyadic":
        """The same value over a larger power of two."""
        if shift < self.shift:
            raise ValueError(f"cannot lower the shift from {self.shift} to {shift} without rounding")
        return type(self)(self.numerators * (1 << (shift - self.shift)), shift)

    def __matmul__(self, other: "Dyadic") -> "Dyadic":
        return type(self)(self.numerators * other.numerators, self.shift + other.shift)

    def __add__(self, other: "Dyadic") -> "Dyadic":
        shift = max(self.shift, other.shift)
        return type(self)(self.at_shift(shift).numerators + other.at_shift(shift).numerators, shift)

    def scaled(self, factor: float) -> "Dyadic":
        """Times a float, exactly."""
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
