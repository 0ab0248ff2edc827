"""The size of a rule's error.

Figures of its exact value for every a + b, of where the paper's bound loses, and of the moments
behind it.
"""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from quadlens.analysis.quadrature.analysis import ClusterBounds
from quadlens.analysis.quadrature.exact import grid_errors
from quadlens.analysis.quadrature.moment_series import moments as moments_of
from quadlens.analysis.quadrature.of_study import rule_clusters
from quadlens.analysis.quadrature.scheme import Scheme
from quadlens.analysis.spectrum.of_study import keys_of
from quadlens.network.study import Study
from quadlens.show.figures.canvas import Target, canvas
from quadlens.show.figures.picture import Values, figure
from quadlens.show.figures.rules import cluster_of
from quadlens.show.figures.style import CONCEPT_COLOURS, QUIET_COLOUR, frequency_colour

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = ("paper's bound", "slope ≤ 2\neverywhere", "ψ apart\nfrom φ", "exact")
# Even moments drawn.
DRAWN = 12
# Smaller is rounding.
FLOOR = 1e-9


def errors(scheme: Scheme) -> Float[np.ndarray, " p"]:
    """|E| for a + b = 0 … p-1, output phases as the model has them, worst over c."""
    modulus = np.abs(grid_errors(scheme, with_psi=True).absolute)
    common = scheme.p // scheme.q
    # s = kw(a+b)/2 is j·π/q with j = (k/gcd)(a+b) modulo q.
    return modulus[(scheme.k // common) * np.arange(scheme.p) % scheme.q]


def _rules(study: Study) -> tuple[ClusterBounds, ...]:
    """The clusters drawn; refused where there is none."""
    cluster_of(study, None)
    return study.once(rule_clusters)


def _baselines(study: Study) -> Values | None:
    clusters = study.once(rule_clusters)
    sizes = sorted({f"{cluster.baseline.middle:.3f}" for cluster in clusters})
    return (
        {"sizes": list(dict.fromkeys((sizes[0], sizes[-1]))), "clusters": clusters}
        if sizes
        else None
    )


@figure("One axes per key frequency that is a quadrature rule", values=_baselines)
def exact_error(study: Study, ax: Target = None) -> "Figure":
    """Draw the exact quadrature error at every a + b beside its bounds.

    There is one panel per frequency.
    """
    clusters = _rules(study)
    columns = 3 if len(clusters) in (3, 5, 6) else min(2, len(clusters))
    size = (2.6 * columns + 1.4, 2.5 * -(-len(clusters) // columns) + 0.6)
    with canvas(ax, size, len(clusters), columns=columns, sharex=True, sharey=True) as drawn:
        for axis, cluster in zip(drawn.axes, clusters, strict=True):
            values = np.maximum(errors(cluster.scheme), 1e-6)
            colour = frequency_colour(cluster.k, study.once(keys_of))
            axis.plot(
                np.arange(len(values)),
                values,
                ".-",
                ms=4,
                lw=0.6,
                color=colour,
                label="exact error",
            )
            bound, by_moments = CONCEPT_COLOURS["bound"], f"moment bound (M = {cluster.moments})"
            lines = (
                (
                    cluster.exact_psi.absolute.upper,
                    CONCEPT_COLOURS["exact"],
                    "-",
                    "exact worst case",
                ),
                (cluster.moment_bound_psi.value, bound, ":", by_moments),
                (cluster.rows.total_abs_bound_half.value, bound, "--", "the paper's bound"),
                (cluster.baseline.middle, QUIET_COLOUR, "-", "mean size of the integral"),
            )
            for value, ink, dash, name in lines:
                axis.axhline(value, color=ink, ls=dash, lw=1.5, label=name)
            top = max(2.0, 1.5 * max(value for value, *_ in lines))
            axis.set(yscale="log", ylim=(1e-4 if values.max() > 1e-4 else 1e-6, top))
            axis.locator_params(axis="x", integer=True)
            axis.set_title(f"k = {cluster.k}", loc="left")
        drawn.label_outside("a + b mod p", "error of the absolute part")
        drawn.legend(columns=3)
        return drawn.figure


def heights(cluster: ClusterBounds) -> tuple[float, float, float, float]:
    """Return a bound, its two losses and the exact error, over the baseline.

    The losses are those by the Lipschitz bound and by the triangle inequality for ψ.

    bound = 2·(half-period bound) + angle error; the quadrature part's truth is the exact error with
    2φ, and adding the angle error to it overstates the exact error with ψ. The last of the losses
    can be of either sign in principle, so the four numbers satisfy bound - lost - lost = exact by
    construction.
    """
    scale = cluster.baseline.middle
    bound = cluster.rows.total_abs_bound_half.value
    angle = cluster.rows.angle_approximation_error.value
    with_double, exact = cluster.exact.absolute.middle, cluster.exact_psi.absolute.middle
    slope = bound - angle - with_double
    return bound / scale, slope / scale, (angle + with_double - exact) / scale, exact / scale


def _all_heights(study: Study) -> Values | None:
    clusters = study.once(rule_clusters)
    return {"heights": {cluster.k: heights(cluster) for cluster in clusters}} if clusters else None


@figure("One axes per key frequency that is a quadrature rule", values=_all_heights)
def error_waterfall(study: Study, ax: Target = None) -> "Figure":
    """Draw what the paper's bound loses at each step, down to the exact error.

    There is one panel per frequency.
    """
    clusters = _rules(study)
    columns = min(3, len(clusters))
    size = (2.7 * columns + 0.7, 2.8 * -(-len(clusters) // columns))
    with canvas(ax, size, len(clusters), columns=columns, sharey=True) as drawn:
        colours = (CONCEPT_COLOURS["bound"], QUIET_COLOUR, QUIET_COLOUR, CONCEPT_COLOURS["exact"])
        top = max(heights(cluster)[0] for cluster in clusters)
        for index, (axis, cluster) in enumerate(zip(drawn.axes, clusters, strict=True)):
            bound, slope, angle, exact = heights(cluster)
            bottom, size_of = (
                np.array([0, bound - slope, exact, 0]),
                np.array([bound, slope, angle, exact]),
            )
            axis.bar(np.arange(4), size_of, bottom=bottom, color=colours, width=0.75)
            for x, (low, high, value) in enumerate(
                zip(bottom, bottom + size_of, size_of, strict=True)
            ):
                text, spot = f"{'−' if x in (1, 2) else ''}{value:.3f}", (x, max(low, high))
                axis.annotate(text, spot, (0, 2), "data", "offset points", ha="center", fontsize=8)
            axis.set_xticks(
                np.arange(4), STEPS, fontsize=7, rotation=35, ha="right", rotation_mode="anchor"
            )
            axis.set_title(f"k = {cluster.k}", loc="left")
            axis.set_ylim(0, top * 1.15)
            axis.grid(visible=False, axis="x")
            if index % columns == 0:
                axis.set_ylabel("error / baseline")
        return drawn.figure


def _even_moments(study: Study) -> Values | None:
    series = [(cluster, moments_of(cluster.scheme, DRAWN)) for cluster in study.once(rule_clusters)]
    even_moments = [
        {"cluster": cluster, "size": x.size[x.order > 0], "order": x.order[x.order > 0]}
        for cluster, x in series
    ]
    return {"order": 2 * DRAWN + 2, "moments": even_moments} if even_moments else None


@figure(values=_even_moments)
def moments(study: Study, ax: Target = None) -> "Figure":
    """Draw |μ_n|/2π of each cluster on a logarithmic axis.

    The line 1/√n is what random phases would give.
    """
    clusters = _rules(study)
    with canvas(ax, (6.8, 3.4)) as drawn:
        (axis,) = drawn.axes
        shift = np.linspace(-0.55, 0.55, len(clusters)) if len(clusters) > 1 else np.zeros(1)
        for cluster, moved in zip(clusters, shift, strict=True):
            series = moments_of(cluster.scheme, DRAWN)
            keep = series.order > 0
            colour = frequency_colour(cluster.k, study.once(keys_of))
            size = np.maximum(series.size[keep], FLOOR)
            axis.vlines(series.order[keep] + moved, FLOOR, size, color=colour, lw=0.8, alpha=0.5)
            axis.plot(
                series.order[keep] + moved, size, "o", ms=4, color=colour, label=f"k = {cluster.k}"
            )
            axis.axhline(cluster.neurons**-0.5, color=CONCEPT_COLOURS["bound"], lw=0.9, ls="--")
        axis.set(
            yscale="log",
            xlabel="order n of the moment",
            ylabel=r"$|\sum w_i\, e^{in\varphi_i}|\,/\,2\pi$",
        )
        smallest = min(float(moments_of(cluster.scheme, DRAWN).size.max()) for cluster in clusters)
        axis.set_ylim(max(FLOOR, min(1e-4, smallest / 10)), 1.6)
        axis.legend(ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
        return drawn.figure
