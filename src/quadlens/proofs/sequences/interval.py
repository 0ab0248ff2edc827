"""Arrays of intervals in float64, rounded outwards.

Theorem. Every operation below returns intervals that hold what it would be on any true values in
the operands. Each end is one IEEE operation rounded to nearest, or a sum of such (`@`, `sum`), and
is then moved outwards by at least its rounding error: for one operation by 2^-51 of its size and
2^-1060, which is more than u = 2^-53 of it, more than what the move itself is rounded by, and more
than underflow takes. What is not a number proves nothing: every comparison with it is false.
`enclosed.py` says what is assumed of the machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

Array = Float[np.ndarray, "..."]
UNIT = 2.0**-53
RELATIVE = 2.0**-51
TINY = 2.0**-1060


def down(x: Array | np.float64) -> Array:
    """Return floats below the exact results of one rounded operation."""
    return np.asarray(x - (np.abs(x) * RELATIVE + TINY))


def up(x: Array | np.float64) -> Array:
    """Return floats above the exact results of one rounded operation."""
    return np.asarray(x + (np.abs(x) * RELATIVE + TINY))


@dataclass(frozen=True, eq=False)
class Interval:
    """Numbers x with lo ≤ x ≤ hi.

    Attributes:
        lo: Any floats.
        hi: Of the same shape.
    """

    lo: Array
    hi: Array

    @classmethod
    def exactly(cls, x: Array) -> "Interval":
        return cls(x, x)

    @classmethod
    def zeros(cls, *shape: int) -> "Interval":
        return cls(np.zeros(shape), np.zeros(shape))

    @classmethod
    def stack(cls, parts: "Sequence[Interval]", axis: int = 0) -> "Interval":
        """Stack intervals of one shape along a new axis."""
        return cls(
            *(np.stack([getattr(part, end) for part in parts], axis=axis) for end in ("lo", "hi"))
        )

    @classmethod
    def of_balls(cls, balls: Any) -> "Interval":
        """Read an array of Arb's balls.

        A middle read as a float is off by at most 2^-51 of it.
        """
        flat = balls.ravel().tolist()
        middle = np.array([float(ball.mid()) for ball in flat]).reshape(balls.shape)
        radius = np.array([float(ball.rad()) for ball in flat]).reshape(balls.shape)
        radius = radius * (1 + 2.0**-20) + np.abs(middle) * 2.0**-51 + TINY
        return cls(down(middle - radius), up(middle + radius))

    @property
    def middle(self) -> Array:
        return np.asarray(self.lo / 2 + self.hi / 2)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lo.shape

    def __getitem__(self, at: Any) -> "Interval":
        return Interval(np.asarray(self.lo[at]), np.asarray(self.hi[at]))

    def __neg__(self) -> "Interval":
        return Interval(np.asarray(-self.hi), np.asarray(-self.lo))

    def __add__(self, other: "Interval") -> "Interval":
        return Interval(down(self.lo + other.lo), up(self.hi + other.hi))

    def __sub__(self, other: "Interval") -> "Interval":
        return Interval(down(self.lo - other.hi), up(self.hi - other.lo))

    def __mul__(self, other: "Interval") -> "Interval":
        products = [x * y for x in (self.lo, self.hi) for y in (other.lo, other.hi)]
        low, high = products[0], products[0]
        for product in products[1:]:
            low, high = np.minimum(low, product), np.maximum(high, product)
        return Interval(down(low), up(high))

    def __matmul__(self, matrix: Array) -> "Interval":
        """Times a matrix of floats that were rounded at most four times, n terms to a sum.

        The middles' product is within γ_n |x| |W| in any order, and the matrix within 4.01 u |W| of
        the true one.
        """
        n, size = self.shape[-1], np.abs(matrix)
        middle = self.middle
        radius = up(np.maximum(self.hi - middle, middle - self.lo))
        total = middle @ matrix
        reach = (radius + (n + 8) * UNIT * (np.abs(middle) + radius) + TINY) @ size
        reach = reach * (1 + 4 * (n + 4) * UNIT) + n * TINY
        return Interval(down(total - reach), up(total + reach))

    def sum(self, axis: int) -> "Interval":
        """The sum along an axis, which stays, of length 1."""
        n = self.shape[axis]
        slack = (
            2
            * n
            * UNIT
            * np.maximum(np.abs(self.lo), np.abs(self.hi)).sum(axis=axis, keepdims=True)
            + TINY
        )
        low, high = (x.sum(axis=axis, keepdims=True) for x in (self.lo, self.hi))
        return Interval(down(low - slack), up(high + slack))

    def scaled(self, factor: float) -> "Interval":
        """Times one positive float."""
        return Interval(down(self.lo * factor), up(self.hi * factor))

    def square(self) -> "Interval":
        """x², which is not negative."""
        far = np.maximum(np.abs(self.lo), np.abs(self.hi))
        near = np.maximum(0.0, np.maximum(self.lo, -self.hi))
        return Interval(np.maximum(0.0, down(near * near)), up(far * far))

    def mean(self, over: int | None = None) -> "Interval":
        """The mean along the last axis, which stays; or the sum over another number."""
        total, n = self.sum(-1), float(self.shape[-1] if over is None else over)
        return Interval(down(total.lo / n), up(total.hi / n))

    def root(self) -> "Interval":
        """√x of numbers that are not negative."""
        return Interval(
            np.maximum(0.0, down(np.sqrt(np.maximum(self.lo, 0.0)))), up(np.sqrt(self.hi))
        )

    def reciprocal(self) -> "Interval":
        """1/x of positive numbers; where they are not proved to be, everything."""
        with np.errstate(divide="ignore"):
            ends = down(1.0 / self.hi), up(1.0 / self.lo)
        return Interval(
            np.where(self.lo > 0, ends[0], -np.inf), np.where(self.lo > 0, ends[1], np.inf)
        )

    def hull(self, rows: Any) -> "Interval":
        """Return the smallest intervals that hold some rows of the first axis."""
        return Interval(self.lo[rows].min(axis=0), self.hi[rows].max(axis=0))

    def meet(self, other: "Interval") -> "Interval":
        """Intersect with another enclosure of the same numbers."""
        return Interval(np.maximum(self.lo, other.lo), np.minimum(self.hi, other.hi))
