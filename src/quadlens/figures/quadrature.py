"""A cluster as rectangles under a curve, over a full and half a period (figures `quadrature:k:-`, `…:-half-`)."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from quadlens.figures.marks import angle_axis, boxes
from quadlens.figures.picture import Picture
from quadlens.figures.style import CONCEPT_COLOURS, frequency_colour, style
from quadlens.quadrature import ClusterBounds, Rectangles, Scheme, rectangles
from quadlens.studies import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "quadrature"
DATA = "data/rectangles.csv"


def h(phi: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """|cos φ| cos 2φ, the integrand at a + b = c = 0."""
    value: np.ndarray = np.abs(np.cos(phi)) * np.cos(2 * phi)
    return value


def draw(scheme: Scheme, keys: tuple[int, ...], half: bool = False) -> "Figure":
    """Rectangle i has width w_i and height h(φ_i); the curve is h."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2, 3.1))
        axis = figure.subplots()
        layout = rectangles(scheme, half)
        draw_rectangles(axis, layout, frequency_colour(scheme.k, keys))
        area = area_of(layout)
        axis.set_title(
            f"k = {scheme.k}: area of {scheme.n} rectangles {area:.4f}, integral {integral(half):.4f}", loc="left"
        )
        axis.legend(loc="lower left", bbox_to_anchor=(0, -0.03), ncols=3)
        axis.set_ylim(-0.72, 1.08)
        return figure


def draw_rectangles(axis: "Axes", layout: Rectangles, colour: str) -> None:
    """The rectangles slid by θ, so that each lies over its phase; the curve; a dot where each is evaluated."""
    edges, heights = layout.edges + layout.shift, h(layout.phi)
    boxes(
        axis,
        (edges[:-1], edges[1:]),
        (np.zeros_like(heights), heights),
        fc=colour,
        alpha=0.45,
        ec=colour,
        lw=0.4,
        label="width w, height h(φ)",
    )
    fine = np.linspace(min(edges[0], layout.phi[0]), max(edges[-1], layout.phi[-1]), 721)
    axis.plot(fine, h(fine), color=CONCEPT_COLOURS["truth"], lw=1.2, label="h(φ) = |cos φ| cos 2φ")
    axis.plot(layout.phi, heights, ".", ms=3, color=colour, label="neurons")
    axis.set(xlabel="φ", ylabel="h(φ)", xlim=(fine[0] - 0.05, fine[-1] + 0.05))
    angle_axis(axis, fine[0] - 0.05, fine[-1] + 0.05)


def area_of(layout: Rectangles) -> float:
    """Σ width · height."""
    return float((np.diff(layout.edges) * h(layout.phi)).sum())


def integral(half: bool) -> float:
    """∫ h over the period drawn: 4/3, half of it over half a period."""
    return 2 / 3 if half else 4 / 3


def pictures(results: Results) -> tuple[Picture, ...]:
    """Two a frequency."""
    return tuple(_picture(results, cluster, half) for cluster in results.clusters for half in (False, True))


def _picture(results: Results, cluster: ClusterBounds, half: bool) -> Picture:
    k, scheme = cluster.k, cluster.scheme
    area, whole = area_of(rectangles(scheme, half)), integral(half)
    span = "half a period (phases folded modulo π)" if half else "the whole circle"
    finding = (
        f"The {scheme.n} rectangles of frequency {k} over {span} have area {area:.4f}; the integral is {whole:.4f}, "
        f"so at a + b = c = 0 the error is {abs(area - whole):.4f}."
    )
    how = (
        "Each neuron is one rectangle: as wide as its weight w = ρω (scaled to 2π in all), as high as the curve at its "
        "phase φ. The MLP adds up the rectangles' areas; the black curve's area is what it stands for."
        + (" Folding by half a turn puts twice as many neurons under each stretch of the curve." if half else "")
    )
    name, label = (
        (f"quadrature-half-{k}", f"quadrature:{k}:-half-") if half else (f"quadrature-{k}", f"quadrature:{k}:-")
    )
    title = f"Frequency {k} as rectangles under a curve" + (", half period" if half else "")
    return Picture(name, label, title, finding, how, DATA, lambda: draw(scheme, results.keys, half))
