"""Our histograms in the paper's bins, one row per model, so that models can be drawn whole by the bootstrap."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from quadlens.population.intervals import MIN_MODELS, cumulative_band, cumulative_gap
from quadlens.population.statement import Verdict
from quadlens.published import GOOD_MODELS, MODELS, Histogram, read_published

if TYPE_CHECKING:
    import polars

# Of how many models each histogram of the paper is: all models of the text, the good ones, and the one model whose
# 3,481 inputs the skip figure counts.
HISTOGRAM_MODELS = {
    "relu_input_variance_explained": MODELS,
    "neuron_logit_map_variance_explained_good_models": GOOD_MODELS,
    "residual_attention_variance_over_logits": 1,
    "normalised_abs_integral_bound": GOOD_MODELS,
    "primary_vs_secondary_phase_r2": MODELS,
}
WORDS = {
    "relu_input_variance_explained": "share of the ReLU input's variance at its largest frequency, neurons",
    "neuron_logit_map_variance_explained_good_models": (
        "share of W_L's variance at its largest frequency, neurons of good models"
    ),
    "residual_attention_variance_over_logits": "variance of the skip connection over that of the logits, inputs",
    "normalised_abs_integral_bound": "bound of the absolute-value part, (good model, frequency) with errors below 0.1",
    "primary_vs_secondary_phase_r2": "R² of secondary phase = 2φ + π, (model, frequency)",
    "neurons_per_frequency_1_to_29": "neurons that read each frequency",
}


@dataclass(frozen=True, eq=False)
class HistogramComparison:
    """A histogram of the paper with ours over it.

    Attributes:
        name: As in published.json.
        words: What is counted.
        edges: The paper's bin edges; ours has one more bin at either end for what lies outside.
        ours: Our counts, the two outer bins included.
        paper: The paper's counts.
        models: Of how many models ours are.
        gap: Largest difference of the cumulative shares.
        band: How large that is by chance, 95 % of the time; None for too few models.
        verdict: Plainly.
        why: In words.
    """

    name: str
    words: str
    edges: Float[np.ndarray, " edges"]
    ours: Float[np.ndarray, " all_bins"]
    paper: Float[np.ndarray, " bins"]
    models: int
    gap: float | None
    band: float | None
    verdict: Verdict
    why: str

    def to_dict(self) -> dict[str, Any]:
        """The JSON view; `ours` are the counts in the paper's bins."""
        return {
            "ours": self.ours[1:-1].tolist(),
            "ours_outside": [float(self.ours[0]), float(self.ours[-1])],
            "ci95": None,
            "paper": self.paper.tolist(),
            "edges": self.edges.tolist(),
            "models": self.models,
            "largest_cumulative_gap": self.gap,
            "gap_by_chance_95": self.band,
            "verdict": self.verdict,
            "why": self.why,
            "words": self.words,
        }


def published_histogram(name: str) -> Histogram:
    """One of the paper's, by its name in published.json."""
    return dict(read_published().population.histograms)[name]


def compare_histograms(
    frame: "polars.DataFrame", pairs: "polars.DataFrame", rng: np.random.Generator, incomparable: str | None
) -> tuple[HistogramComparison, ...]:
    """All of the paper's histograms of single neurons, inputs and (model, frequency) pairs.

    Args:
        frame: The dataset.
        pairs: Good models' clusters with all four errors below 0.1, with a column `run_id`.
        rng: For the bootstrap.
        incomparable: Why our models are not the paper's kind, if so.
    """
    import polars as pl

    good = frame.filter(pl.col("good_model"))
    keys = frame.select("run_id", "clusters").explode("clusters").unnest("clusters").filter(pl.col("key"))
    sources = {
        "relu_input_variance_explained": _neuron_column(frame, "variance_input"),
        "neuron_logit_map_variance_explained_good_models": _neuron_column(good, "variance_output"),
        "residual_attention_variance_over_logits": [np.array(row) for row in frame["skip_share_quantiles"].to_list()],
        "normalised_abs_integral_bound": _by_model(good, pairs, "total_abs_bound_half"),
        "primary_vs_secondary_phase_r2": _by_model(frame, keys, "secondary_phase_r2"),
    }
    made = []
    for name, values in sources.items():
        paper = published_histogram(name)
        edges = np.concatenate([[-np.inf], paper.edges, [np.inf]])
        # The last of the paper's bins holds its right end, as numpy's does.
        edges[-2] = np.nextafter(edges[-2], np.inf)
        counts = np.array([np.histogram(v, edges)[0] for v in values], dtype=float).reshape(-1, len(edges) - 1)
        made.append(_compare(name, paper.edges, counts, paper.count, HISTOGRAM_MODELS[name], rng, incomparable))
    return (_frequencies_used(frame, rng, incomparable), *made)


def _frequencies_used(
    frame: "polars.DataFrame", rng: np.random.Generator, incomparable: str | None
) -> HistogramComparison:
    name = "neurons_per_frequency_1_to_29"
    paper = np.array(read_published().population.neurons_per_frequency, dtype=float)
    edges = np.arange(len(paper) + 1) + 0.5
    outer = np.concatenate([[-np.inf], edges, [np.inf]])
    counts = [np.histogram(v, outer)[0] for v in _neuron_column(frame, "k_in")]
    rows = np.array(counts, dtype=float).reshape(-1, len(outer) - 1)
    return _compare(name, edges, rows, paper, MODELS, rng, incomparable)


def _compare(
    name: str,
    edges: Float[np.ndarray, " edges"],
    rows: Float[np.ndarray, "models all_bins"],
    paper: Float[np.ndarray, " bins"],
    paper_models: int,
    rng: np.random.Generator,
    incomparable: str | None,
) -> HistogramComparison:
    total = rows.sum(axis=0)
    gap = band = None
    verdict: Verdict = "cannot be compared"
    if incomparable or total.sum() == 0 or len(rows) < MIN_MODELS:
        why = incomparable or f"we have too few models ({len(rows)})"
    else:
        gap, _ = cumulative_gap(rows, np.concatenate([[0.0], paper, [0.0]]))
        band = cumulative_band(rows, paper_models, rng)
        verdict = "agrees" if band is not None and gap <= band else "differs"
        why = f"cumulative shares differ by at most {gap:.1%}; {band:.1%} is within chance"
    return HistogramComparison(name, WORDS[name], edges, total, paper, len(rows), gap, band, verdict, why)


def _neuron_column(frame: "polars.DataFrame", column: str) -> list[np.ndarray]:
    return [np.array([neuron[column] for neuron in row]) for row in frame["neurons"].to_list()]


def _by_model(models: "polars.DataFrame", pairs: "polars.DataFrame", column: str) -> list[np.ndarray]:
    """The pairs' values, one array a model, empty ones included."""
    grouped = {run_id: [] for run_id in models["run_id"]}  # type: dict[str, list[float]]
    for run_id, value in pairs.select("run_id", column).drop_nulls().iter_rows():
        if run_id in grouped:
            grouped[run_id].append(value)
    return [np.array(values) for values in grouped.values()]
