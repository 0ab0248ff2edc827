"""The paper's population, bar by bar, with ours beside it where there is one (eight figures of the paper)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from quadlens.figures.picture import Picture, percent
from quadlens.figures.published import Histogram, PopulationSummary
from quadlens.figures.results import Results
from quadlens.figures.style import CONCEPT_COLOURS, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "population"


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
        claim: What the threshold means.
    """

    label: str
    key: str
    title: str
    across: str
    counted: str
    threshold: float
    above: bool
    claim: str


HISTOGRAMS = (
    Shown("residual", "residual_attention_variance_over_logits", "Residual stream's share of the logits",
          "variance of the skip connection / variance of logits", "models", 0.03, False, "below 3 %"),
    Shown("freqstrengthmul", "relu_input_variance_explained", "Variance of the pre-activation at one frequency",
          "share of pre-activation variance at k_in", "neurons", 0.9, True, "above 90 %"),
    Shown("uoutstrengthmul", "neuron_logit_map_variance_explained_good_models", "Variance of W_L at one frequency, good models",
          "share of W_L's variance at k_out", "neurons", 0.98, True, "above 98 %"),
    Shown("nibound", "normalised_abs_integral_bound", "Bounds over models and frequencies",
          "normalised bound of the absolute part", "(model, k) pairs", 0.6, False, "below 0.6"),
    Shown("primsecr2", "primary_vs_secondary_phase_r2", "Phase of the secondary frequency against 2φ + π",
          "R² of 2φ + π", "(model, k) pairs", 0.9, True, "above 0.9"),
)  # fmt: skip


def share_beyond(histogram: Histogram, threshold: float, above: bool) -> float:
    """Share of what is counted above (below) a threshold, a bin that it cuts in proportion."""
    low, high = histogram.edges[:-1], histogram.edges[1:]
    over = np.clip((high - threshold) / (high - low), 0, 1)
    share = float((histogram.count * over).sum() / histogram.total)
    return share if above else 1 - share


def draw_histogram(shown: Shown, paper: Histogram, ours: Histogram | None, mark: float | None) -> "Figure":
    """The paper's bars; ours over them as a line, scaled to the paper's total; this model as a mark."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.2, 2.9))
        axis = figure.subplots()
        width = np.diff(paper.edges)
        axis.bar(
            paper.edges[:-1],
            paper.count,
            width=width,
            align="edge",
            color=CONCEPT_COLOURS["paper"],
            label="the paper's",
        )
        if ours is not None and ours.total > 0:
            # Equal areas: bins of another width and another number of models still compare.
            height = ours.count / ours.total * paper.total * paper.width / ours.width
            axis.stairs(height, ours.edges, color=CONCEPT_COLOURS["ours"], lw=1.6, label="ours (same area)")
        _mark(axis, mark)
        axis.set(xlabel=shown.across, ylabel=shown.counted)
        axis.legend(loc="best", fontsize=8)
        return figure


def draw_counts(
    paper: tuple[tuple[int, float], ...],
    ours: tuple[tuple[int, float], ...] | None,
    mark: float | None,
    names: tuple[str, str],
) -> "Figure":
    """Bars side by side for integers; ours scaled to the paper's total."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.2, 2.9))
        axis = figure.subplots()
        x, y = (np.array(column, dtype=float) for column in zip(*paper, strict=True))
        beside = ours is not None
        axis.bar(x - 0.2 * beside, y, width=0.4 if beside else 0.7, color=CONCEPT_COLOURS["paper"], label="the paper's")
        if ours is not None:
            u, v = (np.array(column, dtype=float) for column in zip(*ours, strict=True))
            axis.bar(
                u + 0.2, v * y.sum() / max(v.sum(), 1), width=0.4, color=CONCEPT_COLOURS["ours"], label="ours, scaled"
            )
        _mark(axis, mark)
        axis.set(xlabel=names[0], ylabel=names[1])
        axis.locator_params(axis="x", integer=True)
        axis.legend(loc="best", fontsize=8)
        axis.grid(visible=False, axis="x")
        return figure


def _mark(axis: "Axes", mark: float | None) -> None:
    if mark is not None:
        axis.axvline(mark, color=CONCEPT_COLOURS["truth"], lw=1.3, ls="--", label="this model")


def pictures(results: Results) -> tuple[Picture, ...]:
    """Seven: two counts and five histograms."""
    paper, ours = results.published.population, results.population
    many = [
        _count_picture(
            "nfreqcountmul", "Number of key frequencies", paper.key_counts, ours.key_counts if ours else None,
            float(len(results.keys)), ("key frequencies of a model", "models"), _note(paper, ours),
        ),
        _count_picture(
            "freqcountmul", "Frequencies used", _numbered(paper.neurons_per_frequency),
            _numbered(ours.neurons_per_frequency) if ours else None, None, ("frequency k", "neurons"), _note(paper, ours),
        ),
    ]  # fmt: skip
    for shown in HISTOGRAMS:
        bars = paper.histogram(shown.key)
        if bars is not None:
            many.append(_histogram_picture(results, shown, bars))
    return tuple(many)


def _numbered(counts: tuple[int, ...]) -> tuple[tuple[int, float], ...]:
    return tuple((k, float(count)) for k, count in enumerate(counts, start=1))


def _note(paper: PopulationSummary, ours: PopulationSummary | None) -> str:
    mine = f"ours are {ours.models} models" if ours else "our own population has not been summarised yet"
    return f"The paper's bars count {paper.models} models; {mine}."


def _count_picture(
    label: str,
    title: str,
    paper: tuple[tuple[int, float], ...],
    ours: tuple[tuple[int, float], ...] | None,
    mark: float | None,
    names: tuple[str, str],
    note: str,
) -> Picture:
    most = max(paper, key=lambda pair: pair[1])
    finding = f"In the paper the most common value is {most[0]} ({most[1]:,.0f} {names[1]})."
    if mark is not None:
        finding += f" This model has {mark:.0f}."
    if ours:
        finding += f" In ours it is {max(ours, key=lambda pair: pair[1])[0]}."
    draw: Callable[[], Figure] = lambda: draw_counts(paper, ours, mark, names)  # noqa: E731
    how = f"Bars count {names[1]} by {names[0]}. The dashed line, where there is one, is this model. {note}"
    return Picture(label, label, title, finding, how, "data/population.json", draw)


def _histogram_picture(results: Results, shown: Shown, bars: Histogram) -> Picture:
    ours = results.population.histogram(shown.key) if results.population else None
    mark = _this_model(results, shown.label)
    finding = f"In the paper {percent(share_beyond(bars, shown.threshold, shown.above), 0)} of {shown.counted} lie {shown.claim}."
    if ours is not None:
        finding += f" In ours {percent(share_beyond(ours, shown.threshold, shown.above), 0)} do."
    if mark is not None:
        finding += f" This model's median is {mark:.4g}."
    note = _note(results.published.population, results.population)
    how = f"Bars count {shown.counted} by {shown.across}. The dashed line, where there is one, is this model's median. {note}"
    return Picture(
        shown.label, shown.label, shown.title, finding, how, "data/population.json",
        lambda: draw_histogram(shown, bars, ours, mark),
    )  # fmt: skip


def _this_model(results: Results, label: str) -> float | None:
    """This model's own value (median over neurons or clusters), None where it has none."""
    explanation = results.explanation
    alive = ~explanation.roles.dead
    if label == "residual":
        return explanation.logits.skip_share if explanation.logits else None
    values = {
        "freqstrengthmul": explanation.roles.variance_input[alive],
        "uoutstrengthmul": explanation.roles.variance_output[alive],
        "nibound": np.array([one.rows.total_abs_bound_half.value for one in results.clusters]),
        "primsecr2": np.array([one.phase_r2 for one in explanation.cluster_doubling if one.phase_r2 is not None]),
    }[label]
    return float(np.median(values)) if len(values) else None
