"""Histograms of two populations on one axis: the paper's bars, and ours scaled to them."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.analysis.published import Histogram
from quadlens.show.figures.style import CONCEPT_COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_counts(axis: "Axes", paper: Histogram, ours: Histogram) -> None:
    """Bars side by side: the paper's, and ours scaled to their total."""
    scaled = ours.count * paper.total / max(ours.total, 1.0)
    axis.bar(
        paper.middles - 0.2,
        paper.count,
        width=0.4,
        color=CONCEPT_COLOURS["paper"],
        label="the paper's",
    )
    axis.bar(
        ours.middles + 0.2, scaled, width=0.4, color=CONCEPT_COLOURS["ours"], label="ours, scaled"
    )
    axis.locator_params(axis="x", integer=True)
    axis.grid(visible=False, axis="x")


def draw_histogram(
    axis: "Axes", paper: Histogram, ours: Histogram, counted: float | None = None
) -> None:
    """The paper's bars, and ours over them as a line.

    Args:
        axis: Where.
        paper: Its histogram.
        ours: Ours, drawn with the same area: bins of another width and another number of models
            still compare.
        counted: All that ours counts, where some of it lies outside the bins.
    """
    width, colour = np.diff(paper.edges), CONCEPT_COLOURS["paper"]
    axis.bar(
        paper.edges[:-1], paper.count, width=width, align="edge", color=colour, label="the paper's"
    )
    total = ours.total if counted is None else counted
    if total > 0:
        height = ours.count / total * paper.total * paper.width / ours.width
        axis.stairs(
            height, ours.edges, color=CONCEPT_COLOURS["ours"], lw=1.6, label="ours (same area)"
        )
