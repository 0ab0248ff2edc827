"""How many models have how many key frequencies, ours beside the paper's."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.figures.style import CONCEPT_COLOURS, style
from quadlens.population.comparison import KeyCounts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "population-key-frequencies"


def draw(counts: KeyCounts) -> "Figure":
    """Shares of models, with Wilson's intervals on ours (figure `nfreqcountmul`)."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure()
        axis = figure.subplots()
        kinds = sorted({*counts.ours, *counts.paper})
        places = np.arange(len(kinds))
        n, m = sum(counts.ours.values()), sum(counts.paper.values())
        ours = np.array([counts.ours.get(k, 0) / n for k in kinds])
        paper = np.array([counts.paper.get(k, 0) / m for k in kinds])
        ends = np.array([counts.intervals[k] for k in kinds]) / n
        axis.bar(places - 0.2, paper, 0.4, color=CONCEPT_COLOURS["paper"], label=f"paper, {m} models")
        axis.bar(places + 0.2, ours, 0.4, color=CONCEPT_COLOURS["validation"], label=f"ours, {n} models")
        errors = np.maximum([ours - ends[:, 0], ends[:, 1] - ours], 0)
        axis.errorbar(places + 0.2, ours, errors, fmt="none", ecolor=CONCEPT_COLOURS["truth"], capsize=3, lw=1)
        axis.set(
            xticks=places,
            xticklabels=[str(k) for k in kinds],
            xlabel="number of key frequencies",
            ylabel="share of models",
            title="Key frequencies of a model",
        )
        axis.legend()
        return figure
