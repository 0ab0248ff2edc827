"""Compare each strategy's operations and seconds with brute force's, in one run.

Models are hand-built, with noise.

The fair rival of every proof is brute force as an expert would do it, `brute_force_in_float64`: all
logits by BLAS, with a proved forward error. Seconds depend on the machine and on who else uses it;
what is compared is seconds of one run, and `--repeat 3` shows how far they scatter.

Run: python benchmarks/certify.py [--moduli 59,113,…] [--neurons 512,…] [--noise X] [--seed S]
[--repeat N] [--json]
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int

from quadlens.base.numbers import at_least, double_below
from quadlens.base.table import Table
from quadlens.network.handmade import Recipe, build_mlp
from quadlens.network.weights import Weights
from quadlens.proofs.pairs.arcs import ArcsStrategy
from quadlens.proofs.pairs.brute import Brute, brute_force_operations
from quadlens.proofs.pairs.moments import MomentsStrategy
from quadlens.proofs.pairs.proof import Proof, Strategy, attempt

MODULI = (59, 113, 251, 499, 997, 2003)
WIDTHS = (512, 1024, 2048, 4096)
KEYS = 8
RIVAL = "brute force in float64"
NOISE = 0.001
# Proofs in Python integers up to this many of brute force's operations: minutes beyond.
EXACT_LIMIT = 2e9
# float64 brute force looks at all tokens a up to this many operations; beyond, at every 16th, and
# its time counts 16 times.
WHOLE_LIMIT, STRIDE = 2e12, 16
# Inputs (a, b) that are multiplied at once: two matrices of that many rows stay in the cache of a
# small machine.
ROWS = 2048
UNIT = 2.0**-53


@dataclass(frozen=True)
class CertifyRow:
    """One strategy on one model.

    Attributes:
        p: Modulus.
        d_mlp: Neurons.
        strategy: Its name.
        flops: Operations beyond the collapse (an MLP has none to collapse).
        seconds: Time to prove, of each repetition.
        brute_force_flops: Operations of brute force.
        brute_force_seconds: Time of brute force in float64 with its proved error, of each
            repetition.
        certified_share: Share of the inputs proved right.
        margin_lower_bound: On those; None when there are none.
    """

    p: int
    d_mlp: int
    strategy: str
    flops: int
    seconds: tuple[float, ...]
    brute_force_flops: int
    brute_force_seconds: tuple[float, ...]
    certified_share: float
    margin_lower_bound: float | None

    @property
    def times_faster(self) -> tuple[float, float]:
        """Return the range of brute force's seconds over this strategy's, by repetition."""
        ratios = [
            brute / mine for brute, mine in zip(self.brute_force_seconds, self.seconds, strict=True)
        ]
        return min(ratios), max(ratios)


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


def bench_sizes(
    moduli: Sequence[int] = MODULI, widths: Sequence[int] = WIDTHS
) -> tuple[tuple[int, int], ...]:
    """Return every modulus at the first width and every width at the first modulus.

    The largest of both comes last.
    """
    sizes = (
        [(p, widths[0]) for p in moduli]
        + [(moduli[0], d) for d in widths[1:]]
        + [(moduli[-1], widths[-1])]
    )
    return tuple(dict.fromkeys(sizes))


def run_certify_bench(
    sizes: Sequence[tuple[int, int]],
    noise: float = NOISE,
    seed: int = 0,
    repeat: int = 1,
) -> CertifyBenchmark:
    """Build a model of each size and prove what it does with every strategy that can take it.

    `moments` in integers is what `certify` runs up to p = 211, and has a certificate; in float64 it
    is measured along the whole ladder.
    """
    rows: list[CertifyRow] = []
    for p, d_mlp in sizes:
        model = build_mlp(
            Recipe(p, best_keys(p, np.random.default_rng(seed)), d_mlp, noise=noise, seed=seed)
        )
        strategies: dict[str, Strategy] = {
            "moments in float64": MomentsStrategy(largest_integer_p=0)
        }
        if p <= MomentsStrategy().largest_integer_p:
            strategies["moments in integers"] = MomentsStrategy()
        if brute_force_operations(p, d_mlp) <= EXACT_LIMIT:
            strategies |= {"arcs": ArcsStrategy(), "brute": Brute()}
        seconds: dict[str, list[float]] = {name: [] for name in (*strategies, RIVAL)}
        proofs: dict[str, Proof] = {}
        for _ in range(repeat):
            rival = brute_force_in_float64(model)
            seconds[RIVAL].append(rival.seconds)
            for name, strategy in strategies.items():
                began = time.perf_counter()
                proofs[name] = attempt(strategy, model)
                seconds[name].append(time.perf_counter() - began)
        known = {
            name: (proof.operations, proof.certified.mean(), double_below(proof.margin))
            for name, proof in proofs.items()
        }
        known[RIVAL] = (
            brute_force_operations(p, d_mlp),
            rival.certified_share,
            rival.margin_lower_bound,
        )
        rows += [
            CertifyRow(
                p=p,
                d_mlp=d_mlp,
                strategy=name,
                flops=flops,
                seconds=tuple(seconds[name]),
                brute_force_flops=brute_force_operations(p, d_mlp),
                brute_force_seconds=tuple(seconds[RIVAL]),
                certified_share=float(share),
                margin_lower_bound=margin,
            )
            for name, (flops, share, margin) in known.items()
        ]
    return CertifyBenchmark(tuple(rows), fit_exponents(rows))


@dataclass(frozen=True)
class Float64Proof:
    """What brute force in float64 proves.

    Attributes:
        seconds: All of it; where a sample was taken, times what was left out.
        certified_share: Share of the inputs looked at whose margin is proved positive.
        margin_lower_bound: On those; None when there are none.
        error: No computed logit is further from the real one.
    """

    seconds: float
    certified_share: float
    margin_lower_bound: float | None
    error: float


def brute_force_in_float64(model: Weights) -> Float64Proof:
    """Every logit of an MLP with float32 weights in float64, with its forward error.

    Theorem. With n neurons, u = 2^-53 and γ = (n + 1) u / (1 - (n + 1) u), a computed logit is
        within E = γ max_c Σ_i |W_out[i,c]| (max_a |W_a[a,i]| + max_b |W_b[b,i]|)
    of the real one, so that a margin is at least the computed one less 2 E and its own rounding.
    Proof. Weights are exact in float64, and products of two are above 2^-300: nothing underflows. A
    pre-activation is rounded once, ReLU is exact, and each product meets at most n more roundings
    in a sum in any order, fused or not (Higham, Lemma 3.1; BLAS adds up products). E is computed
    from numbers that are not negative: 1.01 covers that. ∎
    """
    if model.config.activation != "relu" or any(
        array.dtype != np.float32 for array in model.tensors.values()
    ):
        raise ValueError("the error is that of a ReLU network with float32 weights")
    p, n = model.config.p, model.config.d_mlp
    step = 1 if brute_force_operations(p, n) <= WHOLE_LIMIT else STRIDE
    began = time.perf_counter()
    W_a, W_b, W_out = (array.astype(np.float64) for array in (model.W_a, model.W_b, model.W_out))
    reach = np.abs(W_a).max(axis=0) + np.abs(W_b).max(axis=0)
    error = 1.01 * (n + 1) * UNIT * float((reach @ np.abs(W_out)).max())
    margins, block = [], max(1, ROWS // p)
    tokens = np.arange(0, p, step)
    for first in range(0, len(tokens), block):
        a = tokens[first : first + block]
        hidden = (W_a[a, None, :] + W_b[None, :, :]).reshape(-1, n)
        np.maximum(hidden, 0.0, out=hidden)
        logits = hidden @ W_out
        right = ((a[:, None] + np.arange(p)) % p).reshape(-1)
        rows = np.arange(len(right))
        lead = logits[rows, right]
        logits[rows, right] = -np.inf
        margins.append((lead - logits.max(axis=1)) * (1 - 2 * UNIT) - 2.01 * error)
    found = np.concatenate(margins)
    proved = found[found > 0]
    seconds = (time.perf_counter() - began) * (p / len(tokens))
    return Float64Proof(
        seconds, len(proved) / len(found), float(proved.min()) if len(proved) else None, error
    )


def best_keys(p: int, rng: np.random.Generator, tries: int = 30) -> tuple[int, ...]:
    """Return the set of key frequencies whose closed form has the largest worst margin.

    It is the best of some random sets.
    """
    count = min(KEYS, (p - 1) // 2)
    sets = [rng.choice(np.arange(1, (p + 1) // 2), count, replace=False) for _ in range(tries)]
    best = max(sets, key=lambda keys: _smallest_lead(p, keys))
    return tuple(int(k) for k in best)


def _smallest_lead(p: int, keys: Int[np.ndarray, " K"]) -> float:
    """Min over a - b and δ of Σ_k |cos u| (1 - cos k w δ)."""
    angle = np.outer(keys, np.arange(p)) * (2 * np.pi / p)
    lead: Float[np.ndarray, "p others"] = np.abs(np.cos(angle / 2)).T @ (1 - np.cos(angle[:, 1:]))
    return float(lead.min())


def fit_exponents(rows: Sequence[CertifyRow]) -> dict[str, Exponent]:
    """Return slopes of log flops and log seconds against log p, brute force's too.

    They are at the width with the most moduli.
    """
    exponents = {}
    for strategy in dict.fromkeys(row.strategy for row in rows):
        mine = [row for row in rows if row.strategy == strategy]
        width = max(
            {row.d_mlp for row in mine},
            key=lambda d: (len({r.p for r in mine if r.d_mlp == d}), -d),
        )
        ladder = [row for row in mine if row.d_mlp == width]
        if len({row.p for row in ladder}) >= 2:
            log_p = np.log([row.p for row in ladder])
            exponents[strategy] = Exponent(
                flops=float(np.polyfit(log_p, np.log([row.flops for row in ladder]), 1)[0]),
                seconds=float(
                    np.polyfit(log_p, np.log([min(row.seconds) for row in ladder]), 1)[0]
                ),
                d_mlp=width,
                points=len(ladder),
            )
    return exponents


def main() -> None:
    """Print the measurements: a table, or one JSON document."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--moduli", type=_integers, default=MODULI, help="moduli p, separated by commas"
    )
    parser.add_argument(
        "--neurons",
        type=_integers,
        default=WIDTHS,
        help="widths d_mlp; all moduli at the first width, all widths at the first modulus",
    )
    parser.add_argument(
        "--noise", type=float, default=NOISE, help="noise on every weight, as a share of its RMS"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of keys and noise")
    parser.add_argument("--repeat", type=int, default=1, help="how often everything is timed")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    options = parser.parse_args()
    sizes = bench_sizes(options.moduli, options.neurons)
    result = run_certify_bench(sizes, options.noise, options.seed, options.repeat)
    if options.json:
        print(json.dumps(dataclasses.asdict(result)))
        return
    from rich.console import Console

    header = (
        "p",
        "d_mlp",
        "strategy",
        "operations",
        "of brute force",
        "seconds",
        "times faster",
        "certified",
        "margin ≥",
    )
    rows = [
        (
            str(row.p),
            str(row.d_mlp),
            row.strategy,
            f"{row.flops:.3g}",
            f"{row.flops / row.brute_force_flops:.3%}",
            _range(min(row.seconds), max(row.seconds)),
            _range(*row.times_faster),
            f"{row.certified_share:.1%}",
            "none"
            if row.margin_lower_bound is None
            else at_least(Fraction(row.margin_lower_bound), 2),
        )
        for row in result.rows
    ]
    Table("Proofs against brute force", header, rows, labels=3, left=(2,)).print(Console())
    for strategy, fit in result.exponents.items():
        print(
            f"{strategy}: operations ~ p^{fit.flops:.2f}, seconds ~ p^{fit.seconds:.2f} "
            f"({fit.points} moduli, d_mlp = {fit.d_mlp})"
        )


def _range(low: float, high: float) -> str:
    """Two numbers with two digits, or one where they are the same."""
    texts = [f"{x:.2g}" if x < 100 else f"{x:.0f}" for x in (low, high)]
    return " – ".join(dict.fromkeys(texts))


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


if __name__ == "__main__":
    main()
