"""The paper's population as it printed it (published.json), with what each number counts."""

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from jaxtyping import Float

P = 59
D_MLP = 512
WEIGHT_DECAY = 1.0
# Stated in the text; the figures count one more (`math.md`, erratum 9).
MODELS = 151
MODELS_IN_FIGURES = 152
GOOD_MODELS = 100
# All models of the text, the good ones, and the one model whose 3,481 inputs the skip figure counts.
HISTOGRAM_MODELS = {
    "relu_input_variance_explained": MODELS,
    "neuron_logit_map_variance_explained_good_models": GOOD_MODELS,
    "residual_attention_variance_over_logits": 1,
    "normalised_abs_integral_bound": GOOD_MODELS,
    "primary_vs_secondary_phase_r2": MODELS,
}


@dataclass(frozen=True, eq=False)
class PublishedHistogram:
    """A histogram of the paper.

    Attributes:
        edges: Bin edges.
        counts: What it counts in each bin.
        models: From how many models.
    """

    edges: Float[np.ndarray, " edges"]
    counts: Float[np.ndarray, " bins"]
    models: int

    @property
    def median_bin(self) -> tuple[float, float]:
        """Edges of the bin that holds the median: all a histogram says of it."""
        cumulative = np.cumsum(self.counts)
        index = int(np.searchsorted(cumulative, cumulative[-1] / 2))
        return float(self.edges[index]), float(self.edges[index + 1])


def published_population() -> dict[str, Any]:
    """The section `population` of published.json."""
    text = (files("quadlens") / "data" / "published.json").read_text(encoding="utf-8")
    section: dict[str, Any] = json.loads(text)["population"]
    return section


def as_printed(value: float, digits: int = 2) -> tuple[float, float]:
    """The numbers that are printed as `value` with so many digits: all that is known of a rounded number."""
    half = 0.5 * 10.0**-digits
    return round(value - half, digits + 1), round(value + half, digits + 1)


def published_histogram(name: str) -> PublishedHistogram:
    """One histogram by its name in published.json."""
    bins = published_population()["histograms"][name]
    edges = np.array([bins[0]["lo"], *(b["hi"] for b in bins)], dtype=float)
    return PublishedHistogram(edges, np.array([b["count"] for b in bins], dtype=float), HISTOGRAM_MODELS[name])
