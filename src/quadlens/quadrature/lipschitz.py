"""The paper's linear-time bound: a Lipschitz constant of 2 and how far each rectangle reaches from its phase."""

from quadlens.quadrature.balls import Ball, precision_for, upper_bound, weight_balls
from quadlens.quadrature.claims import ARB, DOUBLES, Cost, UpperBound
from quadlens.quadrature.rectangle_rule import Rectangles, rectangles
from quadlens.quadrature.scheme import Scheme


def bound_abs_full(scheme: Scheme) -> UpperBound:
    """min_θ Σ_i e_i(θ): error of the absolute-value part over [-π, π], any a, b, c (paper, eq. abs-bound).

    Proof with the case distinction mended: docs/quadrature.md §2. The paper's target is that this is linear in d.
    """
    with precision_for(scheme):
        total = sum(rectangle_errors(scheme, rectangles(scheme)))
        return upper_bound(total, "abs error with 2φ, all a, b, c", "abs-bound", (DOUBLES, ARB), _cost(scheme))


def bound_abs_half(scheme: Scheme) -> UpperBound:
    """The same over [0, π] with folded phases and halved widths; it enters totals twice (paper, eq. abs-half-bound)."""
    with precision_for(scheme):
        total = sum(rectangle_errors(scheme, rectangles(scheme, half=True)))
        return upper_bound(total, "½ abs error with 2φ, all a, b, c", "abs-half-bound", (DOUBLES, ARB), _cost(scheme))


def rectangle_errors(scheme: Scheme, rects: Rectangles) -> list[Ball]:
    """e_i(θ) = 2 ∫_{v_{i-1}}^{v_i} |x + θ - φ_i| dx = y|y| - x|x|, y = v_i + θ - φ_i, x = v_{i-1} + θ - φ_i.

    One formula for both cases of the paper's display. Edges are the running sums of the real weights; phases are the
    doubles themselves, moved by whole periods so that they lie near the rounded ones of `rects`.
    """
    from flint import arb

    period = arb.pi() if rects.half else 2 * arb.pi()
    weights = weight_balls(scheme)
    edge, theta = -period / 2, arb(rects.shift)
    errors = []
    for i, near in zip(rects.order.tolist(), rects.phi.tolist(), strict=True):
        width = weights[i] / 2 if rects.half else weights[i]
        phi = arb(float(scheme.phi[i]))
        # Any whole number of periods is sound: h has the period, so φ_i may be named by any of its copies.
        phi -= period * ((phi - near) / period + 0.5).mid().floor().mid()
        x, y = edge + theta - phi, edge + width + theta - phi
        errors.append(y * abs(y) - x * abs(x))
        edge += width
    return errors


def _cost(scheme: Scheme) -> Cost:
    """Sorting phases and breakpoints, then 14 operations a rectangle."""
    n = scheme.n
    return Cost(3 * n * max(1, n.bit_length()) + 14 * n, "d log d")
