"""Over many models: key frequencies, variance explained, bounds and phases, with this model beside the paper's bars."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from quadlens.errors import BadConfig
from quadlens.figures.canvas import Target, canvas
from quadlens.figures.picture import Family, Words, figure
from quadlens.figures.style import CONCEPT_COLOURS
from quadlens.numbers import percent
from quadlens.published import Histogram, PopulationSummary
from quadlens.studies import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Counts = tuple[tuple[int, float], ...]
Shown = TypeVar("Shown")


@dataclass(frozen=True)
class CountFigure:
    """What one figure of whole numbers counts.

    Attributes:
        title: A few words.
        across: The horizontal axis.
        counted: What one unit of height is.
    """

    title: str
    across: str
    counted: str


@dataclass(frozen=True)
class HistogramFigure:
    """One histogram of the paper's appendix on other seeds.

    Attributes:
        key: Its name in published.json.
        title: A few words.
        across: The horizontal axis.
        counted: What one unit of height is.
        threshold: Where the share below or above is worth saying.
        above: Whether the share above counts, or below.
    """

    key: str
    title: str
    across: str
    counted: str
    threshold: float
    above: bool


# By the paper's label.
COUNT_FIGURES = {
    "nfreqcountmul": CountFigure("Number of key frequencies", "key frequencies of a model", "models"),
    "freqcountmul": CountFigure("Frequencies used", "frequency k", "neurons"),
}
HISTOGRAM_FIGURES = {
    "freqstrengthmul": HistogramFigure(
        "relu_input_variance_explained",
        "Variance of the pre-activation at one frequency",
        "share of pre-activation variance at k_in",
        "neurons",
        0.9,
        above=True,
    ),
    "uoutstrengthmul": HistogramFigure(
        "neuron_logit_map_variance_explained_good_models",
        "Variance of W_L at one frequency, good models",
        "share of W_L's variance at k_out",
        "neurons",
        0.98,
        above=True,
    ),
    "nibound": HistogramFigure(
        "normalised_abs_integral_bound",
        "Bounds over models and frequencies",
        "normalised bound of the absolute part",
        "(model, k) pairs",
        0.6,
        above=False,
    ),
    "primsecr2": HistogramFigure(
        "primary_vs_secondary_phase_r2",
        "Phase of the secondary frequency against 2φ + π",
        "R² of 2φ + π",
        "(model, k) pairs",
        0.9,
        above=True,
    ),
}


@figure(label="The paper's figure: nfreqcountmul (key frequencies per model) or freqcountmul (neurons per frequency).")
def population_counts(study: Study, label: str = "nfreqcountmul", ax: Target = None) -> "Figure":
    """Draw the paper's counts over many models, ours beside them scaled to its total, this model as a dashed line."""
    shown = _chosen(COUNT_FIGURES, label)
    paper, ours = _counts(label, study.published.population), _counts(label, study.population)
    with canvas(ax, (5.2, 2.9)) as drawn:
        (axis,) = drawn.axes
        draw_counts(axis, paper or (), ours)
        if label == "nfreqcountmul":
            axis.axvline(len(study.keys), color=CONCEPT_COLOURS["truth"], lw=1.3, ls="--", label="this model")
        axis.set(xlabel=shown.across, ylabel=shown.counted)
        axis.legend(loc="best", fontsize=8)
        return drawn.figure


def draw_counts(axis: "Axes", paper: Counts, ours: Counts | None) -> None:
    """Bars side by side: the paper's, and ours scaled to their total."""
    x, y = _columns(paper)
    beside = 0.2 if ours is not None else 0.0
    axis.bar(x - beside, y, width=0.4 if beside else 0.7, color=CONCEPT_COLOURS["paper"], label="the paper's")
    if ours is not None:
        u, v = _columns(ours)
        scaled = v * y.sum() / max(float(v.sum()), 1.0)
        axis.bar(u + beside, scaled, width=0.4, color=CONCEPT_COLOURS["ours"], label="ours, scaled")
    axis.locator_params(axis="x", integer=True)
    axis.grid(visible=False, axis="x")


def draw_histogram(axis: "Axes", paper: Histogram, ours: Histogram | None, counted: float | None = None) -> None:
    """The paper's bars, and ours over them as a line.

    Args:
        axis: Where.
        paper: Its histogram.
        ours: Ours, drawn with the same area: bins of another width and another number of models still compare.
        counted: All that ours counts, where some of it lies outside the bins.
    """
    width, colour = np.diff(paper.edges), CONCEPT_COLOURS["paper"]
    axis.bar(paper.edges[:-1], paper.count, width=width, align="edge", color=colour, label="the paper's")
    total = counted if counted is not None else ours.total if ours is not None else 0.0
    if ours is not None and total > 0:
        height = ours.count / total * paper.total * paper.width / ours.width
        axis.stairs(height, ours.edges, color=CONCEPT_COLOURS["ours"], lw=1.6, label="ours (same area)")


def _chosen(figures: dict[str, Shown], label: str) -> Shown:
    if label not in figures:
        raise BadConfig(f"label {label!r}; expected one of {', '.join(figures)}")
    return figures[label]


def _counts(label: str, population: PopulationSummary | None) -> Counts | None:
    if population is None:
        return None
    if label == "nfreqcountmul":
        return tuple((number, float(models)) for number, models in population.key_counts)
    return tuple((k, float(count)) for k, count in enumerate(population.neurons_per_frequency, start=1))


def _columns(counts: Counts) -> tuple[np.ndarray, np.ndarray]:
    return np.array([x for x, _ in counts], dtype=float), np.array([y for _, y in counts], dtype=float)


def _note(counted: str, total: float, ours: PopulationSummary | None) -> str:
    """How much was counted, theirs and ours."""
    mine = f"ours come from {ours.models} models" if ours else "our own population has not been summarised yet"
    return f"The paper's bars count {total:,.0f} {counted}; {mine}."


def _count_words(study: Study, label: str, shown: CountFigure) -> Words:
    paper, ours = _counts(label, study.published.population) or (), _counts(label, study.population)
    most = max(paper, key=lambda pair: pair[1])
    has_mark = label == "nfreqcountmul"
    finding = f"In the paper the most common value is {most[0]} ({most[1]:,.0f} {shown.counted})."
    if has_mark:
        finding += f" This model has {len(study.keys)}."
    if ours:
        finding += f" In ours it is {max(ours, key=lambda pair: pair[1])[0]}."
    total = _note(shown.counted, sum(count for _, count in paper), study.population)
    dashed = " The dashed line is this model." if has_mark else ""
    return Words(
        name=label,
        label=label,
        title=shown.title,
        finding=finding,
        how_to_read=f"Bars count {shown.counted} by {shown.across}.{dashed} {total}",
        data="data/population.json",
        options={"label": label},
    )


@figure(label="The paper's figure: freqstrengthmul, uoutstrengthmul, nibound or primsecr2.")
def population_histograms(study: Study, label: str = "freqstrengthmul", ax: Target = None) -> "Figure":
    """Draw a histogram of the paper's population, ours over it with the same area, and this model's median dashed."""
    shown = _chosen(HISTOGRAM_FIGURES, label)
    paper = study.published.population.histogram(shown.key)
    if paper is None:
        raise BadConfig(f"the paper's numbers have no histogram {shown.key}")
    ours, mark = _our_histogram(study, shown), this_model(study, label)
    with canvas(ax, (5.2, 2.9)) as drawn:
        (axis,) = drawn.axes
        draw_histogram(axis, paper, ours)
        if mark is not None:
            axis.axvline(mark, color=CONCEPT_COLOURS["truth"], lw=1.3, ls="--", label="this model")
        axis.set(xlabel=shown.across, ylabel=shown.counted)
        axis.legend(loc="best", fontsize=8)
        return drawn.figure


def _our_histogram(study: Study, shown: HistogramFigure) -> Histogram | None:
    return study.population.histogram(shown.key) if study.population else None


def share_beyond(histogram: Histogram, threshold: float, above: bool) -> float:
    """Share of what is counted above (below) a threshold, a bin that it cuts in proportion."""
    low, high = histogram.edges[:-1], histogram.edges[1:]
    over = np.clip((high - threshold) / (high - low), 0, 1)
    share = float((histogram.count * over).sum() / histogram.total)
    return share if above else 1 - share


def this_model(study: Study, label: str) -> float | None:
    """This model's own value (median over neurons or clusters), None where it has none."""
    explanation = study.explanation
    alive = ~explanation.roles.dead
    values = {
        "freqstrengthmul": explanation.roles.variance_input[alive],
        "uoutstrengthmul": explanation.roles.variance_output[alive],
        "nibound": np.array([one.rows.total_abs_bound_half.value for one in study.clusters]),
        "primsecr2": np.array([one.phase_r2 for one in explanation.cluster_doubling if one.phase_r2 is not None]),
    }[label]
    return float(np.median(values)) if len(values) else None


def _all_histograms(study: Study) -> tuple[Words, ...]:
    """Four, whatever the model."""
    bars = ((label, one, study.published.population.histogram(one.key)) for label, one in HISTOGRAM_FIGURES.items())
    return tuple(_histogram_words(study, label, one, paper) for label, one, paper in bars if paper is not None)


def _histogram_words(study: Study, label: str, shown: HistogramFigure, paper: Histogram) -> Words:
    ours, mark = _our_histogram(study, shown), this_model(study, label)
    where = f"{'above' if shown.above else 'below'} {shown.threshold:g}"
    share = percent(share_beyond(paper, shown.threshold, shown.above), 0)
    finding = f"In the paper {share} of {shown.counted} lie {where}."
    if ours is not None:
        finding += f" In ours {percent(share_beyond(ours, shown.threshold, shown.above), 0)} do."
    if mark is not None:
        finding += f" This model's median is {mark:.4g}."
    dashed = " The dashed line is this model's median." if mark is not None else ""
    total = _note(shown.counted, paper.total, study.population)
    return Words(
        name=label,
        label=label,
        title=shown.title,
        finding=finding,
        how_to_read=f"Bars count {shown.counted} by {shown.across}.{dashed} {total}",
        data="data/population.json",
        options={"label": label},
    )


COUNTS = Family(
    "population-counts",
    population_counts,
    lambda study: tuple(_count_words(study, label, one) for label, one in COUNT_FIGURES.items()),
    tuple(COUNT_FIGURES),
    in_paper=True,
)
HISTOGRAMS = Family(
    "population-histograms", population_histograms, _all_histograms, tuple(HISTOGRAM_FIGURES), in_paper=True
)
