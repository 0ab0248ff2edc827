#!/usr/bin/env python3
"""Make the tables of docs/quadrature.md, of every key cluster.

They have moments, thinning and errors.

    python tools/quadrature_tables.py moments | thinning | errors   # one table, in Markdown
    python tools/quadrature_tables.py --gather seed0.safetensors …  # write rules to docs/data

Errors and bounds of all 533 key clusters are in the shipped dataset. Their phases are not: the
rules (φ, ψ, ρ and ω of each neuron) of eight models, preset `paper`, seeds 0 – 7, trained again,
are in docs/data/rules.parquet.
"""

import math
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl

from quadlens.analysis.quadrature import Scheme, box_density, exact_errors, moments
from quadlens.analysis.quadrature.integrals import cos_baseline
from quadlens.analysis.quadrature.supremum import abs_supremum
from quadlens.analysis.spectrum.anatomy import anatomy_of
from quadlens.base.numbers import decimals
from quadlens.base.table import Table
from quadlens.network import load
from quadlens.training.population import dataset

RULES = Path(__file__).parent.parent / "docs" / "data" / "rules.parquet"
ORDERS = (4, 6, 8, 12, 16, 40, 80)
DRAWS = 8


def gather(paths: Iterable[str]) -> None:
    """Keep the key clusters of these models, numbered as they are given."""
    rows = []
    for seed, path in enumerate(paths):
        anatomy = anatomy_of(load(path))
        for one in anatomy.clusters:
            if one.k in anatomy.key_frequencies:
                columns = {"phi": one.phi, "psi": one.psi, "rho": one.rho, "omega": one.omega}
                rows.append(pl.DataFrame({"seed": seed, "p": one.p, "k": one.k, **columns}))
    pl.concat(rows).write_parquet(RULES, compression="zstd")


def rules() -> dict[tuple[int, int], Scheme]:
    """The kept rules by seed and frequency."""
    groups = pl.read_parquet(RULES).group_by("seed", "p", "k", maintain_order=True)
    return {
        (seed, k): Scheme(p, k, *(one[name].to_numpy() for name in ("phi", "psi", "rho", "omega")))
        for (seed, p, k), one in groups
    }


def small(scheme: Scheme) -> bool:
    """Whether the exact error with 2φ is below a tenth of the integral's mean size."""
    return exact_errors(scheme).absolute.upper < 0.1 * cos_baseline(scheme).lower


def median(values: Iterable[float], digits: int) -> str:
    """The median as text."""
    return decimals(float(np.median(list(values))), digits)


def moments_table() -> Table:
    """Return the median |μ|/2π by order, of rules and of random phases.

    Rules are all, and those with small and with large errors.
    """
    found = list(rules().values())
    sizes = {}
    for one in found:
        series = moments(one, max(ORDERS))
        sizes[id(one)] = [float(series.size[series.order == order][0]) for order in ORDERS]
    # With many random phases a moment is a normal number in the plane: the median size is √(log 2)
    # of the mean square.
    chance = [float(np.sqrt(np.log(2) * np.square(one.w).sum())) / (2 * np.pi) for one in found]
    good = [one for one in found if small(one)]
    bad = [one for one in found if not small(one)]
    rows = [
        (
            f"{name}, {len(which)}",
            *(median((sizes[id(one)][i] for one in which), 4) for i in range(len(ORDERS))),
        )
        for name, which in (("all", found), ("error below 10 %", good), ("error above", bad))
    ]
    rows.append(("random phases, same weights", *[median(chance, 4)] * len(ORDERS)))
    return Table("", ("clusters", *(f"order {n}" for n in ORDERS)), rows)


def equally_spaced_error(n: int) -> float:
    """Return the worst error of equal spacing.

    It is h (cot(h/2) - cot(3h/2)) - 4/3 ≈ h²/3 with h = π/N, N = n for odd n and n/2 for even
    n.

    The supremum over real s of the abs error of n equally spaced phases of equal weight (modulo π,
    an even number of them are N doubled nodes). It is reached where a node sits on a kink;
    docs/quadrature.md §9. Needs N ≥ 2.
    """
    nodes = n if n % 2 else n // 2
    if nodes < 2:
        raise ValueError(
            f"{n} phases are {nodes} node(s) modulo π; the closed form needs at least 2"
        )
    h = math.pi / nodes
    if nodes >= 100:
        # The difference of cotangents cancels; the series of 1 - x cot x is exact to rounding here.
        half, three = (
            y * (1 / 3 + y * (1 / 45 + y * (2 / 945 + y / 4725)))
            for y in ((h / 2) ** 2, (3 * h / 2) ** 2)
        )
        return 2 * three / 3 - 2 * half
    return h * (1 / math.tan(h / 2) - 1 / math.tan(3 * h / 2)) - 4 / 3


def thinned_errors(scheme: Scheme, draws: int, rng: np.random.Generator) -> dict[int, float]:
    """Neurons kept → median worst error of `draws` choices of so many; n/2^j … n/2, n.

    Weights sum to 2π again.
    """
    # Neurons without weight are not part of the rule; a draw of nothing else would be no rule at
    # all.
    scheme = _with_neurons(scheme, np.flatnonzero((scheme.rho > 0) & (scheme.omega > 0)))
    errors = {}
    for count in reversed(
        [scheme.n >> step for step in range(scheme.n.bit_length()) if scheme.n >> step >= 3]
    ):
        tries = 1 if count == scheme.n else draws
        chosen = [rng.choice(scheme.n, size=count, replace=False) for _ in range(tries)]
        errors[count] = float(
            np.median([abs_supremum(_with_neurons(scheme, keep)).middle for keep in chosen])
        )
    return errors


def _with_neurons(scheme: Scheme, keep: np.ndarray) -> Scheme:
    return Scheme(
        scheme.p, scheme.k, scheme.phi[keep], scheme.psi[keep], scheme.rho[keep], scheme.omega[keep]
    )


def thinning_table() -> Table:
    """Return how the error falls with neurons, of all rules and of small errors.

    It has what the last half of the neurons adds, and the boxes.
    """
    rng = np.random.default_rng(0)
    rows: dict[str, list[tuple[float, ...]]] = {
        "all": [],
        "error below 10 %": [],
        "error above": [],
    }
    for scheme in rules().values():
        errors = thinned_errors(scheme, DRAWS, rng)
        *fewer, half, whole = errors.values()
        drawn = [scheme_with(scheme, rng.uniform(-np.pi, np.pi, scheme.n)) for _ in range(DRAWS)]
        chance = float(np.median([abs_supremum(one).middle for one in drawn]))
        boxes = float(np.median([box_density(one).uncovered for one in drawn]))
        facts = (
            # Without the whole cluster, whose neurons balance each other.
            float(np.polyfit(np.log(list(errors)[:-1]), np.log([*fewer, half]), 1)[0]),
            half / whole,
            chance / whole,
            whole / equally_spaced_error(list(errors)[-1]),
            box_density(scheme).uncovered,
            boxes,
        )
        for name in ("all", "error below 10 %" if small(scheme) else "error above"):
            rows[name].append(facts)
    digits = (2, 1, 1, 0, 2, 2)
    header = (
        "clusters, medians",
        "error falls as n to the",
        "half of the neurons: times the error",
        "random phases: times the error",
        "times the error of equal spacing",
        "uncovered",
        "uncovered, random phases",
    )
    return Table(
        "",
        header,
        [
            (
                f"{name}, {len(many)}",
                *(median((one[i] for one in many), digits[i]) for i in range(len(digits))),
            )
            for name, many in rows.items()
        ],
    )


def scheme_with(scheme: Scheme, phi: np.ndarray) -> Scheme:
    """The same weights at other phases."""
    return Scheme(scheme.p, scheme.k, phi, 2 * phi, scheme.rho, scheme.omega)


def errors_table() -> Table:
    """Return errors and bounds over the baseline, of eight models and of all.

    They are the smallest, quartiles, 90 % and the largest.
    """
    models = dataset.read(dataset.shipped_path())
    clusters = (
        models.select("seed", "baseline", "clusters")
        .explode("clusters")
        .unnest("clusters")
        .filter("key")
    )
    rows = []
    for last in (7, len(models) - 1):
        some = clusters.filter(pl.col("seed") <= last)
        for name, column in (
            ("exact, with ψ", some["relative_exact_psi"]),
            ("exact, with 2φ", some["relative_exact"]),
            ("moment bound, M = 20, with 2φ", some["moment_bound"] / some["baseline"]),
            ("the paper's bound", some["relative_bound"]),
        ):
            quantiles = np.quantile(column.to_numpy(), (0, 0.25, 0.5, 0.75, 0.9, 1))
            cells = (decimals(float(x), 3, "up") for x in quantiles)
            rows.append((f"{len(some)} clusters, seeds 0 – {last}", name, *cells))
    return Table(
        "", ("of", "", "smallest", "25 %", "median", "75 %", "90 %", "largest"), rows, labels=2
    )


def main() -> None:
    """Gather, or print one table."""
    tables = {"moments": moments_table, "thinning": thinning_table, "errors": errors_table}
    if sys.argv[1:2] == ["--gather"]:
        gather(sys.argv[2:])
    elif len(sys.argv) == 2 and sys.argv[1] in tables:
        sys.stdout.write(tables[sys.argv[1]]().to_markdown() + "\n")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
