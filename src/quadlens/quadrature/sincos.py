"""Sine and cosine from additions and multiplications alone, so that their error is proved and not assumed.

NumPy's own sine depends on the platform's library and promises nothing. Error analysis: docs/quadrature.md §8.
"""

import math

import numpy as np
from jaxtyping import Float

UNIT = 2.0**-53
# |sincos(x) - (sin x, cos x)| is at most this in either component, for |x| ≤ 4 (docs/quadrature.md §8).
SINCOS_ERROR = 16 * UNIT

# π/2 in two pieces: the first has 30 bits, so that k·_HIGH is exact for |k| ≤ 3.
_HIGH = float.fromhex("0x1.921fb54000000p+0")
_LOW = float.fromhex("0x1.10b4611a62633p-30")
_SIN = tuple((-1) ** j / math.factorial(2 * j + 1) for j in range(8, 0, -1))
_COS = tuple((-1) ** j / math.factorial(2 * j) for j in range(8, 0, -1))


def sincos(x: Float[np.ndarray, " n"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """(sin x, cos x) for |x| ≤ 4, each within `SINCOS_ERROR`.

    x = r + k π/2 with |r| ≤ π/4 (up to rounding); Taylor polynomials of degree 17 and 16; k mod 4 picks the quadrant.
    """
    k = np.rint(x * (2 / np.pi))
    r = (x - k * _HIGH) - k * _LOW
    z = r * r
    sine = _horner(_SIN, z)
    sine *= z
    sine *= r
    sine += r
    cosine = _horner(_COS, z)
    cosine *= z
    cosine += 1.0
    quadrant = k.astype(np.int64) & 3
    swap = (quadrant & 1).astype(bool)
    sin_x, cos_x = np.where(swap, cosine, sine), np.where(swap, sine, cosine)
    sin_x *= 1.0 - (quadrant & 2)
    cos_x *= 1.0 - ((quadrant + 1) & 2)
    return sin_x, cos_x


def _horner(coefficients: tuple[float, ...], z: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Σ_j coefficients[-1-j] z^j."""
    total = z * coefficients[0]
    for coefficient in coefficients[1:-1]:
        total += coefficient
        total *= z
    total += coefficients[-1]
    return total
