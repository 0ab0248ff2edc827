"""Operations and seconds of each strategy against brute force, on hand-built models with noise, in one run.

Run: python benchmarks/certify.py [--moduli 59,113,…] [--neurons 512,…] [--noise X] [--seed S] [--json]
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from quadlens.model.collapsed import Collapsed
from quadlens.model.handmade import Recipe, build_mlp
from quadlens.numbers import double_below
from quadlens.proofs.arcs import ArcsStrategy
from quadlens.proofs.brute import Brute, brute_force_operations
from quadlens.proofs.lipschitz import Lipschitz
from quadlens.proofs.moments import Moments
from quadlens.proofs.proof import Strategy, attempt
from quadlens.table import Table

MODULI = (59, 113, 251, 499, 997, 2003)
WIDTHS = (512, 1024, 2048, 4096)
KEYS = 8
NOISE = 0.001
# Proofs in Python integers up to this many of brute force's operations: minutes beyond.
EXACT_LIMIT = 2e9
# float64 brute force is timed on this many tokens a, and the fastest counts for each of the p tokens.
SAMPLE = 5


@dataclass(frozen=True)
class CertifyRow:
    """One strategy on one model.

    Attributes:
        p: Modulus.
        d_mlp: Neurons.
        strategy: Its name.
        flops: Operations beyond the collapse (an MLP has none to collapse).
        seconds: Time to prove.
        brute_force_flops: Operations of brute force.
        brute_force_seconds: Time of brute force in float64 (matrix products), scaled up from a few tokens a.
        certified_share: Share of the inputs proved right.
        margin_lower_bound: On those; None when there are none.
    """

    p: int
    d_mlp: int
    strategy: str
    flops: int
    seconds: float
    brute_force_flops: int
    brute_force_seconds: float
    certified_share: float
    margin_lower_bound: float | None


@dataclass(frozen=True)
class Exponent:
    """Log-log slopes in p at one width.

    Attributes:
        flops: Of the operations.
        seconds: Of the time.
        d_mlp: The width.
        points: How many moduli the fit has.
    """

    flops: float
    seconds: float
    d_mlp: int
    points: int


@dataclass(frozen=True)
class CertifyBenchmark:
    """All rows, and exponents in p by strategy."""

    rows: tuple[CertifyRow, ...]
    exponents: dict[str, Exponent]


def bench_sizes(moduli: Sequence[int] = MODULI, widths: Sequence[int] = WIDTHS) -> tuple[tuple[int, int], ...]:
    """Every modulus at the first width, every width at the first modulus, and the largest of both."""
    sizes = [(p, widths[0]) for p in moduli] + [(moduli[0], d) for d in widths[1:]] + [(moduli[-1], widths[-1])]
    return tuple(dict.fromkeys(sizes))


def run_certify_bench(
    sizes: Sequence[tuple[int, int]],
    noise: float = NOISE,
    seed: int = 0,
) -> CertifyBenchmark:
    """Build a model of each size and prove what it does with every strategy that can take it.

    `moments` runs in float64 at every p, so that one algorithm is measured along the whole ladder.
    """
    rows: list[CertifyRow] = []
    for p, d_mlp in sizes:
        model = build_mlp(Recipe(p, best_keys(p, np.random.default_rng(seed)), d_mlp, noise=noise, seed=seed))
        brute_seconds = _brute_force_seconds(model.collapse())
        strategies: list[Strategy] = [Lipschitz(), Moments(largest_integer_p=0)]
        if brute_force_operations(p, d_mlp) <= EXACT_LIMIT:
            strategies += [ArcsStrategy(), Brute()]
        for strategy in strategies:
            began = time.perf_counter()
            proof = attempt(strategy, model)
            seconds = time.perf_counter() - began
            rows.append(
                CertifyRow(
                    p=p,
                    d_mlp=d_mlp,
                    strategy=strategy.facts.name,
                    flops=proof.operations.total,
                    seconds=seconds,
                    brute_force_flops=brute_force_operations(p, d_mlp),
                    brute_force_seconds=brute_seconds,
                    certified_share=float(proof.certified.mean()),
                    margin_lower_bound=double_below(proof.margin),
                )
            )
    return CertifyBenchmark(tuple(rows), fit_exponents(rows))


def best_keys(p: int, rng: np.random.Generator, tries: int = 30) -> tuple[int, ...]:
    """Of some random sets of key frequencies, the one whose closed form leads most in the worst case."""
    count = min(KEYS, (p - 1) // 2)
    sets = [rng.choice(np.arange(1, (p + 1) // 2), count, replace=False) for _ in range(tries)]
    best = max(sets, key=lambda keys: _smallest_lead(p, keys))
    return tuple(int(k) for k in best)


def _smallest_lead(p: int, keys: Int[np.ndarray, " K"]) -> float:
    """Min over a - b and δ of Σ_k |cos u| (1 - cos k w δ)."""
    angle = np.outer(keys, np.arange(p)) * (2 * np.pi / p)
    lead: Float[np.ndarray, "p others"] = np.abs(np.cos(angle / 2)).T @ (1 - np.cos(angle[:, 1:]))
    return float(lead.min())


def _brute_force_seconds(collapsed: Collapsed) -> float:
    """All logits and margins in float64: the fastest of a few tokens a, times p (the first one warms up)."""
    times = []
    for a in range(min(SAMPLE, collapsed.p)):
        began = time.perf_counter()
        logits = collapsed.logits(a)
        right = (a + np.arange(collapsed.p)) % collapsed.p
        lead = np.take_along_axis(logits, right[:, None], axis=1)
        np.put_along_axis(logits, right[:, None], -np.inf, axis=1)
        (lead[:, 0] - logits.max(axis=1)).min()
        times.append(time.perf_counter() - began)
    return min(times) * collapsed.p


def fit_exponents(rows: Sequence[CertifyRow]) -> dict[str, Exponent]:
    """Slopes of log flops and log seconds against log p, at the width with the most moduli; brute force's own too."""
    exponents = {}
    for strategy in dict.fromkeys(row.strategy for row in rows):
        mine = [row for row in rows if row.strategy == strategy]
        width = max({row.d_mlp for row in mine}, key=lambda d: (len({r.p for r in mine if r.d_mlp == d}), -d))
        ladder = [row for row in mine if row.d_mlp == width]
        if len({row.p for row in ladder}) >= 2:
            log_p = np.log([row.p for row in ladder])
            exponents[strategy] = Exponent(
                flops=float(np.polyfit(log_p, np.log([row.flops for row in ladder]), 1)[0]),
                seconds=float(np.polyfit(log_p, np.log([row.seconds for row in ladder]), 1)[0]),
                d_mlp=width,
                points=len(ladder),
            )
    return exponents


def main() -> None:
    """Print the measurements: a table, or one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moduli", type=_integers, default=MODULI, help="moduli p, separated by commas")
    parser.add_argument(
        "--neurons",
        type=_integers,
        default=WIDTHS,
        help="widths d_mlp; all moduli at the first width, all widths at the first modulus",
    )
    parser.add_argument("--noise", type=float, default=NOISE, help="noise on every weight, as a share of its RMS")
    parser.add_argument("--seed", type=int, default=0, help="seed of keys and noise")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    options = parser.parse_args()
    result = run_certify_bench(bench_sizes(options.moduli, options.neurons), options.noise, options.seed)
    if options.json:
        print(json.dumps(dataclasses.asdict(result)))
        return
    from rich.console import Console

    header = ("p", "d_mlp", "strategy", "operations", "of brute force", "seconds", "brute (float64)", "certified")
    rows = [
        (
            str(row.p),
            str(row.d_mlp),
            row.strategy,
            f"{row.flops:.3g}",
            f"{row.flops / row.brute_force_flops:.3%}",
            f"{row.seconds:.2f}",
            f"{row.brute_force_seconds:.2f}",
            f"{row.certified_share:.1%}",
        )
        for row in result.rows
    ]
    Table("Proofs against brute force", header, rows, labels=3, left=(2,)).print(Console())
    for strategy, fit in result.exponents.items():
        print(
            f"{strategy}: operations ~ p^{fit.flops:.2f}, seconds ~ p^{fit.seconds:.2f} "
            f"({fit.points} moduli, d_mlp = {fit.d_mlp})"
        )


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


if __name__ == "__main__":
    main()
