"""Over many models: variance explained, bounds, phases (figures `freqstrengthmul`, `uoutstrengthmul`, `nibound`, …)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from quadlens.figures.picture import Picture, percent
from quadlens.figures.population_counts import note
from quadlens.figures.style import CONCEPT_COLOURS, style
from quadlens.studies import Results
from quadlens.studies.published import Histogram

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "population-histograms"


@dataclass(frozen=True)
class Shown:
    """One histogram of the paper's appendix on other seeds.

    Attributes:
        label: The paper's figure.
        key: Its name in published.json.
        title: A few words.
        across: The horizontal axis.
        counted: What one unit of height is.
        threshold: Where the share below or above is worth saying.
        above: Whether the share above counts, or below.
    """

    label: str
    key: str
    title: str
    across: str
    counted: str
    threshold: float
    above: bool


HISTOGRAMS = (
    Shown(
        "freqstrengthmul",
        "relu_input_variance_explained",
        "Variance of the pre-activation at one frequency",
        "share of pre-activation variance at k_in",
        "neurons",
        0.9,
        above=True,
    ),
    Shown(
        "uoutstrengthmul",
        "neuron_logit_map_variance_explained_good_models",
        "Variance of W_L at one frequency, good models",
        "share of W_L's variance at k_out",
        "neurons",
        0.98,
        above=True,
    ),
    Shown(
        "nibound",
        "normalised_abs_integral_bound",
        "Bounds over models and frequencies",
        "normalised bound of the absolute part",
        "(model, k) pairs",
        0.6,
        above=False,
    ),
    Shown(
        "primsecr2",
        "primary_vs_secondary_phase_r2",
        "Phase of the secondary frequency against 2φ + π",
        "R² of 2φ + π",
        "(model, k) pairs",
        0.9,
        above=True,
    ),
)


def share_beyond(histogram: Histogram, threshold: float, above: bool) -> float:
    """Share of what is counted above (below) a threshold, a bin that it cuts in proportion."""
    low, high = histogram.edges[:-1], histogram.edges[1:]
    over = np.clip((high - threshold) / (high - low), 0, 1)
    share = float((histogram.count * over).sum() / histogram.total)
    return share if above else 1 - share


def draw(shown: Shown, paper: Histogram, ours: Histogram | None, mark: float | None) -> "Figure":
    """The paper's bars; ours over them as a line, scaled to the paper's total; this model as a dashed line."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.2, 2.9))
        axis = figure.subplots()
        width, colour = np.diff(paper.edges), CONCEPT_COLOURS["paper"]
        axis.bar(paper.edges[:-1], paper.count, width=width, align="edge", color=colour, label="the paper's")
        if ours is not None and ours.total > 0:
            # Equal areas: bins of another width and another number of models still compare.
            height = ours.count / ours.total * paper.total * paper.width / ours.width
            axis.stairs(height, ours.edges, color=CONCEPT_COLOURS["ours"], lw=1.6, label="ours (same area)")
        if mark is not None:
            axis.axvline(mark, color=CONCEPT_COLOURS["truth"], lw=1.3, ls="--", label="this model")
        axis.set(xlabel=shown.across, ylabel=shown.counted)
        axis.legend(loc="best", fontsize=8)
        return figure


def pictures(results: Results) -> tuple[Picture, ...]:
    """Four, whatever the model."""
    bars = ((shown, results.published.population.histogram(shown.key)) for shown in HISTOGRAMS)
    return tuple(_picture(results, shown, paper) for shown, paper in bars if paper is not None)


def _picture(results: Results, shown: Shown, paper: Histogram) -> Picture:
    ours = results.population.histogram(shown.key) if results.population else None
    mark = this_model(results, shown.label)
    where = f"{'above' if shown.above else 'below'} {shown.threshold:g}"
    share = percent(share_beyond(paper, shown.threshold, shown.above), 0)
    finding = f"In the paper {share} of {shown.counted} lie {where}."
    if ours is not None:
        finding += f" In ours {percent(share_beyond(ours, shown.threshold, shown.above), 0)} do."
    if mark is not None:
        finding += f" This model's median is {mark:.4g}."
    dashed = " The dashed line is this model's median." if mark is not None else ""
    total = note(shown.counted, paper.total, results.population)
    return Picture(
        name=shown.label,
        label=shown.label,
        title=shown.title,
        finding=finding,
        how_to_read=f"Bars count {shown.counted} by {shown.across}.{dashed} {total}",
        data="data/population.json",
        draw=lambda: draw(shown, paper, ours, mark),
    )


def this_model(results: Results, label: str) -> float | None:
    """This model's own value (median over neurons or clusters), None where it has none."""
    explanation = results.explanation
    alive = ~explanation.roles.dead
    values = {
        "freqstrengthmul": explanation.roles.variance_input[alive],
        "uoutstrengthmul": explanation.roles.variance_output[alive],
        "nibound": np.array([one.rows.total_abs_bound_half.value for one in results.clusters]),
        "primsecr2": np.array([one.phase_r2 for one in explanation.cluster_doubling if one.phase_r2 is not None]),
    }[label]
    return float(np.median(values)) if len(values) else None
