"""Benchmarks have the keys that others rely on, and exponents of the cost formulas."""

import dataclasses
import json
import subprocess
import sys
from fractions import Fraction

import pytest
from benchmarks.analysis import benchmark_sizes, run_benchmark
from benchmarks.certify import (
    CertifyRow,
    bench_sizes,
    best_keys,
    brute_force_in_float64,
    fit_exponents,
    run_certify_bench,
)

from places import ROOT
from quadlens.network.evaluate import all_pairs
from quadlens.network.exact import exact_logits
from quadlens.network.handmade import Recipe, build_mlp
from soundness import true_margins

pytestmark = pytest.mark.slow


def test_sizes_are_a_ladder_in_p_a_ladder_in_width_and_the_largest() -> None:
    assert bench_sizes([59, 113], [8, 16]) == ((59, 8), (113, 8), (59, 16), (113, 16))


def test_small_run_proves_everything_with_moments_and_fits_exponents() -> None:
    result = run_certify_bench(bench_sizes([31, 59], [64]))
    names = {field.name for field in dataclasses.fields(CertifyRow)}
    assert names >= {
        "p", "d_mlp", "strategy", "flops", "seconds", "brute_force_flops", "brute_force_seconds",
        "certified_share",
    }  # fmt: skip
    shares = {(row.p, row.strategy): row.certified_share for row in result.rows}
    for p in (31, 59):
        proved = (
            "moments in float64",
            "moments in integers",
            "arcs",
            "brute",
            "brute force in float64",
        )
        assert {shares[p, name] for name in proved} == {1.0}
    assert result.exponents["moments in float64"].flops < 2.1
    assert result.exponents["brute"].flops == pytest.approx(3, abs=0.15)


@pytest.mark.parametrize("noise", [0.001, 0.3])
def test_brute_force_in_float64_proves_no_more_than_is_true(noise: float) -> None:
    """Its margins are below exact ones, and its error is below the largest there is."""
    model = build_mlp(Recipe(31, (2, 5, 7, 11), 64, noise=noise, seed=1))
    proof, truth, exact = brute_force_in_float64(model), true_margins(model), exact_logits(model)
    right = [margin for row in truth for margin in row if margin > 0]
    assert proof.certified_share <= len(right) / 31**2
    assert proof.margin_lower_bound is not None
    assert Fraction(proof.margin_lower_bound) <= min(right)
    assert Fraction(proof.margin_lower_bound) >= min(right) - 4 * Fraction(proof.error)
    logits = model.forward(all_pairs(31))
    for n in range(0, 31**2, 7):
        for c in range(31):
            assert abs(Fraction(float(logits[n, c])) - exact.logit(n // 31, n % 31, c)) <= Fraction(
                proof.error
            )


def test_exponents_need_two_moduli() -> None:
    row = CertifyRow(59, 8, "brute", 10, (1.0, 4.0), 10, (2.0, 2.0), 1.0, None)
    assert row.times_faster == (0.5, 2.0)
    assert fit_exponents([row]) == {}


def test_keys_are_distinct_frequencies() -> None:
    import numpy as np

    keys = best_keys(11, np.random.default_rng(0))
    assert len(set(keys)) == len(keys) == 5
    assert all(1 <= k <= 5 for k in keys)


def script(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    path = ROOT / "benchmarks" / f"{name}.py"
    return subprocess.run(
        [sys.executable, str(path), *words], capture_output=True, text=True, check=False
    )


def test_analysis_script() -> None:
    value = json.loads(script("analysis", "--largest", "70000", "--json").stdout)
    assert [(row["d_mlp"], row["p"]) for row in value["rows"]] == [(512, 59), (1024, 59)]
    assert value["headline"] is None
    shown = script("analysis", "--largest", "70000", "--brute-force-limit", "40000").stdout
    assert "not measured" in shown
    assert "exact: exponent in d_mlp at p = 59" in shown
    none, below = (
        script("analysis", "--largest", "10"),
        script("analysis", "--brute-force-limit", "10"),
    )
    assert (none.returncode, below.returncode) == (2, 2)
    assert "the smallest is 512 × 59" in none.stderr
    assert "is below every size" in below.stderr


def test_certify_script() -> None:
    value = json.loads(script("certify", "--moduli", "11,13", "--neurons", "32", "--json").stdout)
    assert {"p", "d_mlp", "strategy", "flops", "seconds", "certified_share"} < value["rows"][
        0
    ].keys()
    assert {"flops", "seconds"} < value["exponents"]["moments in float64"].keys()
    bad = script("certify", "--moduli", "x")
    assert (bad.returncode, "--moduli" in bad.stderr) == (2, True)


def test_training_script() -> None:
    pytest.importorskip("torch", reason="training needs the extra 'train'")
    value = json.loads(
        script("train", "--turns", "1", "--p", "11", "--d-mlp", "16", "--json").stdout
    )
    assert {"quadlens", "gemm_floor"} <= value["ms_per_epoch"].keys()
    assert {"ratio_to_transformer_lens", "ratio_to_gemm_floor", "threads"} < value.keys()


def test_benchmark_marks_what_it_did_not_measure() -> None:
    sizes = ((8, 5), (8, 59), (16, 5), (16, 59))
    result = run_benchmark(sizes, brute_force_limit=500)
    assert [row.brute_force_measured for row in result.rows] == [True, True, True, False]
    assert result.rows[-1].agreement is None
    assert all(row.agreement < 1e-12 for row in result.rows if row.agreement is not None)
    assert {(ladder.method, ladder.variable) for ladder in result.ladders} >= {
        ("exact", "p"),
        ("exact", "d_mlp"),
    }
    assert result.headline is None
    full = benchmark_sizes()
    assert {(512, 59), (16384, 100_003), (4096, 10_007)} <= set(full)
