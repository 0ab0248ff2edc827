"""The figures of a sweep.

They show the paper's bars with ours and a verdict, what is proved of each model, and how p matters.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quadlens.analysis.published import Histogram, whole_numbers
from quadlens.proofs.pairs.produce import STRATEGIES
from quadlens.show.figures.bars import draw_counts, draw_histogram
from quadlens.show.figures.canvas import canvas
from quadlens.show.figures.style import CONCEPT_COLOURS, FREQUENCY_COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from quadlens.training.population.comparison import Comparison, KeyCounts
    from quadlens.training.population.histograms import HistogramComparison

# Past this share in the largest bin the others would vanish on a linear axis.
LOGARITHMIC_SHARE = 0.5
# Brute force itself is 1 everywhere.
COSTS = ("arcs", "moments")
# Moduli stand at equal distances, 1; models of one modulus side by side, this far apart.
SPREAD = 0.1


def comparison_figures(
    comparison: "Comparison", rows: Sequence[dict[str, Any]]
) -> "Iterator[tuple[str, Figure]]":
    """Every figure of a comparison, by its file name.

    Args:
        comparison: With the paper.
        rows: As `population.dataset.by_model` gives them.
    """
    yield "population-key-frequencies", draw_key_frequencies(comparison.key_counts)
    for histogram in comparison.histograms:
        yield f"population-{histogram.name.replace('_', '-')}", draw_comparison(histogram)
    yield "population-certified", draw_certified(rows)


def draw_key_frequencies(counts: "KeyCounts") -> "Figure":
    """Draw how many models have how many key frequencies (`nfreqcountmul`).

    Ours have Wilson's intervals.
    """
    with canvas(None, (6.4, 3.8)) as drawn:
        (axis,) = drawn.axes
        ours, paper = (
            whole_numbers(counts.ours),
            whole_numbers(dict.fromkeys(counts.ours, 0) | counts.paper),
        )
        draw_counts(axis, paper, ours)
        scale = paper.total / ours.total
        ends = np.array([counts.intervals.get(int(k), (0.0, 0.0)) for k in ours.middles]) * scale
        heights = ours.count * scale
        errors = np.maximum([heights - ends[:, 0], ends[:, 1] - heights], 0)
        axis.errorbar(
            ours.middles + 0.2,
            heights,
            errors,
            fmt="none",
            ecolor=CONCEPT_COLOURS["truth"],
            capsize=3,
            lw=1,
        )
        axis.set(
            xlabel="key frequencies of a model",
            ylabel="models",
            title=f"{counts.verdict}: {counts.why}",
        )
        axis.title.set_fontsize(9)
        axis.legend()
        return drawn.figure


def draw_comparison(histogram: "HistogramComparison") -> "Figure":
    """Draw a histogram of the paper with ours over it.

    The label says what of ours lies outside its bins.
    """
    with canvas(None, (6.4, 3.8)) as drawn:
        (axis,) = drawn.axes
        paper, total = Histogram(histogram.edges, histogram.paper), float(histogram.ours.sum())
        draw_histogram(axis, paper, Histogram(histogram.edges, histogram.ours[1:-1]), total)
        outside = (histogram.ours[0] + histogram.ours[-1]) / max(total, 1.0)
        note = f"; {outside:.1%} of ours lie outside these bins" if outside else ""
        if (
            max(histogram.paper.max() / paper.total, histogram.ours[1:-1].max() / max(total, 1.0))
            > LOGARITHMIC_SHARE
        ):
            axis.set_yscale("log")
            axis.set_ylim(
                bottom=min(float(histogram.paper[histogram.paper > 0].min()), 1e-3 * paper.total)
                / 2
            )
        axis.set(
            xlabel=histogram.words + note,
            ylabel="the paper's count",
            title=f"{histogram.verdict}: {histogram.why}",
        )
        axis.title.set_fontsize(9)
        axis.legend()
        return drawn.figure


def draw_certified(rows: Sequence[dict[str, Any]]) -> "Figure":
    """Cost over brute force against the share of inputs proved, one point per model and strategy.

    Args:
        rows: As `population.dataset.by_model` gives them.
    """
    with canvas(None, (6.4, 3.8)) as drawn:
        (axis,) = drawn.axes
        strategies = dict.fromkeys(
            name.removeprefix("cost_") for row in rows for name in row if name.startswith("cost_")
        )
        for colour, strategy in zip(FREQUENCY_COLOURS, strategies, strict=False):
            with_cost = [row for row in rows if f"cost_{strategy}" in row]
            good = [row["good_model"] for row in with_cost]
            for is_good, marker in ((True, "o"), (False, "x")):
                points = [row for row, flag in zip(with_cost, good, strict=True) if flag == is_good]
                label = f"{strategy}, {'good' if is_good else 'other'} models: {len(points)}"
                x = [row[f"cost_{strategy}"] for row in points]
                y = [100 * row[f"certified_{strategy}"] for row in points]
                axis.plot(x, y, marker, color=colour, label=label, ms=6)
        axis.set(
            xscale="log",
            xlabel="operations over brute force",
            ylabel="inputs proved, %",
            ylim=(-5, 105),
        )
        axis.set_title(f"What is proved of {len(rows)} models")
        axis.legend(fontsize=8)
        return drawn.figure


def draw_by_p(rows: Sequence[dict[str, Any]]) -> "Figure":
    """Three panels over p; dots are models without, rings models with an '=' token.

    Args:
        rows: As `population.dataset.by_model` gives them.
    """
    with canvas(None, (9.2, 3.4), 3) as drawn:
        frequencies, errors, costs = drawn.axes
        moduli = sorted({row["p"] for row in rows})
        _models(frequencies, rows, [float(len(row["key_frequencies"])) for row in rows])
        frequencies.set(ylabel="key frequencies of a model", ylim=(0, None))
        frequencies.locator_params(axis="y", integer=True)
        _models(errors, rows, [row["largest_relative_exact_error"] for row in rows])
        errors.set(ylabel="largest exact error / baseline", yscale="log")
        for strategy in COSTS:
            with_cost = [row for row in rows if f"cost_{strategy}" in row]
            mark = STRATEGIES[strategy].facts.mark
            costs.plot(
                [moduli.index(row["p"]) for row in with_cost],
                [row[f"cost_{strategy}"] for row in with_cost],
                mark.shape,
                mfc="none",
                color=CONCEPT_COLOURS[mark.concept],
                label=strategy,
            )
        costs.set(ylabel="operations / brute force", yscale="log")
        costs.legend(fontsize=8)
        for axis in (frequencies, errors, costs):
            axis.set(xlabel="modulus p", xlim=(-0.6, len(moduli) - 0.4))
            axis.set_xticks(range(len(moduli)), [str(p) for p in moduli])
        return drawn.figure


def _models(axis: "Axes", rows: Sequence[dict[str, Any]], values: Sequence[float | None]) -> None:
    moduli = sorted({row["p"] for row in rows})
    for equals, face, label in (
        (False, CONCEPT_COLOURS["ours"], "no '='"),
        (True, "none", "with '='"),
    ):
        chosen = [
            (row, y)
            for row, y in zip(rows, values, strict=True)
            if row["equals"] == equals and y is not None
        ]
        seen: dict[int, int] = {}
        x = []
        for row, _ in chosen:
            place = seen[row["p"]] = seen.get(row["p"], 0) + 1
            x.append(moduli.index(row["p"]) + (-SPREAD if equals else SPREAD) * (place - 0.5))
        axis.plot(
            x, [y for _, y in chosen], "o", ms=5, mfc=face, mec=CONCEPT_COLOURS["ours"], label=label
        )
    axis.legend(fontsize=8)
