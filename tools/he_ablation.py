"""He et al.'s two ablations of a hand-built network (arXiv 2602.16849), beside ours.

x² neurons, 128 shared out over the 11 frequencies of p = 23, phases equally spaced. The size of the
logits is chosen so that one frequency alone has their mean loss; everything else is predicted.

    python tools/he_ablation.py [--json]
"""

import argparse
import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
from scipy.optimize import brentq

import quadlens
from quadlens.base.table import Table
from quadlens.network.config import Config
from quadlens.network.weights import Weights

P, NEURONS = 23, 128
FREQUENCIES = range(1, (P + 1) // 2)
# Mean loss over all subsets of so many frequencies, and over all inputs for phases in [0, r·π).
SUBSETS = {1: 1.642745, 2: 0.6023623, 4: 2.878050e-2, 8: 2.991743e-8, 11: 7.414359e-15}
RANGES = {0.4: 4.815338, 0.8: 2.000744e-3, 1.2: 1.185669e-9, 1.6: 3.544408e-7, 2.0: 7.414359e-15}


@dataclass(frozen=True)
class Row:
    """One line: what was kept, the mean loss we find and the one they published."""

    kept: str
    ours: float
    published: float


def network(scale: float, turns: float = 2.0) -> Weights:
    """Return logits of squared sums of cosines with equally spaced phases.

    They are scale · Σ_i (cos(kwa + φ_i) + cos(kwb + φ_i))² cos(kwc + 2φ_i), φ_i equally spaced
    in [0, turns·π).
    """
    counts = [NEURONS // len(FREQUENCIES) + (k <= NEURONS % len(FREQUENCIES)) for k in FREQUENCIES]
    keys = np.repeat(FREQUENCIES, counts)
    phi = np.concatenate([np.linspace(0, turns * np.pi, n, endpoint=False) for n in counts])
    waves = 2 * np.pi / P * np.outer(np.arange(P), keys)
    reads = np.cos(waves + phi)
    return Weights.mlp(
        Config.mlp(P, NEURONS, "square"), reads, reads, scale * np.cos(waves + 2 * phi).T
    )


def with_frequencies(model: Weights, count: int) -> float:
    """Mean loss over all sets of `count` frequencies that may be kept."""
    losses = []
    for kept in itertools.combinations(FREQUENCIES, count):
        dropped = [k for k in FREQUENCIES if k not in kept]
        losses.append(quadlens.evaluate(quadlens.edit.ablate(model, frequencies=dropped)).loss)
    return float(np.mean(losses))


def rows() -> Iterator[Row]:
    """Both tables."""
    scale = float(
        brentq(lambda size: with_frequencies(network(size), 1) - SUBSETS[1], 0.01, 3.0, xtol=1e-7)
    )
    model = network(scale)
    for count, published in SUBSETS.items():
        yield Row(f"{count} of 11 frequencies", with_frequencies(model, count), published)
    for turns, published in RANGES.items():
        yield Row(
            f"phases in [0, {turns:g}π)", quadlens.evaluate(network(scale, turns)).loss, published
        )


def main() -> None:
    """Print the table or, with --json, the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="rows as JSON")
    found = list(rows())
    if parser.parse_args().json:
        print(json.dumps([asdict(row) for row in found]))
        return
    cells = [[row.kept, f"{row.ours:.3g}", f"{row.published:.3g}"] for row in found]
    print(Table("mean loss", ["kept", "ours", "He et al."], cells).to_markdown())


if __name__ == "__main__":
    main()
