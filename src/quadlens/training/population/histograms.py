"""Our histograms in the paper's bins, one row per model.

So models can be drawn whole by the bootstrap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from quadlens.analysis.logits.parts import skip_shares
from quadlens.analysis.published import GOOD_MODELS, MODELS, read_published
from quadlens.analysis.spectrum.anatomy import anatomy_of
from quadlens.network import load
from quadlens.training.population.dataset import inside
from quadlens.training.population.intervals import MIN_MODELS, cumulative_distances, cumulative_gap
from quadlens.training.population.statement import Tested, Verdict

if TYPE_CHECKING:
    import polars

# The paper's histogram of the skip connection has the 3,481 inputs of one model, which is bundled
# as `original`.
OF_ONE_MODEL, ONE_MODEL = "residual_attention_variance_over_logits", "original"
# What each histogram of the paper counts, and of how many models: all models of the text, the good
# ones, and the one model whose inputs the skip figure counts.
HISTOGRAMS = {
    "neurons_per_frequency_1_to_29": ("neurons that read each frequency", MODELS),
    "relu_input_variance_explained": (
        "share of the ReLU input's variance at its largest frequency, neurons",
        MODELS,
    ),
    "neuron_logit_map_variance_explained_good_models": (
        "share of W_L's variance at its largest frequency, neurons of good models",
        GOOD_MODELS,
    ),
    OF_ONE_MODEL: (
        f"variance of the skip connection over that of the logits, inputs of `{ONE_MODEL}`",
        1,
    ),
    "normalised_abs_integral_bound": (
        "bound of the absolute-value part, (good model, frequency) with errors below 0.1",
        GOOD_MODELS,
    ),
    "primary_vs_secondary_phase_r2": ("R² of secondary phase = 2φ + π, (model, frequency)", MODELS),
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
        tested: P-values and margin; None where there was nothing to test.
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
    tested: Tested | None = None

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
            **(self.tested.to_dict() if self.tested else {}),
            "verdict": self.verdict,
            "why": self.why,
            "words": self.words,
        }


def compare_histograms(
    frame: "polars.DataFrame",
    good: "polars.DataFrame",
    small: "polars.Expr",
    rng: np.random.Generator,
) -> tuple[HistogramComparison, ...]:
    """All of the paper's histograms of single neurons, inputs and (model, frequency) pairs.

    Args:
        frame: The dataset.
        good: Its good models.
        small: Whether all four errors of a cluster are below 0.1.
        rng: For the bootstrap.
    """
    import polars as pl

    field = pl.element().struct.field
    ours = {
        "relu_input_variance_explained": inside(frame, "neurons", field("variance_input")),
        "neuron_logit_map_variance_explained_good_models": inside(
            good, "neurons", field("variance_output")
        ),
        OF_ONE_MODEL: [skip_shares(anatomy_of(load(ONE_MODEL)).collapsed).ravel()],
        "normalised_abs_integral_bound": inside(
            good, "clusters", field("total_abs_bound_half"), field("key") & small
        ),
        "primary_vs_secondary_phase_r2": inside(
            frame, "clusters", field("secondary_phase_r2"), field("key")
        ),
        "neurons_per_frequency_1_to_29": inside(frame, "neurons", field("k_in")),
    }
    *others, frequencies = (_compare(name, values, rng) for name, values in ours.items())
    return frequencies, *others


def _compare(
    name: str, values: Sequence[np.ndarray], rng: np.random.Generator
) -> HistogramComparison:
    """One histogram; `values` has one array per model."""
    paper, (words, paper_models) = read_published().population.histogram(name), HISTOGRAMS[name]
    edges = np.concatenate([[-np.inf], paper.edges, [np.inf]])
    # The last of the paper's bins holds its right end, as numpy's does.
    edges[-2] = np.nextafter(edges[-2], np.inf)
    rows = np.array([np.histogram(v, edges)[0] for v in values], dtype=float).reshape(
        -1, len(edges) - 1
    )
    total = rows.sum(axis=0)
    gap = band = tested = None
    why = f"we have too few models ({len(rows)})"
    if total.sum() > 0 and (len(rows) >= MIN_MODELS or name == OF_ONE_MODEL):
        gap, _ = cumulative_gap(rows, np.concatenate([[0.0], paper.count, [0.0]]))
        why = (
            f"cumulative shares differ by at most {gap:.1%}; "
            "one model beside one says nothing about chance"
        )
    if gap is not None and len(rows) >= MIN_MODELS:
        distances = cumulative_distances(rows, paper_models, rng)
        band = float(np.quantile(distances, 0.95))
        tested = Tested((1 + int((distances >= gap).sum())) / (1 + len(distances)), gap + band)
        why = f"cumulative shares differ by at most {gap:.1%}; {band:.1%} is within chance"
    verdict: Verdict = tested.verdict if tested else "cannot be compared"
    return HistogramComparison(
        name, words, paper.edges, total, paper.count, len(rows), gap, band, verdict, why, tested
    )
