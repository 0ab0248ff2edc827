"""Boxes centred at their phases: where they overlap and where they leave gaps (figure `overlap`)."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.figures.marks import angle_axis, boxes
from quadlens.figures.picture import Picture, percent
from quadlens.figures.quadrature import h
from quadlens.figures.style import CONCEPT_COLOURS, frequency_colour, style
from quadlens.quadrature import Scheme, box_density
from quadlens.studies import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "overlap"


def draw(scheme: Scheme, keys: tuple[int, ...]) -> "Figure":
    """Above, boxes of width w_i and height h(φ_i) centred at φ_i, shaded; below, how many lie over each angle."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2, 4.4))
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1.4))
        colour, w = frequency_colour(scheme.k, keys), scheme.w
        phi = np.angle(np.exp(1j * scheme.phi))
        # Boxes that reach over the seam at ±π are drawn on both sides of it.
        for turn in (-2 * np.pi, 0.0, 2 * np.pi):
            inside = (phi + turn - w / 2 < np.pi) & (phi + turn + w / 2 > -np.pi)
            centre, width = phi[inside] + turn, w[inside]
            for one, half in zip(centre, width / 2, strict=True):
                height = h(np.array([one]))
                boxes(
                    top,
                    (np.array([one - half]), np.array([one + half])),
                    (np.zeros(1), height),
                    fc=colour,
                    ec="none",
                    alpha=0.35,
                    rasterized=True,
                )
        fine = np.linspace(-np.pi, np.pi, 721)
        top.plot(fine, h(fine), color=CONCEPT_COLOURS["truth"], lw=1.2)
        top.set(ylabel="h(φ)", xlim=(-np.pi, np.pi), ylim=(-0.35, 1.05))
        top.set_title(f"k = {scheme.k}: boxes centred at φ, darker where they overlap", loc="left")
        density = box_density(scheme)
        bottom.stairs(density.count, density.edges, color=colour, fill=True, alpha=0.5)
        bottom.axhline(1, color=CONCEPT_COLOURS["truth"], lw=0.9)
        bottom.set(xlabel="φ", ylabel="boxes", ylim=(0, None))
        bottom.locator_params(axis="y", integer=True, nbins=4)
        angle_axis(bottom)
        return figure


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, for the first cluster that is a quadrature rule."""
    if not results.clusters:
        return ()
    scheme = results.clusters[0].scheme
    density = box_density(scheme)
    finding = (
        f"Boxes of frequency {scheme.k} leave {percent(density.uncovered)} of the circle uncovered and pile up to "
        f"{int(density.count.max())} deep; on average the density is {density.mean_deviation:.2f} away from 1."
    )
    how = (
        "Each box is as wide as its neuron's weight and centred at its phase. Where boxes overlap the curve is "
        "counted more than once, in gaps not at all. Neighbouring surpluses and gaps cancel: that is why the exact "
        "error is so small."
    )
    title = f"Overlap of the boxes of frequency {scheme.k}"
    return (Picture(NAME, NAME, title, finding, how, "data/rectangles.csv", lambda: draw(scheme, results.keys)),)
