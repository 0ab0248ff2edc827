"""Over many models: how many key frequencies, and which (figures `nfreqcountmul` and `freqcountmul`)."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.figures.picture import Picture
from quadlens.figures.style import CONCEPT_COLOURS, style
from quadlens.studies import Results
from quadlens.studies.published import PopulationSummary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "population-counts"
Counts = tuple[tuple[int, float], ...]


def draw(paper: Counts, ours: Counts | None, mark: float | None, names: tuple[str, str]) -> "Figure":
    """Bars side by side for integers; ours scaled to the paper's total; this model as a dashed line."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.2, 2.9))
        axis = figure.subplots()
        x, y = _columns(paper)
        beside = 0.2 if ours is not None else 0.0
        axis.bar(x - beside, y, width=0.4 if beside else 0.7, color=CONCEPT_COLOURS["paper"], label="the paper's")
        if ours is not None:
            u, v = _columns(ours)
            scaled = v * y.sum() / max(float(v.sum()), 1.0)
            axis.bar(u + beside, scaled, width=0.4, color=CONCEPT_COLOURS["ours"], label="ours, scaled")
        if mark is not None:
            axis.axvline(mark, color=CONCEPT_COLOURS["truth"], lw=1.3, ls="--", label="this model")
        axis.set(xlabel=names[0], ylabel=names[1])
        axis.locator_params(axis="x", integer=True)
        axis.legend(loc="best", fontsize=8)
        axis.grid(visible=False, axis="x")
        return figure


def _columns(counts: Counts) -> tuple[np.ndarray, np.ndarray]:
    return np.array([x for x, _ in counts], dtype=float), np.array([y for _, y in counts], dtype=float)


def note(counted: str, total: float, ours: PopulationSummary | None) -> str:
    """How much was counted, theirs and ours."""
    mine = f"ours come from {ours.models} models" if ours else "our own population has not been summarised yet"
    return f"The paper's bars count {total:,.0f} {counted}; {mine}."


def pictures(results: Results) -> tuple[Picture, ...]:
    """Two, whatever the model."""
    paper, ours = results.published.population, results.population
    keys = tuple((number, float(models)) for number, models in paper.key_counts)
    our_keys = tuple((number, float(models)) for number, models in ours.key_counts) if ours else None
    used, our_used = _numbered(paper), _numbered(ours) if ours else None
    mark = float(len(results.keys))
    return (
        _picture(results, "nfreqcountmul", (keys, our_keys), mark, ("key frequencies of a model", "models")),
        _picture(results, "freqcountmul", (used, our_used), None, ("frequency k", "neurons")),
    )


def _numbered(population: PopulationSummary) -> Counts:
    return tuple((k, float(count)) for k, count in enumerate(population.neurons_per_frequency, start=1))


def _picture(
    results: Results, label: str, counts: tuple[Counts, Counts | None], mark: float | None, names: tuple[str, str]
) -> Picture:
    paper, ours = counts
    most = max(paper, key=lambda pair: pair[1])
    finding = f"In the paper the most common value is {most[0]} ({most[1]:,.0f} {names[1]})."
    if mark is not None:
        finding += f" This model has {mark:.0f}."
    if ours:
        finding += f" In ours it is {max(ours, key=lambda pair: pair[1])[0]}."
    total = note(names[1], sum(count for _, count in paper), results.population)
    dashed = " The dashed line is this model." if mark is not None else ""
    return Picture(
        name=label,
        label=label,
        title="Number of key frequencies" if mark is not None else "Frequencies used",
        finding=finding,
        how_to_read=f"Bars count {names[1]} by {names[0]}.{dashed} {total}",
        data="data/population.json",
        draw=lambda: draw(paper, ours, mark, names),
    )
