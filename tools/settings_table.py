#!/usr/bin/env python3
"""Measure why our models differ from the paper's, one setting changed at a time.

The table has what each change does to the paper's statements.

    quadlens sweep --weight-decay 2 --seeds 0:12 --strategies moments -o wd2
    python tools/settings_table.py --gather "weight decay 2=wd2" …
    python tools/settings_table.py

The first call of the tool adds sweeps to docs/data/settings.parquet under a name (several may have
one), the second prints the table: models of each setting, and how many of the paper's statements
agree with them. With few models intervals are wide and much agrees by that alone, so that the first
rows say how many agree where as few of the 151 are drawn. `--tf32 DIR --seeds A:B` makes models
whose every product rounds its operands to TF32's 11 significant bits, as some GPUs do.

Each sweep is gathered twice. "As the paper reads" a neuron, its frequencies and phases are those of
what attention brings of a and b, without the embedding of b that the residual stream adds, and the
share of its largest frequency is of the mean square of W_in (OV(a) + OV(b) + embed(b)), positions
counted inside OV only, constant included: with these definitions the bundled model `original` has
the paper's histogram (`--definitions` prints it) and its angle errors.
"""

import argparse
import dataclasses
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from quadlens.analysis.published import read_published
from quadlens.base.errors import QuadlensError
from quadlens.base.table import Table
from quadlens.cli.settings import parse_seeds
from quadlens.network import load
from quadlens.network.config import Config
from quadlens.network.study import study_of
from quadlens.network.weights import Weights
from quadlens.training.population import dataset
from quadlens.training.population.analysis import analyse, results_to_bytes
from quadlens.training.population.comparison import Comparison, compare

ROWS = Path(__file__).parent.parent / "docs" / "data" / "settings.parquet"
DRAWS = 10
AS_THE_PAPER = ", as the paper reads"


def gather(named: Sequence[str]) -> None:
    """Add sweeps to the file, under their names; a name that is there already is replaced."""
    frames: dict[str, list[pl.DataFrame]] = {}
    for word in named:
        name, _, directory = word.rpartition("=")
        if not name:
            raise SystemExit(f"{word!r}; expected NAME=DIR")
        frames.setdefault(name, []).append(dataset.read(Path(directory)))
        frames.setdefault(name + AS_THE_PAPER, []).append(read_as_the_paper(Path(directory)))
    new = [pl.concat(many).with_columns(setting=pl.lit(name)) for name, many in frames.items()]
    if ROWS.exists():
        old = pl.read_parquet(ROWS)
        new = [old.filter(~pl.col("setting").is_in(list(frames))), *new]
    pl.concat(new).write_parquet(ROWS, compression="zstd", compression_level=19)


def read_as_the_paper(directory: Path) -> pl.DataFrame:
    """Return a sweep's dataset with neurons read along attention's path alone.

    Manifests are those of the sweep.
    """
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(directory / "models", Path(place) / "models")
        for run in sorted((Path(place) / "models").iterdir()):
            model = load(str(run / "model.safetensors"))
            assert isinstance(model, Weights)
            paths = Paths.of(model)
            study, results = (
                study_of(paths.attention_alone(model)),
                json.loads((run / "results.json").read_bytes()),
            )
            skip = results["explanation"][
                "residual_variance_share"
            ]  # of the whole model: there is none along one path
            found = analyse(study, ("moments",)).results
            results |= {name: found[name] for name in ("explanation", "bounds")}
            results["explanation"]["residual_variance_share"] = skip
            (run / "results.json").write_bytes(results_to_bytes(results))
            shares = pl.Series("variance_input", paths.share_of_largest())
            study.explanation.neuron_frame().with_columns(shares).write_parquet(
                run / "neurons.parquet"
            )
        return dataset.read(Path(place))


@dataclasses.dataclass(frozen=True)
class Paths:
    """What reaches the neurons: [token, neuron] along each path, constants apart.

    Attributes:
        ov_a, ov_b: What attention brings of a and of b, positions included.
        embed_b: The embedding of b that the residual stream adds.
        position_b: That of b's position.
    """

    ov_a: np.ndarray
    ov_b: np.ndarray
    embed_b: np.ndarray
    position_b: np.ndarray

    @classmethod
    def of(cls, model: Weights) -> "Paths":
        """Of a transformer with constant attention that is read at b."""
        p, (of_a, of_b) = model.config.p, model.config.attention[:2]
        embedding, position, W_in = (
            w.astype(np.float64) for w in (model.W_E[:p], model.W_pos, model.W_in)
        )
        OV = np.einsum("hdk,hkm->dm", model.W_V.astype(np.float64), model.W_O.astype(np.float64))
        return cls(
            of_a * (embedding + position[0]) @ OV @ W_in,
            of_b * (embedding + position[1]) @ OV @ W_in,
            embedding @ W_in,
            position[1] @ W_in,
        )

    def attention_alone(self, model: Weights) -> Weights:
        """A network whose neurons read attention's path alone."""
        config = Config.mlp(
            model.config.p, model.config.d_mlp, model.config.activation, model.config.task
        )
        W_L = model.W_out.astype(np.float64) @ model.W_U.astype(np.float64)
        return Weights(config, W_a=self.ov_a, W_b=self.ov_b, W_out=W_L)

    def share_of_largest(self) -> np.ndarray:
        """Return the largest frequency's share of each neuron's mean square.

        It is over all (a, b), the constant included.
        """
        return largest_share(self.ov_a, self.ov_b + self.embed_b, with_constant=True)


def largest_share(of_a: np.ndarray, of_b: np.ndarray, with_constant: bool) -> np.ndarray:
    """Return the largest frequency's share of the mean square, or of the variance.

    It is of of_a[a] + of_b[b] over all (a, b).
    """
    waves = [2 * np.abs(np.fft.rfft(part, axis=0)[1:] / len(part)) ** 2 for part in (of_a, of_b)]
    power, constant = waves[0] + waves[1], (of_a.mean(axis=0) + of_b.mean(axis=0)) ** 2
    shares: np.ndarray = power.max(axis=0) / (power.sum(axis=0) + with_constant * constant)
    return shares


def definitions() -> None:
    """Return how far `original` is from the paper's histogram of 512 neurons.

    The distance depends on what counts as a neuron's input.
    """
    model, paper = load("original"), read_published().variance_input
    assert isinstance(model, Weights)
    paths = Paths.of(model)
    bias, whole_b = model.b_in.astype(np.float64), paths.ov_b + paths.embed_b
    inputs = {
        "OV(a) + OV(b)": (paths.ov_a, paths.ov_b),
        "OV(a) + OV(b) + embed(b)": (paths.ov_a, whole_b),
        "OV(a) + OV(b) + embed(b) + position of b": (paths.ov_a, whole_b + paths.position_b),
        "all of it, bias included": (paths.ov_a, whole_b + paths.position_b + bias),
    }
    rows = []
    for name, (of_a, of_b) in inputs.items():
        for constant in (False, True):
            shares = largest_share(of_a, of_b, constant)
            theirs = np.concatenate([[0.0], np.cumsum(paper.count) / sum(paper.count)])
            gap = max(
                abs(float((shares < edge).mean()) - share)
                for edge, share in zip(paper.edges, theirs, strict=True)
            )
            quantiles = " … ".join(f"{x:.3f}" for x in np.quantile(shares, (0.1, 0.5, 0.9)))
            rows.append((name, "yes" if constant else "no", quantiles, f"{gap:.3f}"))
    header = (
        "a neuron's input",
        "constant counted",
        "share of the largest frequency, 10 … 50 … 90 %",
        "largest gap",
    )
    sys.stdout.write(Table("", header, rows, left=(0,)).to_markdown() + "\n")


def agreeing(found: Comparison) -> int:
    """How many of the comparisons agree."""
    return sum(one.verdict == "agrees" for one in found.tests)


def facts(frame: pl.DataFrame, found: Comparison) -> list[str]:
    """Return the cells of a row.

    They are agreement, good models, key frequencies, purity, double frequencies, angles.
    """
    statements = {one.name: one.ours for one in found.statements}
    field = pl.element().struct.field
    good_pairs = dataset.inside(
        frame.filter(frame["good_model"]),
        "clusters",
        field("angle_approximation_error"),
        field("key"),
    )
    angles = np.concatenate([[], *good_pairs])
    purity = (
        frame.explode("neurons")
        .select(pl.col("neurons").struct.field("variance_input"))
        .to_series()
        .drop_nulls()
    )
    good = statements["good_models"]
    return [
        str(len(frame)),
        f"{agreeing(found)} of {len(found.tests)}",
        f"{good} ({(good or 0) / len(frame):.0%})",
        f"{frame['n_key_frequencies'].mean():.2f}",
        change(frame),
        f"{purity.median():.3f}",
        f"{statements['share_of_neurons_with_secondary_twice_primary']:.2f}",
        f"{np.median(angles):.3f}" if len(angles) else "–",
    ]


def change(frame: pl.DataFrame) -> str:
    """Return by how much key frequencies differ from the shipped models', ± standard error.

    Models with the same seeds are compared.

    Nothing of models whose seeds mean another start, or that are those models.
    """
    shipped = dataset.read(dataset.shipped_path()).select(
        "seed", "model_sha256", before="n_key_frequencies"
    )
    pairs = frame.filter(pl.col("seeding") == "quadlens").join(shipped, on="seed")
    more = (pairs["n_key_frequencies"] - pairs["before"]).to_numpy()
    if len(more) < len(frame) or (pairs["model_sha256"] == pairs["model_sha256_right"]).all():
        return ""
    return f"{more.mean():+.2f} ± {more.std(ddof=1) / np.sqrt(len(more)):.2f}"


def of_the_paper() -> list[str]:
    """The same of the paper's models, as far as it says."""
    paper = read_published()
    keys, counts = dict(paper.population.key_counts), paper.population.counts
    good, models = counts["models_all_neuron_frequencies_match"], counts["models_stated"]
    mean = sum(k * n for k, n in keys.items()) / sum(keys.values())
    low, high = paper.population.histogram("relu_input_variance_explained").median_bin
    doubled = " – ".join(f"{share:.2f}" for share in paper.doubled)
    return [
        str(models),
        "",
        f"{good} ({good / models:.0%})",
        f"{mean:.2f}",
        "",
        f"{low:.3f} … {high:.3f}",
        doubled,
        "",
    ]


def main() -> None:
    """Add sweeps, make models with TF32's rounding, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gather", nargs="+", metavar="NAME=DIR")
    parser.add_argument("--tf32", type=Path, metavar="DIR")
    parser.add_argument("--definitions", action="store_true")
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--seeds", default="0:12")
    options = parser.parse_args()
    if options.tf32 is not None:
        return train_with_tf32(options.tf32, options.preset, parse_seeds(options.seeds))
    if options.gather is not None:
        return gather(options.gather)
    if options.definitions:
        return definitions()
    ours, rng = dataset.read(dataset.shipped_path()), np.random.default_rng(0)
    rows = [("none: the 151", *facts(ours, compare(ours)))]
    settings = list(pl.read_parquet(ROWS).group_by("setting", maintain_order=True))
    for count in sorted({len(frame) for _, frame in settings}):
        draws = [
            ours[sorted(rng.choice(len(ours), count, replace=False).tolist())] for _ in range(DRAWS)
        ]
        agree = [agreeing(compare(one)) for one in draws]
        few = f"none: {count} of them, drawn {DRAWS} times"
        rows.append((few, str(count), f"{min(agree)} … {max(agree)}", *("",) * 6))
        first = ours.filter(pl.col("seed") < count)
        rows.append((f"none: seeds 0 to {count - 1}", *facts(first, compare(first))))
    for (name,), frame in settings:
        rows.append((str(name), *facts(frame, compare(frame, of_any_kind=True))))
    rows.append(("the paper", *of_the_paper()))
    header = (
        "changed",
        "models",
        "agree",
        "good models",
        "key frequencies",
        "change",
        "purity",
        "doubled",
        "angle error",
    )
    sys.stdout.write(Table("", header, rows, left=(0,)).to_markdown() + "\n")
    return None


def train_with_tf32(directory: Path, preset: str, seeds: Sequence[int]) -> None:
    """A sweep's models, made in this process with `torch.mm` and `addmm_` on rounded operands."""
    import torch

    from quadlens.training.config import load_config
    from quadlens.training.population.one_model import Job, make_model
    from quadlens.training.population.store import Store

    def rounded(x: torch.Tensor) -> torch.Tensor:
        """To the nearest number with 13 bits fewer, ties away from 0."""
        return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)

    product, add_product = torch.mm, torch.Tensor.addmm_
    torch.mm = lambda x, y, **out: product(rounded(x), rounded(y), **out)
    torch.Tensor.addmm_ = lambda sum_, x, y, **more: add_product(
        sum_, rounded(x), rounded(y), **more
    )  # type: ignore[method-assign, assignment]
    Store(directory).prepare()
    for seed in seeds:
        config = dataclasses.replace(load_config(preset), seed=seed)
        task = Job(directory.resolve(), config, ("moments",))
        Store(task.root).unfinished(task.run_id).path.mkdir(exist_ok=True)
        outcome = make_model(task)
        if outcome.status != "done":
            raise QuadlensError(f"seed {seed}: {outcome.reason}")


if __name__ == "__main__":
    main()
