"""The paper's bars, and ours in the same layout."""

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.errors import BadFile


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts over neighbouring bins.

    Attributes:
        edges: Ends of the bins, in order.
        count: One number a bin; the paper's residual histogram has fractions.
    """

    edges: Float[np.ndarray, " n_edges"]
    count: Float[np.ndarray, " n"]

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.count) + 1 or not (np.diff(self.edges) > 0).all():
            raise BadFile(f"a histogram of {len(self.count)} bins needs as many edges plus one, in order")

    @property
    def total(self) -> float:
        """How many things were counted."""
        return float(self.count.sum())

    @property
    def width(self) -> float:
        """Mean width of a bin."""
        return float(self.edges[-1] - self.edges[0]) / len(self.count)


@dataclass(frozen=True, eq=False)
class PopulationSummary:
    """What is known about many models; the paper's, and ours once a sweep has been summarised.

    Attributes:
        models: How many models.
        facts: Counts and shares by the names of published.json's `population`.
        key_counts: (number of key frequencies, models that have it).
        neurons_per_frequency: Neurons at k = 1, 2, ….
        histograms: By the names of published.json's `population.histograms`.
    """

    models: int
    facts: tuple[tuple[str, float], ...]
    key_counts: tuple[tuple[int, int], ...]
    neurons_per_frequency: tuple[int, ...]
    histograms: tuple[tuple[str, Histogram], ...]

    def histogram(self, name: str) -> Histogram | None:
        """One histogram, None where there is none."""
        return dict(self.histograms).get(name)

    def fact(self, name: str) -> float | None:
        """One number, None where there is none."""
        return dict(self.facts).get(name)


@dataclass(frozen=True, eq=False)
class Published:
    """What the paper prints about its mainline model and its population.

    Attributes:
        key_neurons: (key frequency, neurons) of its mainline model.
        variance_input: Histogram `freqstrength`.
        variance_output: Histogram `uoutstrength`.
        r2: (all logits pizza, all logits clock, absolute-value part pizza, absolute-value part clock).
        C: (key frequency, C_k).
        D: (key frequency, D_k).
        angle_r2: R² of ψ = 2φ that its first key frequency exceeds.
        angle_widths: Mean and standard deviation of the gaps between its phases at that frequency.
        population: Its 151 models.
    """

    key_neurons: tuple[tuple[int, int], ...]
    variance_input: Histogram
    variance_output: Histogram
    r2: tuple[float, float, float, float]
    C: tuple[tuple[int, float], ...]
    D: tuple[tuple[int, float], ...]
    angle_r2: float
    angle_widths: tuple[float, float]
    population: PopulationSummary


def read_published() -> Published:
    """The shipped published.json."""
    data = json.loads((files("quadlens") / "data" / "published.json").read_text(encoding="utf-8"))
    main = data["mainline"]
    bars, r2, angles = main["histograms"], main["r2"], main["angles_k12"]
    return Published(
        key_neurons=_pairs(main["neurons_per_key_frequency"]),
        variance_input=_histogram(bars["relu_input_variance_explained_by_key_frequency"]),
        variance_output=_histogram(bars["neuron_logit_map_variance_explained_by_key_frequency"]),
        r2=(*(r2[part][form] for part in ("all_logits", "abs_component_only") for form in ("pizza", "clock")),),
        C=_pairs(main["abs_coefficients_C"]),
        D=_pairs(main["id_coefficients_D"]),
        angle_r2=angles["r2_psi_vs_2phi_min"],
        angle_widths=(angles["interval_width_mean"], angles["interval_width_std"]),
        population=population_of(data["population"], data["population"]["models_counted_in_figures"]),
    )


def read_population() -> PopulationSummary | None:
    """Ours, from the dataset shipped with the package; None where there is none."""
    from quadlens.population.comparison import compare
    from quadlens.population.dataset import read, shipped_path

    if not shipped_path().is_file():
        return None
    comparison = compare(read(shipped_path()))
    # The two outer bins hold what lies outside the paper's axis, which its figure does not show.
    bars = {one.name: Histogram(one.edges, one.ours[1:-1]) for one in comparison.histograms}
    frequencies = bars.pop("neurons_per_frequency_1_to_29")
    return PopulationSummary(
        models=comparison.models,
        facts=tuple((one.name, float(one.ours)) for one in comparison.statements if one.ours is not None),
        key_counts=tuple(sorted(comparison.key_counts.ours.items())),
        neurons_per_frequency=tuple(int(count) for count in frequencies.count),
        histograms=tuple(bars.items()),
    )


def population_of(data: dict[str, Any], models: int) -> PopulationSummary:
    """A summary from JSON in the layout of published.json's `population`."""
    return PopulationSummary(
        models=models,
        facts=tuple((name, float(value)) for name, value in data.items() if isinstance(value, int | float)),
        key_counts=tuple(sorted((int(n), int(count)) for n, count in data["number_of_key_frequencies"].items())),
        neurons_per_frequency=tuple(int(count) for count in data["neurons_per_frequency_1_to_29"]),
        histograms=tuple((name, _histogram(bins)) for name, bins in data["histograms"].items()),
    )


def _pairs(values: dict[str, Any]) -> tuple[tuple[int, Any], ...]:
    return tuple((int(k), value) for k, value in values.items())


def _histogram(bins: list[dict[str, float]]) -> Histogram:
    edges = [bins[0]["lo"], *(one["hi"] for one in bins)]
    return Histogram(np.array(edges, dtype=float), np.array([one["count"] for one in bins], dtype=float))
