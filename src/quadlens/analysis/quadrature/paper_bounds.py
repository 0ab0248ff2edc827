"""The paper's rows: rectangles, its linear-time bound, ψ ≈ 2φ, the window of ReLU."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from quadlens.analysis.quadrature.balls import (
    Ball,
    balls,
    precision_for,
    upper,
    upper_bound,
    weight_balls,
)
from quadlens.analysis.quadrature.claims import ARB, DOUBLES, Cost, Estimate, Exact, UpperBound
from quadlens.analysis.quadrature.exact import ExactErrors
from quadlens.analysis.quadrature.integrals import cos_baseline, half_of, sin_baseline
from quadlens.analysis.quadrature.scheme import Scheme, reduced
from quadlens.analysis.quadrature.supremum import identity_supremum
from quadlens.base.display import short


@dataclass(frozen=True, eq=False)
class Rectangles:
    """Rectangle i reaches from edges[i] to edges[i+1] and is evaluated at phi[i] - shift.

    Attributes:
        order: Which neuron each rectangle is; phi = φ[order], folded if `half`.
        phi: Sorted phases: in (-π, π], or in [0, π) when folded.
        edges: Running sum of the widths from -π, or from -π/2 when folded.
        shift: θ, the minimiser of Σ_i e_i(θ).
        half: Whether the phases are folded modulo π and the widths halved.
    """

    order: Int[np.ndarray, " n"]
    phi: Float[np.ndarray, " n"]
    edges: Float[np.ndarray, " n_edges"]
    shift: float
    half: bool


def rectangles(scheme: Scheme, half: bool = False) -> Rectangles:
    """The paper's rectangles in float64 (`math.md` §3), slid by the best θ."""
    period = np.pi if half else 2 * np.pi
    folded = reduced(scheme.phi) % period
    phi = folded if half else np.where(folded > np.pi, folded - period, folded)
    order = np.argsort(phi, kind="stable")
    width = scheme.w[order] * (0.5 if half else 1.0)
    edges = np.concatenate([[-period / 2], -period / 2 + np.cumsum(width)])
    return Rectangles(order, phi[order], edges, best_shift(phi[order], edges), half)


def best_shift(phi: Float[np.ndarray, " n"], edges: Float[np.ndarray, " n_edges"]) -> float:
    """Return the θ that minimises 2 ∫ |x + θ - φ(x)| dx, φ(x) the phase of x's rectangle.

    Equation: the paper's abs-bound.

    The function of θ is convex and piecewise quadratic; its slope is 2·(length of {x: φ(x) - x < θ}
    - length of the rest), so the minimiser is the median of φ(x) - x for x uniform on the circle.
    On rectangle i that difference is spread evenly over [φ_i - v_i, φ_i - v_{i-1}]: the
    distribution function is piecewise linear with 2n breakpoints, and its median is found exactly
    (up to rounding of θ itself, which costs no soundness: every θ gives a bound).
    """
    starts, ends = phi - edges[1:], phi - edges[:-1]
    points = np.concatenate([starts, ends])
    order = np.argsort(points, kind="stable")
    points = points[order]
    density = np.cumsum(np.where(order < len(phi), 1, -1))
    mass = np.concatenate([[0.0], np.cumsum(density[:-1] * np.diff(points))])
    middle = mass[-1] / 2
    i = int(np.clip(np.searchsorted(mass, middle, side="right") - 1, 0, len(points) - 2))
    # Where the density is zero the mass stands still, and every point of that stretch is a median.
    return float(points[i] + ((middle - mass[i]) / density[i] if density[i] > 0 else 0.0))


@dataclass(frozen=True, eq=False)
class BoxDensity:
    """A step function on the circle: `count[j]` boxes over (edges[j], edges[j+1]).

    Attributes:
        edges: From -π to π.
        count: Boxes over each step; the mean is 1.
        uncovered: Share of the circle under no box.
        mean_deviation: Mean of |count - 1|.
    """

    edges: Float[np.ndarray, " n_edges"]
    count: Int[np.ndarray, " steps"]
    uncovered: float
    mean_deviation: float


def box_density(scheme: Scheme) -> BoxDensity:
    """Sweep over the ends of all boxes, in float64."""
    phi, w = reduced(scheme.phi), scheme.w
    turn = 2 * np.pi
    low, high = _wrapped(phi - w / 2), _wrapped(phi + w / 2)
    # A box over the seam at ±π is there at the start; one of the whole circle (a single weight) is
    # there throughout.
    at_start = int(((low > high) | (w >= turn * (1 - 1e-12))).sum())
    partial = w < turn * (1 - 1e-12)
    places = np.concatenate([low[partial], high[partial]])
    steps = np.concatenate(
        [np.ones(partial.sum(), dtype=np.int64), -np.ones(partial.sum(), dtype=np.int64)]
    )
    order = np.argsort(places, kind="stable")
    edges = np.concatenate([[-np.pi], places[order], [np.pi]])
    count = at_start + np.concatenate([[0], np.cumsum(steps[order])])
    length = np.diff(edges)
    return BoxDensity(
        edges,
        count,
        float(length[count == 0].sum() / turn),
        float((length * np.abs(count - 1)).sum() / turn),
    )


def _wrapped(angle: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return angles in [-π, π)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


def bound_abs_full(scheme: Scheme) -> UpperBound:
    """Bound the error of the absolute-value part over [-π, π] by min_θ Σ_i e_i(θ), any a, b, c.

    Equation: the paper's abs-bound.

    Proof with the case distinction corrected: docs/quadrature.md §2. The paper's target is that
    this is linear in d.
    """
    with precision_for(scheme):
        total = sum(rectangle_errors(scheme, rectangles(scheme)))
        return upper_bound(
            total, "abs error with 2φ, all a, b, c", "abs-bound", (DOUBLES, ARB), _cost(scheme)
        )


def bound_abs_half(scheme: Scheme) -> UpperBound:
    """Bound it over [0, π] with folded phases and halved widths; totals take it twice.

    Equation: the paper's abs-half-bound.
    """
    with precision_for(scheme):
        total = sum(rectangle_errors(scheme, rectangles(scheme, half=True)))
        return upper_bound(
            total,
            "½ abs error with 2φ, all a, b, c",
            "abs-half-bound",
            (DOUBLES, ARB),
            _cost(scheme),
        )


def rectangle_errors(scheme: Scheme, rects: Rectangles) -> list[Ball]:
    """Return e_i(θ) = 2 ∫_{v_{i-1}}^{v_i} |x + θ - φ_i| dx = y|y| - x|x|.

    Here y = v_i + θ - φ_i and x = v_{i-1} + θ - φ_i.

    One formula for both cases of the paper's display. Edges are the running sums of the real
    weights; phases are the doubles themselves, moved by whole periods so that they lie near the
    rounded ones of `rects`.
    """
    from flint import arb

    period = arb.pi() if rects.half else 2 * arb.pi()
    weights = weight_balls(scheme)
    edge, theta = -period / 2, arb(rects.shift)
    errors = []
    for i, near in zip(rects.order.tolist(), rects.phi.tolist(), strict=True):
        width = weights[i] / 2 if rects.half else weights[i]
        phi = arb(float(scheme.phi[i]))
        # Any whole number of periods is sound: h has the period, so φ_i may be named by any of its
        # copies.
        phi -= period * ((phi - near) / period + 0.5).mid().floor().mid()
        x, y = edge + theta - phi, edge + width + theta - phi
        errors.append(y * abs(y) - x * abs(x))
        edge += width
    return errors


def _cost(scheme: Scheme) -> Cost:
    """Sorting phases and breakpoints, then 14 operations per rectangle."""
    n = scheme.n
    return Cost(3 * n * max(1, n.bit_length()) + 14 * n, "d log d")


def bound_angle(scheme: Scheme) -> UpperBound:
    """Σ_i w_i |ψ_i - 2φ_i|, the distance on the circle (paper, eq. angle-approximation-error).

    |e^{iψ} - e^{2iφ}| ≤ |ψ - 2φ - 2πm| for every integer m, so the m picked in rounded arithmetic
    costs no soundness.
    """
    from flint import arb

    with precision_for(scheme):
        turn, total = 2 * arb.pi(), arb(0)
        for w, psi, phi in zip(
            weight_balls(scheme), balls(scheme.psi), balls(scheme.phi), strict=True
        ):
            difference = psi - 2 * phi
            total += w * abs(difference - turn * (difference / turn + 0.5).mid().floor().mid())
        quantity = "abs (or ReLU) error from ψ instead of 2φ, all a, b, c"
        equation = "angle-approximation-error"
        return upper_bound(total, quantity, equation, (DOUBLES, ARB), Cost(10 * scheme.n, "d"))


# Arcs are widened by this much, and by as much again for every thousand neurons: far more than the
# rounding of their ends, which are running sums of n widths (error below n·2^-50). Wider arcs only
# raise the bound.
ARC_SLACK = 1e-9
# Rectangle errors as integers over 2^52: at most 160 in all, so that running sums are exact in 64
# bits.
FIXED_POINT = 2.0**52


def bound_relu_full(scheme: Scheme) -> UpperBound:
    """Bound the ReLU error by the largest Σ e_i of rectangles that a half circle meets.

    A rectangle i counts if it or its phase meets the half circle (paper, section "… for ReLU
    function").

    Where neither does, ReLU(cos) is zero at the phase and all over the rectangle, so the rectangle
    has no error. Proof: docs/quadrature.md §3. θ is the one that minimises the sum over all
    rectangles (any θ is sound).
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
    return UpperBound(
        value, "ReLU error with 2φ, all a, b, c", "abs-bound on a half circle", (DOUBLES, ARB), cost
    )


def relu_by_largest_half(scheme: Scheme, half: bool = False, boundary: int = 0) -> Estimate:
    """Sum the largest half of the e_i, as the paper bounds ReLU.

    The sum is an estimate: a half circle may meet more rectangles than are added
    (docs/quadrature.md §3).

    Args:
        scheme: The quadrature rule.
        half: Whether phases are folded modulo π, as in `bound_abs_half`.
        boundary: How many rectangles are added for the ends of the half circle.
    """
    rects = rectangles(scheme, half)
    right, left = (
        rects.edges[1:] + rects.shift - rects.phi,
        rects.edges[:-1] + rects.shift - rects.phi,
    )
    errors = np.sort(right * np.abs(right) - left * np.abs(left))[::-1]
    return Estimate(
        float(errors[: scheme.n // 2 + boundary].sum()),
        "float64, largest half of the rectangle errors",
    )


def bound_relu_half(scheme: Scheme) -> UpperBound:
    """Return ½ half_abs + ¼ sup_s |identity part|; twice this bounds the ReLU error.

    Proof: docs/quadrature.md §3.

    Folding modulo π is not allowed for ReLU itself, whose period is 2π (the paper does it; a scheme
    with all neurons on one half circle is a counter-example). It is allowed for the absolute value
    in ReLU = ½(|x| + x).
    """
    return (
        bound_abs_half(scheme).times(0.5) + identity_supremum(scheme).as_upper_bound().times(0.25)
    ).named("½ ReLU error with 2φ, all a, b, c", "½ abs-half-bound + ¼ identity")


def _heaviest_point(low: np.ndarray, high: np.ndarray, mass: np.ndarray) -> int:
    """Return the largest total mass of closed arcs [low_i, high_i] that share a point.

    The circle has length 2π.
    """
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


@short
@dataclass(frozen=True)
class PaperRows:
    """Rows of the paper's tables `error:more` and `error:relu`, named as in published.json.

    `error:more` is about the absolute value and the identity.

    "normalised": with weights that sum to 2π. Totals add the angle error; the half-period bounds
    enter them twice.
    """

    normalised_abs_cos_error: Exact
    normalised_abs_sin_error: Exact
    normalised_id_cos_error: Exact
    normalised_id_sin_error: Exact
    angle_approximation_error: UpperBound
    numerical_abs_bound_full: UpperBound
    numerical_abs_bound_half: UpperBound
    total_abs_bound_full: UpperBound
    total_abs_bound_half: UpperBound
    naive_abs_cos_baseline: Exact
    naive_abs_sin_baseline: Exact
    normalised_relu_cos_error: Exact
    normalised_relu_sin_error: Exact
    numerical_relu_bound_full: UpperBound
    numerical_relu_bound_half: UpperBound
    total_relu_bound_full: UpperBound
    total_relu_bound_half: UpperBound
    naive_relu_cos_baseline: Exact
    naive_relu_sin_baseline: Exact


def paper_rows(scheme: Scheme, exact: ExactErrors) -> PaperRows:
    """Every row; `exact` are the exact errors of the same scheme with 2φ."""
    angle = bound_angle(scheme)
    abs_full, abs_half = bound_abs_full(scheme), bound_abs_half(scheme)
    relu_full, relu_half = bound_relu_full(scheme), bound_relu_half(scheme)
    cos_mean, sin_mean = cos_baseline(scheme), sin_baseline(scheme)
    return PaperRows(
        normalised_abs_cos_error=exact.absolute_cos,
        normalised_abs_sin_error=exact.absolute_sin,
        normalised_id_cos_error=exact.identity_cos,
        normalised_id_sin_error=exact.identity_sin,
        angle_approximation_error=angle,
        numerical_abs_bound_full=abs_full,
        numerical_abs_bound_half=abs_half,
        total_abs_bound_full=_total(abs_full, angle, "abs"),
        total_abs_bound_half=_total(abs_half.times(2.0), angle, "abs"),
        naive_abs_cos_baseline=cos_mean,
        naive_abs_sin_baseline=sin_mean,
        normalised_relu_cos_error=exact.relu_cos,
        normalised_relu_sin_error=exact.relu_sin,
        numerical_relu_bound_full=relu_full,
        numerical_relu_bound_half=relu_half,
        total_relu_bound_full=_total(relu_full, angle, "ReLU"),
        total_relu_bound_half=_total(relu_half.times(2.0), angle, "ReLU"),
        naive_relu_cos_baseline=half_of(cos_mean),
        naive_relu_sin_baseline=half_of(sin_mean),
    )


def _total(quadrature: UpperBound, angle: UpperBound, part: str) -> UpperBound:
    """Quadrature error plus angle error bounds the error with ψ, by the triangle inequality."""
    total = quadrature + angle
    return total.named(f"{part} error with ψ, all a, b, c", total.equation)
