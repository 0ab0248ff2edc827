"""How the error falls with more neurons, and how many boxes lie over each angle (the paper's overlap figure)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from quadlens.quadrature.claims import Exact
from quadlens.quadrature.scheme import Scheme, reduced
from quadlens.quadrature.supremum import abs_supremum


@dataclass(frozen=True)
class ConvergencePoint:
    """Errors of rules with the same number of neurons.

    Attributes:
        neurons: How many.
        errors: sup over real s of the absolute-value error with 2φ, one for each draw.
        equally_spaced: The closed form for that many equally spaced phases; None for two, which are one node.
    """

    neurons: int
    errors: tuple[Exact, ...]
    equally_spaced: float | None

    @property
    def median(self) -> float:
        """Median of the errors."""
        return float(np.median([error.middle for error in self.errors]))


@dataclass(frozen=True)
class Convergence:
    """Errors against the number of neurons.

    Attributes:
        name: What was varied.
        points: From few neurons to many.
        exponent: Slope of log(median error) against log(neurons): -1/2 for random phases, -2 for equally spaced ones.
            A thinned cluster's is fitted without the whole cluster, whose neurons balance each other.
    """

    name: str
    points: tuple[ConvergencePoint, ...]
    exponent: float

    def statement(self) -> str:
        """One sentence."""
        first, last = self.points[0], self.points[-1]
        if math.isnan(self.exponent) or first.equally_spaced is None or last.equally_spaced is None:
            return f"{self.name}: {last.neurons} neurons are too few to thin; the worst error is {last.median:.3g}."
        return (
            f"{self.name}: from {first.neurons} to {last.neurons} neurons the worst error goes from {first.median:.3g} "
            f"to {last.median:.3g}, about as neurons^{self.exponent:.2f}; equally spaced phases would give "
            f"{first.equally_spaced:.3g} and {last.equally_spaced:.3g} (neurons^-2). "
            f"The last step divides the error by {self.points[-2].median / last.median:.3g}."
        )


def equally_spaced_error(n: int) -> float:
    """Worst error of equal spacing: h (cot(h/2) - cot(3h/2)) - 4/3 ≈ h²/3, h = π/N, N = n for odd n and n/2 for even n.

    The supremum over real s of the abs error of n equally spaced phases of equal weight (modulo π, an even number of
    them are N doubled nodes). It is reached where a node sits on a kink; docs/quadrature.md §9. Needs N ≥ 2.
    """
    nodes = n if n % 2 else n // 2
    if nodes < 2:
        raise ValueError(f"{n} phases are {nodes} node(s) modulo π; the closed form needs at least 2")
    h = math.pi / nodes
    if nodes >= 100:
        # The difference of cotangents cancels; the series is exact to rounding here. Terms of x cot x.
        half, three = h / 2, 3 * h / 2
        return 2 * _one_minus_x_cot_x(three) / 3 - 2 * _one_minus_x_cot_x(half)
    return h * (1 / math.tan(h / 2) - 1 / math.tan(3 * h / 2)) - 4 / 3


def thinning_study(scheme: Scheme, draws: int, rng: np.random.Generator) -> Convergence:
    """Keep n, n/2, n/4, … neurons of a scheme, chosen at random `draws` times, and rescale the weights."""
    # Neurons without weight are not part of the rule; a draw of nothing else would be no rule at all.
    useful = np.flatnonzero((scheme.rho > 0) & (scheme.omega > 0))
    scheme = thinned(scheme, useful) if len(useful) > 1 else scheme
    counts = [scheme.n >> step for step in range(scheme.n.bit_length()) if scheme.n >> step >= 3]
    points = []
    for count in reversed(counts or [scheme.n]):
        tries = 1 if count == scheme.n else draws
        chosen = [rng.choice(scheme.n, size=count, replace=False) for _ in range(tries)]
        points.append(_point(count, [thinned(scheme, keep) for keep in chosen]))
    return _convergence(f"thinning frequency {scheme.k}", points, points[:-1])


def thinned(scheme: Scheme, keep: np.ndarray) -> Scheme:
    """The scheme with only the neurons `keep`; its weights sum to 2π again by definition."""
    return Scheme(scheme.p, scheme.k, scheme.phi[keep], scheme.psi[keep], scheme.rho[keep], scheme.omega[keep])


def _point(count: int, schemes: Sequence[Scheme]) -> ConvergencePoint:
    return ConvergencePoint(
        count, tuple(abs_supremum(one) for one in schemes), equally_spaced_error(count) if count > 2 else None
    )


def _convergence(name: str, points: Sequence[ConvergencePoint], fitted: Sequence[ConvergencePoint]) -> Convergence:
    if len(fitted) < 2:
        return Convergence(name, tuple(points), math.nan)
    x, y = np.log([point.neurons for point in fitted]), np.log([point.median for point in fitted])
    return Convergence(name, tuple(points), float(np.polyfit(x, y, 1)[0]))


def _one_minus_x_cot_x(x: float) -> float:
    """1 - x cot x = x²/3 + x⁴/45 + 2x⁶/945 + x⁸/4725 + … for small x."""
    y = x * x
    return y * (1 / 3 + y * (1 / 45 + y * (2 / 945 + y / 4725)))


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
    # A box over the seam at ±π is there at the start; one of the whole circle (a single weight) is there throughout.
    at_start = int(((low > high) | (w >= turn * (1 - 1e-12))).sum())
    partial = w < turn * (1 - 1e-12)
    places = np.concatenate([low[partial], high[partial]])
    steps = np.concatenate([np.ones(partial.sum(), dtype=np.int64), -np.ones(partial.sum(), dtype=np.int64)])
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
    """To [-π, π)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi
