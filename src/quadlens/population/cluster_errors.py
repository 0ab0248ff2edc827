"""The exact errors of all key clusters, tail included, and where the tail is: keys that are each other's doubles."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quadlens.numbers import of_mean_size
from quadlens.spectrum.harmonics import doubled
from quadlens.table import Table

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True)
class ClusterErrors:
    """Exact errors of some key clusters with the model's ψ, over all a, b, c, relative to the integral's mean size.

    Attributes:
        words: Which clusters.
        errors: Theirs, in order.
        models: In how many models they are.
        models_above: How many of these have one above a tenth.
    """

    words: str
    errors: tuple[float, ...]
    models: int
    models_above: int

    def above(self, limit: float) -> int:
        """How many are larger."""
        return sum(error > limit for error in self.errors)

    def to_dict(self) -> dict[str, Any]:
        """The JSON view."""
        quantiles = {f"q{100 * q:.0f}": float(np.quantile(self.errors, q)) for q in (0, 0.5, 0.9, 1) if self.errors}
        counts = {"clusters": len(self.errors), "above_0.1": self.above(0.1), "above_1": self.above(1.0)}
        return {
            "words": self.words,
            **counts,
            "models": self.models,
            "models_above_0.1": self.models_above,
            **quantiles,
        }


def cluster_errors(frame: "polars.DataFrame") -> tuple[ClusterErrors, ...]:
    """All clusters; then one of a pair (k, 2k) and no such; then those of good models and of others."""
    import polars as pl

    columns = ("run_id", "p", "good_model", "key_frequencies", "clusters")
    rows = frame.select(columns).explode("clusters").unnest("clusters").filter(pl.col("key")).to_dicts()
    rows = [row for row in rows if row["relative_exact_psi"] is not None]

    def paired(row: dict[str, Any]) -> bool:
        keys, k, p = row["key_frequencies"], row["k"], row["p"]
        return any(other != k and (doubled(k, p) == other or doubled(other, p) == k) for other in keys)

    kinds = (
        ("all key clusters", lambda row: True),
        ("another key is its double or its half (mod p)", paired),
        ("no other key is its double or its half", lambda row: not paired(row)),
        ("of good models", lambda row: row["good_model"]),
        ("of the other models", lambda row: not row["good_model"]),
    )
    found = []
    for words, belongs in kinds:
        some = [row for row in rows if belongs(row)]
        above = {row["run_id"] for row in some if row["relative_exact_psi"] > 0.1}
        errors = tuple(sorted(row["relative_exact_psi"] for row in some))
        found.append(ClusterErrors(words, errors, len({row["run_id"] for row in some}), len(above)))
    return tuple(found)


def errors_table(found: tuple[ClusterErrors, ...]) -> Table:
    """One row for each kind of clusters; errors are rounded up."""
    header = ("clusters", "all", "median", "90 %", "largest", "above 10 %", "above 100 %", "models with one above 10 %")
    rows = [
        (
            one.words,
            str(len(one.errors)),
            *(of_mean_size(float(np.quantile(one.errors, q))) if one.errors else "–" for q in (0.5, 0.9, 1)),
            str(one.above(0.1)),
            str(one.above(1.0)),
            f"{one.models_above} of {one.models}",
        )
        for one in found
    ]
    return Table("exact error of key clusters, of the integral's mean size", header, rows)
