"""Norms: what a config says of one, and what it does to integers with a known error.

The integers are over 2^bits.
"""

import math
from dataclasses import dataclass
from operator import mul
from typing import Any

from quadlens_checker.reading import keys, require

Vector = tuple[list[int], int]  # (values, e): no entry is further than e from the truth


KINDS = ("layer", "rms")


@dataclass(frozen=True)
class Norm:
    """A norm of kind `layer` or `rms`.

    (x - mean x, or x) / √(its mean square + eps), times a weight, plus a bias.
    """

    kind: str
    eps: float

    @property
    def takes_mean(self) -> bool:
        """Whether the mean of x is taken off first."""
        require(self.kind in KINDS, "unknown kind of norm")
        return self.kind == "layer"

    def over(self, d: int) -> int:
        """Return the divisor of the sum of d squares: d, for their mean."""
        return d

    def eps_at(self, bits: int) -> int:
        """Eps over 2^bits, rounded down."""
        n, d = self.eps.as_integer_ratio()
        return (n << bits) // d


def read_norm(value: Any) -> Norm | None:
    """A kind and a number that is not negative, or nothing."""
    if value is None:
        return None
    keys(value, ("kind", "eps"), "a norm")
    kind, eps = value["kind"], value["eps"]
    require(kind in KINDS and type(eps) in (int, float) and eps >= 0, "a norm is malformed")
    return Norm(kind, float(eps))


def normalised(norm: Norm, x: Vector, bits: int) -> Vector:
    """Return the norm without its weight and bias.

    It is c y with c = x - mean (or x) and y = 1/√(mean c² + eps).

    The mean is off by at most e and a rounding down: c has 2 e + 1. Each true c² lies between c² -
    2 e |c| and (|c| + e)², so that mean c² + eps, over 2^(2 bits), is in low … high, and y, over
    2^bits, in ⌊√(2^(4 bits)/high)⌋ … ⌊√(2^(4 bits)/low)⌋ + 1; √⌊z⌋ and √z have the same integer
    part. c y is off by e y + |c| |Δy| and rounding down.
    """
    values, error = x
    d, over = len(values), norm.over(len(values))
    if norm.takes_mean:
        mean = sum(values) // d
        values, error = [v - mean for v in values], 2 * error + 1
    square, across, eps = (
        sum(map(mul, values, values)),
        2 * error * sum(map(abs, values)),
        norm.eps_at(2 * bits),
    )
    low, high = (
        max(0, square - across) // over + eps,
        (square + across + d * error * error) // over + eps + 2,
    )
    require(low > 0, "a norm divides by what is not known to be positive")
    least, most = math.isqrt((1 << (4 * bits)) // high), math.isqrt((1 << (4 * bits)) // low) + 1
    middle = (least + most) // 2
    lost = (error * most + max(map(abs, values)) * (most - middle) >> bits) + 2
    return [v * middle >> bits for v in values], lost
