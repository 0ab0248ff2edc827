"""A histogram of the paper's population with ours over it."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.figures.style import CONCEPT_COLOURS, style
from quadlens.population.histograms import HistogramComparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Past this share in the largest bin the others would vanish on a linear axis.
LOGARITHMIC_SHARE = 0.5


def name_of(histogram: HistogramComparison) -> str:
    """The figure's file name."""
    return f"population-{histogram.name.replace('_', '-')}"


def draw(histogram: HistogramComparison) -> "Figure":
    """Shares in the paper's bins: theirs filled, ours as a line; what of ours lies outside is said in the legend."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure()
        axis = figure.subplots()
        paper = histogram.paper / histogram.paper.sum()
        total = max(float(histogram.ours.sum()), 1.0)
        ours = histogram.ours[1:-1] / total
        outside = (histogram.ours[0] + histogram.ours[-1]) / total
        label = f"ours, {histogram.models} models" + (f" ({outside:.1%} outside these bins)" if outside else "")
        axis.stairs(paper, histogram.edges, fill=True, color=CONCEPT_COLOURS["paper"], label="paper")
        axis.stairs(ours, histogram.edges, color=CONCEPT_COLOURS["validation"], lw=1.8, label=label)
        if max(paper.max(), ours.max()) > LOGARITHMIC_SHARE:
            axis.set_yscale("log")
            axis.set_ylim(bottom=float(min(np.min(paper[paper > 0]), 1e-3)) / 2)
        axis.set(xlabel=histogram.words, ylabel="share", title=f"{histogram.verdict}: {histogram.why}")
        axis.title.set_fontsize(9)
        axis.legend()
        return figure
