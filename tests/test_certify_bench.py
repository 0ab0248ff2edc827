"""The benchmark of proofs: rows with the keys others rely on, and exponents that follow the cost formulas."""

import dataclasses

import pytest

from quadlens.proofs.bench import CertifyRow, bench_sizes, best_keys, fit_exponents, run_certify_bench


def test_sizes_are_a_ladder_in_p_a_ladder_in_width_and_the_largest() -> None:
    assert bench_sizes([59, 113], [8, 16]) == ((59, 8), (113, 8), (59, 16), (113, 16))


def test_small_run_proves_everything_with_moments_and_fits_exponents() -> None:
    result = run_certify_bench(bench_sizes([31, 59], [64]))
    names = {field.name for field in dataclasses.fields(CertifyRow)}
    assert names >= {
        "p", "d_mlp", "strategy", "flops", "seconds", "brute_force_flops", "brute_force_seconds", "certified_share"
    }  # fmt: skip
    shares = {(row.p, row.strategy): row.certified_share for row in result.rows}
    for p in (31, 59):
        assert shares[p, "moments"] == shares[p, "arcs"] == shares[p, "brute"] == 1.0
    assert result.exponents["moments"].flops < 2.1
    assert result.exponents["brute"].flops == pytest.approx(3, abs=0.15)


def test_exponents_need_two_moduli() -> None:
    row = CertifyRow(59, 8, "brute", 10, 1.0, 10, 1.0, 1.0, None)
    assert fit_exponents([row]) == {}


def test_keys_are_distinct_frequencies() -> None:
    import numpy as np

    keys = best_keys(11, np.random.default_rng(0))
    assert len(set(keys)) == len(keys) == 5
    assert all(1 <= k <= 5 for k in keys)
