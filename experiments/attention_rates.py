"""Attention from constant to softmax: models of one layer beside those of Zhong et al.

    python experiments/attention_rates.py [DIR] [--figures OUT]   # the tables of docs/population.md
    python experiments/attention_rates.py DIR --json              # every model and verdict
    python experiments/attention_rates.py DIR --write             # DIR's models are kept

DIR is a sweep in which attention varies, or a Parquet file of one; without it the kept models are
shown (`attention/models.parquet`).

Attention is rate · softmax + (1 - rate) on every position, so rate 0 is constant attention.
Zhong et al. trained 2,373 models of one layer at p = 59, width 128, two tokens of one vocabulary
("The Clock and the Pizza", arXiv 2306.17844, github.com/fjzzq2002/pizza: result/1l_fixedwidth.csv).
`attention/published.json` keeps quantiles of them by tenths of the rate. Models are compared apart
by their initial weights: `zhong` has the sizes of Zhong et al., `gpt2` has the usual ones.
"""

import argparse
import dataclasses
import json
import math
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from quadlens.base.errors import BadFile
from quadlens.base.numbers import cost, decimals, percent
from quadlens.base.table import Table
from quadlens.show.figures.canvas import canvas
from quadlens.show.figures.style import FREQUENCY_COLOURS, parse_formats, write_figures
from quadlens.training.population.dataset import filter_models
from quadlens.training.population.intervals import Z, holm, p_value, wilson
from quadlens.training.population.statement import Tested
from quadlens.training.population.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEPT = Path(__file__).parent / "attention" / "models.parquet"
PUBLISHED = KEPT.with_name("published.json")
MEASURES = ("gradient_symmetricity", "distance_irrelevance", "circularity")
# Measures of which Zhong et al. published no values.
OURS = ("symmetric_part", "product_share")
SETTINGS = ("attention_rate", "initial_rule", "p", "epochs", "seed")
# Between the published quantiles of 10 % and 90 % lie this many of their models.
CENTRAL_SHARE = 0.8


@dataclass(frozen=True)
class PublishedBin:
    """What Zhong et al. published of the models with rates in one tenth.

    Attributes:
        low: Where the tenth begins; the last one includes 1.
        runs: How many models.
        quantiles: Measure → its quantiles 10, 25, 50, 75 and 90 %.
    """

    low: float
    runs: int
    quantiles: dict[str, tuple[float, ...]]


@cache
def published() -> tuple[PublishedBin, ...]:
    """Return the published quantiles, by tenths of the rate."""
    rows = json.loads(PUBLISHED.read_bytes())["bins"]
    return tuple(
        PublishedBin(
            row["attention_rate_from"],
            row["runs"],
            {name: tuple(row[f"{name}_q10_25_50_75_90"]) for name in MEASURES},
        )
        for row in rows
    )


def schema() -> pl.Schema:
    """Names and types of the columns: one row per model."""
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


def build(store: Store) -> pl.DataFrame:
    """Read every model of a sweep that was analysed with these measures, in order of rate and seed.

    Of its proofs the one that proves most inputs counts, the cheapest among equals.
    """
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


def read(path: Path) -> pl.DataFrame:
    """Read the models of a sweep's directory or of a Parquet file."""
    try:
        frame = build(Store(path)) if path.is_dir() else pl.read_parquet(path)
    except (OSError, KeyError, pl.exceptions.PolarsError) as error:
        raise BadFile(
            f"{path} is not a dataset of attention rates: {str(error).splitlines()[0]}"
        ) from None
    if dict(frame.schema) != dict(schema()) or frame.is_empty():
        raise BadFile(
            f"{path} is not a dataset of attention rates; "
            "make one: quadlens sweep --attention-rate 0,0.5,1 -o DIR"
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

    frame: pl.DataFrame

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
                    {
                        "initial_rule": rule,
                        "measure": name,
                        "inside": count,
                        "models": n,
                        "ci95": [low, high],
                        "tested": test,
                    }
                )
        for row, p_holm in zip(rows, holm([row["tested"].p for row in rows]), strict=True):
            row["tested"] = replace(row["tested"], p_holm=p_holm)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """The JSON view."""
        rows = self.frame.drop("manifest").to_dicts()
        verdicts = [
            {
                **{name: value for name, value in row.items() if name != "tested"},
                **row["tested"].to_dict(),
                "verdict": row["tested"].verdict,
            }
            for row in self.verdicts()
        ]
        return {"models": len(self.frame), "verdicts": verdicts, "rows": rows}

    def tables(self) -> tuple[Table, Table]:
        """The verdicts, and one row per model with the published median at its rate."""
        verdicts = [
            (row["initial_rule"], row["measure"].replace("_", " "),
             f"{row['inside']} of {row['models']}",
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
        header = (
            *("initial weights", "rate", "seed", "right"),
            *(name.replace("_", " ") for name in (*MEASURES, *OURS)),
            *("proved", "cost"),
        )
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


def _inside(models: pl.DataFrame, measure: str) -> int:
    """How many lie between the published 10 % and 90 % quantiles at their rate."""
    bins = published()
    values = zip(models["attention_rate"], models[measure], strict=True)
    ends = (
        (bins[bin_of(rate)].quantiles[measure], value)
        for rate, value in values
        if value is not None
    )
    return sum(q[0] <= value <= q[-1] for q, value in ends)


def draw_by_rate(frame: pl.DataFrame) -> "Figure":
    """Draw four measures over the attention rate, a dot per model.

    The grey band is what Zhong et al. published, from 10 to 90 %. Models whose initial weights have
    the sizes of Zhong et al. are filled dots, others circles.
    """
    bins = published()
    with canvas(None, (9.2, 5.6), 4, columns=2) as drawn:
        panels = drawn.axes
        names = ("gradient_symmetricity", "distance_irrelevance", "symmetric_part", "cost_share")
        words = (
            "gradient symmetricity",
            "distance irrelevance",
            "symmetric part",
            "proof's operations / brute force",
        )
        edges = np.array([*(tenth.low for tenth in bins), 1.0])
        for axis, name, label in zip(panels, names, words, strict=True):
            if name in bins[0].quantiles:
                low, middle, high = (
                    np.array([tenth.quantiles[name][i] for tenth in bins]) for i in (0, 2, 4)
                )
                axis.fill_between(
                    edges, [*low, low[-1]], [*high, high[-1]], step="post", color="0.85", lw=0
                )
                axis.stairs(
                    middle, edges, color="0.5", lw=1, baseline=None, label="published median"
                )
            for (rule,), models in frame.group_by("initial_rule", maintain_order=True):
                colour, label_of = FREQUENCY_COLOURS[0], f"initial weights {rule}"
                face = colour if rule == "zhong" else "none"
                axis.plot(
                    models["attention_rate"],
                    models[name],
                    "o",
                    color=colour,
                    mfc=face,
                    ms=5,
                    label=label_of,
                )
            axis.set(
                xlabel="attention rate: 0 constant, 1 softmax", ylabel=label, xlim=(-0.03, 1.03)
            )
        # Products are a few percent at most, and the lens nearly everything: each on a scale of its
        # own.
        panels[2].set(ylim=(min([0.5, *frame["symmetric_part"].drop_nulls()]), 1.01))
        products, colour = panels[2].twinx(), FREQUENCY_COLOURS[1]
        products.plot(
            frame["attention_rate"], 100 * frame["product_share"], "x", color=colour, ms=5
        )
        products.set(ylim=(-0.1, max([6.0, *(100 * frame["product_share"].drop_nulls())])))
        products.set_ylabel("crosses: product share, %", color=colour)
        products.grid(visible=False)
        panels[3].set(ylim=(0, None))
        panels[0].legend(fontsize=8, loc="lower left")
        return drawn.figure


def main() -> None:
    """Read the arguments and print the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", nargs="?", type=Path, default=KEPT, metavar="DIR")
    parser.add_argument("--where", action="append", default=[], metavar="CONDITION")
    parser.add_argument("--figures", type=Path, metavar="OUT")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    frame = filter_models(read(options.directory), options.where)
    if options.write:
        frame.write_parquet(KEPT, compression="zstd", compression_level=19)
    comparison = RateComparison(frame)
    if options.figures is not None:
        drawn = [("population-attention-rate", draw_by_rate(frame))]
        for path in write_figures(drawn, options.figures, parse_formats("svg")):
            print(f"wrote {path}", file=sys.stderr)
    if options.json:
        print(json.dumps(comparison.to_dict(), indent=1))
    else:
        print("\n\n".join(table.to_markdown() for table in comparison.tables()))


if __name__ == "__main__":
    main()
