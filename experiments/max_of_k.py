"""How often the largest of K tokens is answered right: bounds over all 64^K inputs, and brute force at K = 4.

    python experiments/max_of_k.py DIR                  # every max*.safetensors of DIR: one row each in data/max_of_k.csv
    python experiments/max_of_k.py DIR --brute          # also try every input, K = 4
    python experiments/max_of_k.py --table              # what docs/sequences.md shows of them

With q the last token, m the largest and c a rival, the margin has the sign of Σ_j f_j(d_j), one number per position
(docs/sequences.md): f_j(d) = w_j(d) (L_j(d)[m] - L_j(d)[c] + x[m] - x[c]), w_j the exponential of the score, L_j what the
value writes into the logits, x the logits of the query's own stream. Words whose sum is not positive are counted by a
dynamic programme over the sum in steps of δ, once with every f_j(d) rounded down and once up; over rivals the count is at
least the largest and at most the sum, where rivals that go together are counted at once. f is computed in float64;
10^-6 δ is allowed for its rounding, which is some 10^4 times more than 32 products of numbers of that size can be off
by. This is arithmetic with an allowance, no certificate.
"""

import argparse
import csv
import time
from math import ceil, floor
from pathlib import Path

import numpy as np

from quadlens.model import load
from quadlens.model.sequence_forward import forward, sequence_config, tensor
from quadlens.model.weights import Weights

DATA = Path(__file__).parent / "data" / "max_of_k.csv"
BINS = 3000
ALLOWED = 1e-6
FIELDS = ("model", "K", "seed", "inputs", "right_at_least", "right_at_most", "accuracy_low", "accuracy_high",
          "sampled", "seconds", "brute_right", "brute_seconds")  # fmt: skip


def tables(weights: Weights) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each query token q: w [q, position, token]; L [position, token, logit]; x [q, logit]. In float64."""
    config = sequence_config(weights)
    E, P, U = tensor(weights, "W_E"), tensor(weights, "W_pos"), tensor(weights, "W_U")
    x = E[None] + P[:, None]  # [position, token, d]
    q, k = x[-1] @ tensor(weights, "W_Q")[0], x @ tensor(weights, "W_K")[0]
    scores = np.einsum("qd,jvd->qjv", q, k) / config.divisor
    w = np.exp(scores - scores.max(axis=(1, 2), keepdims=True))
    return w, x @ tensor(weights, "W_V")[0] @ tensor(weights, "W_O")[0] @ U, x[-1] @ U


def wrong_words(f: np.ndarray, own: float, m: int, seen: bool) -> tuple[float, float]:
    """At least and at most so many words d of tokens up to m have Σ_j f[j, d_j] + own ≤ 0; one is m unless `seen`."""
    f = f[:, : m + 1]
    delta = max(np.abs(f).max(), abs(own)) * len(f) / BINS
    found = []
    for towards in (np.ceil, np.floor):
        slack = ALLOWED if towards is np.ceil else -ALLOWED
        k, constant = towards(f / delta + slack).astype(int), int(towards(own / delta + slack))
        least = k.min(axis=1)
        # Strictly below 0 where "at least" is counted.
        top = -constant - int(least.sum()) - (1 if towards is np.ceil else 0)
        if top < 0:
            found.append(0.0)
            continue
        without, with_m = np.zeros(top + 1), np.zeros(top + 1)
        (with_m if seen else without)[0] = 1.0
        for steps in k - least[:, None]:
            next_without, next_with = np.zeros(top + 1), np.zeros(top + 1)
            for d, step in enumerate(steps.tolist()):
                if step > top:
                    continue
                next_with[step:] += with_m[: top + 1 - step]
                if not seen:
                    (next_with if d == m else next_without)[step:] += without[: top + 1 - step]
            without, with_m = next_without, next_with
        found.append(float(with_m.sum()))
    return found[0], found[1]


def bounds(weights: Weights) -> tuple[float, float]:
    """At least and at most so many inputs are answered wrong."""
    w, L, x = tables(weights)
    K, n = L.shape[0], L.shape[1]
    low = high = 0.0
    for q in range(n):
        for m in range(q, n):
            # [position, token, rival]
            f = w[q][:, :, None] * (L[:, :, m, None] - L + (x[q, m] - x[q])[None, None])
            own, f = f[-1, q], f[:-1, : m + 1]
            least = f.min(axis=1)
            total = least.sum(axis=0) + own
            if q < m:  # one of them is m
                total = total + (f[:, m] - least).min(axis=0)
            rivals = [c for c in np.flatnonzero(total <= 1e-9 * np.abs(f).max()) if c != m]
            counts = sorted((wrong_words(f[:, :, c], float(own[c]), m, q == m), c) for c in rivals)
            words = (m + 1.0) ** (K - 1) - (0 if q == m else float(m) ** (K - 1))
            low += max((one[0] for one, _ in counts), default=0.0)
            high += min(words, together(f, own, m, q == m, [(one[1], c) for one, c in counts]))
    return low, high


def together(f: np.ndarray, own: np.ndarray, m: int, seen: bool, counts: list[tuple[float, int]]) -> float:
    """At most so many words are wrong for any of these rivals, of which each has its own count.

    Rivals in one group are counted at once: where Σ_j f_j(d_j) ≤ 0 for one of them, the sum of the smallest f_j(d_j) of
    all is ≤ 0, too, whatever positive number each is divided by. A rival joins the group where that costs less.
    """
    total = 0.0
    left = sorted((one for one in counts if one[0] > 0), reverse=True)
    while left:
        (count, c), rest = left[0], left[1:]
        size = np.abs(f[:, :, c]).mean()
        least, first, left = f[:, :, c] / size, float(own[c]) / size, []
        for other, rival in rest:
            scale = np.abs(f[:, :, rival]).mean()
            both, begin = np.minimum(least, f[:, :, rival] / scale), min(first, float(own[rival]) / scale)
            joined = wrong_words(both, begin, m, seen)[1]
            if joined < count + other:
                least, first, count = both, begin, joined
            else:
                left.append((other, rival))
        total += count
    return total


def brute(weights: Weights) -> int:
    """How many of all 64^4 inputs are answered right, in float64."""
    w, L, x = tables(weights)
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
    found = [forward(weights, part, K - 1).argmax(axis=1) == part.max(axis=1) for part in np.array_split(words, 20)]
    return float(np.concatenate(found).mean())


def table() -> None:
    """The rows of docs/sequences.md: ranges over the seeds of each K."""
    rows = list(csv.DictReader(DATA.open()))
    print("| K | inputs | seeds | accuracy between | widest gap, points | seconds | by brute force, seconds |")
    print("|---|---|---|---|---|---|---|")
    for K in sorted({int(row["K"]) for row in rows}):
        here = [row for row in rows if int(row["K"]) == K]
        low, high = ([float(row[f"accuracy_{end}"]) for row in here] for end in ("low", "high"))
        gap = max(100 * (b - a) for a, b in zip(low, high, strict=True))
        seconds = sorted(float(row["seconds"]) for row in here)
        tried = sorted(float(row["brute_seconds"]) for row in here if row["brute_seconds"])
        by_brute = f"{tried[len(tried) // 2]:.1f}" if tried else "–"
        print(
            f"| {K} | 64^{K} | {len(here)} | {floor(10**5 * min(low)) / 1000:.3f} … {ceil(10**5 * max(high)) / 1000:.3f} % | {ceil(1000 * gap) / 1000:.3f} | "
            f"{seconds[len(seconds) // 2]:.1f} | {by_brute} |"
        )
    inside = [int(float(r["right_at_least"])) <= int(r["brute_right"]) <= int(float(r["right_at_most"]))
              for r in rows if r["brute_right"]]  # fmt: skip
    print(f"\n{sum(inside)} of {len(inside)} counts by brute force are within their bounds.")


def main() -> None:
    """Every network of a directory that has no row yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
        if any(row["model"] == path.stem for row in rows):
            continue
        weights, began = load(path), time.process_time()
        low, high = bounds(weights)
        seconds, n = time.process_time() - began, weights.W_E.shape[0]
        K = sequence_config(weights).n_ctx
        inputs, began = n**K, time.process_time()
        tried = brute(weights) if options.brute and K == 4 else ""
        row = dict(zip(FIELDS, (
            path.stem, K, path.stem.split("_")[-1], inputs, inputs - high, inputs - low, 1 - high / inputs,
            1 - low / inputs, sampled(weights), round(seconds, 1), tried,
            round(time.process_time() - began, 1) if tried else "",
        ), strict=True))  # fmt: skip
        print(row, flush=True)
        rows.append({name: str(value) for name, value in row.items()})
        with DATA.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(sorted(rows, key=lambda one: (int(one["K"]), int(one["seed"]))))


if __name__ == "__main__":
    main()
