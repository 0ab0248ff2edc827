"""The paper's printed numbers, and our shipped population's in the same layout."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.base.errors import BadFile

# Stated in the text; the figures count one more (`math.md`, erratum 9).
MODELS = 151
MODELS_IN_FIGURES = 152
GOOD_MODELS = 100


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts over neighbouring bins.

    Attributes:
        edges: Ends of the bins, in order.
        count: One number per bin; the paper's residual histogram has fractions.
    """

    edges: Float[np.ndarray, " n_edges"]
    count: Float[np.ndarray, " n"]

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.count) + 1 or not (np.diff(self.edges) > 0).all():
            raise BadFile(
                f"a histogram of {len(self.count)} bins needs as many edges plus one, in order"
            )

    @property
    def total(self) -> float:
        """The sum of all counts."""
        return float(self.count.sum())

    @property
    def middles(self) -> Float[np.ndarray, " n"]:
        """The middle of each bin."""
        return (self.edges[:-1] + self.edges[1:]) / 2

    @property
    def width(self) -> float:
        """Mean width of a bin."""
        return float(self.edges[-1] - self.edges[0]) / len(self.count)

    @property
    def median_bin(self) -> tuple[float, float]:
        """Edges of the bin that holds the median: all a histogram says of it."""
        cumulative = np.cumsum(self.count)
        index = int(np.searchsorted(cumulative, cumulative[-1] / 2))
        return float(self.edges[index]), float(self.edges[index + 1])


@dataclass(frozen=True)
class PublishedTable:
    """One table of the paper's mainline model.

    Attributes:
        frequencies: Its columns.
        names: Row names of published.json, in the paper's order.
        values: One tuple per row.
    """

    frequencies: tuple[int, ...]
    names: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]

    def row(self, name: str) -> tuple[float, ...]:
        """The printed numbers of one row."""
        return self.values[self.names.index(name)]


@dataclass(frozen=True, eq=False)
class PopulationSummary:
    """A summary of many models: the paper's or ours.

    Attributes:
        models: How many models.
        facts: Counts and shares by the names of published.json's `population`.
        key_counts: (number of key frequencies, models that have it).
        neurons_per_frequency: Neurons at k = 1, 2, ….
        histograms: By the names of published.json's `population.histograms`.
    """

    models: int
    facts: tuple[tuple[str, int | float], ...]
    key_counts: tuple[tuple[int, int], ...]
    neurons_per_frequency: tuple[int, ...]
    histograms: tuple[tuple[str, Histogram], ...]

    def histogram(self, name: str) -> Histogram:
        """Return one histogram by its name in published.json.

        Counts of whole numbers have one bin per number.
        """
        whole = {
            "number_of_key_frequencies": dict(self.key_counts),
            "neurons_per_frequency_1_to_29": dict(enumerate(self.neurons_per_frequency, start=1)),
        }
        return whole_numbers(whole[name]) if name in whole else dict(self.histograms)[name]

    def fact(self, name: str) -> int | float | None:
        """One number, None where there is none."""
        return dict(self.facts).get(name)

    @property
    def counts(self) -> dict[str, int]:
        """The facts that are counts."""
        return {name: value for name, value in self.facts if isinstance(value, int)}

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON layout of published.json's `population`, which `summary_of` reads."""
        bars = {
            name: [
                {"lo": float(lo), "hi": float(hi), "count": float(count)}
                for lo, hi, count in zip(bins.edges[:-1], bins.edges[1:], bins.count, strict=True)
            ]
            for name, bins in self.histograms
        }
        return {
            "models": self.models,
            **dict(self.facts),
            "number_of_key_frequencies": {
                str(number): models for number, models in self.key_counts
            },
            "neurons_per_frequency_1_to_29": list(self.neurons_per_frequency),
            "histograms": bars,
        }


@dataclass(frozen=True, eq=False)
class Published:
    """The paper's printed numbers about its mainline model and its population.

    Attributes:
        key_neurons: (key frequency, neurons) of its mainline model.
        variance_input: Histogram `freqstrength`.
        variance_output: Histogram `uoutstrength`.
        r2: (all logits pizza, all logits clock, absolute-value part pizza, absolute-value part
            clock).
        C: (key frequency, C_k).
        D: (key frequency, D_k).
        angle_r2: R² of ψ = 2φ that its first key frequency exceeds.
        angle_widths: Mean and standard deviation of the gaps between its phases at that frequency.
        tables: `table_relative_error`, `table_abs_and_identity` and `table_relu`.
        population: Its 151 models.
        doubled: The two shares of neurons whose secondary frequency is twice the primary, one per
            section.
    """

    key_neurons: tuple[tuple[int, int], ...]
    variance_input: Histogram
    variance_output: Histogram
    r2: tuple[float, float, float, float]
    C: tuple[tuple[int, float], ...]
    D: tuple[tuple[int, float], ...]
    angle_r2: float
    angle_widths: tuple[float, float]
    tables: tuple[tuple[str, PublishedTable], ...]
    population: PopulationSummary
    doubled: tuple[float, float]

    def table(self, name: str) -> PublishedTable:
        """One of the three tables."""
        return dict(self.tables)[name]


@cache
def read_published() -> Published:
    """Read the shipped published.json."""
    data = _shipped("published.json")
    main, population = data["mainline"], data["population"]
    bars, r2, angles = main["histograms"], main["r2"], main["angles_k12"]
    low, high = population["share_of_neurons_with_secondary_twice_primary"]
    return Published(
        key_neurons=_pairs(main["neurons_per_key_frequency"]),
        variance_input=_histogram(bars["relu_input_variance_explained_by_key_frequency"]),
        variance_output=_histogram(bars["neuron_logit_map_variance_explained_by_key_frequency"]),
        r2=(
            *(
                r2[part][form]
                for part in ("all_logits", "abs_component_only")
                for form in ("pizza", "clock")
            ),
        ),
        C=_pairs(main["abs_coefficients_C"]),
        D=_pairs(main["id_coefficients_D"]),
        angle_r2=angles["r2_psi_vs_2phi_min"],
        angle_widths=(angles["interval_width_mean"], angles["interval_width_std"]),
        tables=tuple(
            (name, _table(table)) for name, table in main.items() if name.startswith("table_")
        ),
        population=summary_of(population, population["models_counted_in_figures"]),
        doubled=(low, high),
    )


@cache
def read_population() -> PopulationSummary:
    """Ours: the summary of the dataset that is shipped beside it (`tools/refresh_docs.py`)."""
    data = _shipped("population.json")
    return summary_of(data, data["models"])


def as_printed(value: float, digits: int = 2) -> tuple[float, float]:
    """Return the ends of the numbers that print as `value` with so many digits."""
    half = 0.5 * 10.0**-digits
    return round(value - half, digits + 1), round(value + half, digits + 1)


def whole_numbers(counts: Mapping[int, int]) -> Histogram:
    """Make a histogram of whole numbers, one bin per number."""
    numbers = np.arange(min(counts), max(counts) + 2)
    return Histogram(numbers - 0.5, np.array([float(counts.get(int(k), 0)) for k in numbers[:-1]]))


def summary_of(data: dict[str, Any], models: int) -> PopulationSummary:
    """A summary from JSON in the layout of published.json's `population`."""
    return PopulationSummary(
        models=models,
        facts=tuple(
            (name, value) for name, value in data.items() if isinstance(value, int | float)
        ),
        key_counts=tuple(
            sorted((int(n), int(count)) for n, count in data["number_of_key_frequencies"].items())
        ),
        neurons_per_frequency=tuple(int(count) for count in data["neurons_per_frequency_1_to_29"]),
        histograms=tuple((name, _histogram(bins)) for name, bins in data["histograms"].items()),
    )


def _shipped(name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(
        (files(__name__.partition(".")[0]) / "data" / name).read_text(encoding="utf-8")
    )
    return value


def _table(table: dict[str, Any]) -> PublishedTable:
    rows = table.get("rows", {key: value for key, value in table.items() if key != "frequencies"})
    return PublishedTable(
        tuple(table["frequencies"]), tuple(rows), tuple(tuple(row) for row in rows.values())
    )


def _pairs(values: dict[str, Any]) -> tuple[tuple[int, Any], ...]:
    return tuple((int(k), value) for k, value in values.items())


def _histogram(bins: list[dict[str, float]]) -> Histogram:
    edges = [bins[0]["lo"], *(bar["hi"] for bar in bins)]
    return Histogram(
        np.array(edges, dtype=float), np.array([bar["count"] for bar in bins], dtype=float)
    )
