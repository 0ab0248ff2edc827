"""What a cluster puts out for every a + b: sum over neurons against integral (the paper's `integrated-relu-k`)."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from quadlens.figures.picture import Picture, at_most
from quadlens.figures.style import frequency_colour, style
from quadlens.quadrature import ClusterBounds, Scheme
from quadlens.studies import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "integrated-relu"


def sums(scheme: Scheme, s: Float[np.ndarray, " m"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Σ w_i ReLU(cos(s+φ_i)) cos ψ_i and the same with sin ψ_i."""
    active = np.maximum(np.cos(s[:, None] + scheme.phi), 0) * scheme.w
    return active @ np.cos(scheme.psi), active @ np.sin(scheme.psi)


def draw(scheme: Scheme, keys: tuple[int, ...]) -> "Figure":
    """Dots the p sums the model has, lines the integrals (2/3) cos 2s and -(2/3) sin 2s."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 3.2))
        draw_on(figure.subplots(), scheme, frequency_colour(scheme.k, keys))
        return figure


def draw_on(axis: "Axes", scheme: Scheme, colour: str) -> None:
    """The same on a given axis: values against s = k w (a+b)/2, folded to one turn."""
    s = np.sort(np.pi * scheme.k * np.arange(scheme.p) / scheme.p % (2 * np.pi))
    fine = np.linspace(0, 2 * np.pi, 361)
    cosines, sines = sums(scheme, s)
    for values, line, name, dash, filled in (
        (cosines, 2 / 3 * np.cos(2 * fine), "cos", "-", colour),
        (sines, -2 / 3 * np.sin(2 * fine), "sin", "--", "white"),
    ):
        axis.plot(fine, line, dash, color=colour, lw=1, label=f"integral, {name}")
        axis.plot(s, values, "o", ms=3.5, color=colour, mfc=filled, label=f"Σ over neurons, {name}")
    axis.set(xlabel="s = k w (a+b)/2 mod 2π", ylabel="after the MLP", xlim=(0, 2 * np.pi), ylim=(-0.8, 1.15))
    axis.set_xticks([0, np.pi, 2 * np.pi], ["0", "π", "2π"])
    axis.legend(ncols=2, loc="upper center", fontsize=8)


def pictures(results: Results) -> tuple[Picture, ...]:
    """One a frequency."""
    return tuple(_picture(results, cluster) for cluster in results.clusters)


def _picture(results: Results, cluster: ClusterBounds) -> Picture:
    k = cluster.k
    finding = (
        f"For every a + b the neurons of frequency {k} put out (2/3)(cos 2s, −sin 2s) with an error of at most "
        f"{at_most(cluster.exact_psi.relu.upper)}: the frequency has been doubled."
    )
    how = (
        "Dots are the sums Σ w·ReLU(cos(s+φ))·(cos ψ, sin ψ) for the p values of a + b; lines are the integrals they "
        "stand for. Two periods of output over one period of s: the angle is doubled."
    )
    title = f"What frequency {k} computes"
    return Picture(
        f"integrated-relu-{k}",
        f"integrated-relu-{k}",
        title,
        finding,
        how,
        "data/exact_errors.csv",
        lambda: draw(cluster.scheme, results.keys),
    )
