"""The second dataset: one-layer models from constant attention to softmax, beside those that Zhong et al. published.

Attention is rate · softmax + (1 - rate) on every position, so that rate 0 is constant attention.
Zhong et al. trained 2,373 models of one layer at p = 59, width 128, two tokens of one vocabulary
("The Clock and the Pizza", arXiv 2306.17844, github.com/fjzzq2002/pizza: result/1l_fixedwidth.csv);
what is shipped of them are quantiles by tenths of the rate. Initial weights of two sizes are
compared with them apart: theirs (`initial_rule` zhong) and the usual ones (gpt2).
"""

import dataclasses
import io
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadlens.base.atomic import write_atomic
from quadlens.base.errors import BadFile
from quadlens.base.numbers import cost, decimals, percent
from quadlens.base.table import Table
from quadlens.network.bundled import data_directory
from quadlens.training.population.intervals import Z, holm, p_value, wilson
from quadlens.training.population.statement import Tested
from quadlens.training.population.store import Store
from quadlens.training.population.zhong import MEASURES, published

if TYPE_CHECKING:
    import polars

SHIPPED = "attention.parquet"
# Zhong et al.'s three measures, of which there are published values.
OURS = ("symmetric_part", "product_share")
SETTINGS = ("attention_rate", "initial_rule", "p", "epochs", "seed")
# Between the published quantiles of 10 % and 90 % lie this many of their models.
CENTRAL_SHARE = 0.8


def schema() -> "polars.Schema":
    """Names and types of the columns: one row per model."""
    import polars as pl

    columns: dict[str, Any] = {
        "run_id": pl.String,
        "attention_rate": pl.Float64,
        "initial_rule": pl.String,
        **dict.fromkeys(("p", "epochs", "seed", "correct", "inputs"), pl.Int64),
        **dict.fromkeys(("min_margin", "loss", *MEASURES, *OURS), pl.Float64),
        "key_frequencies": pl.List(pl.Int64),
        "strategy": pl.String,
        "certified_inputs": pl.Int64,
        **dict.fromkeys(("margin_lower_bound", "cost_share"), pl.Float64),
        "model_sha256": pl.String,
        "manifest": pl.String,
    }
    return pl.Schema(columns)


def build(store: Store) -> "polars.DataFrame":
    """Read every model of a sweep that was analysed with these measures, in order of rate and seed.

    Of its proofs the one that proves most inputs counts, the cheapest among equals.
    """
    import polars as pl

    rows = []
    for run in (store.finished(run_id) for run_id in store.run_ids()):
        results = run.read_results() if run.analysed else {}
        if results.get("attention") is None:
            continue
        manifest, evaluation = run.read_manifest(), results["evaluation"]
        proof = max(
            results["proofs"], key=lambda proof: (proof["certified_inputs"], -proof["cost_share"])
        )
        rows.append(
            {
                **{name: getattr(manifest.config, name) for name in SETTINGS},
                **{name: evaluation[name] for name in ("correct", "min_margin", "loss")},
                **{name: results["attention"][name] for name in (*MEASURES, *OURS)},
                **{
                    n: proof[n]
                    for n in ("strategy", "certified_inputs", "margin_lower_bound", "cost_share")
                },
                "run_id": manifest.run_id,
                "inputs": evaluation["pairs"],
                "key_frequencies": results["explanation"]["key_frequencies"],
                "model_sha256": manifest.sha256["model.safetensors"],
                "manifest": json.dumps(dataclasses.asdict(manifest), sort_keys=True),
            }
        )
    return pl.DataFrame(rows, schema=schema(), orient="row").sort(
        "initial_rule", "attention_rate", "seed", "run_id"
    )


def rebuild(store: Store) -> None:
    """Write the dataset of a sweep in which attention varies; of any other sweep there is none."""
    frame = build(store)
    if frame["attention_rate"].n_unique() > 1:
        content = io.BytesIO()
        frame.write_parquet(content, compression="zstd", compression_level=19)
        write_atomic(store.root / SHIPPED, content.getvalue())


def read(path: Path | None) -> "polars.DataFrame":
    """The dataset in a file, in a sweep's directory, or shipped with the package."""
    import polars as pl

    path = path or data_directory() / SHIPPED
    try:
        frame = build(Store(path)) if path.is_dir() else pl.read_parquet(path)
        if "initial_rule" not in frame.columns:  # a file from before there was a choice
            frame = frame.with_columns(initial_rule=pl.lit("gpt2")).select(schema().names())
    except (OSError, KeyError, pl.exceptions.PolarsError) as error:
        raise BadFile(
            f"{path} is not a dataset of attention rates: {str(error).splitlines()[0]}"
        ) from None
    if dict(frame.schema) != dict(schema()) or frame.is_empty():
        raise BadFile(
            f"{path} is not a dataset of attention rates; make one: sweep with attention_rate=0,0.5,1",
            settings=("attention_rate",),
        )
    return frame


def bin_of(rate: float) -> int:
    """Which tenth a rate is in; 1 is in the last.

    >>> [bin_of(rate) for rate in (0.0, 0.05, 0.3, 0.7, 1.0)]
    [0, 0, 3, 7, 9]
    """
    return min(9, int(rate * 10 + 1e-9))


@dataclass(frozen=True, eq=False)
class RateComparison:
    """A dataset beside the published models."""

    frame: "polars.DataFrame"

    def verdicts(self) -> list[dict[str, Any]]:
        """One row per rule of initial weights and measure.

        It counts our models between the published 10 % and 90 % quantiles at their rate. `agrees`:
        80 %, what their own models have, is in our 95 % interval (Wilson).
        """
        rows: list[dict[str, Any]] = []
        for (rule,), models in self.frame.group_by("initial_rule", maintain_order=True):
            for name in MEASURES:
                count, n = _inside(models, name), len(models)
                low, high = wilson(count, n) or (0.0, 1.0)
                # Wilson's interval holds 80 % where this score, normal if 80 % is true, is within
                # 95 %.
                scatter = math.sqrt(CENTRAL_SHARE * (1 - CENTRAL_SHARE) / n)
                margin = max(CENTRAL_SHARE - low, high - CENTRAL_SHARE)
                test = Tested(p_value(count / n - CENTRAL_SHARE, Z * scatter), margin)
                rows.append(
                    {"initial_rule": rule, "measure": name, "inside": count, "models": n, "ci95": [low, high],
                     "tested": test}
                )  # fmt: skip
        for row, p_holm in zip(rows, holm([row["tested"].p for row in rows]), strict=True):
            row["tested"] = replace(row["tested"], p_holm=p_holm)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """The JSON view."""
        rows = self.frame.drop("manifest").to_dicts()
        verdicts = [
            {**{name: value for name, value in row.items() if name != "tested"}, **row["tested"].to_dict(),
             "verdict": row["tested"].verdict}
            for row in self.verdicts()
        ]  # fmt: skip
        return {"models": len(self.frame), "verdicts": verdicts, "rows": rows}

    def tables(self) -> tuple[Table, Table]:
        """The verdicts, and one row per model with the published median at its rate."""
        verdicts = [
            (row["initial_rule"], row["measure"].replace("_", " "), f"{row['inside']} of {row['models']}",
             f"{percent(row['ci95'][0])} – {percent(row['ci95'][1])}",
             f"{row['tested'].verdict}: {row['tested'].words()}")
            for row in self.verdicts()
        ]  # fmt: skip
        models, bins = [], published()
        for row in self.frame.to_dicts():
            theirs = bins[bin_of(row["attention_rate"])].quantiles
            models.append(
                (row["initial_rule"], f"{row['attention_rate']:g}", str(row["seed"]),
                 f"{row['correct']} of {row['inputs']}",
                 *(f"{decimals(row[name])} ({decimals(theirs[name][2])})" for name in MEASURES),
                 decimals(row["symmetric_part"]), decimals(row["product_share"]),
                 f"{row['strategy']}: {row['certified_inputs']}", cost(row["cost_share"]))
            )  # fmt: skip
        header = ("initial weights", "rate", "seed", "right", "gradient symmetricity", "distance irrelevance",
                  "circularity", "symmetric part", "product share", "proved", "cost")  # fmt: skip
        return (
            Table(
                "between the published 10 % and 90 % quantiles",
                ("initial weights", "measure", "ours", "95 %", "verdict"),
                verdicts,
                left=(0, 1, 4),
                caption="Of their own models 80 % lie there.",
            ),
            Table(
                f"{len(models)} models; in brackets the published median",
                header,
                models,
                labels=3,
                left=(0,),
            ),
        )


def _inside(models: "polars.DataFrame", measure: str) -> int:
    """How many lie between the published 10 % and 90 % quantiles at their rate."""
    bins = published()
    values = zip(models["attention_rate"], models[measure], strict=True)
    ends = (
        (bins[bin_of(rate)].quantiles[measure], value)
        for rate, value in values
        if value is not None
    )
    return sum(q[0] <= value <= q[-1] for q, value in ends)
