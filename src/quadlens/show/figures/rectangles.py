"""A cluster as rectangles under a curve.

Figures of the rule itself, of the error that the paper's bound allows, and of overlaps and gaps.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from quadlens.analysis.quadrature.of_study import rule_clusters
from quadlens.analysis.quadrature.paper_bounds import Rectangles, box_density, rectangles
from quadlens.analysis.spectrum.of_study import keys_of
from quadlens.network.study import Study
from quadlens.show.figures.canvas import Target, angle_axis, boxes, canvas, shapes
from quadlens.show.figures.picture import Values, figure
from quadlens.show.figures.rules import CLUSTER, cluster_of
from quadlens.show.figures.style import CONCEPT_COLOURS, frequency_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def _layouts(study: Study) -> list[Values]:
    """Return captions' values of every cluster, over the whole circle and folded.

    They are the rectangles' area, the integral, and the band's area.
    """
    layouts: list[Values] = []
    for cluster in study.once(rule_clusters):
        for half in (False, True):
            rows = cluster.rows
            band_area = (
                rows.numerical_abs_bound_half if half else rows.numerical_abs_bound_full
            ).value
            areas = {
                "area": area_of(rectangles(cluster.scheme, half)),
                "integral": integral(half),
                "bound": band_area,
            }
            layouts.append({"k": cluster.k, "half": half, "cluster": cluster, **areas})
    return layouts


@figure(values=_layouts, k=CLUSTER, half="Fold the phases to half a period.")
def quadrature(
    study: Study, k: int | None = None, half: bool = False, ax: Target = None
) -> "Figure":
    """Draw the neurons of one cluster as rectangles under the curve whose area they add up to.

    Rectangle i has width w_i and height h(φ_i); the curve is h(φ) = |cos φ| cos 2φ.
    """
    scheme = cluster_of(study, k).scheme
    with canvas(ax, (7.2, 3.1)) as drawn:
        (axis,) = drawn.axes
        layout = rectangles(scheme, half)
        _draw_rectangles(axis, layout, frequency_colour(scheme.k, study.once(keys_of)))
        title = (
            f"k = {scheme.k}: area of {scheme.n} rectangles {area_of(layout):.4f}, integral "
            f"{integral(half):.4f}"
        )
        axis.set_title(title, loc="left")
        axis.legend(loc="lower left", bbox_to_anchor=(0, -0.03), ncols=3)
        axis.set_ylim(-0.72, 1.08)
        return drawn.figure


def _draw_rectangles(axis: "Axes", layout: Rectangles, colour: str) -> None:
    """Draw the rectangles slid by θ, so that each lies over its phase.

    The curve lies over them, with a dot where each is evaluated.
    """
    edges, heights = layout.edges + layout.shift, h(layout.phi)
    look: dict[str, Any] = {
        "fc": colour,
        "alpha": 0.45,
        "ec": colour,
        "lw": 0.4,
        "label": "width w, height h(φ)",
    }
    boxes(axis, (edges[:-1], edges[1:]), (np.zeros_like(heights), heights), **look)
    fine = np.linspace(min(edges[0], layout.phi[0]), max(edges[-1], layout.phi[-1]), 721)
    axis.plot(fine, h(fine), color=CONCEPT_COLOURS["truth"], lw=1.2, label="h(φ) = |cos φ| cos 2φ")
    axis.plot(layout.phi, heights, ".", ms=3, color=colour, label="neurons")
    axis.set(xlabel="φ", ylabel="h(φ)", xlim=(fine[0] - 0.05, fine[-1] + 0.05))
    angle_axis(axis, fine[0] - 0.05, fine[-1] + 0.05)


@figure(values=_layouts, k=CLUSTER, half="Fold the phases to half a period.")
def error_band(
    study: Study, k: int | None = None, half: bool = False, ax: Target = None
) -> "Figure":
    """Draw the rectangles of one cluster, the curve, and the paper's band.

    The band is what the paper's bound allows both.
    """
    scheme = cluster_of(study, k).scheme
    with canvas(ax, (7.2, 3.4)) as drawn:
        (axis,) = drawn.axes
        layout = rectangles(scheme, half)
        _draw_rectangles(axis, layout, frequency_colour(scheme.k, study.once(keys_of)))
        region = band(layout)
        shapes(
            axis,
            region,
            fc=CONCEPT_COLOURS["bound"],
            alpha=0.6,
            ec="none",
            label="bound ±2|x - φ|",
            zorder=2.5,
        )
        low, high = float(region[:, :, 1].min()), float(region[:, :, 1].max())
        axis.set_ylim(min(-0.7, low) - 0.25, max(1.05, high) + 0.05)
        axis.set_title(
            f"k = {scheme.k}: what the Lipschitz bound allows{', half period' if half else ''}",
            loc="left",
        )
        axis.legend(loc="lower center", ncols=4, fontsize=8)
        return drawn.figure


def band(layout: Rectangles) -> Float[np.ndarray, "n 6 2"]:
    """Return for each rectangle the region |y - h(φ_i)| ≤ 2|x - φ_i|.

    It is two trapezia that meet at φ_i if φ_i lies inside.
    """
    left, right = layout.edges[:-1] + layout.shift, layout.edges[1:] + layout.shift
    phi, height = layout.phi, h(layout.phi)
    waist = np.clip(phi, left, right)
    x = np.stack([left, waist, right, right, waist, left], axis=1)
    reach = LIPSCHITZ * np.abs(x - phi[:, None])
    y = height[:, None] + reach * np.array([1, 1, 1, -1, -1, -1])
    return np.stack([x, y], axis=2)


def _first_boxes(study: Study) -> list[Values]:
    return [
        {"cluster": cluster, "density": box_density(cluster.scheme)}
        for cluster in study.once(rule_clusters)[:1]
    ]


@figure("Two axes", values=_first_boxes, k=CLUSTER)
def overlap(study: Study, k: int | None = None, ax: Target = None) -> "Figure":
    """Draw boxes centred at their phases, darker where they overlap.

    The panel below counts how many lie over each angle.
    """
    scheme = cluster_of(study, k).scheme
    with canvas(ax, (7.2, 4.4), 2, columns=1, sharex=True, height_ratios=(3, 1.4)) as drawn:
        top, bottom = drawn.axes
        colour, w = frequency_colour(scheme.k, study.once(keys_of)), scheme.w
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
