"""The exact quadrature error at every a + b, beside what can be bounded (beyond the paper)."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from quadlens.figures.picture import Picture, at_most
from quadlens.figures.style import CONCEPT_COLOURS, QUIET_COLOUR, frequency_colour, style
from quadlens.quadrature import ClusterBounds, Scheme
from quadlens.quadrature.grid import grid_errors
from quadlens.studies import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "exact-error"


def errors(scheme: Scheme) -> Float[np.ndarray, " p"]:
    """|E| for a + b = 0 … p-1, output phases as the model has them, worst over c."""
    modulus = np.abs(grid_errors(scheme, with_psi=True).absolute)
    common = scheme.p // scheme.q
    # s = kw(a+b)/2 is j·π/q with j = (k/gcd)(a+b) modulo q.
    return modulus[(scheme.k // common) * np.arange(scheme.p) % scheme.q]


def draw(clusters: tuple[ClusterBounds, ...], keys: tuple[int, ...]) -> "Figure":
    """One panel a frequency: stems the exact errors, lines the bounds and the size of the integral."""
    with style():
        from matplotlib.figure import Figure

        columns = 3 if len(clusters) in (3, 5, 6) else min(2, len(clusters))
        rows = -(-len(clusters) // columns)
        figure = Figure(figsize=(2.6 * columns + 1.4, 2.5 * rows + 0.6))
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
        for axis in axes[len(clusters) :]:
            axis.set_visible(False)
        for index, (axis, cluster) in enumerate(zip(axes, clusters, strict=False)):
            values = np.maximum(errors(cluster.scheme), 1e-6)
            axis.plot(
                np.arange(len(values)),
                values,
                ".-",
                ms=4,
                lw=0.6,
                color=frequency_colour(cluster.k, keys),
                label="exact error",
            )
            lines = (
                (cluster.exact_psi.absolute.upper, CONCEPT_COLOURS["exact"], "-", "exact worst case"),
                (
                    cluster.moment_bound_psi.value,
                    CONCEPT_COLOURS["bound"],
                    ":",
                    f"moment bound (M = {cluster.moments})",
                ),
                (cluster.rows.total_abs_bound_half.value, CONCEPT_COLOURS["bound"], "--", "the paper's bound"),
                (cluster.baseline.middle, QUIET_COLOUR, "-", "mean size of the integral"),
            )
            for value, colour, dash, name in lines:
                axis.axhline(value, color=colour, ls=dash, lw=1.5, label=name)
            top = max(2.0, 1.5 * max(value for value, *_ in lines))
            axis.set(yscale="log", ylim=(1e-4 if values.max() > 1e-4 else 1e-6, top))
            axis.locator_params(axis="x", integer=True)
            axis.set_title(f"k = {cluster.k}", loc="left")
            if index % columns == 0:
                axis.set_ylabel("error of the absolute part")
            if index >= len(clusters) - columns:
                axis.set_xlabel("a + b mod p")
                axis.tick_params(labelbottom=True)
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=3, fontsize=8)
        return figure


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, over all key frequencies that are quadrature rules."""
    clusters = results.clusters
    if not clusters:
        return ()
    parts = [
        f"k = {one.k}: {at_most(one.exact_psi.absolute.upper)} exact, {at_most(one.moment_bound_psi.value, 3)} by "
        f"moments, {at_most(one.rows.total_abs_bound_half.value, 3)} by the paper's bound"
        for one in clusters
    ]
    finding = (
        f"Worst error over all a, b, c against an integral of mean size {clusters[0].baseline.middle:.3f}: "
        + "; ".join(parts)
        + "."
    )
    how = (
        "Each dot is the error for one value of a + b, at the worst c, with nothing neglected; note the logarithmic "
        "axis. The dashed line is what the paper could prove in linear time, the dotted one what a few moments "
        "prove, the green line the exact worst case, found in quasi-linear time."
    )
    title = "How large the error is: bounded and exact"
    return (Picture(NAME, None, title, finding, how, "data/exact_errors.csv", lambda: draw(clusters, results.keys)),)
