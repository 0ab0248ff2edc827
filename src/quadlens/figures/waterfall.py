"""From what the paper could prove down to what is true: where a bound loses (beyond the paper)."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.figures.picture import Picture
from quadlens.figures.style import CONCEPT_COLOURS, QUIET_COLOUR, style
from quadlens.quadrature import ClusterBounds
from quadlens.studies import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "error-waterfall"
STEPS = ("paper's bound", "slope ≤ 2\neverywhere", "ψ apart\nfrom φ", "exact")


def heights(cluster: ClusterBounds) -> tuple[float, float, float, float]:
    """(bound, lost by the Lipschitz bound, lost by the triangle inequality for ψ, exact), relative to the baseline.

    bound = 2·(half-period bound) + angle error; the quadrature part's truth is the exact error with 2φ, and adding the
    angle error to it overstates the exact error with ψ. The last of the losses can be of either sign in principle, so
    the four numbers satisfy bound - lost - lost = exact by construction.
    """
    scale = cluster.baseline.middle
    bound = cluster.rows.total_abs_bound_half.value
    angle = cluster.rows.angle_approximation_error.value
    with_double, exact = cluster.exact.absolute.middle, cluster.exact_psi.absolute.middle
    slope = bound - angle - with_double
    return bound / scale, slope / scale, (angle + with_double - exact) / scale, exact / scale


def draw(clusters: tuple[ClusterBounds, ...]) -> "Figure":
    """One panel a frequency, all on one scale."""
    with style():
        from matplotlib.figure import Figure

        columns = min(3, len(clusters))
        rows = -(-len(clusters) // columns)
        figure = Figure(figsize=(2.7 * columns + 0.7, 2.8 * rows))
        axes = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
        for axis in axes[len(clusters) :]:
            axis.set_visible(False)
        colours = (CONCEPT_COLOURS["bound"], QUIET_COLOUR, QUIET_COLOUR, CONCEPT_COLOURS["exact"])
        for axis, cluster in zip(axes, clusters, strict=False):
            bound, slope, angle, exact = heights(cluster)
            bottom = np.array([0, bound - slope, exact, 0])
            size = np.array([bound, slope, angle, exact])
            axis.bar(np.arange(4), size, bottom=bottom, color=colours, width=0.75)
            for x, (low, high, value) in enumerate(zip(bottom, bottom + size, size, strict=True)):
                sign = "−" if x in (1, 2) else ""
                axis.annotate(
                    f"{sign}{value:.3f}", (x, max(low, high)), (0, 2), "data", "offset points", ha="center", fontsize=8
                )
            axis.set_xticks(np.arange(4), STEPS, fontsize=7, rotation=35, ha="right", rotation_mode="anchor")
            axis.set_title(f"k = {cluster.k}", loc="left")
            axis.grid(visible=False, axis="x")
        for row in range(rows):
            axes[row * columns].set_ylabel("error / baseline")
        top = max(heights(cluster)[0] for cluster in clusters)
        axes[0].set_ylim(0, top * 1.15)
        return figure


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, over all key frequencies that are quadrature rules."""
    clusters = results.clusters
    if not clusters:
        return ()
    parts = []
    for one in clusters:
        bound, slope, angle, exact = heights(one)
        parts.append(f"k = {one.k}: {bound:.3f} − {slope:.3f} − {angle:.3f} = {exact:.3f}")
    finding = (
        "Relative bound of the paper, minus what its two steps lose, is the exact relative error: "
        + "; ".join(parts)
        + "."
    )
    how = (
        "Read from left to right: the paper's linear-time bound; what is lost by assuming the steepest slope "
        "everywhere and letting no errors cancel; what is lost by adding the angle error separately; what is left is "
        "the exact worst case."
    )
    title = "Where the bound loses"
    return (Picture(NAME, None, title, finding, how, "data/bounds.json", lambda: draw(clusters)),)
