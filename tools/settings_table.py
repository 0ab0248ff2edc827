#!/usr/bin/env python3
"""Why our models differ from the paper's: one setting changed at a time, and what it does to the paper's statements.

    quadlens sweep --weight-decay 2 --seeds 0:12 --strategies moments -o wd2
    python tools/settings_table.py --gather "weight decay 2=wd2" …
    python tools/settings_table.py

The first call of the tool adds sweeps to docs/data/settings.parquet under a name (several may have one), the second
prints the table: models of each setting, and how many of the paper's statements agree with them. With few models
intervals are wide and much agrees by that alone, so that the first rows say how many agree where 12 of the 151 are
drawn. `--tf32 DIR --seeds A:B` makes models whose every product rounds its operands to TF32's 11 significant bits, as
some GPUs do.
"""

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from quadlens.cli.settings import parse_seeds
from quadlens.errors import QuadlensError
from quadlens.population import dataset
from quadlens.population.comparison import Comparison, compare
from quadlens.published import read_published
from quadlens.table import Table

ROWS = Path(__file__).parent.parent / "docs" / "data" / "settings.parquet"
DRAWS = 40
# The row that only counts models, and one that stands there under two names.
NOT_COUNTED = ("models", "models_all_neuron_frequencies_match")


def gather(named: Sequence[str]) -> None:
    """Add sweeps to the file, under their names; a name that is there already is replaced."""
    frames: dict[str, list[pl.DataFrame]] = {}
    for word in named:
        name, _, directory = word.rpartition("=")
        frames.setdefault(name, []).append(dataset.read(Path(directory)))
    new = [pl.concat(many).with_columns(setting=pl.lit(name)) for name, many in frames.items()]
    if ROWS.exists():
        old = pl.read_parquet(ROWS)
        new = [old.filter(~pl.col("setting").is_in(list(frames))), *new]
    pl.concat(new).write_parquet(ROWS, compression="zstd", compression_level=19)


def verdicts(found: Comparison) -> list[str]:
    """Agrees or differs, statement by statement, key frequencies and histograms included."""
    stated = [one.verdict for one in found.statements if one.name not in NOT_COUNTED]
    return [*stated, found.key_counts.verdict, *(one.verdict for one in found.histograms)]


def facts(frame: pl.DataFrame) -> list[str]:
    """Models, accurate ones, good ones, key frequencies, purity, doubled secondary frequencies, even angles."""
    purity = frame.explode("neurons").select(pl.col("neurons").struct.field("variance_input")).to_series().drop_nulls()
    angles = frame.filter("good_model").explode("clusters").select(pl.col("clusters").struct.unnest()).filter("key")
    living = frame.explode("neurons").select(pl.col("neurons").struct.unnest()).filter(pl.col("role") != "dead")
    return [
        str(len(frame)),
        str(int((frame["correct"] == frame["inputs"]).sum())),
        f"{int(frame['good_model'].sum())} ({frame['good_model'].mean():.0%})",
        f"{frame['n_key_frequencies'].mean():.2f}",
        f"{purity.median():.3f}",
        f"{(living['secondary_multiple'] == 2).mean():.2f}",
        f"{angles['angle_approximation_error'].median():.3f}" if len(angles) else "–",
    ]


def main() -> None:
    """Add sweeps, make models with TF32's rounding, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gather", nargs="+", metavar="NAME=DIR")
    parser.add_argument("--tf32", type=Path, metavar="DIR")
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--seeds", default="0:12")
    options = parser.parse_args()
    if options.tf32 is not None:
        return train_with_tf32(options.tf32, options.preset, parse_seeds(options.seeds))
    if options.gather is not None:
        return gather(options.gather)
    ours, rng, rows = dataset.read(dataset.shipped_path()), np.random.default_rng(0), []
    found = verdicts(compare(ours))
    rows.append(("none: the 151", *facts(ours), f"{found.count('agrees')} of {len(found)}"))
    draws = [ours[sorted(rng.choice(len(ours), 12, replace=False).tolist())] for _ in range(DRAWS)]
    agree = [verdicts(compare(one)).count("agrees") for one in draws]
    spread = f"{min(agree)} … {max(agree)}, median {int(np.median(agree))}"
    rows.append(("none: 12 of them", "12", *facts(ours)[1:2], *("",) * 5, spread))
    for (name,), frame in pl.read_parquet(ROWS).group_by("setting", maintain_order=True):
        found = verdicts(compare(frame, of_any_kind=True))
        rows.append((str(name), *facts(frame), f"{found.count('agrees')} of {len(found)}"))
    keys = dict(read_published().population.key_counts)
    mean = sum(k * n for k, n in keys.items()) / sum(keys.values())
    rows.append(("the paper", "151", "151", "100 (66%)", f"{mean:.2f}", "0.941 … 0.970", "0.83 – 0.84", "", ""))
    header = (
        "changed", "models", "accurate", "good", "key frequencies", "purity, median", "secondary is twice",
        "angle error, median", "statements that agree",
    )  # fmt: skip
    sys.stdout.write(Table("", header, rows, left=(0,)).to_markdown())
    return None


def train_with_tf32(directory: Path, preset: str, seeds: Sequence[int]) -> None:
    """A sweep's models, made in this process with `torch.mm` and `addmm_` on rounded operands."""
    import torch

    from quadlens.population.one_model import Task, make_model, token_file
    from quadlens.population.store import Store
    from quadlens.training.config import load_config

    def rounded(x: torch.Tensor) -> torch.Tensor:
        """To the nearest number with 13 bits fewer, ties away from 0."""
        return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)

    product, add_product = torch.mm, torch.Tensor.addmm_
    torch.mm = lambda x, y, **out: product(rounded(x), rounded(y), **out)
    torch.Tensor.addmm_ = lambda sum_, x, y, **more: add_product(sum_, rounded(x), rounded(y), **more)  # type: ignore[method-assign, assignment]
    Store(directory).prepare()
    token = "tf32"
    token_file(directory).write_text(token)
    for seed in seeds:
        config = dataclasses.replace(load_config(preset), seed=seed)
        outcome = make_model(Task(directory.resolve(), token, config, ("moments",)))
        if outcome.status != "done":
            raise QuadlensError(f"seed {seed}: {outcome.reason}")


if __name__ == "__main__":
    main()
