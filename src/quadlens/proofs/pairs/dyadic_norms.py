"""Euclidean norms of exact matrices, rounded up, and of what a few directions leave out of them.

Theorem. For any P let D = 1 - PᵀP and Π = 1 - PPᵀ. Then |w Π|² = |w|² - |w P|² - (w P) D (w P)ᵀ for
every row w, which is at most |w|² - (1 - |D|) |w P|²; and Π makes no row longer by a factor above
max(1, |D|).

Proof. Π² = 1 - 2 PPᵀ + P (PᵀP) Pᵀ = 1 - P (1 + D) Pᵀ. Off the columns of P, Π is 1; on them its
eigenvalues are D's. ∎
"""

import math
from fractions import Fraction

import numpy as np

from quadlens.network.dyadic import Dyadic

# Norms and bounds are rounded up to this many bits after the point.
NORM_BITS = 64


def defect(P: Dyadic) -> Dyadic:
    """D = 1 - PᵀP, which is small where P is nearly orthonormal."""
    _, r = P.shape
    return Dyadic.from_floats(np.eye(r)) - P.transposed() @ P


def squares(x: Dyadic) -> list[Fraction]:
    """Squared norms of the rows: a product and an addition per entry."""
    unit = 1 << 2 * x.shift
    return [Fraction(int(sum(n * n for n in row)), unit) for row in x.integers()]


def lengths(x: Dyadic) -> list[Fraction]:
    """Norms of the rows, rounded up."""
    return [up_root(n) for n in squares(x)]


def norm(x: Dyadic) -> Fraction:
    """Return the norm of all entries together (Frobenius), rounded up.

    It bounds what x does to the length of a vector.
    """
    return up_root(sum(squares(x), Fraction(0)))


def left_out(whole: list[Fraction], along: list[Fraction], D: Fraction) -> list[Fraction]:
    """Bound the norms of what directions leave out of rows.

    The bounds follow from the squares of both and |D|, by the theorem above.
    """
    return [up_root(max(x - (1 - D) * y, Fraction(0))) for x, y in zip(whole, along, strict=True)]


def left_out_of_all(whole: Dyadic, along: Dyadic, D: Fraction) -> Fraction:
    """Bound the norm of what directions leave out of all rows together."""
    (size,) = left_out([sum(squares(whole), Fraction(0))], [sum(squares(along), Fraction(0))], D)
    return size


def up_root(x: Fraction) -> Fraction:
    """Return the root, rounded up to a multiple of 2^-NORM_BITS.

    4^NORM_BITS x < n + 1 ≤ (isqrt(n) + 1)², n its whole part.
    """
    return Fraction(math.isqrt((x.numerator << 2 * NORM_BITS) // x.denominator) + 1, 1 << NORM_BITS)


def up(x: Fraction) -> Fraction:
    """Rounded up to a multiple of 2^-NORM_BITS."""
    return Fraction(math.ceil(x * (1 << NORM_BITS)), 1 << NORM_BITS)
