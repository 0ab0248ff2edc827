"""Float64 with a proved error: arrays of a middle and a radius.

Each true value is within the radius of its middle.

Theorem. Every operation below returns an enclosure of what it would be on the true values. Where
nothing overflows, an IEEE operation returns z (1 + δ) + η, |δ| ≤ u = 2^-53, |η| ≤ 2^-1075. So the
rounding of the middle is at most u |middle| + 2^-1074, which joins what the radii of the operands
do. The radius itself is computed from numbers that are not negative with at most 16 roundings on a
path, each of which loses at most a factor 1 - u: `upward` multiplies by 1 + 2^-48 and adds 2^-1000,
which is more than all of them together and any η took. What overflows has an infinite radius or is
not a number; `finite` tells.

What every proof in float64 assumes (`moments` for large p, `float_layer.py` with `direct.py`,
`deep.py`): of this process, IEEE binary64 rounded to nearest with gradual underflow of results and
operands in every thread, so that no library loaded into it has switched on flushing to zero or
another direction of rounding; of BLAS, that each entry of a product of matrices is a sum of its
products in binary64, in any order, fused or not: no Strassen, nothing narrower. Proofs in integers
(`brute`, `arcs`, `moments`, `thin`) and the checker assume nothing of either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.base.numbers import precision

UNIT = 2.0**-53
RELATIVE = 2.0**-48
ABSOLUTE = 2.0**-1000
# Every cosine and sine is within this of the true value: 4 u of Arb's radius, less than 2 u of
# reading its middle.
TRIGONOMETRY = 2.0**-50
DOUBLE_BITS = 53

Array = Float[np.ndarray, "..."]


def upward(x: Array) -> Array:
    """Return at least the exact result of at most 16 rounded operations that made x ≥ 0."""
    return np.asarray(x * (1 + RELATIVE) + ABSOLUTE)


@dataclass(frozen=True, eq=False)
class Enclosed:
    """Numbers x with |x - middle| ≤ radius.

    Attributes:
        middle: Any floats.
        radius: Of the same shape, not negative.
    """

    middle: Array
    radius: Array

    @classmethod
    def exactly(cls, x: Array) -> "Enclosed":
        return cls(x, np.zeros_like(x))

    @classmethod
    def nearest(cls, x: Array) -> "Enclosed":
        """Numbers that were rounded to the nearest float once."""
        return cls(x, upward(UNIT * np.abs(x)))

    @property
    def finite(self) -> bool:
        """Whether nothing overflowed on the way here."""
        return bool(np.isfinite(self.middle).all() and np.isfinite(self.radius).all())

    @property
    def shape(self) -> tuple[int, ...]:
        return self.middle.shape

    @property
    def size(self) -> int:
        return self.middle.size

    def __getitem__(self, at: Any) -> "Enclosed":
        return Enclosed(self.middle[at], self.radius[at])

    def __add__(self, other: "Enclosed") -> "Enclosed":
        middle = self.middle + other.middle
        return Enclosed(middle, upward(self.radius + other.radius + UNIT * np.abs(middle)))

    def __sub__(self, other: "Enclosed") -> "Enclosed":
        middle = self.middle - other.middle
        return Enclosed(middle, upward(self.radius + other.radius + UNIT * np.abs(middle)))

    def __mul__(self, other: "Enclosed") -> "Enclosed":
        """|XY - xy| ≤ |x| r_y + |y| r_x + r_x r_y."""
        middle = self.middle * other.middle
        reach = (
            np.abs(self.middle) * other.radius + (np.abs(other.middle) + other.radius) * self.radius
        )
        return Enclosed(middle, upward(reach + UNIT * np.abs(middle)))

    def __truediv__(self, other: "Enclosed") -> "Enclosed":
        """Divide by numbers proved positive.

        |X/Y - x/y| = |Xy - xY| / Yy ≤ (r_x + |x/y| r_y) / (y - r_y).
        """
        smallest = other.lower()
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            middle = self.middle / other.middle
            # Rounded up before the division: a small divisor would enlarge what was lost to
            # underflow.
            reach = upward(self.radius + upward(np.abs(middle)) * other.radius) / smallest
        radius = np.where(smallest > 0, upward(reach + UNIT * np.abs(middle)), np.inf)
        return Enclosed(middle, radius)

    def __abs__(self) -> "Enclosed":
        return Enclosed(np.abs(self.middle), self.radius)

    def __matmul__(self, other: "Enclosed") -> "Enclosed":
        """The product of matrices, n terms to a sum.

        The middles' product is within γ_n |x| |y| of theirs in any order, γ_n ≤ (n + 2) u, and the
        radii add r_x |y| + (|x| + r_x) r_y; each is one product of numbers that are not negative,
        whose own rounding a factor 1 + 4 (n + 4) u covers. What stands before a product is rounded
        up first: a large |y| would enlarge what was lost to underflow.
        """
        n, size = self.middle.shape[-1], np.abs(other.middle)
        reach = upward(self.radius + (n + 2) * UNIT * np.abs(self.middle)) @ size
        if other.radius.any():
            reach = reach + (np.abs(self.middle) + self.radius) @ other.radius
        return Enclosed(self.middle @ other.middle, upward(reach * (1 + 4 * (n + 4) * UNIT)))

    def sum(self, axis: int) -> "Enclosed":
        """The sum along an axis, which stays, of length 1."""
        sizes = np.abs(self.middle).sum(axis=axis, keepdims=True)
        middle, radii = (x.sum(axis=axis, keepdims=True) for x in (self.middle, self.radius))
        return Enclosed(middle, _radius_of_sum(self.middle.shape[axis], radii, sizes))

    def upper(self) -> Array:
        """Floats that are not below the numbers."""
        top = self.middle + self.radius
        return np.asarray(top + upward(RELATIVE * np.abs(top)))

    def lower(self) -> Array:
        """Floats that are not above the numbers."""
        bottom = self.middle - self.radius
        return np.asarray(bottom - upward(RELATIVE * np.abs(bottom)))

    def magnitude(self) -> Array:
        """Floats that are not below |x|."""
        return upward(np.abs(self.middle) + self.radius)


def _radius_of_sum(n: int, radii: Array, sizes: Array) -> Array:
    """Return the radius of a sum of n numbers.

    In any order it is within n u Σ|middle| (1 + 2 n u) of the sum of the middles.
    """
    return upward((radii + n * UNIT * sizes) * (1 + 4 * n * UNIT))


def circle(n: int) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """cos(2π m/n) and sin(2π m/n) for m = 0 … n-1, each within 2^-50 of the true value."""
    from flint import arb, fmpq

    angles = [fmpq(2 * m, n) for m in range(n)]
    with precision(DOUBLE_BITS):
        return _middles(map(arb.cos_pi_fmpq, angles)), _middles(map(arb.sin_pi_fmpq, angles))


def _middles(balls: Any) -> Float[np.ndarray, " n"]:
    enclosures: Sequence[Any] = list(balls)
    if not all(float(ball.rad()) < 4 * UNIT for ball in enclosures):
        raise ValueError("Arb's enclosure of a cosine or sine is wider than 2^-51")
    return np.array([float(ball.mid()) for ball in enclosures])
