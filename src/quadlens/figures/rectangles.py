"""A cluster as rectangles under a curve: the rule itself, the error the paper's bound allows, overlaps and gaps."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from quadlens.figures.canvas import Target, angle_axis, boxes, canvas, shapes
from quadlens.figures.picture import CLUSTER, Family, Words, cluster_of, figure
from quadlens.figures.style import CONCEPT_COLOURS, frequency_colour
from quadlens.numbers import at_most, percent
from quadlens.quadrature import ClusterBounds, Rectangles, box_density, rectangles
from quadlens.studies import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DATA = "data/rectangles.csv"
# |h'| ≤ 2: the band is h(φ_i) ± 2|x - φ_i|.
LIPSCHITZ = 2.0


def h(phi: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """|cos φ| cos 2φ, the integrand at a + b = c = 0."""
    value: np.ndarray = np.abs(np.cos(phi)) * np.cos(2 * phi)
    return value


def area_of(layout: Rectangles) -> float:
    """Σ width · height."""
    return float((np.diff(layout.edges) * h(layout.phi)).sum())


def integral(half: bool) -> float:
    """∫ h over the period drawn: 4/3, half of it over half a period."""
    return 2 / 3 if half else 4 / 3


@figure(k=CLUSTER, half="Fold the phases to half a period.")
def quadrature(study: Study, k: int | None = None, half: bool = False, ax: Target = None) -> "Figure":
    """Draw the neurons of one cluster as rectangles under the curve whose area they add up to.

    Rectangle i has width w_i and height h(φ_i); the curve is h(φ) = |cos φ| cos 2φ.
    """
    scheme = cluster_of(study, k).scheme
    with canvas(ax, (7.2, 3.1)) as drawn:
        (axis,) = drawn.axes
        layout = rectangles(scheme, half)
        _draw_rectangles(axis, layout, frequency_colour(scheme.k, study.keys))
        title = f"k = {scheme.k}: area of {scheme.n} rectangles {area_of(layout):.4f}, integral {integral(half):.4f}"
        axis.set_title(title, loc="left")
        axis.legend(loc="lower left", bbox_to_anchor=(0, -0.03), ncols=3)
        axis.set_ylim(-0.72, 1.08)
        return drawn.figure


def _draw_rectangles(axis: "Axes", layout: Rectangles, colour: str) -> None:
    """The rectangles slid by θ, so that each lies over its phase; the curve; a dot where each is evaluated."""
    edges, heights = layout.edges + layout.shift, h(layout.phi)
    look: dict[str, Any] = {"fc": colour, "alpha": 0.45, "ec": colour, "lw": 0.4, "label": "width w, height h(φ)"}
    boxes(axis, (edges[:-1], edges[1:]), (np.zeros_like(heights), heights), **look)
    fine = np.linspace(min(edges[0], layout.phi[0]), max(edges[-1], layout.phi[-1]), 721)
    axis.plot(fine, h(fine), color=CONCEPT_COLOURS["truth"], lw=1.2, label="h(φ) = |cos φ| cos 2φ")
    axis.plot(layout.phi, heights, ".", ms=3, color=colour, label="neurons")
    axis.set(xlabel="φ", ylabel="h(φ)", xlim=(fine[0] - 0.05, fine[-1] + 0.05))
    angle_axis(axis, fine[0] - 0.05, fine[-1] + 0.05)


@figure(k=CLUSTER, half="Fold the phases to half a period.")
def error_band(study: Study, k: int | None = None, half: bool = False, ax: Target = None) -> "Figure":
    """Draw the rectangles of one cluster, the curve, and the band that the paper's bound allows both."""
    scheme = cluster_of(study, k).scheme
    with canvas(ax, (7.2, 3.4)) as drawn:
        (axis,) = drawn.axes
        layout = rectangles(scheme, half)
        _draw_rectangles(axis, layout, frequency_colour(scheme.k, study.keys))
        region = band(layout)
        shapes(axis, region, fc=CONCEPT_COLOURS["bound"], alpha=0.6, ec="none", label="bound ±2|x - φ|", zorder=2.5)
        low, high = float(region[:, :, 1].min()), float(region[:, :, 1].max())
        axis.set_ylim(min(-0.7, low) - 0.25, max(1.05, high) + 0.05)
        axis.set_title(f"k = {scheme.k}: what the Lipschitz bound allows{', half period' if half else ''}", loc="left")
        axis.legend(loc="lower center", ncols=4, fontsize=8)
        return drawn.figure


def band(layout: Rectangles) -> Float[np.ndarray, "n 6 2"]:
    """For each rectangle the region |y - h(φ_i)| ≤ 2|x - φ_i|: two trapezia that meet at φ_i if it lies inside."""
    left, right = layout.edges[:-1] + layout.shift, layout.edges[1:] + layout.shift
    phi, height = layout.phi, h(layout.phi)
    waist = np.clip(phi, left, right)
    x = np.stack([left, waist, right, right, waist, left], axis=1)
    reach = LIPSCHITZ * np.abs(x - phi[:, None])
    y = height[:, None] + reach * np.array([1, 1, 1, -1, -1, -1])
    return np.stack([x, y], axis=2)


@figure("Two axes", k=CLUSTER)
def overlap(study: Study, k: int | None = None, ax: Target = None) -> "Figure":
    """Draw boxes centred at their phases, darker where they overlap; below, how many lie over each angle."""
    scheme = cluster_of(study, k).scheme
    with canvas(ax, (7.2, 4.4), 2, columns=1, sharex=True, height_ratios=(3, 1.4)) as drawn:
        top, bottom = drawn.axes
        colour, w = frequency_colour(scheme.k, study.keys), scheme.w
        phi = np.angle(np.exp(1j * scheme.phi))
        # Boxes that reach over the seam at ±π are drawn on both sides of it.
        for turn in (-2 * np.pi, 0.0, 2 * np.pi):
            inside = (phi + turn - w / 2 < np.pi) & (phi + turn + w / 2 > -np.pi)
            for centre, reach in zip(phi[inside] + turn, w[inside] / 2, strict=True):
                ends = np.array([centre - reach]), np.array([centre + reach])
                levels = np.zeros(1), h(np.array([centre]))
                boxes(top, ends, levels, fc=colour, ec="none", alpha=0.35, rasterized=True)
        fine = np.linspace(-np.pi, np.pi, 721)
        top.plot(fine, h(fine), color=CONCEPT_COLOURS["truth"], lw=1.2)
        top.set(ylabel="h(φ)", xlim=(-np.pi, np.pi), ylim=(-0.35, 1.05))
        top.set_title(f"k = {scheme.k}: boxes centred at φ, darker where they overlap", loc="left")
        density = box_density(scheme)
        bottom.stairs(density.count, density.edges, color=colour, fill=True, alpha=0.5)
        bottom.axhline(1, color=CONCEPT_COLOURS["truth"], lw=0.9)
        bottom.set(xlabel="φ", ylabel="boxes", xlim=(-np.pi, np.pi), ylim=(0, None))
        bottom.locator_params(axis="y", integer=True, nbins=4)
        angle_axis(bottom)
        return drawn.figure


def _per_cluster(study: Study) -> tuple[tuple[ClusterBounds, bool], ...]:
    return tuple((cluster, half) for cluster in study.clusters for half in (False, True))


def _quadrature_words(cluster: ClusterBounds, half: bool) -> Words:
    k, scheme = cluster.k, cluster.scheme
    area, whole = area_of(rectangles(scheme, half)), integral(half)
    span = "half a period (phases folded modulo π)" if half else "the whole circle"
    return Words(
        name=f"quadrature-half-{k}" if half else f"quadrature-{k}",
        label=f"quadrature:{k}:-half-" if half else f"quadrature:{k}:-",
        title=f"Frequency {k} as rectangles under a curve" + (", half period" if half else ""),
        finding=f"The {scheme.n} rectangles of frequency {k} over {span} have area {area:.4f}; the integral is "
        f"{whole:.4f}, so at a + b = c = 0 the error is {abs(area - whole):.4f}.",
        how_to_read="Each neuron is one rectangle: as wide as its weight w = ρω (scaled to 2π in all), as high as the "
        "curve at its phase φ. The sum over neurons is the rectangles' area; the integral is the black curve's."
        + (" Folding by half a turn puts twice as many neurons under each stretch of the curve." if half else ""),
        data=DATA,
        options={"k": k, "half": half},
    )


def _band_words(cluster: ClusterBounds, half: bool) -> Words:
    k, rows = cluster.k, cluster.rows
    bound = rows.numerical_abs_bound_half.value if half else rows.numerical_abs_bound_full.value
    return Words(
        name=f"quadrature-{'half-' if half else ''}{k}-with-error",
        label=f"error:{k}:-half-" if half else f"error:{k}:-",
        title=f"The error band of frequency {k}" + (", half period" if half else ""),
        finding=f"The orange band of frequency {k} has area {at_most(bound, 3)}: no input can have a larger "
        f"quadrature error{' over half a period' if half else ''}. The true worst case over the whole circle, with 2φ "
        f"in place of ψ, is at most {at_most(cluster.exact.absolute.upper)}.",
        how_to_read="The curve's slope is at most 2, so under each rectangle it stays within ±2|x - φ| of the "
        "rectangle's height: the orange band. Both curve and rectangles lie inside it, so its area bounds the error "
        "for every input at once.",
        data=DATA,
        options={"k": k, "half": half},
    )


def _overlap_words(study: Study) -> Words | None:
    if not study.clusters:
        return None
    first = study.clusters[0]
    scheme, density = first.scheme, box_density(first.scheme)
    return Words(
        title=f"Overlap of the boxes of frequency {scheme.k}",
        finding=f"Boxes of frequency {scheme.k} leave {percent(density.uncovered)} of the circle uncovered and pile "
        f"up to {int(density.count.max())} deep; on average the density is {density.mean_deviation:.2f} away from 1. "
        f"The exact error of its absolute part is at most {at_most(first.relative_exact_psi.upper, 4)} of the "
        f"integral's mean size, the paper's bound {at_most(first.relative_bound.value, 3)}.",
        how_to_read="Each box is as wide as its neuron's weight and centred at its phase. Where boxes overlap the "
        "curve is counted more than once, in gaps not at all. Where neighbouring surpluses and gaps cancel, the exact "
        "error is smaller than the bound, which lets nothing cancel.",
        data=DATA,
    )


QUADRATURE = Family(
    "quadrature",
    quadrature,
    lambda study: tuple(_quadrature_words(*one) for one in _per_cluster(study)),
    ("quadrature-K", "quadrature-half-K", "quadrature:K:-", "quadrature:K:-half-"),
    in_paper=True,
)
ERROR_BAND = Family(
    "error",
    error_band,
    lambda study: tuple(_band_words(*one) for one in _per_cluster(study)),
    ("quadrature-K-with-error", "quadrature-half-K-with-error", "error:K:-", "error:K:-half-"),
    in_paper=True,
)
OVERLAP = Family("overlap", overlap, _overlap_words, in_paper=True)
