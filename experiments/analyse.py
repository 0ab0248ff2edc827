#!/usr/bin/env python3
"""The registered analyses (`experiments/registered/`) of the models there are, and one figure each.

    python experiments/analyse.py [1 2 3 4 5] [--write]

Prints a page for each experiment; with --write it becomes `experiments/results/N_….md`, its figure
beside it. Nothing here chooses anything: thresholds and formulas are those of the registered pages.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from data import Measured, measured_models
from few_neurons import finding, of_measured, paired_share
from quadlens.base.numbers import at_least, at_most
from quadlens.show.figures.style import style

HERE = Path(__file__).parent
BASELINE = 8 / (3 * np.pi)
RESAMPLES = 10_000
# With fewer models no test can reach 5 %.
FEWEST = 6


@dataclass(frozen=True)
class Test:
    """One prediction beside what was found.

    `p` is None where no test is registered.
    """

    name: str
    prediction: str
    found: str
    p: float | None
    reached: bool


def accurate(models: Sequence[Measured]) -> list[Measured]:
    """Those that answer every input."""
    return [one for one in models if one.values["evaluation"]["correct"] == one.values["p"] ** 2]


def holm(tests: Sequence[Test]) -> list[float | None]:
    """Adjusted p-values of the tests there are; None for a prediction that has none."""
    known = sorted((one.p, index) for index, one in enumerate(tests) if one.p is not None)
    adjusted: list[float | None] = [None] * len(tests)
    so_far = 0.0
    for rank, (p, index) in enumerate(known):
        so_far = max(so_far, min(1.0, (len(known) - rank) * p))
        adjusted[index] = so_far
    return adjusted


def most(name: str, prediction: str, holds: Sequence[bool], share: float = 0.8) -> Test:
    """In at least a share of the models, and in more than half by the exact binomial test."""
    k, m = sum(holds), len(holds)
    low, high = (float(x) for x in stats.binomtest(k, m).proportion_ci()) if m else (0.0, 1.0)
    p = float(stats.binomtest(k, m, 0.5, alternative="greater").pvalue) if m else 1.0
    return Test(
        name,
        prediction,
        f"{k} of {m} (95 % interval {interval(low, high, 2)})",
        p,
        m > 0 and k >= share * m,
    )


def within(name: str, prediction: str, values: Sequence[float], margin: float) -> Test:
    """Two one-sided t tests of a mean against ± a margin."""
    x = np.array(values)
    if len(x) < 2:
        return Test(name, prediction, "too few models", 1.0, False)
    mean, error = float(x.mean()), float(x.std(ddof=1) / np.sqrt(len(x)))
    p = max(float(stats.t.sf((margin + side * mean) / error, len(x) - 1)) for side in (1, -1))
    low, high = stats.t.interval(0.95, len(x) - 1, mean, error)
    return Test(
        name, prediction, f"mean {mean:.3f} ({interval(low, high, 3)})", p, abs(mean) < margin
    )


def above_zero(name: str, prediction: str, values: Sequence[float]) -> Test:
    """Wilcoxon's signed rank test of a median above 0."""
    x = np.array(values)
    p = float(stats.wilcoxon(x, alternative="greater").pvalue) if len(x) and np.any(x) else 1.0
    low, high = (
        np.quantile(_resampled(x, np.median), [0.025, 0.975]) if len(x) else (np.nan, np.nan)
    )
    middle = float(np.median(x)) if len(x) else np.nan
    return Test(
        name,
        prediction,
        f"median {middle:.3f} ({interval(low, high, 3)}), {len(x)} models",
        p,
        middle > 0,
    )


def larger(
    name: str, prediction: str, x: Sequence[float], y: Sequence[float], least: float = 0.5
) -> Test:
    """Whether values of x are above those of y: AUC, and the Mann–Whitney test."""
    if not (len(x) and len(y)):
        return Test(name, prediction, "one group is empty", 1.0, False)
    found = stats.mannwhitneyu(x, y, alternative="greater")
    area = float(found.statistic) / len(x) / len(y)
    return Test(
        name,
        prediction,
        f"AUC {area:.3f} ({len(x)} against {len(y)} models)",
        float(found.pvalue),
        area >= least,
    )


def interval(low: float, high: float, digits: int) -> str:
    """Both ends, rounded outwards."""
    if np.isnan(low) or np.isnan(high):
        return "–"
    return f"{at_least(float(low), digits)} … {at_most(float(high), digits)}"


def _resampled(x: np.ndarray, statistic: Callable[..., Any]) -> np.ndarray:
    rng = np.random.default_rng(0)
    return statistic(x[rng.integers(0, len(x), (RESAMPLES, len(x)))], axis=1)


def page(
    title: str,
    registered: str,
    models: Sequence[Measured],
    used: Sequence[Measured],
    tests: Sequence[Test],
    more: Sequence[str],
    figure: str,
    planned: int,
) -> str:
    """The result, what failed first."""
    adjusted = holm(tests)
    held = [
        one.reached and (p is None or p <= 0.05) for one, p in zip(tests, adjusted, strict=True)
    ]
    failed = [one.name for one in tests if not one.reached]
    open_ = [one.name for one, ok in zip(tests, held, strict=True) if one.reached and not ok]
    verdict = "All predictions held." if all(held) else ""
    if failed:
        verdict = f"Below its threshold: {', '.join(failed)}."
    if open_:
        few = " with so few models" if len(models) < planned else ""
        verdict += f" Above its threshold, but not significant{few}: {', '.join(open_)}."
    if len(used) < FEWEST:
        verdict = "Too few models are trained to test anything."
    looks = (
        "How many there are was decided by the clock. The analysis was run several times while "
        "models were being trained, and which came next was chosen with results in view: the "
        "p-values do not correct for that."
        if len(models) < planned
        else "How many there are was decided before the first was trained. The analysis was also "
        "run when some were there, and which came next was at times chosen with results in view."
    )
    rows = [
        f"| {one.name} | {one.prediction} | {one.found} | {'yes' if one.reached else 'no'} | "
        f"{pvalue(one.p)} | {pvalue(p)} | {'confirmed' if ok else 'not confirmed'} |"
        for one, p, ok in zip(tests, adjusted, held, strict=True)
    ]
    return "\n".join(
        [
            f"# {title}",
            "",
            f"{verdict.strip()} Registered in [{registered}](../registered/{registered}) before "
            "any of these models was trained. "
            f"{len(models)} of {planned} planned models are trained; {len(used)} of them answer "
            f"every input and are in the tests. {looks} After such looks the amendments were "
            "written, and p-values of 3b and 5b, for which the registration asks none, were taken "
            "out again.",
            "",
            "| test | prediction | found | threshold reached | p | p, Holm | |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
            *(f"- {line}" for line in more),
            "",
            f"![{title}]({figure})",
            "",
        ]
    )


def pvalue(p: float | None) -> str:
    """Two digits; a dash where no test is registered."""
    return "–" if p is None else f"{p:.2g}"


def share(holds: Sequence[bool]) -> str:
    """As k of m."""
    return f"{sum(holds)} of {len(holds)}"


def integration() -> tuple[str, Any]:
    """Experiment 1."""
    models = measured_models(1)
    used = accurate(models)
    lens = [one.values["lens"] for one in used]
    controls = [one["controls"] for one in lens]
    shared = [one["r2"]["shared"] for one in lens]
    tests = [
        most(
            "1a",
            "shared ≥ 0.9, permuted at least 0.5 below",
            [
                x >= 0.9 and c["shared_permuted"] <= x - 0.5
                for x, c in zip(shared, controls, strict=True)
            ],
        ),
        most(
            "1b",
            "even nodes keep ≥ 0.99, half a period < 0.6",
            [c["resampled_even"] >= 0.99 and c["resampled_half"] < 0.6 for c in controls],
        ),
        most(
            "1c",
            "residual's correlation ≥ 0.5",
            [c["residual_correlation"] >= 0.5 for c in controls],
        ),
        within(
            "1d",
            "symmetric part less shared within ±0.03",
            [one["r2"]["symmetric_part"] - one["r2"]["shared"] for one in lens],
            0.03,
        ),
        above_zero("1e", "median of spacing above 0", [c["spacing"] for c in controls]),
    ]
    more = [
        f"`shared` from {at_least(min(shared), 3)} to {at_most(max(shared), 3)}, "
        f"median {np.median(shared):.3f}; `shared_permuted` "
        f"at most {at_most(max(c['shared_permuted'] for c in controls), 2)}.",
        f"`resampled_even` at least {at_least(min(c['resampled_even'] for c in controls), 4)}, "
        f"`resampled_half` at most {at_most(max(c['resampled_half'] for c in controls), 3)}.",
        f"`residual` R² ≥ 0.8 in {share([c['residual'] >= 0.8 for c in controls])} models (stated: "
        f"fewer than half); median {np.median([c['residual'] for c in controls]):.2f}; with "
        f"weights permuted below 0.1 in {share([c['residual_permuted'] < 0.1 for c in controls])} "
        "(stated: at least 80 %).",
        f"`spacing` below 0.5 in {share([c['spacing'] < 0.5 for c in controls])} (stated: at least "
        "80 %); above its own 95 % control in "
        f"{share([c['spacing'] > c['spacing_permuted'] for c in controls])}.",
        f"`integrates` is true in {share([bool(one['integrates']) for one in lens])}.",
    ]

    def draw(axes: Any) -> None:
        axes[0].plot(
            shared, [max(c["shared_permuted"], -8) for c in controls], "o", color="#3b6ea8"
        )
        axes[0].axvline(0.9, lw=0.8, color="#888888")
        axes[0].set(xlabel="shared", ylabel="output phases permuted")
        axes[1].plot(
            [c["residual"] for c in controls],
            [c["residual_correlation"] for c in controls],
            "o",
            color="#b5533c",
        )
        axes[1].axhline(0.5, lw=0.8, color="#888888")
        axes[1].set(xlabel="residual, R²", ylabel="its correlation", xlim=(-2, 1))

    return page(
        "Integration against symmetry",
        "1_integration.md",
        models,
        used,
        tests,
        more,
        "1_integration.png",
        30,
    ), draw


def folded(k: int, p: int) -> int:
    """The smaller of k and p - k, modulo p."""
    return min(k % p, -k % p)


def rules_of(one: Measured) -> dict[int, dict[str, Any]]:
    """Exact error, its joint version and moments of every key cluster."""
    p, found = one.values["p"], {}
    s, theta = np.pi * np.arange(2 * p) / p, 2 * np.pi * np.arange(4096) / 4096
    wave = {
        m: complex((np.abs(np.cos(theta)) * np.exp(-1j * m * theta)).mean()) for m in (-2, 0, 2)
    }
    for row in one.values["rules"]:
        k = row["k"]
        if k not in one.values["key_frequencies"] or row["relative_exact"] is None:
            continue
        mine = one.neurons["explained_k"] == k
        rho, omega, phi = (
            one.neurons[f"explained_{name}"][mine].astype(float) for name in ("rho", "omega", "phi")
        )
        w = 2 * np.pi * rho * omega / (rho * omega).sum()
        sums = (w * np.abs(np.cos(s[:, None] + phi)) * np.exp(2j * phi)).sum(axis=1)
        known = sum(
            c * np.exp(1j * m * s) * (w * np.exp(1j * (m + 2) * phi)).sum() for m, c in wave.items()
        )
        found[k] = {
            **row,
            "joint": float(np.abs(sums - known).max() / BASELINE),
            "w": w,
            "phi": phi,
        }
    return found


def doubled_keys() -> tuple[str, Any]:
    """Experiment 2."""
    # The amendment: models of 10,000 epochs only.
    models = [one for one in measured_models(2) if one.values["epochs"] == 10_000]
    used = accurate(models)
    score, rough, chained, moments, joint, halves, pairs = [], [], [], [], [], [], []
    for one in used:
        p, keys, rules = one.values["p"], set(one.values["key_frequencies"]), rules_of(one)
        double, triple = (any(folded(times * k, p) in keys - {k} for k in keys) for times in (2, 3))
        score.append(len(keys) + double + 0.5 * triple)
        rough.append(any(row["relative_exact"] > 0.1 for row in rules.values()))
        chained.append(double)
        moments.append(max((row["moments"][3] for row in rules.values()), default=0.0))
        in_chain = {k for k in keys if folded(2 * k, p) in keys} | {
            folded(2 * k, p) for k in keys if folded(2 * k, p) in keys
        }
        found = [
            (row["relative_exact"], row["joint"])
            for k, row in rules.items()
            if k in in_chain and row["relative_exact"] > 0.1
        ]
        pairs += found
        if found:
            halves.append(sum(y <= x / 2 for x, y in found) > len(found) / 2)
        if double:
            joint.append(one.values["lens"]["r2"]["joint"] - one.values["lens"]["r2"]["shared"])

    def pick(values: list[Any], flags: list[bool], wanted: bool) -> list[Any]:
        return [x for x, flag in zip(values, flags, strict=True) if flag == wanted]

    counted = most(
        "2c", "E_joint at most half of the exact error in rough chained clusters", halves
    )
    clusters = [y <= x / 2 for x, y in pairs]
    tests = [
        larger(
            "2a",
            "score of the key set is higher in rough models, AUC ≥ 0.75",
            pick(score, rough, True),
            pick(score, rough, False),
            0.75,
        ),
        larger(
            "2b",
            "largest moment of order 4 is higher with a double",
            pick(moments, chained, True),
            pick(moments, chained, False),
        ),
        Test(
            "2c",
            counted.prediction,
            f"{share(clusters)} clusters; {counted.found} models",
            counted.p,
            bool(clusters) and sum(clusters) >= 0.8 * len(clusters),
        ),
        above_zero("2d", "joint above shared in models with a chain", joint),
    ]
    more = [
        f"Rough: {share(rough)} models; with a double: {share(chained)}; both: "
        f"{sum(x and y for x, y in zip(rough, chained, strict=True))}.",
        f"E_joint below 0.1 in {share([y < 0.1 for _, y in pairs])} rough chained clusters "
        "(stated: 30 – 60 %; first hope: 80 %).",
        f"Largest exact relative error {max((x for x, _ in pairs), default=0):.2f} in a chain; "
        "lowest `shared` of a model "
        f"{min((one.values['lens']['r2']['shared'] for one in used), default=0):.3f}.",
        afterwards(used),
    ]

    def draw(axes: Any) -> None:
        for flag, colour, name in (
            (False, "#3b6ea8", "no double"),
            (True, "#b5533c", "a key is twice another"),
        ):
            worst = [
                max((row["relative_exact"] for row in rules_of(one).values()), default=np.nan)
                for one in used
            ]
            axes[0].semilogy(
                pick(score, chained, flag),
                pick(worst, chained, flag),
                "o",
                color=colour,
                label=name,
            )
        axes[0].axhline(0.1, lw=0.8, color="#888888")
        axes[0].set(xlabel="score of the key set", ylabel="worst exact relative error")
        axes[0].legend(fontsize=8)
        if pairs:
            axes[1].loglog(*zip(*pairs, strict=True), "o", color="#b5533c")
            ends = [min(min(pair) for pair in pairs), max(max(pair) for pair in pairs)]
            axes[1].loglog(ends, [x / 2 for x in ends], lw=0.8, color="#888888")
        axes[1].set(xlabel="exact error of a rough chained cluster", ylabel="read jointly")

    return page(
        "Doubled keys", "2_doubled_keys.md", models, used, tests, more, "2_doubled_keys.png", 50
    ), draw


def errors_of(w: np.ndarray, phi: np.ndarray, p: int) -> float:
    """The |x| rule's worst error over s = πj/p, over its baseline."""
    s = np.pi * np.arange(2 * p) / p
    sums = (w * np.abs(np.cos(s[:, None] + phi)) * np.exp(2j * phi)).sum(axis=1)
    return float(np.abs(sums - 4 / 3 * np.exp(-2j * s)).max() / BASELINE)


def width_law() -> tuple[str, Any]:
    """Experiment 3."""
    models = measured_models(3)
    used, rows = accurate(models), []
    for one in used:
        p, rng, found = one.values["p"], np.random.default_rng(0), []
        for row in rules_of(one).values():
            m = row["neurons"]
            if m < 3:
                continue
            drawn = np.median(
                [errors_of(row["w"], rng.uniform(0, 2 * np.pi, m), p) for _ in range(20)]
            )
            even = errors_of(np.full(m, 2 * np.pi / m), np.pi * (np.arange(m) + 0.5) / m, p)
            level, error = row["random_level"], row["relative_exact"]
            place = np.log(error / even) / np.log(drawn / even)
            found.append(
                (m, error, drawn, row["moments"][3] / level, row["moments"][5] / level, place)
            )
        if found:
            rows.append((one.values["d_mlp"], *np.median(found, axis=0)))
    table = np.array(rows).reshape(-1, 7)
    width, m, error, drawn, four, six, place = table.T
    low_moments = [bool(x < 0.5 and y < 1) for x, y in zip(four, six, strict=True)]
    widths = sorted(set(width))
    by_width = {
        int(d): [ok for ok, x in zip(low_moments, width, strict=True) if x == d] for d in widths
    }
    every = all(sum(ok) >= 0.8 * len(ok) for d, ok in by_width.items() if d >= 128)

    def slope(x: np.ndarray, y: np.ndarray) -> float:
        return -float(np.polyfit(np.log(x), np.log(y), 1)[0])

    rng = np.random.default_rng(0)
    again = []
    for _ in range(RESAMPLES if len(table) > 2 else 0):
        chosen = rng.integers(0, len(table), len(table))
        if len(set(m[chosen])) > 1:
            again.append(slope(m[chosen], error[chosen]))
    alpha = slope(m, error) if len(table) > 1 else np.nan
    low, high = np.quantile(again, [0.025, 0.975]) if again else (np.nan, np.nan)
    tests = [
        Test(
            "3a",
            "μ_4/r < ½ and μ_6/r < 1 at every width of 128 and more",
            "; ".join(f"{d}: {share(ok)}" for d, ok in by_width.items()),
            most("", "", low_moments).p,
            every,
        ),
        Test(
            "3b",
            "α in [0.35, 0.8], interval excludes 1",
            f"α = {alpha:.2f} ({interval(low, high, 2)})",
            None,
            bool(0.35 <= alpha <= 0.8 and high < 1),
        ),
        most(
            "3c",
            "error below that of random phases",
            [bool(x < y) for x, y in zip(error, drawn, strict=True)],
        ),
        most(
            "3d",
            "position ≥ ½: nearer to random phases than to the best rule",
            [bool(x >= 0.5) for x in place],
        ),
    ]
    more = [
        f"Phases drawn anew: α = {slope(m, drawn):.2f} "
        "(a check of the statistic, stated 0.4 – 0.6)."
        if len(table) > 1
        else "Too few models for slopes.",
        "Medians by width (neurons of a cluster, error, error of random phases, position): "
        + "; ".join(
            f"{int(d)}: {np.median(m[width == d]):.0f}, {np.median(error[width == d]):.3f}, "
            f"{np.median(drawn[width == d]):.3f}, {np.median(place[width == d]):.2f}"
            for d in widths
        )
        + ".",
        over_training(used),
    ]

    def draw(axes: Any) -> None:
        axes[0].loglog(m, drawn, "x", color="#888888", label="phases drawn anew")
        axes[0].loglog(m, error, "o", color="#3b6ea8", label="trained")
        axes[0].loglog(
            m,
            [
                errors_of(
                    np.full(int(k), 2 * np.pi / int(k)),
                    np.pi * (np.arange(int(k)) + 0.5) / int(k),
                    59,
                )
                for k in m
            ],
            "_",
            color="#b5533c",
            label="even nodes",
        )
        axes[0].set(xlabel="neurons of a cluster (median)", ylabel="exact relative error (median)")
        axes[0].legend(fontsize=8)
        axes[1].semilogx(width, four, "o", color="#3b6ea8", label="μ_4 over random level")
        axes[1].semilogx(width, six, "s", color="#b5533c", label="μ_6 over random level")
        axes[1].axhline(1, lw=0.8, color="#888888")
        axes[1].set(xlabel="d_mlp")
        axes[1].legend(fontsize=8)

    return page(
        "The width law", "3_width_law.md", models, used, tests, more, "3_width_law.png", 30
    ), draw


def over_training(models: Sequence[Measured]) -> str:
    """Take medians over models of each snapshot: μ_4 over its random level, and the exact error."""
    found: dict[int, list[tuple[float, float]]] = {}
    for one in models:
        keys = set(one.values["key_frequencies"])
        for moment in one.values["snapshots"]:
            rows = [
                row
                for row in moment["clusters"]
                if row["k"] in keys and row["relative_exact"] is not None and row["neurons"] > 2
            ]
            if rows:
                values = (
                    np.median([row["moments"][3] / row["random_level"] for row in rows]),
                    np.median([row["relative_exact"] for row in rows]),
                )
                found.setdefault(moment["epoch"], []).append((float(values[0]), float(values[1])))
    texts = [
        f"{epoch}: {np.median([x for x, _ in values]):.2f}, {np.median([y for _, y in values]):.2f}"
        for epoch, values in sorted(found.items())
    ]
    return (
        "Over training (epoch: μ_4 over its random level, exact error; medians over models): "
        + "; ".join(texts)
        + "."
    )


def product_waves() -> tuple[str, Any]:
    """Experiment 4."""
    removed = accurate(
        [one for one in measured_models(1) if "removed" in one.values["product_waves"]]
    )
    added = accurate([one for one in measured_models(2) if "added" in one.values["product_waves"]])
    both = [one.values["product_waves"] for one in removed]
    more_ = [one.values["product_waves"] for one in added]
    change = [x["removed"]["irrelevance"] - x["before"]["irrelevance"] for x in both]
    gaps = [abs(x["removed"]["accuracy"] - x["removed"]["integral_accuracy"]) for x in both]
    falls = [x["before"]["symmetricity"] - x["added"]["symmetricity"] for x in more_]
    tests = [
        most(
            "4a",
            "removal moves S at least 80 % of the way to 1",
            [
                x["removed"]["symmetricity"] - x["before"]["symmetricity"]
                >= 0.8 * (1 - x["before"]["symmetricity"])
                for x in both
            ],
        ),
        most("4b", "after removal shared ≥ 0.8", [x["removed"]["shared"] >= 0.8 for x in both]),
        most(
            "4c",
            "after removal accuracy within 15 points of the integral's",
            [gap <= 0.15 for gap in gaps],
        ),
        within("4d", "removal changes D by less than 0.15", change, 0.15),
        most(
            "4e",
            "addition: S falls by ≥ 0.04, shared ≥ 0.9, D < 0.5",
            [
                fall >= 0.04 and x["added"]["shared"] >= 0.9 and x["added"]["irrelevance"] < 0.5
                for fall, x in zip(falls, more_, strict=True)
            ],
        ),
    ]

    def middle(rows: list[dict[str, Any]], when: str, name: str) -> float:
        return float(np.median([x[when][name] for x in rows]))

    more = [
        "Medians, removal: "
        + "; ".join(
            f"{name} {middle(both, 'before', name):.3f} → {middle(both, 'removed', name):.3f}"
            for name in ("symmetricity", "shared", "accuracy", "irrelevance")
        )
        + ".",
        f"After removal `shared` ≥ 0.9 in {share([x['removed']['shared'] >= 0.9 for x in both])} "
        f"and accuracy within 5 points in {share([gap <= 0.05 for gap in gaps])} "
        "(stated: 30 – 70 % each).",
        "Medians, addition: "
        + "; ".join(
            f"{name} {middle(more_, 'before', name):.3f} → {middle(more_, 'added', name):.3f}"
            for name in ("symmetricity", "shared", "accuracy", "irrelevance")
        )
        + f". S falls in {share([fall >= 0.04 for fall in falls])}, "
        f"shared stays in {share([x['added']['shared'] >= 0.9 for x in more_])}, D stays below 0.5 "
        f"in {share([x['added']['irrelevance'] < 0.5 for x in more_])}; D was below 0.5 before in "
        f"{share([x['before']['irrelevance'] < 0.5 for x in more_])}.",
        f"Removal: {len(removed)} of 20 planned models; addition: {len(added)} of 10.",
    ]

    def draw(axes: Any) -> None:
        for axis, name, label in (
            (axes[0], "symmetricity", "wave symmetricity S"),
            (axes[1], "irrelevance", "distance irrelevance D"),
        ):
            for rows, when, colour in ((both, "removed", "#3b6ea8"), (more_, "added", "#b5533c")):
                for x in rows:
                    axis.annotate(
                        "",
                        (x[when]["product_share"] * 100, x[when][name]),
                        (x["before"]["product_share"] * 100, x["before"][name]),
                        arrowprops={"arrowstyle": "->", "color": colour, "lw": 0.8},
                    )
                # Arrows do not widen the axes; their ends, drawn invisibly, do.
                ends = [x[when]["product_share"] * 100 for x in rows], [x[when][name] for x in rows]
                axis.plot(*ends, "o", alpha=0)
                axis.plot(
                    [x["before"]["product_share"] * 100 for x in rows],
                    [x["before"][name] for x in rows],
                    "o",
                    ms=4,
                    color=colour,
                    label=f"products {when}",
                )
            axis.set(xlabel="product waves, % of what neurons read", ylabel=label)
        axes[0].legend(fontsize=8)

    return page(
        "Product waves, causally",
        "4_product_waves.md",
        [*removed, *added],
        [*removed, *added],
        tests,
        more,
        "4_product_waves.png",
        30,
    ), draw


def swapped() -> tuple[str, Any]:
    """Experiment 5."""
    models = [*measured_models(1), *measured_models(2)]
    used = accurate(models)
    pairs = [
        (one["function"], one["predicted"], one["accuracy"])
        for model in used
        for one in model.values["swaps"]
    ]
    same = [(x >= 0.5) == (y >= 0.5) for _, x, y in pairs]
    close = [abs(x - y) < 0.1 for _, x, y in pairs]
    per_model = [
        sum((one["predicted"] >= 0.5) == (one["accuracy"] >= 0.5) for one in model.values["swaps"])
        >= 9
        for model in used
    ]
    counted = most(
        "5a", "predicted and measured on the same side of ½ for 80 % of pairs", per_model
    )
    near = most(
        "5b",
        "",
        [
            sum(abs(one["predicted"] - one["accuracy"]) < 0.1 for one in model.values["swaps"])
            >= 0.7 * 11
            for model in used
        ],
    )
    tests = [
        Test(
            "5a",
            counted.prediction,
            f"{share(same)} pairs; {counted.found} models with at least 9 of 11",
            counted.p,
            sum(same) >= 0.8 * len(same),
        ),
        Test(
            "5b",
            "difference below 0.1 for 70 % of pairs",
            f"{share(close)} pairs; {near.found} models with 70 %",
            None,
            sum(close) >= 0.7 * len(close),
        ),
    ]
    names = list(dict.fromkeys(name for name, _, _ in pairs))
    more = [
        "Medians of predicted and measured: "
        + "; ".join(
            f"{name} {np.median([x for one, x, _ in pairs if one == name]):.3f}, "
            f"{np.median([y for one, _, y in pairs if one == name]):.3f}"
            for name in names
        )
        + "."
    ]

    def draw(axes: Any) -> None:
        for at, name in enumerate(names):
            axis = axes[0] if at % 2 == 0 else axes[1]
            axis.plot(
                [x for one, x, _ in pairs if one == name],
                [y for one, _, y in pairs if one == name],
                "osD^vP"[at // 2],
                ms=4,
                alpha=0.7,
                label=name,
            )
        for axis in axes:
            axis.plot([0, 1], [0, 1], lw=0.8, color="#888888")
            axis.set(xlabel="predicted by the integral", ylabel="measured accuracy")
            axis.legend(fontsize=7)

    return page(
        "Swapped activations",
        "5_swapped_activations.md",
        models,
        used,
        tests,
        more,
        "5_swapped_activations.png",
        90,
    ), draw


def afterwards(models: Sequence[Measured]) -> str:
    """State what nobody registered of experiment 2: the score needs no doubled keys."""
    again = [of_measured(one) for one in models]
    found = finding(again)
    return (
        "Seen afterwards, not registered: the number of keys alone does as well as the score, "
        f"AUC {found.keys:.3f}. A doubled key alone has AUC {found.double:.3f}, "
        f"and z = {found.double_given_keys:.2f} given the number of keys. "
        f"Of single rules, few neurons has AUC {found.few_neurons:.3f} "
        f"and being in a doubled pair {found.pair:.3f}. "
        f"Of the rules off by more than 30 %, {paired_share(again, 0.3)} are in a doubled pair. "
        "So 2a does not show that doubled keys matter."
    )


PAGES: dict[str, Callable[[], tuple[str, Any]]] = {
    "1_integration": integration,
    "2_doubled_keys": doubled_keys,
    "3_width_law": width_law,
    "4_product_waves": product_waves,
    "5_swapped_activations": swapped,
}


def summary(pages: dict[str, str]) -> str:
    """The table of docs/lens.md: what each page says first, and how many models it has."""
    lines = ["| experiment | models trained | result |", "| --- | --- | --- |"]
    for name, text in pages.items():
        verdict, _, rest = text.splitlines()[2].partition(" Registered in ")
        trained = rest.partition("was trained. ")[2].partition(" planned")[0]
        lines.append(f"| {name[0]}. {text.splitlines()[0][2:]} | {trained} | {verdict} |")
    return "\n".join(lines)


def write_summary(pages: dict[str, str]) -> None:
    """Put the table in its place."""
    docs = HERE.parent / "docs" / "lens.md"
    before, _, rest = docs.read_text(encoding="utf-8").partition("<!-- registered -->\n")
    after = rest.partition("<!-- end of registered -->")[2]
    docs.write_text(
        f"{before}<!-- registered -->\n\n{summary(pages)}\n\n<!-- end of registered -->{after}",
        encoding="utf-8",
    )


def main() -> int:
    """Each page asked for."""
    from matplotlib.figure import Figure

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("experiments", nargs="*", default=list("12345"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    results, pages = HERE / "results", {}
    for name, make in PAGES.items():
        if name[0] not in options.experiments:
            continue
        text, draw = make()
        pages[name] = text
        print(text)
        if options.write:
            results.mkdir(exist_ok=True)
            (results / f"{name}.md").write_text(text, encoding="utf-8")
            with style():
                figure = Figure(figsize=(8.6, 3.6), layout="constrained")
                draw(figure.subplots(1, 2))
                figure.savefig(results / f"{name}.png", dpi=110)
    if options.write and len(pages) == len(PAGES):
        write_summary(pages)
    return 0


if __name__ == "__main__":
    sys.exit(main())
