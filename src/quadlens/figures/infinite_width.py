"""Finitely many neurons are a sum; in the limit of many, an integral (figure `infinite-width`)."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.figures.marks import angle_axis
from quadlens.figures.picture import Picture
from quadlens.figures.style import CONCEPT_COLOURS, frequency_colour, style
from quadlens.quadrature import Scheme
from quadlens.studies import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "infinite-width"


def integrand(phi: np.ndarray) -> np.ndarray:
    """ReLU(cos φ) cos 2φ: one neuron's part for a + b = c = 0."""
    value: np.ndarray = np.maximum(np.cos(phi), 0) * np.cos(2 * phi)
    return value


def draw(scheme: Scheme, keys: tuple[int, ...]) -> "Figure":
    """Left one stem a neuron, as thick as its weight; right the curve they stand on and the area under it."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2, 3.2))
        left, right = figure.subplots(1, 2, sharey=True)
        phi, w = np.angle(np.exp(1j * scheme.phi)), scheme.w
        colour = frequency_colour(scheme.k, keys)
        left.vlines(phi, 0, integrand(phi), color=colour, lw=0.9, alpha=0.8)
        left.scatter(phi, integrand(phi), s=120 * w / w.max() * min(1.0, 40 / scheme.n), color=colour, zorder=3)
        fine = np.linspace(-np.pi, np.pi, 721)
        right.fill_between(fine, integrand(fine), color=colour, alpha=0.35, lw=0)
        right.plot(fine, integrand(fine), color=CONCEPT_COLOURS["truth"], lw=1.3)
        total = float((w * integrand(scheme.phi)).sum())
        left.set_title(f"{scheme.n} neurons: Σ w·f(φ) = {total:.3f}", loc="left")
        right.set_title("infinitely many: ∫ f dφ = 2/3", loc="left")
        left.set_ylabel("f(φ) = ReLU(cos φ) cos 2φ")
        for axis in (left, right):
            axis.set(xlabel="φ", xlim=(-np.pi, np.pi))
            angle_axis(axis)
        return figure


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, for the first cluster that is a quadrature rule."""
    if not results.clusters:
        return ()
    scheme = results.clusters[0].scheme
    total = float((scheme.w * integrand(scheme.phi)).sum())
    finding = (
        f"For a + b = c = 0 the {scheme.n} neurons of frequency {scheme.k} add up to {total:.3f}; "
        "infinitely many, evenly spread, would give 2/3 = 0.667."
    )
    how = (
        "Left: each stem is a neuron at its phase φ; the dot's area is its weight w. Right: as neurons fill the circle "
        "the sum of stems becomes the area under the curve."
    )
    title = "From a sum over neurons to an integral"
    return (Picture(NAME, NAME, title, finding, how, "data/neurons.csv", lambda: draw(scheme, results.keys)),)
