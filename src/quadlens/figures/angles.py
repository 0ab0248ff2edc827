"""Output phase against input phase (figures `angles:k`)."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.figures.marks import angle_axis
from quadlens.figures.picture import Picture, at_least
from quadlens.figures.style import CONCEPT_COLOURS, frequency_colour, style
from quadlens.spectrum import Cluster, ClusterPhases
from quadlens.studies import MAX_FREQUENCIES, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "angles"


def draw(cluster: Cluster, keys: tuple[int, ...]) -> "Figure":
    """A dot a neuron at (φ, ψ), its area the weight; the lines are ψ = 2φ wrapped to the circle."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4.8, 4.6))
        axis = figure.subplots()
        draw_multiple(axis, 2, 0.0)
        phi, psi = (np.angle(np.exp(1j * angle)) for angle in (cluster.phi, cluster.psi))
        weight = cluster.rho * cluster.omega
        size = 8 + 30 * weight / max(float(weight.max()), np.finfo(float).tiny)
        axis.scatter(phi, psi, s=size, color=frequency_colour(cluster.k, keys), alpha=0.7, lw=0, zorder=3)
        axis.plot(phi, np.full(len(phi), -np.pi * 1.06), "|", ms=6, color=frequency_colour(cluster.k, keys), alpha=0.7)
        square(axis)
        axis.set(xlabel="input phase φ", ylabel="output phase ψ", ylim=(-np.pi * 1.12, np.pi * 1.04))
        axis.set_title(f"k = {cluster.k}, {len(phi)} neurons", loc="left")
        return figure


def square(axis: "Axes") -> None:
    """One turn either way, in the same units."""
    axis.set(xlim=(-np.pi * 1.04, np.pi * 1.04), ylim=(-np.pi * 1.04, np.pi * 1.04), aspect="equal")
    angle_axis(axis)
    angle_axis(axis, which="y")


def draw_multiple(axis: "Axes", m: int, offset: float, colour: str | None = None) -> None:
    """The line θ = mφ + offset, cut where it leaves the circle's square."""
    cuts = np.arange(np.ceil((-m * np.pi + offset - np.pi) / (2 * np.pi)), (m * np.pi + offset + np.pi) / (2 * np.pi))
    for turn in cuts:
        ends = np.array([-np.pi, np.pi]) + 2 * np.pi * turn
        phi = np.clip((ends - offset) / m, -np.pi, np.pi)
        if phi[1] - phi[0] > 1e-9:
            line = m * phi + offset - 2 * np.pi * turn
            axis.plot(phi, line, color=colour or CONCEPT_COLOURS["truth"], lw=0.9, zorder=1)


def pictures(results: Results) -> tuple[Picture, ...]:
    """One a key frequency."""
    explanation = results.explanation
    chosen = [cluster.k for cluster in results.clusters] or list(results.keys[:MAX_FREQUENCIES])
    return tuple(
        _picture(results, cluster, phases)
        for cluster, phases in zip(explanation.clusters, explanation.phases, strict=True)
        if cluster.k in chosen
    )


def _picture(results: Results, cluster: Cluster, phases: ClusterPhases) -> Picture:
    k, spacing = cluster.k, phases.spacing
    r2 = "no R² (the phases do not vary)" if phases.r2 is None else f"R² = {at_least(phases.r2, 5)}"
    even = "roughly even" if spacing.roughly_uniform else "uneven"
    finding = (
        f"Output phase against twice the input phase at frequency {k}: {r2}. Gaps between the {len(cluster.phi)} "
        f"phases have mean {spacing.width_mean:.3f} and standard deviation {spacing.width_std:.3f}: {even} by the "
        "paper's test."
    )
    how = (
        "Each dot is a neuron, larger the more it weighs. On the lines ψ = 2φ (cut where the circle is cut) the neuron "
        "writes with exactly twice the phase it reads with. Ticks at the bottom show how evenly φ covers the circle."
    )
    title = f"Phases of frequency {k}"
    return Picture(
        f"angles-{k}", f"angles:{k}", title, finding, how, "data/neurons.csv", lambda: draw(cluster, results.keys)
    )
