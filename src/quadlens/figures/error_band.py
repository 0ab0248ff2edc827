"""The rectangles with the error the paper's bound allows each of them (figures `error:k:-`, `error:k:-half-`)."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from quadlens.figures.marks import shapes
from quadlens.figures.picture import Picture, at_most
from quadlens.figures.quadrature import DATA, draw_rectangles, h
from quadlens.figures.style import CONCEPT_COLOURS, frequency_colour, style
from quadlens.quadrature import ClusterBounds, Rectangles, Scheme, rectangles
from quadlens.studies import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "error"
# |h'| ≤ 2: the band is h(φ_i) ± 2|x - φ_i|.
LIPSCHITZ = 2.0


def band(layout: Rectangles) -> Float[np.ndarray, "n 6 2"]:
    """For each rectangle the region |y - h(φ_i)| ≤ 2|x - φ_i|: two trapezia that meet at φ_i if it lies inside."""
    left, right = layout.edges[:-1] + layout.shift, layout.edges[1:] + layout.shift
    phi, height = layout.phi, h(layout.phi)
    waist = np.clip(phi, left, right)
    x = np.stack([left, waist, right, right, waist, left], axis=1)
    reach = LIPSCHITZ * np.abs(x - phi[:, None])
    y = height[:, None] + reach * np.array([1, 1, 1, -1, -1, -1])
    return np.stack([x, y], axis=2)


def draw(scheme: Scheme, keys: tuple[int, ...], half: bool = False) -> "Figure":
    """The rectangles, the curve, and the band that holds both."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2, 3.4))
        axis = figure.subplots()
        layout = rectangles(scheme, half)
        draw_rectangles(axis, layout, frequency_colour(scheme.k, keys))
        region = band(layout)
        shapes(axis, region, fc=CONCEPT_COLOURS["bound"], alpha=0.6, ec="none", label="bound ±2|x - φ|", zorder=2.5)
        low, high = float(region[:, :, 1].min()), float(region[:, :, 1].max())
        axis.set_ylim(min(-0.7, low) - 0.25, max(1.05, high) + 0.05)
        axis.set_title(f"k = {scheme.k}: what the Lipschitz bound allows{', half period' if half else ''}", loc="left")
        axis.legend(loc="lower center", ncols=4, fontsize=8)
        return figure


def pictures(results: Results) -> tuple[Picture, ...]:
    """Two a frequency."""
    return tuple(_picture(results, cluster, half) for cluster in results.clusters for half in (False, True))


def _picture(results: Results, cluster: ClusterBounds, half: bool) -> Picture:
    k, rows = cluster.k, cluster.rows
    bound = rows.numerical_abs_bound_half.value if half else rows.numerical_abs_bound_full.value
    finding = (
        f"The orange band of frequency {k} has area {at_most(bound, 3)}: no input can have a larger quadrature error"
        f"{' over half a period' if half else ''}. The true worst case over the whole circle is "
        f"{cluster.exact.absolute.middle:.4f}."
    )
    how = (
        "The curve's slope is at most 2, so under each rectangle it stays within ±2|x - φ| of the rectangle's "
        "height: the orange band. Both curve and rectangles lie inside it, so its area bounds the error for every "
        "input at once."
    )
    infix = "half-" if half else ""
    label = f"error:{k}:-half-" if half else f"error:{k}:-"
    title = f"The error band of frequency {k}" + (", half period" if half else "")
    name = f"quadrature-{infix}{k}-with-error"
    return Picture(name, label, title, finding, how, DATA, lambda: draw(cluster.scheme, results.keys, half))
