#!/usr/bin/env python3
"""The rank that `moments` needs beside what the explanation names: Σ d² over key irreps.

    python tools/proof_length.py [DIR] [--activation relu] [--rows FILE] [--figure FILE]

The models of the shipped population, whose ranks follow from the costs of `arcs` and `moments` that
the dataset has; and every accurate one-layer checkpoint below DIR, where the smallest rank is
searched that proves all inputs (in float64; a sample of tokens a for n > 250). Prints a table in
Markdown, one row per checkpoint; --figure draws both.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from quadlens.analysis.spectrum.irreps import find_irreps
from quadlens.analysis.spectrum.key import is_key
from quadlens.base.errors import QuadlensError
from quadlens.network.collapse import collapse
from quadlens.network.dyadic import DYADICS
from quadlens.network.weights import Weights
from quadlens.proofs.pairs.arcs import arcs_operations
from quadlens.proofs.pairs.direct import sample_of, share_left
from quadlens.proofs.pairs.float_layer import float_layer
from quadlens.proofs.pairs.low_rank import low_rank, output_spectrum
from quadlens.proofs.pairs.moments import moments_operations
from quadlens.readers import Hints, import_file
from quadlens.readers.registry import checkpoints_in
from quadlens.show.figures.canvas import canvas
from quadlens.show.figures.style import QUIET_COLOUR
from quadlens.training.population import dataset

LARGE, SAMPLE = 250, 24


def rank_by_costs(p: int, d_mlp: int, arcs: int, moments: int) -> int:
    """Return the m with which both counts are right.

    The counts differ by known terms and 2 (p - m - 1)(F + Q), 0 ≤ Q ≤ F + Q.

    Raises:
        ValueError: unless exactly one rank fits.
    """
    fitting = []
    for m in range(1, p - 1):
        rest = (
            arcs - moments - arcs_operations(p, d_mlp, 0, 0) + moments_operations(p, d_mlp, m, 0, 0)
        )
        both, left = divmod(rest, 2 * (p - m - 1))
        wrong = arcs - arcs_operations(p, d_mlp, 0, 0) - 2 * p * both
        if left == 0 and 0 <= wrong <= both:
            fitting.append(m)
    if len(fitting) != 1:
        raise ValueError(f"the ranks {fitting} fit the costs of a model with p = {p}")
    return fitting[0]


@dataclass(frozen=True)
class ProofLength:
    """What the explanation of one model predicts of its proof, and what the proof needs.

    Attributes:
        name: Of the model.
        kind: Which models are drawn alike.
        predicted: Σ d² over its key irreps; 2 for a frequency of a cyclic group.
        rank: Of W_L's low-rank form with which `moments` proves every input.
    """

    name: str
    kind: str
    predicted: int
    rank: int


def draw_lengths(points: Sequence[ProofLength]) -> Figure:
    """Draw the rank that each proof needs against Σ d² over key irreps.

    The area of a point is the number of models there.
    """
    with canvas(None, (4.6, 4.2), 1) as drawn:
        (axis,) = drawn.axes
        largest = max(max(one.predicted, one.rank) for one in points) + 2
        axis.plot([0, largest], [0, largest], color=QUIET_COLOUR, lw=1, label="rank = Σ d²")
        for kind, marker in zip(dict.fromkeys(one.kind for one in points), "osD^v", strict=False):
            places = Counter((one.predicted, one.rank) for one in points if one.kind == kind)
            x, y = zip(*places, strict=True)
            axis.scatter(
                x, y, [18 * count**0.7 for count in places.values()], marker=marker, alpha=0.6,
                label=f"{kind} ({sum(places.values())})",
            )  # fmt: skip
        axis.set(
            xlabel="Σ d² over key irreps", ylabel="rank that proves every input", xlim=(0, largest)
        )
        axis.legend(fontsize=8)
        return drawn.figure


def of_population() -> list[ProofLength]:
    """The shipped models, two functions for each key frequency."""
    points = []
    for model in dataset.read(dataset.shipped_path()).iter_rows(named=True):
        flops = {proof["strategy"]: proof["flops"] for proof in model["proofs"]}
        rank = rank_by_costs(model["p"], model["d_mlp"], flops["arcs"], flops["moments"])
        points.append(
            ProofLength(f"seed {model['seed']}", "population", 2 * model["n_key_frequencies"], rank)
        )
    return points


def of_checkpoint(name: str, model: Weights) -> tuple[ProofLength | None, str]:
    """Return Σ d² over the key irreps, the smallest rank that proves all, and the irreps.

    Key irreps have at least 1 % of W_L.
    """
    layer, task = float_layer(collapse(model, DYADICS)), model.config.task
    n = task.n
    tokens = range(n) if n <= LARGE else np.linspace(0, n - 1, SAMPLE).astype(int).tolist()
    sample = sample_of(layer, tokens)
    size = np.sqrt(np.mean([np.square(hidden).mean(axis=0) for _, hidden, _ in sample], axis=0))
    spectrum, irreps = output_spectrum(layer.W_L, size), find_irreps(task)
    shares = irreps.shares(spectrum.W_L * size)
    key = [
        (part, share)
        for part, share in zip(irreps.parts, shares.tolist(), strict=True)
        if is_key(share) and part.name != "trivial"
    ]
    words = ", ".join(
        f"{part.name} {share:.0%}" for part, share in sorted(key, key=lambda one: -one[1])
    )
    most = spectrum.vectors.shape[1]
    rank = next(
        (m for m in range(1, most) if share_left(layer, low_rank(spectrum, m), sample, 0.0) == 0.0),
        None,
    )
    kind = "checkpoint, attention" if hasattr(model, "W_E") else "checkpoint, MLP"
    return None if rank is None else ProofLength(
        name, kind, sum(part.rank for part, _ in key), rank
    ), words


def main() -> None:
    """Print the table, draw the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--activation", help="for files that do not say it")
    parser.add_argument("--rows", type=Path, help="keep results here, one JSON object per line")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    kept: dict[str, Any] = {}
    if options.rows is not None and options.rows.exists():
        kept = {row["name"]: row for row in map(json.loads, options.rows.open())}
    for path in [] if options.directory is None else checkpoints_in(options.directory):
        name = str(path.relative_to(options.directory))
        if name in kept:
            continue
        try:
            model = import_file(path, hints=Hints(activation=options.activation)).model
            point, words = of_checkpoint(name, model)
        except QuadlensError as error:
            print(f"<!-- {name}: {str(error).splitlines()[0][:160]} -->")
            continue
        kept[name] = {
            "name": name,
            "n": model.config.p,
            "irreps": words,
            "point": point and asdict(point),
        }
        if options.rows is not None:
            with options.rows.open("a") as file:
                file.write(json.dumps(kept[name]) + "\n")
    print(
        "| checkpoint | n | key irreps, share of W_L | Σ d² | rank that proves all inputs "
        "|\n|---|---|---|---|---|"
    )
    for row in kept.values():
        point = row["point"]
        numbers = (point["predicted"], point["rank"]) if point else ("–", "none: some are wrong")
        print(f"| {row['name']} | {row['n']} | {row['irreps']} | {numbers[0]} | {numbers[1]} |")
    points = of_population() + [
        ProofLength(**row["point"]) for row in kept.values() if row["point"]
    ]
    exact = sum(one.rank == one.predicted for one in points)
    print(f"\n{len(points)} models; rank = Σ d² for {exact}, at most four more for "
          f"{sum(0 <= one.rank - one.predicted <= 4 for one in points)}.")  # fmt: skip
    if options.figure is not None:
        draw_lengths(points).savefig(options.figure, dpi=150)


if __name__ == "__main__":
    main()
