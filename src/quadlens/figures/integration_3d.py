"""The MLP as integration over φ, in three dimensions (figure `3D`)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from quadlens.figures.integrated_relu import draw_on
from quadlens.figures.picture import Picture, at_most
from quadlens.figures.style import frequency_colour, style
from quadlens.quadrature import Scheme
from quadlens.studies import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "3D"
# Neurons drawn as lines on the surfaces; all of them would hide it.
LINES = 24


def draw(scheme: Scheme, keys: tuple[int, ...]) -> "Figure":
    """cos(s+φ) after ReLU; times cos 2φ; times sin 2φ; and the sums along φ."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8.2, 6.6))
        phi, s = np.meshgrid(np.linspace(-np.pi, np.pi, 61), np.linspace(0, 2 * np.pi, 61))
        chosen = np.sort(np.angle(np.exp(1j * scheme.phi)))[:: max(1, scheme.n // LINES)]
        line = np.linspace(0, 2 * np.pi, 61)
        panels: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
            ("ReLU[cos(s+φ)]", np.ones_like),
            ("× cos 2φ", lambda x: np.cos(2 * x)),
            ("× sin 2φ", lambda x: np.sin(2 * x)),
        )
        for place, (title, factor) in enumerate(panels, start=1):
            axis = figure.add_subplot(2, 2, place, projection="3d")
            z = np.maximum(np.cos(s + phi), 0) * factor(phi)
            axis.plot_surface(phi, s, z, cmap="cividis", rstride=2, cstride=2, lw=0, alpha=0.75, rasterized=True)
            for one in chosen:
                height = np.maximum(np.cos(line + one), 0) * factor(np.array(one))
                axis.plot(
                    np.full_like(line, one),
                    line,
                    height,
                    color=frequency_colour(scheme.k, keys),
                    lw=0.7,
                    rasterized=True,
                )
            axis.set(xlabel="φ", ylabel="s", title=title, zlim=(-1, 1))
            axis.set_xticks([-np.pi, 0, np.pi], ["−π", "0", "π"])
            axis.set_yticks([0, np.pi, 2 * np.pi], ["0", "π", "2π"])
            axis.set_zticks([-1, 0, 1])
            axis.view_init(elev=32, azim=-58)
        axis = figure.add_subplot(2, 2, 4)
        draw_on(axis, scheme, frequency_colour(scheme.k, keys))
        axis.set_title("∫ dφ: this model's sums")
        return figure


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, for the first cluster that is a quadrature rule."""
    if not results.clusters:
        return ()
    cluster = results.clusters[0]
    finding = (
        f"Frequency {cluster.k}: each neuron is a slice at its phase φ of the surface ReLU[cos(s+φ)]; weighted by cos "
        f"2φ and sin 2φ and summed over {cluster.neurons} neurons, the slices give (2/3)(cos 2s, −sin 2s) with an "
        f"error of at most {at_most(cluster.exact_psi.relu.upper)}."
    )
    how = (
        "Follow the panels: the activation as a function of the input s and the neuron's phase φ (lines are some of "
        "this model's neurons); the same weighted by cos 2φ and by sin 2φ; and last the sums along φ, one dot an "
        "input."
    )
    title = "The MLP computes logits by numerical integration"
    return (Picture(NAME, NAME, title, finding, how, "data/neurons.csv", lambda: draw(cluster.scheme, results.keys)),)
