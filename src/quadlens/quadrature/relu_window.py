"""The ReLU rows: only rectangles that a half circle can meet count; and what the paper's folded row has to be."""

import numpy as np

from quadlens.quadrature.balls import precision_for, upper
from quadlens.quadrature.claims import ARB, DOUBLES, Cost, UpperBound
from quadlens.quadrature.identity import identity_supremum
from quadlens.quadrature.lipschitz import bound_abs_half, rectangle_errors
from quadlens.quadrature.rectangle_rule import rectangles
from quadlens.quadrature.scheme import Scheme

# Arcs are widened by this much, and by as much again for every thousand neurons: far more than the rounding of their
# ends, which are running sums of n widths (error below n·2^-50). Wider arcs only raise the bound.
ARC_SLACK = 1e-9
# Rectangle errors as integers over 2^52: at most 160 in all, so that running sums are exact in 64 bits.
FIXED_POINT = 2.0**52


def bound_relu_full(scheme: Scheme) -> UpperBound:
    """Largest over half circles H of Σ {e_i : rectangle i or its phase meets H} (paper, section "… for ReLU function").

    Where neither does, ReLU(cos) is zero at the phase and all over the rectangle, so the rectangle has no error. Proof:
    docs/quadrature.md §3. θ is the one that minimises the sum over all rectangles (any θ is sound).
    """
    with precision_for(scheme):
        rects = rectangles(scheme)
        errors = [max(0.0, upper(e)) for e in rectangle_errors(scheme, rects)]
    counted = np.ceil(np.array(errors) * FIXED_POINT).astype(np.int64) + 1
    slack = ARC_SLACK * (1 + scheme.n / 1000)
    low = np.minimum(rects.phi, rects.edges[:-1] + rects.shift) - np.pi / 2 - slack
    high = np.maximum(rects.phi, rects.edges[1:] + rects.shift) + np.pi / 2 + slack
    worst = _heaviest_point(low, high, counted)
    n = scheme.n
    cost = Cost(5 * n * max(1, n.bit_length()) + 26 * n, "d log d")
    value = float(np.nextafter(worst / FIXED_POINT, np.inf))
    return UpperBound(value, "ReLU error with 2φ, all a, b, c", "abs-bound on a half circle", (DOUBLES, ARB), cost)


def bound_relu_half(scheme: Scheme) -> UpperBound:
    """½ half_abs + ¼ sup_s |identity part|: twice this bounds the ReLU error (docs/quadrature.md §3).

    Folding modulo π is not allowed for ReLU itself, whose period is 2π (the paper does it; a scheme with all neurons on
    one half circle is a counter-example). It is allowed for the absolute value in ReLU = ½(|x| + x).
    """
    return (bound_abs_half(scheme).times(0.5) + identity_supremum(scheme).as_upper_bound().times(0.25)).named(
        "½ ReLU error with 2φ, all a, b, c", "½ abs-half-bound + ¼ identity"
    )


def _heaviest_point(low: np.ndarray, high: np.ndarray, mass: np.ndarray) -> int:
    """Largest total mass of the closed arcs [low_i, high_i] of a circle of length 2π that share a point."""
    turn = 2 * np.pi
    everywhere = high - low >= turn
    always = int(mass[everywhere].sum())
    low, high, mass = low[~everywhere] % turn, high[~everywhere] % turn, mass[~everywhere]
    wrapped = int(mass[low > high].sum())
    # At equal places arcs begin before others end.
    places = np.concatenate([low, high])
    ends = np.concatenate([np.zeros(len(low), dtype=np.int64), np.ones(len(high), dtype=np.int64)])
    order = np.lexsort((ends, places))
    changes = np.concatenate([mass, -mass])[order]
    return always + wrapped + max(0, int(np.cumsum(changes).max(initial=0)))
