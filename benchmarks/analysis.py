"""Brute force against the exact method on hand-built rules: seconds, ratios and fitted exponents.

Run: python benchmarks/analysis.py [--largest N] [--brute-force-limit N] [--seed S] [--json]
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from quadlens.analysis.quadrature.exact import exact_abs_error
from quadlens.analysis.quadrature.integrals import brute_force_error
from quadlens.analysis.quadrature.scheme import Scheme
from quadlens.base.errors import BadConfig
from quadlens.base.table import Table

NEURONS = (512, 1024, 2048, 4096, 8192, 16384)
MODULI = (59, 997, 10007, 31627, 100003)
# The size the speed target names.
HEADLINE = (4096, 10007)
BRUTE_FORCE_LIMIT = 200_000_000

T = TypeVar("T")


@dataclass(frozen=True)
class BenchRow:
    """One size.

    Attributes:
        d_mlp: Neurons of the rule.
        p: Modulus.
        exact_seconds: Exact worst case over all a, b, c, with its enclosure; best of several runs.
        brute_force_seconds: Brute force, best of its runs.
        brute_force_measured: False if the brute-force time was not measured but scaled from the
            largest measured size.
        ratio: brute_force_seconds / exact_seconds.
        agreement: |exact - brute force|, None where brute force was not run.
    """

    d_mlp: int
    p: int
    exact_seconds: float
    brute_force_seconds: float
    brute_force_measured: bool
    ratio: float
    agreement: float | None


@dataclass(frozen=True)
class Ladder:
    """How one method's time grows along one size, the other one fixed.

    Attributes:
        method: "exact" or "brute force".
        variable: "p" or "d_mlp".
        fixed: Value of the other size.
        exponent: Slope of log(seconds) against log(size), fitted over all steps measured.
        last_step: The slope between the two largest sizes alone, where fixed overheads weigh least.
    """

    method: str
    variable: str
    fixed: int
    exponent: float
    last_step: float


@dataclass(frozen=True)
class Benchmark:
    """All sizes of one run.

    Attributes:
        rows: From small to large.
        ladders: Fitted exponents.
    """

    rows: tuple[BenchRow, ...]
    ladders: tuple[Ladder, ...]

    @property
    def headline(self) -> BenchRow | None:
        """The size the speed target names, if it was among the sizes."""
        return next((row for row in self.rows if (row.d_mlp, row.p) == HEADLINE), None)


def benchmark_sizes(
    neurons: Sequence[int] = NEURONS, moduli: Sequence[int] = MODULI
) -> tuple[tuple[int, int], ...]:
    """Return the sizes (d_mlp, p) of both ladders.

    The other size is at its smallest, at the headline's and at its largest.
    """
    d_levels = {min(neurons), max(neurons)} | ({HEADLINE[0]} & set(neurons))
    p_levels = {min(moduli), max(moduli)} | ({HEADLINE[1]} & set(moduli))
    sizes = {(d, p) for d in d_levels for p in moduli} | {(d, p) for d in neurons for p in p_levels}
    return tuple(sorted(sizes, key=lambda size: (size[0] * size[1], size)))


def run_benchmark(
    sizes: Sequence[tuple[int, int]],
    brute_force_limit: int = BRUTE_FORCE_LIMIT,
    seed: int = 0,
) -> Benchmark:
    """Time both methods at each size.

    Args:
        sizes: (d_mlp, p) pairs.
        brute_force_limit: Above this many d_mlp · p brute force is not run; its time is scaled from
            the largest measured size and the row says so.
        seed: Seed of phases and weights.

    Raises:
        BadConfig: if the limit leaves no size to measure brute force at.
    """
    if min(d * p for d, p in sizes) > brute_force_limit:
        raise BadConfig(
            f"brute-force limit {brute_force_limit} is below every size; raise it so that one is "
            "measured"
        )
    # Once the allocator has seen a large array it keeps memory instead of asking the system each
    # time; in a process that has loaded a model it has. Both methods gain.
    np.empty(3_000_000)
    rows: list[BenchRow] = []
    for d, p in sizes:
        scheme = random_scheme(d, p, np.random.default_rng(seed))
        exact_seconds, exact = _best_time(partial(exact_abs_error, scheme), runs=60)
        measured = d * p <= brute_force_limit
        agreement = None
        if measured:
            seconds, brute = _best_time(
                partial(brute_force_error, scheme), runs=3 if d * p <= 5e7 else 1
            )
            agreement = abs(exact.middle - brute.value)
        else:
            last = max(
                (row for row in rows if row.brute_force_measured), key=lambda row: row.d_mlp * row.p
            )
            seconds = last.brute_force_seconds * (d * p) / (last.d_mlp * last.p)
        rows.append(
            BenchRow(d, p, exact_seconds, seconds, measured, seconds / exact_seconds, agreement)
        )
    return Benchmark(tuple(rows), fit_ladders(rows))


def fit_ladders(rows: Sequence[BenchRow]) -> tuple[Ladder, ...]:
    """Return exponents in p and in d_mlp, the other size smallest and largest.

    The variable's cost shows most where the other size is smallest.
    """
    ladders = []
    for variable, other in (("p", "d_mlp"), ("d_mlp", "p")):
        levels = sorted({int(getattr(row, other)) for row in rows})
        for fixed in dict.fromkeys((levels[0], levels[-1])):
            steps = [row for row in rows if getattr(row, other) == fixed]
            measured = [row for row in steps if row.brute_force_measured]
            for method, used in (("exact", steps), ("brute force", measured)):
                if len(used) > 1:
                    ladders.append(_ladder(method, variable, fixed, used))
    return tuple(ladders)


def _ladder(method: str, variable: str, fixed: int, rows: Sequence[BenchRow]) -> Ladder:
    timed = sorted(
        (
            getattr(row, variable),
            row.exact_seconds if method == "exact" else row.brute_force_seconds,
        )
        for row in rows
    )
    x, y = np.log(np.array(timed)).T
    return Ladder(
        method,
        variable,
        fixed,
        float(np.polyfit(x, y, 1)[0]),
        float((y[-1] - y[-2]) / (x[-1] - x[-2])),
    )


def random_scheme(n: int, p: int, rng: np.random.Generator) -> Scheme:
    """Jittered, unevenly weighted phases, much like a trained cluster's."""
    phi = -np.pi + 2 * np.pi * (np.arange(n) + rng.random(n)) / n
    psi = 2 * phi + 0.01 * rng.standard_normal(n)
    return Scheme(p, 1, phi, psi, rng.uniform(0.5, 1.5, n), rng.uniform(0.5, 1.5, n))


def _best_time(call: Callable[[], T], runs: int) -> tuple[float, T]:
    best, result = float("inf"), None
    for _ in range(runs):
        start = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - start)
    if result is None:
        raise ValueError(f"runs = {runs}; expected at least 1")
    return best, result


def main() -> None:
    """Print the measurements: a table, or one JSON document."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--brute-force-limit",
        type=int,
        default=BRUTE_FORCE_LIMIT,
        metavar="N",
        help="measure brute force up to d_mlp · p = N; beyond, its time is scaled up and marked as "
        "not measured",
    )
    parser.add_argument(
        "--largest",
        type=int,
        metavar="N",
        help="leave out sizes with d_mlp · p above N (a quick look)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of phases and weights")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    options = parser.parse_args()
    sizes = [
        (d, p) for d, p in benchmark_sizes() if options.largest is None or d * p <= options.largest
    ]
    if not sizes:
        parser.error(
            f"--largest {options.largest} leaves no size; the smallest is 512 × 59 = 30208"
        )
    try:
        result = run_benchmark(sizes, options.brute_force_limit, options.seed)
    except BadConfig as error:
        parser.error(str(error))
    if options.json:
        headline = None if result.headline is None else dataclasses.asdict(result.headline)
        rows, exponents = (
            [dataclasses.asdict(one) for one in many] for many in (result.rows, result.ladders)
        )
        print(json.dumps({"rows": rows, "exponents": exponents, "headline": headline}))
        return
    from rich.console import Console

    header = ("d_mlp × p", "exact", "brute force", "ratio", "difference")
    Table(
        "Worst error over all a, b, c of one rule",
        header,
        [_cells(r) for r in result.rows],
        left=(),
    ).print(Console())
    if not all(row.brute_force_measured for row in result.rows):
        print(
            "(…) brute force was not measured there: its time is scaled up from the largest "
            "measured size"
        )
    for ladder in result.ladders:
        other = "d_mlp" if ladder.variable == "p" else "p"
        print(
            f"{ladder.method}: exponent in {ladder.variable} at {other} = {ladder.fixed}: "
            f"{ladder.exponent:.2f} (last step {ladder.last_step:.2f})"
        )


def _cells(row: BenchRow) -> tuple[str, ...]:
    brute = f"{row.brute_force_seconds:.4g} s" if row.brute_force_measured else "not measured"
    ratio = f"{row.ratio:,.0f}" if row.brute_force_measured else f"({row.ratio:,.0f})"
    difference = "" if row.agreement is None else f"{row.agreement:.0e}"
    return f"{row.d_mlp} × {row.p}", f"{row.exact_seconds * 1e3:.3f} ms", brute, ratio, difference


if __name__ == "__main__":
    main()
