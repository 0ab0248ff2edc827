"""How far float64 can be from the real-number error of a scheme: one proved number for the whole room."""

import math

from quadlens.quadrature.turns import UNIT


def rounding_radius(n: int) -> float:
    """2π (5n + 700) 2^-53: |computed E(s) - E(s)| and |computed worst case - worst case| stay below it.

    n: neurons. Derivation, term by term: docs/quadrature.md §8.
    """
    return math.nextafter(2 * math.pi * (5 * n + 700) * UNIT, math.inf)
