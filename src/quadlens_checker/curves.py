"""Lines near a curve: α (x - p) + v within δ of σ(x) or 1/√x on all of an interval.

Numbers are integers over 2^Q.

Each function takes the ends l ≤ h of the interval and gives (α, p, v, δ).
"""

import math
from functools import cache

from quadlens_checker.activations import (
    CUBICS,
    ONE,
    ROOT,
    Coefficients,
    fixed_exponential,
    logistic,
)
from quadlens_checker.exponential import BITS
from quadlens_checker.limits import GRID_BITS, TAIL_BITS

Q = TAIL_BITS
UNIT = 1 << Q
Line = tuple[int, int, int, int]
STEP, HALF = Q - GRID_BITS, 1 << (Q - GRID_BITS - 1)
CELL_BITS, CELLS = 3, 128  # |σ''| is bounded on cells of width 1/8 up to 16, and beyond
WIDE, PIECES = UNIT >> 4, 8
VALUE_ERROR, SLOPE_ERROR = (UNIT >> 40) + 4, (UNIT >> 27)
BEND_NUMERATOR, BEND_DENOMINATOR = (
    0.044715
).as_integer_ratio()  # of the gelu by tanh, as float64 has it


@cache
def coefficients(name: str, j: int) -> Coefficients:
    """σ and its derivatives over 1, 1, 2, 6 at j 2^-GRID_BITS."""
    c, d, e, f = CUBICS[name][0](j)
    return c >> (BITS - Q), d >> (BITS - Q), e >> (BITS - Q), f >> (BITS - Q)


def tangent(name: str, x: int) -> tuple[int, int]:
    """(v, α) with |σ(x) - v| ≤ VALUE_ERROR and |σ'(x) - α| ≤ SLOPE_ERROR.

    The cubic around the nearest grid point, as `activations.by_cubics` has it and proves; the slope
    is that cubic's, within C |t|³/6 ≤ 16 2^-30/6 of σ', its roundings aside. Beyond the last place
    σ is max(x, 0) up to 2^-60, and so are its slopes: silu' - 1 = s - 1 + x s' and gelu' - 1 = Φ -
    1 + x φ.
    """
    if name == "gelu_tanh":
        return tangent_by_tanh(x)
    if not -CUBICS[name][1] << Q < x < CUBICS[name][1] << Q:
        return max(x, 0), UNIT * (x > 0)
    j = (x + HALF) >> STEP
    c, d, e, f = coefficients(name, j)
    t = x - (j << STEP)
    third = t * f >> Q
    return c + (t * (d + (t * (e + third) >> Q)) >> Q), d + (t * (2 * e + 3 * third) >> Q)


def tanh_argument(x: int) -> int:
    """Return 2 √(2/π) (x + 0.044715 x³) over 2^BITS, within 2^-78.

    x is over 2^Q with |x| ≤ 16; √(2/π) is 2 ROOT.
    """
    cube = x * x * x * BEND_NUMERATOR // (BEND_DENOMINATOR << (2 * Q))
    return 4 * ROOT * (x + cube) >> Q


def tangent_by_tanh(x: int) -> tuple[int, int]:
    """Return value and slope of x s(v), v = `tanh_argument`.

    The slope is s + x s' v'; beyond 12 the value is max(x, 0) up to 12 e^-140.
    """
    if not -12 << Q < x < 12 << Q:
        return max(x, 0), UNIT * (x > 0)
    s, first, _, _ = logistic(tanh_argument(x), ONE)
    slope = 4 * ROOT * (UNIT + 3 * (x * x >> Q) * BEND_NUMERATOR // BEND_DENOMINATOR) >> Q
    return x * s >> BITS, (s >> (BITS - Q)) + ((x * first >> BITS) * slope >> BITS)


@cache
def bend(name: str, near: int, far: int) -> int:
    """No less than |σ''(x)| for near ≤ 2^CELL_BITS |x| ≤ far.

    gelu'' = (2 - x²) φ(x); silu'' = s' (2 + x (1 - 2s)), where x (1 - 2s) lies in -|x| … 0; and of
    x s(v) it is 2 s' v' + x (s'' v'² + s' v''), where |s''| ≤ s'. φ, s' and s'(v) fall with |x|,
    and v' and v'' grow.
    """
    slack = 1 << (BITS - 80)
    unit = 1 << CELL_BITS
    if name == "gelu":
        density = (fixed_exponential(-near * near, 2 * unit * unit) * ROOT >> BITS) + slack
        most = max(
            abs(2 * unit * unit - near * near),
            abs(2 * unit * unit - far * far),
            0 if near else 2 * unit * unit,
        )
        return (density * most >> (2 * CELL_BITS + BITS - Q)) + 1
    if name == "silu":
        first = logistic(near, unit)[1] + slack
        return (first * max(2 * unit, far - 2 * unit) >> (CELL_BITS + BITS - Q)) + 1
    first = logistic(tanh_argument(near << (Q - CELL_BITS)), ONE)[1] + slack
    x, root = far << (Q - CELL_BITS), (4 * ROOT >> (BITS - Q)) + 1
    slope = (root * (UNIT + 3 * (x * x >> Q) * BEND_NUMERATOR // BEND_DENOMINATOR + 2) >> Q) + 1
    second = (root * (6 * x * BEND_NUMERATOR // BEND_DENOMINATOR + 1) >> Q) + 1
    return ((first >> (BITS - Q)) + 1) * (
        2 * slope + (x * ((slope * slope >> Q) + second + 1) >> Q) + 1
    ) // UNIT + 1


def most_bend(name: str, low: int, high: int) -> int:
    """No less than |σ''| on low … high, over 2^Q."""
    near, far = 0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high))
    first, last = near >> (Q - CELL_BITS), far >> (Q - CELL_BITS)
    bends = [bend(name, j, j + 1) for j in range(first, min(last + 1, CELLS))]
    if last >= CELLS:
        bends.append(bend(name, CELLS, last + 1) if name != "gelu_tanh" else UNIT >> 40)
    return max(bends)


def activation(name: str, low: int, high: int) -> Line:
    """Return a line near σ on an interval.

    It is Taylor's line at the middle, off by at most |σ''| r²/2; the chord on a wider interval, and
    ReLU's always.

    ReLU less α x is convex, 0 at x = 0 and, for 0 ≤ α ≤ 1, between 0 and its larger end.
    """
    if name == "relu":
        if low >= 0 or high <= 0:
            return UNIT * (low >= 0), 0, 0, 0
        slope = (high << Q) // (high - low)
        most = max(-slope * low, high * (UNIT - slope)) // UNIT + 1
        return slope, 0, most // 2, most // 2 + 1
    p, r = (low + high) // 2, (high - low) // 2 + 1
    if r > WIDE:
        return chord(name, low, high)
    v, slope = tangent(name, p)
    return slope, p, v, off_tangent(name, low, high, SLOPE_ERROR, r)


def off_tangent(name: str, low: int, high: int, slopes: int, r: int) -> int:
    """Bound how far σ on low … high, at most r from a point, is from a line there.

    The line's slope is off by `slopes` at the point.
    """
    return (
        (most_bend(name, low, high) * r // UNIT * r >> (Q + 1))
        + (slopes * r >> Q)
        + VALUE_ERROR
        + 3
    )


def chord(name: str, low: int, high: int) -> Line:
    """Return the line through the ends.

    σ less that line is bounded on PIECES pieces by Taylor at their middles.
    """
    slope = ((tangent(name, high)[0] - tangent(name, low)[0]) << Q) // (high - low)
    width = (high - low) // PIECES + 1
    least, most = [], []
    for n in range(PIECES):
        start = low + n * width
        p, r = start + width // 2, width // 2 + 1
        v, here = tangent(name, p)
        off = off_tangent(name, start, start + width, abs(here - slope) + SLOPE_ERROR, r)
        rest = v - (slope * (p - low) >> Q)
        least.append(rest - off - 1)
        most.append(rest + off + 1)
    middle = (min(least) + max(most)) // 2
    return slope, low, middle, max(most) - middle + 1


def parallel_to(low: int, high: int) -> int:
    """Estimate where the tangent of 1/√x is as steep as the chord; any number is sound.

    x³ = (√l √h (√l + √h)/2)².
    """
    a, b = math.isqrt(low << Q), math.isqrt(high << Q)
    cube = (a * b * (a + b) >> (2 * Q + 1)) ** 2 << Q
    guess = 1 << (cube.bit_length() // 3 + 1)
    for _ in range(8):
        guess = (2 * guess + cube // (guess * guess)) // 3
    return guess


def inverse_root(low: int, high: int) -> Line:
    """Return a line near 1/√x, low > 0, as steep as its chord.

    1/√x is convex, so that less the line it is largest at an end.

    It is above its tangent at any p, here about where that is parallel: with v … v + 1 the value at
    p the tangent's slope -v³/2 is within `off` = 3 (v + 1)²/2 + 3 units of α.
    """
    at_low, at_high = (math.isqrt((1 << (3 * Q)) // x) for x in (low, high))
    p = (low + high) // 2
    if (high - low) << 6 > low:
        p = min(high, max(low, parallel_to(low, high)))
    v = math.isqrt((1 << (3 * Q)) // p)
    slope = -(v * v * v >> (2 * Q + 1))
    off = ((v + 1) * (v + 1) * 3 >> (2 * Q + 1)) + 3
    below = v - (off * max(p - low, high - p) >> Q) - 2
    above = max(at_low - (slope * (low - p) >> Q), at_high - (slope * (high - p) >> Q)) + 2
    return slope, p, (above + below) // 2, (above - below) // 2 + 2
