"""Float64 with a proved error of whole rows, in Euclidean distance.

Each true row is within its radius of its middle.

Theorem. Every operation below returns middles and radii such that, if the rows that went in are
within their radii of their middles, then so is what the operation gives on the true rows. What
`enclosed.py` says of roundings holds here entry by entry, so that the row of them is at most u
times the row's length, or (n + 2) u times the length of |x| |W|; `upward` covers the roundings of
radii.

It is the second way of `deep.py`: a linear layer enlarges a radius by at most the largest singular
value of W, where bounds entry by entry enlarge it by sums of |W|, some ten times as much in every
layer. ReLU and |x| move no row further than it was moved.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from quadlens.network.activation import NONLINEARITIES, Activation
from quadlens.network.ring import FLOATS, Array, Heads, Ring
from quadlens.proofs.pairs.deep import ENCLOSURES
from quadlens.proofs.pairs.enclosed import ABSOLUTE, RELATIVE, UNIT, Enclosed, upward
from quadlens.proofs.pairs.float_layer import CURVATURE, FAR, STEEPEST, STEP_BITS, tabulated

# How often the square of W Wᵀ is squared: the bound on its norm is then off by a factor of at most
# d^(1/64).
SQUARINGS = 4


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows x with |x - middle| ≤ radius.

    Attributes:
        middle: Any floats, [row, column].
        radius: Of each row, not negative, [row, 1].
    """

    middle: Float[np.ndarray, "n d"]
    radius: Float[np.ndarray, "n 1"]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.middle.shape

    def __add__(self, other: "Rows") -> "Rows":
        """Add; a number added to all d entries of a row counts its radius √d times."""
        middle = self.middle + other.middle
        spread = [x.radius * math.sqrt(middle.shape[1] / x.shape[1]) for x in (self, other)]
        return Rows(middle, upward(spread[0] + spread[1] + UNIT * lengths(middle)))

    def __mul__(self, other: "Rows") -> "Rows":
        """Multiply rows by numbers with an error, or by an exact row.

        |c x - c'x'| ≤ |c| r_x + (|x| + r_x) r_c.
        """
        x, c = (other, self) if self.shape[1] == 1 else (self, other)
        middle = x.middle * c.middle
        if c.shape[1] > 1:
            if c.radius.any():
                raise ValueError("a product of two rows that are not exact")
            reach = np.abs(c.middle).max() * x.radius
        else:
            reach = np.abs(c.middle) * x.radius + (upward(lengths(x.middle)) + x.radius) * c.radius
        return Rows(middle, upward(reach + UNIT * lengths(middle)))

    def __matmul__(self, other: "Rows") -> "Rows":
        """|x W - x'W| ≤ |x - x'| times W's largest singular value; n terms to a sum."""
        if other.radius.any():
            raise ValueError("a product with a matrix that is not exact")
        n, W = self.shape[1], other.middle
        sizes = upward(np.abs(self.middle) @ np.abs(W) * (1 + 4 * (n + 4) * UNIT))
        rounding = (n + 2) * UNIT * upward(lengths(sizes))
        return Rows(self.middle @ W, upward(self.radius * bound_singular(W) + rounding))

    def entries(self) -> Enclosed:
        """Each entry on its own: none is further off than its row."""
        return Enclosed(self.middle, np.broadcast_to(self.radius, self.shape))


def lengths(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 1"]:
    """Bound the length of each row from above.

    It counts d squares and sums, a root, and what underflows in a square, below 2^-500.
    """
    d = x.shape[1]
    return np.asarray(
        np.sqrt(np.square(x).sum(axis=1, keepdims=True)) * (1 + 2 * (d + 4) * UNIT) + d * 2.0**-500
    )


def bound_singular(W: Float[np.ndarray, "n m"]) -> float:
    """Not below the largest singular value of W.

    Its square is the norm of the symmetric matrix W Wᵀ (or Wᵀ W, the smaller), and that of a
    symmetric A is the root of that of A². Each product as computed, made symmetric, is within E of
    the true one, |E| ≤ (n + 2) u |X| |Y| entry by entry and one rounding more, so that norms differ
    by at most E's Frobenius norm, which also bounds the last A's.
    """
    X = W if W.shape[0] <= W.shape[1] else W.T
    errors, scales = [], []
    left, right = X, X.T
    for _ in range(SQUARINGS + 1):
        A = left @ right
        A = (A + A.T) / 2
        n = left.shape[1]
        sizes = np.abs(left) @ np.abs(right)
        scale = float(2.0 ** np.ceil(np.log2(max(np.abs(A).max(initial=0.0), 2.0**-400))))
        errors.append(float(2 * (n + 8) * UNIT * _frobenius(sizes)) + len(A) * ABSOLUTE)
        # A power of two: dividing by it is exact, but for what underflows.
        scales.append(scale)
        left = right = A / scale
    bound = _frobenius(left)
    for error, scale in zip(reversed(errors[1:]), reversed(scales[1:]), strict=True):
        bound = _root(bound, scale, error, len(left))
    return _root(bound, scales[0], errors[0], len(left))


def _root(bound: float, scale: float, error: float, d: int) -> float:
    """Bound √(bound · scale + error) from above.

    What underflowed when d² numbers were divided by the scale is included.
    """
    return math.sqrt(((bound + d * ABSOLUTE) * scale + error) * (1 + RELATIVE)) * (1 + RELATIVE)


def _frobenius(x: Float[np.ndarray, "n m"]) -> float:
    """Not below √Σ x²."""
    return float(np.sqrt(np.square(x).sum()) * (1 + 2 * (x.size + 4) * UNIT)) + x.size * 2.0**-500


class Euclidean:
    """Arithmetic on rows; every method returns what encloses the same on the true rows."""

    def of(self, floats: Array) -> Rows:
        """Floats as they are."""
        x = np.asarray(floats, dtype=np.float64)
        return Rows(x, np.zeros((len(x), 1)))

    def scaled(self, x: Rows, factor: float) -> Rows:
        """X times a float."""
        return x * self.of(np.full((1, 1), factor))

    def repeated(self, x: Rows, rows: int) -> Rows:
        return Rows(
            np.broadcast_to(x.middle, (rows, x.shape[1])), np.broadcast_to(x.radius, (rows, 1))
        )

    def transposed(self, x: Rows) -> Rows:
        """The transpose: no column is further off than all rows together."""
        total = upward(
            np.asarray(np.sqrt(np.square(upward(x.radius)).sum()) * (1 + 4 * len(x.radius) * UNIT))
        )
        return Rows(x.middle.T, np.full((x.shape[1], 1), float(total)))

    def diagonal(self, x: Rows, along_a: bool) -> Rows:
        """The diagonal as a column or a row."""
        column = Rows(np.diagonal(x.middle)[:, None], x.radius)
        return column if along_a else self.transposed(column)

    def heads(self, tables: Sequence[Rows]) -> Heads[Rows]:
        """One matrix for each head."""
        return tuple(tables)

    def sigma(self, activation: Activation, x: Rows) -> Rows:
        """Apply σ to every entry.

        The error is the steepest slope between middle and truth, and σ's own in each entry.
        """
        nonlinearity, root = NONLINEARITIES[activation], math.sqrt(x.shape[1])
        if nonlinearity.degree == 1:
            return Rows(np.asarray(nonlinearity.apply(x.middle)), x.radius)
        if nonlinearity.degree is not None:
            middle = FLOATS.sigma(activation, x.middle)
            most = upward(np.abs(x.middle).max(axis=1, keepdims=True) + x.radius)
            slope = nonlinearity.degree * most ** (nonlinearity.degree - 1)
            return Rows(
                middle,
                upward(upward(slope) * x.radius + 8 * UNIT * lengths(middle) + root * ABSOLUTE),
            )
        own = root * (CURVATURE / 8 * 4.0**-STEP_BITS + 2.0**-44)
        return Rows(
            np.asarray(tabulated(activation, FAR)(x.middle)), upward(STEEPEST * x.radius + own)
        )

    def softmax(self, scores: Sequence[Rows]) -> Sequence[Rows]:
        """Apply softmax to columns, whose rows are numbers."""
        return [
            Rows(share.middle, share.radius)
            for share in ENCLOSURES.softmax([x.entries() for x in scores])
        ]

    def inner(self, x: Rows, y: Rows, divisor: float) -> Rows:
        """Return the inner products over the divisor.

        |x·y - x'·y'| ≤ |x| r_y + (|y| + r_y) r_x; d products and sums take (d + 2) u Σ|x y|.
        """
        d = x.shape[1]
        middle = (x.middle * y.middle).sum(axis=1, keepdims=True)
        sizes = np.abs(x.middle * y.middle).sum(axis=1, keepdims=True) * (1 + 4 * d * UNIT)
        size_x, size_y = upward(lengths(x.middle)), upward(lengths(y.middle))
        reach = (
            size_x * y.radius
            + (size_y + y.radius) * x.radius
            + (d + 2) * UNIT * sizes
            + d * ABSOLUTE
        )
        divided = Enclosed(middle, upward(reach)) / Enclosed.exactly(np.full((1, 1), divisor))
        return Rows(divided.middle, divided.radius)

    def inverse_root(self, x: Rows) -> Rows:
        """1 / √x of columns."""
        roots = ENCLOSURES.inverse_root(x.entries())
        return Rows(roots.middle, roots.radius)


EUCLIDEAN: Ring[Rows] = Euclidean()
