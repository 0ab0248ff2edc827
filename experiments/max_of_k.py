"""How often is the largest of K tokens answered right?

Bounds are proved over all 64^K inputs; at K = 4 brute force is beside them.

    python experiments/max_of_k.py DIR                  # rows of DIR in data/max_of_k.csv
    python experiments/max_of_k.py DIR --brute          # also try every input, K = 4
    python experiments/max_of_k.py --table              # what docs/sequences.md shows of them

Bounds are those of `quadlens certify`, whose certificate is then verified by the checker
(`quadlens_checker`).
"""

import argparse
import csv
import json
import time
from fractions import Fraction
from math import ceil, floor
from pathlib import Path

import numpy as np

from quadlens.network import load
from quadlens.network.native import to_bytes
from quadlens.network.sequence_forward import forward, sequence_config
from quadlens.network.weights import Weights
from quadlens.proofs.sequences.certificate import certify_sequence
from quadlens.proofs.sequences.tables import Network
from quadlens_checker.sequence_verdict import cells_first

CERTIFY = "certify"
DATA = Path(__file__).parent / "data" / "max_of_k.csv"
# Rows that are not by certify are of an earlier state of this script: float64 with an allowance for
# rounding.
FIELDS = (
    *("model", "K", "seed", "by", "inputs", "right_at_least", "right_at_most"),
    *("accuracy_low", "accuracy_high", "sampled", "seconds", "check_seconds"),
    *("certificate_bytes", "brute_right", "brute_seconds"),
)


def brute(weights: Weights) -> int:
    """How many of all 64^4 inputs are answered right, in float64."""
    tables = Network(weights).direct(0)
    w, L, x = (
        tables.w.middle.transpose(0, 2, 1),
        tables.logits.middle.transpose(1, 0, 2),
        tables.base.middle,
    )
    n, right = L.shape[1], 0
    c, d = (one.ravel() for one in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    for q in range(n):
        E = w[q, 1, c] + w[q, 2, d] + w[q, 3, q]
        N = w[q, 1, c, None] * L[1, c] + w[q, 2, d, None] * L[2, d] + w[q, 3, q] * L[3, q]
        largest = np.maximum(np.maximum(c, d), q)
        for a in range(n):
            logits = (N + w[q, 0, a] * L[0, a]) / (E + w[q, 0, a])[:, None] + x[q]
            right += int((logits.argmax(axis=1) == np.maximum(largest, a)).sum())
    return right


def sampled(weights: Weights, n: int = 100_000) -> float:
    """Share of right answers on words drawn evenly, by the forward pass itself."""
    K = sequence_config(weights).n_ctx
    words = np.random.default_rng(0).integers(0, weights.W_E.shape[0], (n, K))
    found = [
        forward(weights, part, K - 1).argmax(axis=1) == part.max(axis=1)
        for part in np.array_split(words, 20)
    ]
    return float(np.concatenate(found).mean())


def table() -> None:
    """The rows of docs/sequences.md: ranges over the seeds of each K, rounded outwards."""
    rows = list(csv.DictReader(DATA.open()))
    print(
        "| K | by | inputs | seeds | accuracy between | widest gap, points "
        "| seconds | to check | to try all |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for K, by in sorted({(int(row["K"]), row["by"]) for row in rows}):
        here = [row for row in rows if (int(row["K"]), row["by"]) == (K, by)]
        low, high = (
            [Fraction(int(r[f"right_at_{end}"]), 64**K) for r in here] for end in ("least", "most")
        )
        gap = max(b - a for a, b in zip(low, high, strict=True))
        medians = []
        for name in ("seconds", "check_seconds", "brute_seconds"):
            seconds = sorted(float(row[name]) for row in here if row[name])
            medians.append(f"{seconds[len(seconds) // 2]:.1f}" if seconds else "–")
        between = f"{floor(10**5 * min(low)) / 1000:.3f} … {ceil(10**5 * max(high)) / 1000:.3f} %"
        cells = K, by, f"64^{K}", len(here), between, f"{ceil(10**5 * gap) / 1000:.3f}", *medians
        print(f"| {' | '.join(map(str, cells))} |")
    tried = [row for row in rows if row["brute_right"]]
    inside = [
        int(r["right_at_least"]) <= int(r["brute_right"]) <= int(r["right_at_most"]) for r in tried
    ]
    print(f"\n{sum(inside)} of {len(inside)} counts by brute force are within their bounds.")


def row_of(path: Path, with_brute: bool) -> dict[str, str]:
    """Prove, check, sample, and try every input where that is asked for."""
    weights, began = load(path), time.process_time()
    found = certify_sequence(weights)
    content, proved = found.to_bytes(), time.process_time()
    cells_first(json.loads(content), to_bytes(weights), lambda operations: None)()
    checked = time.process_time()
    K, (least, most) = sequence_config(weights).n_ctx, found.wrong_inputs
    tried = brute(weights) if with_brute and K == 4 else ""
    low, high = (float(Fraction(found.inputs - wrong, found.inputs)) for wrong in (most, least))
    counts = found.inputs, found.inputs - most, found.inputs - least
    about = (path.stem, K, path.stem.split("_")[-1], CERTIFY, *counts, low, high)
    seconds = round(proved - began, 1), round(checked - proved, 1)
    last = (tried, round(time.process_time() - checked, 1) if tried else "")
    values = (*about, sampled(weights), *seconds, len(content), *last)
    return dict(zip(FIELDS, map(str, values), strict=True))


def main() -> None:
    """Every network of a directory that has no row by certify yet."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--brute", action="store_true")
    parser.add_argument("--only", default="max*.safetensors")
    options = parser.parse_args()
    if options.table:
        table()
        return
    rows = list(csv.DictReader(DATA.open())) if DATA.exists() else []
    for path in sorted(options.directory.glob(options.only)):
        if any(row["model"] == path.stem and row["by"] == CERTIFY for row in rows):
            continue
        rows = [*(row for row in rows if row["model"] != path.stem), row_of(path, options.brute)]
        print(rows[-1], flush=True)
        with DATA.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(sorted(rows, key=lambda one: (int(one["K"]), int(one["seed"]))))


if __name__ == "__main__":
    main()
