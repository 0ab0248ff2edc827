"""What the sum over a cluster's neurons stands for.

Figures of the integral in the limit, for every a + b, and in space.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from quadlens.analysis.quadrature.analysis import ClusterBounds
from quadlens.analysis.quadrature.of_study import rule_clusters
from quadlens.analysis.quadrature.rules import error_of
from quadlens.analysis.quadrature.scheme import Scheme
from quadlens.analysis.spectrum.of_study import keys_of
from quadlens.network.study import Study
from quadlens.show.figures.canvas import Target, angle_axis, canvas
from quadlens.show.figures.picture import Values, figure
from quadlens.show.figures.rules import CLUSTER, cluster_of
from quadlens.show.figures.style import CONCEPT_COLOURS, frequency_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Neurons drawn as lines on the surfaces; all of them would hide it.
LINES = 24


def integrand(phi: np.ndarray) -> np.ndarray:
    """ReLU(cos φ) cos 2φ: one neuron's part for a + b = c = 0."""
    value: np.ndarray = np.maximum(np.cos(phi), 0) * np.cos(2 * phi)
    return value


def _relu_clusters(study: Study) -> tuple[ClusterBounds, ...]:
    """Clusters whose sums are of ReLU: an |x| model has rules too, but not these sums."""
    return study.once(rule_clusters) if study.config.activation == "relu" else ()


def _first_sum(study: Study) -> Values | None:
    clusters = _relu_clusters(study)
    return (
        {"scheme": clusters[0].scheme, "total": _sum_at_zero(clusters[0].scheme)}
        if clusters
        else None
    )


def _errors(study: Study) -> list[Values]:
    """Each cluster with the worst error of its sums."""
    with_errors = [
        (cluster, error_of(cluster, study.config.activation)) for cluster in _relu_clusters(study)
    ]
    return [{"k": cluster.k, "cluster": cluster, "error": error} for cluster, error in with_errors]


@figure("Two axes", values=_first_sum, k=CLUSTER)
def infinite_width(study: Study, k: int | None = None, ax: Target = None) -> "Figure":
    """Draw the sum over one cluster's neurons as stems, beside its integral.

    The integral is the sum over infinitely many neurons.
    """
    scheme = cluster_of(study, k).scheme
    with canvas(ax, (7.2, 3.2), 2, sharey=True) as drawn:
        left, right = drawn.axes
        phi, w = np.angle(np.exp(1j * scheme.phi)), scheme.w
        colour = frequency_colour(scheme.k, study.once(keys_of))
        left.vlines(phi, 0, integrand(phi), color=colour, lw=0.9, alpha=0.8)
        left.scatter(
            phi,
            integrand(phi),
            s=120 * w / w.max() * min(1.0, 40 / scheme.n),
            color=colour,
            zorder=3,
        )
        fine = np.linspace(-np.pi, np.pi, 721)
        right.fill_between(fine, integrand(fine), color=colour, alpha=0.35, lw=0)
        right.plot(fine, integrand(fine), color=CONCEPT_COLOURS["truth"], lw=1.3)
        left.set_title(f"{scheme.n} neurons: Σ w·f(φ) = {_sum_at_zero(scheme):.3f}", loc="left")
        right.set_title("infinitely many: ∫ f dφ = 2/3", loc="left")
        left.set_ylabel("f(φ) = ReLU(cos φ) cos 2φ")
        for axis in drawn.axes:
            axis.set(xlabel="φ", xlim=(-np.pi, np.pi))
            angle_axis(axis)
        return drawn.figure


def _sum_at_zero(scheme: Scheme) -> float:
    return float((scheme.w * integrand(scheme.phi)).sum())


def sums(
    scheme: Scheme, s: Float[np.ndarray, " m"]
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Σ w_i ReLU(cos(s+φ_i)) cos ψ_i and the same with sin ψ_i."""
    active = np.maximum(np.cos(s[:, None] + scheme.phi), 0) * scheme.w
    return active @ np.cos(scheme.psi), active @ np.sin(scheme.psi)


@figure(values=_errors, k=CLUSTER)
def integrated_relu(study: Study, k: int | None = None, ax: Target = None) -> "Figure":
    """Draw what one cluster puts out for every a + b.

    Dots are the sums over neurons, lines the integrals.
    """
    scheme = cluster_of(study, k).scheme
    with canvas(ax, (6.4, 3.2)) as drawn:
        _draw_sums(drawn.axes[0], scheme, frequency_colour(scheme.k, study.once(keys_of)))
        return drawn.figure


def _draw_sums(axis: "Axes", scheme: Scheme, colour: str) -> None:
    """Return values against s = k w (a+b)/2, folded to one turn.

    The integrals are (2/3) cos 2s and -(2/3) sin 2s.
    """
    s = np.sort(np.pi * scheme.k * np.arange(scheme.p) / scheme.p % (2 * np.pi))
    fine = np.linspace(0, 2 * np.pi, 361)
    cosines, sines = sums(scheme, s)
    for values, line, name, dash, filled in (
        (cosines, 2 / 3 * np.cos(2 * fine), "cos", "-", colour),
        (sines, -2 / 3 * np.sin(2 * fine), "sin", "--", "white"),
    ):
        axis.plot(fine, line, dash, color=colour, lw=1, label=f"integral, {name}")
        axis.plot(s, values, "o", ms=3.5, color=colour, mfc=filled, label=f"Σ over neurons, {name}")
    # A poor rule's sums leave the integral's range; above them is room for the legend.
    every = np.concatenate([cosines, sines])
    axis.set(xlabel="s = k w (a+b)/2 mod 2π", ylabel="after the MLP", xlim=(0, 2 * np.pi))
    axis.set_ylim(min(-0.8, float(every.min()) - 0.1), max(1.15, float(every.max()) + 0.45))
    axis.set_xticks([0, np.pi, 2 * np.pi], ["0", "π", "2π"])
    axis.legend(ncols=2, loc="upper center", fontsize=8)


@figure(
    "Four axes, the first three with projection='3d'",
    values=lambda study: _errors(study)[:1],
    k=CLUSTER,
)
def integration_3d(study: Study, k: int | None = None, ax: Target = None) -> "Figure":
    """Draw the MLP as integration over φ.

    Panels show cos(s+φ) after ReLU, its products with cos 2φ and sin 2φ, and the sums along φ.
    """
    scheme = cluster_of(study, k).scheme
    colour = frequency_colour(scheme.k, study.once(keys_of))
    with canvas(ax, (8.2, 6.6), 4, columns=2, projections=("3d", "3d", "3d", None)) as drawn:
        phi, s = np.meshgrid(np.linspace(-np.pi, np.pi, 61), np.linspace(0, 2 * np.pi, 61))
        chosen = np.sort(np.angle(np.exp(1j * scheme.phi)))[:: max(1, scheme.n // LINES)]
        line = np.linspace(0, 2 * np.pi, 61)
        panels: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
            ("ReLU[cos(s+φ)]", np.ones_like),
            ("× cos 2φ", lambda x: np.cos(2 * x)),
            ("× sin 2φ", lambda x: np.sin(2 * x)),
        )
        space: Any
        for space, (title, factor) in zip(drawn.axes, panels, strict=False):
            z = np.maximum(np.cos(s + phi), 0) * factor(phi)
            space.plot_surface(
                phi, s, z, cmap="cividis", rstride=2, cstride=2, lw=0, alpha=0.75, rasterized=True
            )
            for angle in chosen:
                height = np.maximum(np.cos(line + angle), 0) * factor(np.array(angle))
                space.plot(
                    np.full_like(line, angle), line, height, color=colour, lw=0.7, rasterized=True
                )
            space.set(xlabel="φ", ylabel="s", title=title, zlim=(-1, 1))
            space.set_xticks([-np.pi, 0, np.pi], ["−π", "0", "π"])
            space.set_yticks([0, np.pi, 2 * np.pi], ["0", "π", "2π"])
            space.set_zticks([-1, 0, 1])
            space.view_init(elev=32, azim=-58)
        _draw_sums(drawn.axes[3], scheme, colour)
        drawn.axes[3].set_title("∫ dφ: this model's sums")
        return drawn.figure
