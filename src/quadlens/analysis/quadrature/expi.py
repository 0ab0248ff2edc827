"""e^{ix} from additions and multiplications alone, with a proved error.

NumPy's own sine depends on the platform's library and promises nothing. Error analysis:
docs/quadrature.md §8.
"""

import functools
import math

import numpy as np
from jaxtyping import Complex, Float

UNIT = 2.0**-53
LARGEST_ANGLE = 4.0
# |expi(x) - e^{ix}| is at most this for |x| ≤ LARGEST_ANGLE (docs/quadrature.md §8).
EXPI_ERROR = 32 * UNIT

# The table holds e^{ijπ/512} for |j| ≤ 653, a little more than |x| ≤ 4 needs.
_STEPS, _REACH = 512, 653
# π/512 in two pieces: the first has 30 bits, so that j·_HIGH is exact.
_HIGH = float.fromhex("0x1.921fb54000000p-8")
_LOW = float.fromhex("0x1.10b4611a62633p-38")
_SINE = tuple((-1) ** j / math.factorial(2 * j + 1) for j in range(8, 0, -1))
_COSINE = tuple((-1) ** j / math.factorial(2 * j) for j in range(8, 0, -1))


def expi(x: Float[np.ndarray, " n"]) -> Complex[np.ndarray, " n"]:
    """e^{ix} for |x| ≤ 4, within `EXPI_ERROR`.

    x = jπ/512 + δ with |δ| ≤ π/1024 (up to rounding): a table for the first part, cos δ and sin δ
    to the fifth power.
    """
    j = np.rint(x * (_STEPS / np.pi))
    if not np.abs(j).max() <= _REACH:
        raise ValueError(
            f"angles must be within ±{LARGEST_ANGLE:g}, got {x.min()} … {x.max()}; reduce them "
            "first"
        )
    delta = x - j * _HIGH
    delta -= j * _LOW
    result = _table()[j.astype(np.intp) + _REACH]
    square = delta * delta
    small = np.empty(len(x), dtype=np.complex128)
    small.real = (square * (1 / 24) - 0.5) * square + 1.0
    small.imag = ((square * (1 / 120) - 1 / 6) * square + 1.0) * delta
    result *= small
    return result


@functools.cache
def _table() -> Complex[np.ndarray, " entries"]:
    """Return e^{ijπ/512}, jπ/512 = r + k π/2 with |r| ≤ π/4.

    Taylor polynomials of degree 17 and 16 in r are multiplied by i^k.
    """
    j = np.arange(-_REACH, _REACH + 1)
    k = np.rint(j / 256)
    rest = j - 256 * k
    r = rest * _HIGH + rest * _LOW
    z = r * r
    unturned = (1.0 + z * _horner(_COSINE, z)) + 1j * (r + r * (z * _horner(_SINE, z)))
    table = unturned * np.array([1, 1j, -1, -1j])[k.astype(np.intp) % 4]
    table.flags.writeable = False
    return table


def _horner(coefficients: tuple[float, ...], z: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return Σ_j coefficients[-1-j] z^j."""
    total = np.full(len(z), coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * z + coefficient
    return total


def rounding_radius(n: int) -> float:
    """Return 2π (5n + 700) 2^-53, an upper bound of the rounding of a sum.

    |computed E(s) - E(s)| and |computed worst case - worst case| stay below it.

    n: neurons. Derivation, term by term: docs/quadrature.md §8.
    """
    return math.nextafter(2 * math.pi * (5 * n + 700) * UNIT, math.inf)
