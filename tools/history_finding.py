#!/usr/bin/env python3
"""When twelve networks learned what: the tables and the figure of docs/history.md.

    quadlens train --preset paper --seed N --snapshots 60 -o sN.safetensors      # N = 0 … 11
    quadlens history sN.safetensors -o hN.parquet
    python tools/history_finding.py --gather h0.parquet h1.parquet … --models s0.safetensors
    s1.safetensors …
    python tools/history_finding.py [--figure FILE]                              # prints the tables

The first call of the tool writes docs/data/history.parquet, with the smallest rank that would do at
every snapshot, in float64; the second prints what is in it.

An event's epoch is that of the first snapshot from which on its condition holds to the end of the
run ("first …": of the first snapshot where it holds). Intervals are those between two of the
ordered epochs that hold the median with at least 95 % probability, whatever the distribution. A
sign test counts only seeds with the two events at different snapshots.
"""

import argparse
import math
import sys
from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import binom, binomtest

from quadlens.base.table import Table
from quadlens.proofs.pairs.low_rank import arcs_spectrum, low_rank
from quadlens.training.over_time import covered, files_of, model_in

ROWS = Path(__file__).parent.parent / "docs" / "data" / "history.parquet"
P = 59
COLUMNS = (
    "epoch",
    "train_loss",
    "test_loss",
    "accuracy",
    "clustered",
    "symmetric_part",
    "exact_error",
    "certified_share",
    "rank",
    "cost_share",
)
held, proved = pl.col("test_loss"), pl.col("certified_share")
# Name, condition, whether the first snapshot counts rather than the first for good.
EVENTS: dict[str, tuple[pl.Expr, bool]] = {
    "held-out loss at its largest": (held == held.max(), True),
    "¼ of neurons at final key frequencies": (pl.col("clustered") >= 0.25, False),
    "½ of neurons there": (pl.col("clustered") >= 0.5, False),
    "held-out loss < log 59 (guessing)": (held < math.log(P), False),
    "symmetric part > 0.5": (pl.col("symmetric_part") > 0.5, False),
    "held-out loss < 1": (held < 1, False),
    "symmetric part > 0.9": (pl.col("symmetric_part") > 0.9, False),
    "all inputs right": (pl.col("accuracy") == 1, False),
    "quadrature error < 50 %": (pl.col("exact_error") < 0.5, False),
    "first input proved": (proved > 0, True),
    "all inputs proved": (proved == 1, False),
    "quadrature error < 10 %": (pl.col("exact_error") < 0.1, False),
    "symmetric part > 0.99": (pl.col("symmetric_part") > 0.99, False),
    "rank m at its final value": (pl.col("rank") == pl.col("rank").last(), False),
}
TURNS, QUARTER, HALF, GUESSING, R50, BELOW_1, R90, RIGHT, Q50, FIRST, ALL, Q10, R99, FINAL = EVENTS
ORDERS = (
    (TURNS, QUARTER),
    (QUARTER, GUESSING),
    (HALF, GUESSING),
    (R50, GUESSING),
    (R90, RIGHT),
    (RIGHT, Q50),
    (RIGHT, FIRST),
    (RIGHT, ALL),
    (ALL, R99),
    (ALL, FINAL),
)


def epoch_of(rows: pl.DataFrame, condition: pl.Expr, first: bool) -> float:
    """When an event is in one run; infinity where it never is."""
    holds = rows.select(condition.fill_null(False)).to_series().to_numpy()
    if not first:
        holds = np.logical_and.accumulate(holds[::-1])[::-1]
    return float(rows["epoch"][int(holds.argmax())]) if holds.any() else math.inf


def smallest_ranks(model: Path) -> list[int | None]:
    """Return the m that bisection finds to cover all inputs of every snapshot.

    It is in float64, and None where no rank covers them.
    """
    found: list[int | None] = []
    for _, file in files_of(model):
        layer = model_in(file).collapse()
        spectrum = arcs_spectrum(layer)
        low, high = 0, layer.p - 1
        if not covered(layer, low_rank(spectrum, high)).all():
            found.append(None)
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (
                (low, middle)
                if covered(layer, low_rank(spectrum, middle)).all()
                else (middle, high)
            )
        found.append(high)
    return found


def median_interval(values: list[float]) -> tuple[float, float, float]:
    """The median, and the two order statistics that hold it with at least 95 % probability."""
    ordered, n = sorted(values), len(values)
    rank = max(k for k in range(n // 2) if 1 - 2 * binom.cdf(k, n, 0.5) >= 0.95)
    middle = ordered[(n - 1) // 2], ordered[n // 2]
    return sum(middle) / 2, ordered[rank], ordered[n - 1 - rank]


def shown(epoch: float) -> str:
    """As text."""
    return f"{epoch:,.0f}" if math.isfinite(epoch) else "later"


def runs_of(rows: pl.DataFrame) -> list[pl.DataFrame]:
    """One frame per seed, in order."""
    return rows.partition_by("seed", maintain_order=True)


def tables(rows: pl.DataFrame) -> tuple[Table, Table]:
    """When, and in which order."""
    runs = runs_of(rows)
    when = {name: [epoch_of(run, *event) for run in runs] for name, event in EVENTS.items()}
    lines = []
    for name, epochs in when.items():
        middle, low, high = median_interval(epochs)
        reached = str(sum(map(math.isfinite, epochs)))
        lines.append(
            (
                name,
                shown(middle),
                f"{shown(low)} … {shown(high)}",
                f"{shown(min(epochs))} … {shown(max(epochs))}",
                reached,
            )
        )
    header = ("event", "median epoch", "95 % interval", "all seeds", "seeds")
    orders = []
    for one, other in ORDERS:
        pairs = list(zip(when[one], when[other], strict=True))
        before, after = sum(a < b for a, b in pairs), sum(a > b for a, b in pairs)
        p = binomtest(before, before + after).pvalue if before + after else 1.0
        orders.append(
            (one, other, str(before), str(len(pairs) - before - after), str(after), f"{p:.2g}")
        )
    second = ("A", "B", "A first", "same", "B first", "p")
    return Table("When", header, lines, left=(0,)), Table(
        "In which order", second, orders, left=(0, 1)
    )


def costs(rows: pl.DataFrame) -> str:
    """How the proof of all inputs gets shorter after every answer is right."""
    by_seed = rows.filter(proved == 1).sort("epoch").group_by("seed")
    both = by_seed.agg(pl.all().first()).join(
        by_seed.agg(pl.all().last()), on="seed", suffix="_end"
    )
    falls = both.filter(pl.col("cost_share_end") < pl.col("cost_share"))
    low, high = both["rank"].min(), both["rank"].max()
    right = [epoch_of(run, *EVENTS[RIGHT]) for run in runs_of(rows)]
    then = [
        run.filter(epoch=at)["exact_error"][0] for run, at in zip(runs_of(rows), right, strict=True)
    ]
    needed = [
        [run.filter(epoch=at)["smallest_rank"][0] for run in runs_of(rows)]
        for at in (max(right), 10_000)
    ]
    needs = [f"{min(ranks)} to {max(ranks)} (median {np.median(ranks):.0f})" for ranks in needed]
    error = f"{100 * np.median(then):.0f} % ({100 * min(then):.0f} … {100 * max(then):.0f} %)"
    return (
        f"When all inputs have become right, the quadrature error is {error} of the integral's "
        "mean size. The first proof of all inputs has rank "
        f"{low}{'' if low == high else f' to {high}'} and costs "
        f"{100 * both['cost_share'].median():.1f} % of brute force (median of seeds). At epoch "
        f"10,000 the rank is {both['rank_end'].min()} to {both['rank_end'].max()} and the cost "
        f"{100 * both['cost_share_end'].median():.1f} %. It fell in {len(falls)} of {len(both)} "
        f"seeds. The smallest rank that would do, in float64 and without a limit, is {needs[0]} at "
        f"epoch {max(right):.0f}, the first snapshot where all inputs are right in all seeds, and "
        f"{needs[1]} at the end."
    )


def draw(rows: pl.DataFrame, file: Path) -> None:
    """The runs over each other: median, quartiles, range."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from quadlens.show.figures.style import CONCEPT_COLOURS

    epochs = rows["epoch"].unique().sort().to_numpy()
    shown_epochs = epochs + 1

    def band(ax: plt.Axes, column: pl.Expr, colour: str, label: str) -> None:
        values = rows.select("seed", "epoch", value=column).pivot(
            on="seed", index="epoch", values="value"
        )
        table = values.sort("epoch").drop("epoch").to_numpy().astype(float)
        known = ~np.isnan(table).any(axis=1)
        low, first, middle, third, high = np.quantile(table[known], [0, 0.25, 0.5, 0.75, 1], axis=1)
        ax.fill_between(shown_epochs[known], low, high, color=colour, alpha=0.14, lw=0)
        ax.fill_between(shown_epochs[known], first, third, color=colour, alpha=0.3, lw=0)
        ax.plot(shown_epochs[known], middle, color=colour, lw=1.6, label=label)

    colour = CONCEPT_COLOURS
    figure, axes = plt.subplots(4, 1, figsize=(7.2, 9.2), sharex=True, layout="constrained")
    band(axes[0], pl.col("train_loss"), colour["train"], "training pairs")
    band(axes[0], held, colour["validation"], "held-out pairs")
    axes[0].axhline(math.log(P), color="0.5", lw=0.8, ls="--")
    axes[0].text(1.05, math.log(P) * 0.32, "guessing", color="0.4", fontsize=8)
    axes[0].set(yscale="log", ylabel="loss")
    band(axes[1], 100 * pl.col("accuracy"), colour["input"], "inputs answered right")
    band(axes[1], 100 * pl.col("clustered"), colour["output"], "neurons at final key frequencies")
    band(
        axes[1],
        100 * pl.col("symmetric_part").clip(0, 1),
        colour["paper"],
        "symmetric part of the lens",
    )
    axes[1].set(ylabel="%")
    band(
        axes[2],
        100 * pl.col("exact_error"),
        colour["bound"],
        "largest exact error of a final key cluster",
    )
    axes[2].set(yscale="log", ylabel="% of the integral's mean size")
    band(axes[3], 100 * proved, colour["exact"], "inputs proved, %")
    band(
        axes[3],
        pl.when(proved == 1).then(pl.col("rank")),
        colour["bound"],
        "rank m, once all seeds are proved",
    )
    band(
        axes[3],
        pl.col("smallest_rank"),
        "0.35",
        "smallest rank that would do, once all inputs are right",
    )
    axes[3].set(ylabel="%, and m", xlabel="epoch + 1", xscale="log")
    for ax in axes:
        ax.legend(fontsize=8, loc="best")
        ax.grid(alpha=0.25)
    figure.savefig(file, dpi=150)


def main() -> None:
    """Gather rows, or print what they say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--gather", type=Path, nargs="+", help="rows of seeds 0, 1, …, in this order"
    )
    parser.add_argument(
        "--models", type=Path, nargs="+", help="the models of these seeds, snapshots beside them"
    )
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    if options.gather:
        frames = [pl.read_parquet(file).select(COLUMNS) for file in options.gather]
        ranks = [
            pl.Series("smallest_rank", smallest_ranks(model), pl.Int64) for model in options.models
        ]
        each = enumerate(zip(frames, ranks, strict=True))
        pl.concat(
            [one.with_columns(rank, seed=pl.lit(i)) for i, (one, rank) in each]
        ).write_parquet(ROWS)
    rows = pl.read_parquet(ROWS)
    when, order = tables(rows)
    sys.stdout.write(f"{when.to_markdown()}\n\n{order.to_markdown()}\n\n{costs(rows)}\n")
    if options.figure is not None:
        draw(rows, options.figure)


if __name__ == "__main__":
    main()
