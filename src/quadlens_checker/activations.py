"""σ of integers over 2^q: exactly for relu and |x|, and with a proved error for all others.

gelu, tanh, silu and softplus are cubics around the nearest multiple of 2^-9. Their four
coefficients come from series with BITS bits after the point, each within 2^-80 of the truth, and
are made only for the places that occur.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from quadlens_checker.exponential import BITS, exponential, twice_atanh
from quadlens_checker.limits import GRID_BITS

ONE = 1 << BITS
Coefficients = tuple[int, int, int, int]


@dataclass(frozen=True)
class Enclosed:
    """σ of integers over 2^q with |x| ≤ most.

    apply: σ̄ of each, over 2^q too. error: |σ(x) - σ̄| ≤ error. slope: |σ(x) - σ(y)| ≤ slope |x -
    y|. largest: of
    |σ̄|.
    """

    apply: Callable[[Sequence[int]], list[int]]
    slope: int
    error: Fraction
    largest: int


def fixed_exponential(numerator: int, denominator: int) -> int:
    """Return e^y, y ≤ 0, over 2^BITS, within 2^-109.

    That is the relative error of `exponential`, and a rounding.
    """
    m, k = exponential(numerator, denominator)
    return m >> -k


def logistic(x: int, denominator: int) -> tuple[int, int, int, int]:
    """s, s', s'', s''' of s(x) = 1/(1 + e^-x) at x/denominator, over 2^BITS, within 2^-100.

    u = e^-|x| is within 2^-109, and |d/du 1/(1+u)| ≤ 1; then s' = s (1-s), s'' = s' (1-2s), s''' =
    s' (1 - 6s + 6s²), whose slopes in s are at most 1, 2 and 8.
    """
    u = fixed_exponential(-abs(x), denominator)
    s = (ONE << BITS) // (ONE + u) if x >= 0 else (u << BITS) // (ONE + u)
    first = s * (ONE - s) >> BITS
    second = first * (ONE - 2 * s) >> BITS
    return s, first, second, first * (ONE - 6 * first) >> BITS


def tanh(x: int) -> Coefficients:
    """Tanh x = 2 s(2x) - 1."""
    s, first, second, third = logistic(2 * x, 1 << GRID_BITS)
    return 2 * s - ONE, 4 * first, 8 * second // 2, 16 * third // 6


def silu(x: int) -> Coefficients:
    """X s(x): the derivatives are s + x s', 2 s' + x s'', 3 s'' + x s'''."""
    s, first, second, third = logistic(x, 1 << GRID_BITS)
    by = [x * f >> GRID_BITS for f in (s, first, second, third)]
    return by[0], s + by[1], (2 * first + by[2]) // 2, (3 * second + by[3]) // 6


def softplus(x: int) -> Coefficients:
    """Return the coefficients of log(1 + e^x) = max(x, 0) + log(1 + u), u = e^-|x|.

    log(1 + u) is 2 atanh(u/(2+u)); the derivatives are s, s', s''.
    """
    s, first, second, _ = logistic(x, 1 << GRID_BITS)
    u = fixed_exponential(-abs(x), 1 << GRID_BITS)
    log = twice_atanh((u << BITS) // (2 * ONE + u), BITS)
    return max(x << (BITS - GRID_BITS), 0) + log, s, first // 2, second // 6


def inverse_tangent(n: int) -> int:
    """Return arctan(1/n) over 2^BITS, n ≥ 5.

    It is Σ ± 1/((2j+1) n^(2j+1)), each of fewer than 32 terms rounded down.
    """
    return sum((-1) ** j * (ONE // ((2 * j + 1) * n ** (2 * j + 1))) for j in range(32))


PI = 16 * inverse_tangent(5) - 4 * inverse_tangent(239)  # Machin; within 2^-117
ROOT = math.isqrt((1 << (3 * BITS - 1)) // PI)  # 1/√(2π), within 2^-115


def gelu(x: int) -> Coefficients:
    """Return the coefficients of x Φ(x).

    The derivatives are Φ + x φ, (2 - x²) φ, (x³ - 4x) φ, with φ = e^(-x²/2)/√(2π), Φ' = φ.

    Φ(|x|) = 1/2 + φ(x) Σ_n |x|^(2n+1)/(1·3·…·(2n+1)). A term is the one before times x²/(2n+1),
    rounded down; a loss of 1 there has grown to at most Σ_k x^(2k)/(3·5·…·(2k+1)) ≤ e^(x²/2) in the
    sum, which φ takes back. Once a term is 0 all further ones are, without loss, so nothing is left
    out: with fewer than 2^12 terms Φ loses less than 2^(12-BITS).
    """
    size, square, unit = abs(x), x * x, 1 << (2 * GRID_BITS)
    m, k = exponential(-square, 2 * unit)
    term = total = size << (BITS - GRID_BITS)
    n = 1
    while term:
        n += 2
        term = term * square // (unit * n)
        total += term
    half = (m * total >> (BITS - k)) * ROOT >> BITS
    cdf = ONE // 2 + (half if x >= 0 else -half)
    density = (m >> -k) * ROOT >> BITS
    by = [density * f // unit for f in (x << GRID_BITS, 2 * unit - square)]
    third = density * (x * square - 4 * x * unit) // (unit << GRID_BITS)
    return x * cdf >> GRID_BITS, cdf + by[0], by[1] // 2, third // 6


# For each: its coefficients, and the place beyond which it is max(x, 0) (tanh: the sign) up to
# 2^-60, for
# |silu - ReLU| = |x|/(1 + e^|x|), 0 < softplus - ReLU < e^-|x|, 1 - tanh |x| < 2 e^-2|x| and |gelu
# - ReLU| ≤ φ(x) (Mills).
CUBICS: dict[str, tuple[Callable[[int], Coefficients], int]] = {
    "gelu": (gelu, 12),
    "tanh": (tanh, 24),
    "silu": (silu, 48),
    "softplus": (softplus, 48),
}


def by_cubics(name: str, q: int) -> Callable[[Sequence[int]], list[int]]:
    """σ̄ within 2^-40 + 4 2^-q, for gelu, tanh, silu and softplus; GRID_BITS < q < BITS.

    With x_j the multiple of 2^-9 nearest to x and t = x - x_j, |t| ≤ 2^-10, Taylor leaves out at
    most C t⁴/24, where C bounds the fourth derivative; that is below 2^-40 since C ≤ 16. For s₁ =
    s' ≤ 1/4, which is below e^-|x| too, s''' is s₁ (1 - 6 s₁), at most 1/4, and the fourth s₄ = s₁
    (1 - 2s)(1 - 12 s₁), at most 1/2. C of tanh bounds 32 s₄(2x), that of silu 4 s''' + x s₄, at
    most 1 + 2/e, that of softplus s''', and that of gelu (-x⁴ + 7x² - 4) φ, where x⁴ φ, 7x² φ and
    4φ are below 1, 3 and 2. Coefficients are rounded down to 2^-q, and Horner's rule rounds down
    three times; all but the constant's rounding and the last one are multiplied by |t|. ∎
    """
    make, end = CUBICS[name]
    step, half, outside = q - GRID_BITS, 1 << (q - GRID_BITS) >> 1, end << q
    known: dict[int, Coefficients] = {}

    def sigma_of(x: int) -> int:
        if not -outside < x < outside:
            return (max(x, 0)) if name != "tanh" else (1 << q if x > 0 else -1 << q)
        j = (x + half) >> step
        if j not in known:
            c, d, e, f = make(j)
            known[j] = c >> (BITS - q), d >> (BITS - q), e >> (BITS - q), f >> (BITS - q)
        c, d, e, f = known[j]
        t = x - (j << step)
        return c + (t * (d + (t * (e + (t * f >> q)) >> q)) >> q)

    return lambda row: list(map(sigma_of, row))


def enclosed(name: str, q: int, most: int) -> Enclosed:
    """σ over 2^q for |x| ≤ most, an integer; GRID_BITS < q < BITS.

    |x² - y²| ≤ 2 most |x - y| and |x⁴ - y⁴| ≤ 4 most³ |x - y|. x² is rounded down; x⁴ is the square
    of that, y with 0 ≤ x² - y < 2^-q, so that x⁴ - y² < 2^-q (x² + y) ≤ 2 most² 2^-q, rounded down
    again. The others' slopes are below 2: tanh' ≤ 1, softplus' = s, |silu'| ≤ s + |x| s' ≤ 1 +
    1/e, |gelu'| ≤ Φ + |x| φ; and |σ(x)| ≤ |x| + 1.
    """
    last = Fraction(1, 1 << q)
    if name == "relu":
        return Enclosed(lambda row: [x if x > 0 else 0 for x in row], 1, Fraction(0), most)
    if name == "abs":
        return Enclosed(lambda row: list(map(abs, row)), 1, Fraction(0), most)
    if name == "square":
        return Enclosed(lambda row: [x * x >> q for x in row], 2 * most, last, most**2)
    if name == "quartic":
        error = (2 * most**2 + 1) * last
        return Enclosed(
            lambda row: [(x * x >> q) ** 2 >> q for x in row], 4 * most**3, error, most**4
        )
    return Enclosed(by_cubics(name, q), 2, Fraction(1, 1 << 40) + 4 * last, most + 2)
