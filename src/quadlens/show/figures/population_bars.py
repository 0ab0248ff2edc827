"""Figures over many models, with this model beside the paper's bars.

They count key frequencies, and show variance explained, bounds and phases.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from quadlens.analysis.explanation.of_study import explanation_of
from quadlens.analysis.published import Histogram, read_population, read_published
from quadlens.analysis.quadrature.of_study import rule_clusters
from quadlens.analysis.spectrum.of_study import keys_of
from quadlens.base.errors import BadConfig
from quadlens.network.study import Study
from quadlens.show.figures.bars import draw_counts, draw_histogram
from quadlens.show.figures.canvas import Target, canvas
from quadlens.show.figures.picture import Values, figure
from quadlens.show.figures.style import CONCEPT_COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class PopulationFigure:
    """One histogram of the paper's appendix on other seeds.

    Attributes:
        key: Its name in published.json.
        title: A few words.
        across: The horizontal axis.
        counted: What one unit of height is.
        threshold: Where the share above or below is worth saying; None for whole numbers, of which
            the commonest is.
        above: Whether the share above counts, or below.
    """

    key: str
    title: str
    across: str
    counted: str
    threshold: float | None = None
    above: bool = True


# By the paper's label.
COUNT_FIGURES = {
    "nfreqcountmul": PopulationFigure(
        "number_of_key_frequencies",
        "Number of key frequencies",
        "key frequencies of a model",
        "models",
    ),
    "freqcountmul": PopulationFigure(
        "neurons_per_frequency_1_to_29", "Frequencies used", "frequency k", "neurons"
    ),
}
HISTOGRAM_FIGURES = {
    "freqstrengthmul": PopulationFigure(
        "relu_input_variance_explained",
        "Variance of the pre-activation at one frequency",
        "share of pre-activation variance at k_in",
        "neurons",
        0.9,
    ),
    "uoutstrengthmul": PopulationFigure(
        "neuron_logit_map_variance_explained_good_models",
        "Variance of W_L at one frequency, good models",
        "share of W_L's variance at k_out",
        "neurons",
        0.98,
    ),
    "nibound": PopulationFigure(
        "normalised_abs_integral_bound",
        "Bounds over models and frequencies",
        "normalised bound of the absolute part",
        "(model, k) pairs",
        0.6,
        above=False,
    ),
    "primsecr2": PopulationFigure(
        "primary_vs_secondary_phase_r2",
        "Phase of the secondary frequency against 2φ + π",
        "R² of 2φ + π",
        "(model, k) pairs",
        0.9,
    ),
}


def _bars(study: Study, figures: dict[str, PopulationFigure]) -> list[Values]:
    """Of each figure the paper's bars and ours, and this model's own value."""
    paper, ours = read_published().population, read_population()
    return [
        {
            "label": label,
            "kind": kind,
            "paper": paper.histogram(kind.key),
            "ours": ours.histogram(kind.key),
            "mark": this_model(study, label),
            "models": ours.models,
            "share": partial(share_beyond, threshold=kind.threshold or 0.0, above=kind.above),
        }
        for label, kind in figures.items()
    ]


@figure(
    values=lambda study: _bars(study, COUNT_FIGURES),
    label=(
        "The paper's figure: nfreqcountmul (key frequencies per model) or freqcountmul (neurons "
        "per frequency)."
    ),
)
def population_counts(study: Study, label: str = "nfreqcountmul", ax: Target = None) -> "Figure":
    """Draw the paper's counts over many models.

    Ours stand beside them, scaled to the paper's total; this model is a dashed line.
    """
    return _draw(study, COUNT_FIGURES, label, ax)


@figure(
    values=lambda study: _bars(study, HISTOGRAM_FIGURES),
    label="The paper's figure: freqstrengthmul, uoutstrengthmul, nibound or primsecr2.",
)
def population_histograms(
    study: Study, label: str = "freqstrengthmul", ax: Target = None
) -> "Figure":
    """Draw a histogram of the paper's population.

    Ours lies over it with the same area; this model's median is dashed.
    """
    return _draw(study, HISTOGRAM_FIGURES, label, ax)


def _draw(study: Study, figures: dict[str, PopulationFigure], label: str, ax: Target) -> "Figure":
    if label not in figures:
        raise BadConfig(f"label {label!r}; expected one of {', '.join(figures)}")
    kind, mark = figures[label], this_model(study, label)
    with canvas(ax, (5.2, 2.9)) as drawn:
        (axis,) = drawn.axes
        draw = draw_counts if kind.threshold is None else draw_histogram
        draw(
            axis,
            read_published().population.histogram(kind.key),
            read_population().histogram(kind.key),
        )
        if mark is not None:
            axis.axvline(mark, color=CONCEPT_COLOURS["truth"], lw=1.3, ls="--", label="this model")
        axis.set(xlabel=kind.across, ylabel=kind.counted)
        axis.legend(loc="best", fontsize=8)
        return drawn.figure


def share_beyond(histogram: Histogram, threshold: float, above: bool) -> float:
    """Share of what is counted above (below) a threshold, a bin that it cuts in proportion."""
    low, high = histogram.edges[:-1], histogram.edges[1:]
    over = np.clip((high - threshold) / (high - low), 0, 1)
    share = float((histogram.count * over).sum() / histogram.total)
    return share if above else 1 - share


def this_model(study: Study, label: str) -> float | None:
    """This model's own value (of neurons or clusters the median), None where it has none."""
    if label in COUNT_FIGURES:
        return float(len(study.once(keys_of))) if label == "nfreqcountmul" else None
    explanation = study.once(explanation_of)
    alive = ~explanation.roles.dead
    values = {
        "freqstrengthmul": explanation.roles.variance_input[alive],
        "uoutstrengthmul": explanation.roles.variance_output[alive],
        "nibound": np.array(
            [cluster.rows.total_abs_bound_half.value for cluster in study.once(rule_clusters)]
        ),
        "primsecr2": np.array(
            [
                doubling.phase_r2
                for doubling in explanation.cluster_doubling
                if doubling.phase_r2 is not None
            ]
        ),
    }[label]
    return float(np.median(values)) if len(values) else None
