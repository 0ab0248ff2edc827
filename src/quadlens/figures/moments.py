"""Why a cluster is a good rule: its moments nearly vanish (beyond the paper)."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.figures.picture import Picture
from quadlens.figures.style import CONCEPT_COLOURS, frequency_colour, style
from quadlens.quadrature import ClusterBounds, moments
from quadlens.studies import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "moments"
DRAWN = 12
# Smaller is rounding.
FLOOR = 1e-9


def draw(clusters: tuple[ClusterBounds, ...], keys: tuple[int, ...]) -> "Figure":
    """|μ_n|/2π on a logarithmic axis, one marker a frequency; 1/√n is what random phases would give."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.8, 3.4))
        axis = figure.subplots()
        shift = np.linspace(-0.55, 0.55, len(clusters)) if len(clusters) > 1 else np.zeros(1)
        for cluster, moved in zip(clusters, shift, strict=True):
            found = moments(cluster.scheme, DRAWN)
            keep = found.order > 0
            colour = frequency_colour(cluster.k, keys)
            size = np.maximum(found.size[keep], FLOOR)
            axis.vlines(found.order[keep] + moved, FLOOR, size, color=colour, lw=0.8, alpha=0.5)
            axis.plot(found.order[keep] + moved, size, "o", ms=4, color=colour, label=f"k = {cluster.k}")
            axis.axhline(cluster.neurons**-0.5, color=CONCEPT_COLOURS["bound"], lw=0.9, ls="--")
        axis.set(yscale="log", xlabel="order n of the moment", ylabel=r"$|\sum w_i\, e^{in\varphi_i}|\,/\,2\pi$")
        smallest = min(float(moments(one.scheme, DRAWN).size.max()) for one in clusters)
        axis.set_ylim(max(FLOOR, min(1e-4, smallest / 10)), 1.6)
        axis.legend(ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
        return figure


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, over all key frequencies that are quadrature rules."""
    clusters = results.clusters
    if not clusters:
        return ()
    parts = []
    for one in clusters:
        found = moments(one.scheme, DRAWN)
        keep = found.order > 0
        worst = int(found.size[keep].argmax())
        parts.append(
            f"k = {one.k}: {found.size[keep][0]:.4f} at order 2, {found.size[keep][1]:.4f} at order 4, largest "
            f"{found.size[keep][worst]:.3f} at order {int(found.order[keep][worst])} (random phases: about "
            f"{one.neurons**-0.5:.3f})"
        )
    finding = f"Even moments up to order {2 * DRAWN + 2} of each cluster: " + "; ".join(parts) + "."
    how = (
        "The error of a rule is a sum of its even moments, those of low order weighing most; a perfect rule has "
        "none. Dashed: the size 1/√n that n randomly thrown phases would have. Low orders far below it are why the "
        "rule is good."
    )
    title = "Why a rule is good or bad: its moments"
    return (Picture(NAME, None, title, finding, how, "data/moments.csv", lambda: draw(clusters, results.keys)),)
