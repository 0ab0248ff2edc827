"""What the paper could not say of a population: exact errors, what each strategy proves, and at what cost."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.population.dataset import cost_shares
from quadlens.population.intervals import bootstrap
from quadlens.population.statement import Statement, count_statement, number_statement

if TYPE_CHECKING:
    import polars

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


def beyond_the_paper(
    frame: "polars.DataFrame", pairs: "polars.DataFrame", rng: np.random.Generator
) -> tuple[Statement, ...]:
    """Medians over pairs, then accuracy, then each strategy."""
    n = len(frame)
    accurate = int((frame["correct"] == frame["inputs"]).sum())
    return (
        *_medians(pairs, rng),
        count_statement("accurate_models", "models that answer every input right", accurate, n, None),
        *_proofs(frame, rng),
    )


def _medians(pairs: "polars.DataFrame", rng: np.random.Generator) -> list[Statement]:
    groups = [group for _, group in pairs.group_by("run_id", maintain_order=True)]
    rows = []
    for column, words in PAIR_MEDIANS.items():
        values = [group[column].drop_nulls().to_numpy() for group in groups]

        def median(sample: np.ndarray, values: list[np.ndarray] = values) -> float | None:
            drawn = np.concatenate([values[i] for i in sample]) if len(sample) else np.empty(0)
            return float(np.median(drawn)) if len(drawn) else None

        ci = bootstrap(median, len(groups), rng, 500)
        ours = median(np.arange(len(groups)))
        rows.append(number_statement(f"median_{column}", f"median over good pairs: {words}", ours, ci, len(groups)))
    return rows


def _proofs(frame: "polars.DataFrame", rng: np.random.Generator) -> list[Statement]:
    import polars as pl

    costs = [cost_shares(model) for model in frame.iter_rows(named=True)]
    proofs = frame.select("run_id", "inputs", "correct", "proofs", pl.Series("cost", costs, pl.List(pl.Float64)))
    proofs = proofs.explode("proofs", "cost").unnest("proofs")
    rows = []
    for strategy in proofs["strategy"].unique(maintain_order=True).drop_nulls().to_list():
        mine = proofs.filter(pl.col("strategy") == strategy)
        accurate = mine.filter(pl.col("correct") == pl.col("inputs"))
        whole = int((accurate["certified_inputs"] == accurate["inputs"]).sum())
        share = (mine["certified_inputs"] / mine["inputs"]).to_numpy()
        cost = mine["cost"].to_numpy()
        rows += [
            count_statement(
                f"accurate_models_certified_by_{strategy}",
                f"accurate models with every input proved by {strategy}",
                whole,
                len(accurate),
                None,
            ),
            _over_models(f"share_of_inputs_certified_by_{strategy}", f"inputs proved by {strategy}, mean", share, rng),
            _over_models(f"cost_of_{strategy}", f"operations of {strategy} over brute force, mean", cost, rng),
        ]
    return rows


def _over_models(name: str, words: str, values: np.ndarray, rng: np.random.Generator) -> Statement:
    ci = bootstrap(lambda sample: float(values[sample].mean()), len(values), rng)
    return number_statement(name, words, float(values.mean()), ci, len(values))
