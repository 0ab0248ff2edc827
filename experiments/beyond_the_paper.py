"""What a population says beyond the paper: exact errors, the lens, what each strategy proves.

    python experiments/beyond_the_paper.py          # shipped models: tables of docs/population.md
    python experiments/beyond_the_paper.py DIR      # of a sweep

Intervals are drawn on from where `quadlens population` leaves its generator.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from quadlens.analysis.integration import BROKEN, KEPT, LOST, STANDS_FOR_LOGITS
from quadlens.analysis.spectrum.harmonics import doubled
from quadlens.base.numbers import decimals, of_mean_size
from quadlens.base.table import Table
from quadlens.training.population.comparison import compare, measured
from quadlens.training.population.dataset import by_model, inside, read, shipped_path
from quadlens.training.population.statement import Statement, count_statement, number_statement
from quadlens.training.population.tables import interval, ours

# Whose median over good pairs is worth knowing though the paper does not say it.
PAIR_MEDIANS = {
    "normalised_abs_cos_error": "absolute value, cos",
    "normalised_abs_sin_error": "absolute value, sin",
    "normalised_id_cos_error": "identity, cos",
    "normalised_id_sin_error": "identity, sin",
    "angle_approximation_error": "angle error bound",
    "numerical_abs_bound_full": "numerical bound, full period",
    "total_abs_bound_full": "total bound, full period",
    "total_abs_bound_half": "total bound, half period",
    "relative_exact_psi": "exact error with ψ over the baseline",
    "relative_bound": "the paper's best bound over the baseline",
}


@dataclass(frozen=True)
class ClusterErrors:
    """Exact errors of some key clusters with the model's ψ, over all a, b and c.

    They are relative to the integral's mean size.

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


def cluster_errors(frame: pl.DataFrame) -> tuple[ClusterErrors, ...]:
    """List all clusters, those of a pair (k, 2k) and others, those of good models and of others."""
    columns = ("run_id", "p", "good_model", "key_frequencies", "clusters")
    rows = (
        frame.select(columns)
        .explode("clusters")
        .unnest("clusters")
        .filter(pl.col("key"))
        .to_dicts()
    )
    rows = [row for row in rows if row["relative_exact_psi"] is not None]

    def paired(row: dict[str, Any]) -> bool:
        keys, k, p = row["key_frequencies"], row["k"], row["p"]
        return any(
            other != k and (doubled(k, p) == other or doubled(other, p) == k) for other in keys
        )

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


def errors_table(found: Sequence[ClusterErrors]) -> Table:
    """One row for each kind of clusters; errors are rounded up."""
    header = (
        "clusters",
        "all",
        "median",
        "90 %",
        "largest",
        "above 10 %",
        "above 100 %",
        "models with one above 10 %",
    )
    rows = [
        (
            one.words,
            str(len(one.errors)),
            *(
                of_mean_size(float(np.quantile(one.errors, q))) if one.errors else "–"
                for q in (0.5, 0.9, 1)
            ),
            str(one.above(0.1)),
            str(one.above(1.0)),
            f"{one.models_above} of {one.models}",
        )
        for one in found
    ]
    return Table("", header, rows)


def failing(row: Mapping[str, Any]) -> list[str]:
    """The parts of the lens's rule that a model does not meet."""
    shared, permuted = row["lens_shared"], row["lens_shared_permuted"]
    parts = {
        "shared": shared >= STANDS_FOR_LOGITS,
        "shared_permuted": permuted <= shared - LOST,
        "resampled_even": row["lens_resampled_even"] >= KEPT,
        "resampled_half": row["lens_resampled_half"] < BROKEN,
    }
    return [name for name, holds in parts.items() if not holds]


def lens_rows(frame: pl.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """The models whose lens was measured: all; with a chain of doubled keys, and without."""
    rows = [row for row in frame.iter_rows(named=True) if row.get("lens_shared") is not None]
    kinds: dict[str, Callable[[dict[str, Any]], bool]] = {
        "all": lambda row: True,
        "a key is another's double": lambda row: bool(row["lens_chains"]),
        "no key is another's double": lambda row: not row["lens_chains"],
    }
    return {words: [row for row in rows if belongs(row)] for words, belongs in kinds.items()}


def lens_table(kinds: Mapping[str, list[dict[str, Any]]]) -> Table:
    """Make a row per kind of models: how many integrate, and their medians and minima."""

    def middle(values: list[float]) -> str:
        return decimals(sorted(values)[(len(values) - 1) // 2]) if values else "–"

    rows = []
    for words, models in kinds.items():
        shared, joint, permuted, symmetric = (
            [row[f"lens_{name}"] for row in models if row[f"lens_{name}"] is not None]
            for name in ("shared", "joint", "shared_permuted", "symmetric_part")
        )
        both = (
            f"{middle(values)}, {decimals(min(values))}" if values else "–"
            for values in (shared, joint)
        )
        integrate = sum(bool(row["lens_integrates"]) for row in models)
        rows.append(
            (words, str(len(models)), str(integrate), *both, middle(permuted), middle(symmetric))
        )
    header = (
        "models",
        "measured",
        "integrate",
        "shared: median, least",
        "read jointly",
        "permuted",
        "symmetric part",
    )
    return Table("", header, rows)


def statements(frame: pl.DataFrame, rng: np.random.Generator) -> list[Statement]:
    """State medians over good pairs, accuracy, and what each strategy proves at what cost."""
    return [*_medians(frame.filter(frame["good_model"]), rng), *_proofs(by_model(frame), rng)]


def _medians(good: pl.DataFrame, rng: np.random.Generator) -> list[Statement]:
    field, rows = pl.element().struct.field, []
    for column, words in PAIR_MEDIANS.items():
        found = measured(inside(good, "clusters", field(column), field("key")), rng, np.median, 500)
        rows.append(
            number_statement(f"median_{column}", f"median over good pairs: {words}", *found)
        )
    return rows


def _proofs(models: Sequence[dict[str, Any]], rng: np.random.Generator) -> list[Statement]:
    accurate = [model for model in models if model["accuracy"] == 1]
    rows = [
        count_statement(
            "accurate_models",
            "models that answer every input right",
            len(accurate),
            len(models),
            None,
        )
    ]
    tried = dict.fromkeys(
        name for model in models for name in model if name.startswith("certified_")
    )
    for certified in tried:
        strategy = certified.removeprefix("certified_")
        mine = [model for model in models if certified in model]
        whole = [model[certified] == 1 for model in accurate if certified in model]
        name, words = (
            f"accurate_models_certified_by_{strategy}",
            f"accurate models with every input proved by {strategy}",
        )
        rows.append(count_statement(name, words, sum(whole), len(whole), None))
        for name, words, column in (
            (
                f"share_of_inputs_certified_by_{strategy}",
                f"inputs proved by {strategy}, mean",
                certified,
            ),
            (
                f"cost_of_{strategy}",
                f"operations of {strategy} over brute force, mean",
                f"cost_{strategy}",
            ),
        ):
            rows.append(
                number_statement(
                    name, words, *measured([np.array([one[column]]) for one in mine], rng)
                )
            )
    return rows


def page(frame: pl.DataFrame) -> str:
    """The three tables."""
    rng = np.random.default_rng(0)
    compare(frame, rng)
    rows = [(one.words, ours(one), interval(one)) for one in statements(frame, rng)]
    return "\n\n".join(
        (
            "Exact error of key clusters, over all a, b and c, of the integral's mean size:",
            errors_table(cluster_errors(frame)).to_markdown(),
            "The lens, of models trained again where the shipped ones' weights are not kept:",
            lens_table(lens_rows(frame)).to_markdown(),
            "Beyond the paper:",
            Table("", ("statement", "ours", "95 %"), rows).to_markdown(),
        )
    )


if __name__ == "__main__":
    sys.stdout.write(page(read(Path(sys.argv[1]) if sys.argv[1:] else shipped_path())) + "\n")
