"""σ and σ' of intervals, by tables that Arb makes.

σ, σ', σ'' and σ''' are known at the multiples x_0 of h = 2^-7 up to ±40; σ'', σ''' and σ'''' are
nowhere larger than 4 (a test looks, by Arb). So Taylor's formula at the nearest x_0 gives σ to 4
δ⁴/24 and σ' to 4 δ³/6 with δ ≤ h/2; and between two neighbours σ, σ' and σ'' are within h²/8 · 4 of
the range of the two. Over an interval they are between the smallest and the largest of the cells
that it meets, which a table of powers of two finds in two look-ups; and within its radius times the
largest slope of what they are in its middle. Beyond ±40, σ(x) is within 2^-40 of max(x, 0), σ' of 0
or 1, σ'' of 0.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.base.numbers import precision
from quadlens.network.sequence import SequenceActivation
from quadlens.proofs.sequences.interval import Array, Interval, up

BITS, FAR, LARGEST = 7, 40, 4.0
STEP = 2.0**-BITS
BEYOND = 2.0**-40
ARB_BITS = 200


def series(name: SequenceActivation, x: Any, terms: int) -> Any:
    """σ(x + t) as a power series in t, x one of Arb's balls."""
    from flint import arb, arb_series

    t = arb_series([x, 1], terms)
    if name == "gelu":
        return t * (-t / arb(2).sqrt()).erfc() / 2
    if name == "silu":
        return t / (1 + (-t).exp())
    inner = (arb(2) / arb.pi()).sqrt() * (t + arb(0.044715) * t * t * t)
    return t / (1 + (-2 * inner).exp())


@dataclass(frozen=True, eq=False)
class Smooth:
    """One σ that is no ReLU.

    Attributes:
        points: σ, σ', σ'' and σ''' at the multiples of h, [derivative, point].
        lowest: Of σ, σ', σ'' over 2^i cells from each on, [derivative, i, cell].
        highest: The same, the largest.
    """

    points: Interval
    lowest: Float[np.ndarray, "3 levels cells"]
    highest: Float[np.ndarray, "3 levels cells"]

    def _at(self, x: Array, order: int) -> Interval:
        """σ or σ' (order 0, 1) of floats in ±40."""
        nearest = np.rint(x / STEP).astype(np.int64)
        delta = Interval.exactly(x - nearest * STEP)
        total = self.points[3, nearest + FAR * (1 << BITS)]
        for derivative in range(2, order - 1, -1):
            n = float(derivative + 1 - order)
            step = total * delta
            total = self.points[derivative, nearest + FAR * (1 << BITS)] + step.scaled(1 / n)
        size = np.abs(delta.lo)
        slack = up(LARGEST * size ** (4 - order))
        return Interval(total.lo - slack, total.hi + slack)

    def _range(self, x: Interval, order: int) -> Interval:
        """σ, σ' or σ'' over intervals, by the cells that they meet; to be widened beyond ±40."""
        ends = [np.clip(end, -FAR, FAR) for end in (x.lo, x.hi)]
        last = 2 * FAR * (1 << BITS) - 1
        first, final = (
            np.clip(np.floor(end / STEP).astype(np.int64) + (last + 1) // 2, 0, last)
            for end in ends
        )
        level = np.frexp((final - first + 1).astype(np.float64))[1] - 1
        back = final - (1 << level) + 1
        low = np.minimum(self.lowest[order, level, first], self.lowest[order, level, back])
        high = np.maximum(self.highest[order, level, first], self.highest[order, level, back])
        above, below = x.hi > FAR, x.lo < -FAR
        tops = (x.hi, 1.0, 0.0)[order] + BEYOND
        bottoms = (float(FAR), 1.0, 0.0)[order] - BEYOND
        low = np.where(above, np.minimum(low, bottoms), low)
        high = np.where(above, np.maximum(high, up(np.asarray(tops))), high)
        if order == 0:
            low = np.where(x.lo > FAR, x.lo - 2 * BEYOND - x.lo * 2.0**-51, low)
        low = np.where(below, np.minimum(low, -BEYOND), low)
        high = np.where(below, np.maximum(high, BEYOND), high)
        # What is not a number was clipped and must not look proved.
        bad = np.isnan(x.lo) | np.isnan(x.hi)
        return Interval(np.where(bad, np.nan, low), np.where(bad, np.nan, high))

    def _sharpened(self, x: Interval, order: int, slope: Interval) -> Interval:
        """Intersect the range with the middle's value ± radius times the slopes."""
        coarse = self._range(x, order)
        inside = (x.lo > -FAR + 1) & (x.hi < FAR - 1)
        middle = np.where(inside, x.middle, 0.0)
        radius = up(np.maximum(x.hi - middle, middle - x.lo))
        fine = self._at(middle, order) + slope * Interval(-radius, radius)
        met = coarse.meet(fine)
        return Interval(np.where(inside, met.lo, coarse.lo), np.where(inside, met.hi, coarse.hi))

    def both(self, x: Interval) -> tuple[Interval, Interval]:
        """σ and σ' over intervals."""
        slope = self._sharpened(x, 1, self._range(x, 2))
        return self._sharpened(x, 0, slope), slope


def relu(x: Interval) -> tuple[Interval, Interval]:
    """max(x, 0), and its slopes over an interval: between 0 and 1 where it has the kink inside."""
    value = Interval(np.maximum(x.lo, 0.0), np.maximum(x.hi, 0.0))
    slope = Interval((x.lo >= 0).astype(np.float64), (x.hi > 0).astype(np.float64))
    bad = np.isnan(x.lo) | np.isnan(x.hi)
    return value, Interval(slope.lo, np.where(bad, np.nan, slope.hi))


def sigma(name: SequenceActivation, x: Interval) -> tuple[Interval, Interval]:
    """σ and σ' over intervals."""
    return relu(x) if name == "relu" else smooth(name).both(x)


@lru_cache(maxsize=8)
def smooth(name: SequenceActivation) -> Smooth:
    """The tables of one σ."""
    from flint import arb

    with precision(ARB_BITS):
        rows = [
            [*series(name, arb(i) / (1 << BITS), 4).coeffs(), *[arb(0)] * 4][:4]
            for i in range(-FAR * (1 << BITS), FAR * (1 << BITS) + 1)
        ]
        factorials = (1, 1, 2, 6)
        balls = np.array(
            [[c * f for c, f in zip(row, factorials, strict=True)] for row in rows], dtype=object
        )
    points = Interval.of_balls(balls.T)
    slack = STEP * STEP / 8 * LARGEST * (1 + 2.0**-20)
    low = [np.minimum(points.lo[:3, :-1], points.lo[:3, 1:]) - slack]
    high = [np.maximum(points.hi[:3, :-1], points.hi[:3, 1:]) + slack]
    n = low[0].shape[1]
    for level in range(int(np.log2(n))):
        width = 1 << level
        reach = np.minimum(np.arange(n) + width, n - 1)
        low.append(np.minimum(low[-1], low[-1][:, reach]))
        high.append(np.maximum(high[-1], high[-1][:, reach]))
    return Smooth(points, np.stack(low, axis=1), np.stack(high, axis=1))
