"""Moments without the collapse: what is left out is bounded, whatever the directions; and it is cheap."""

import pickle
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from places import ROOT
from quadlens.model import load
from quadlens.model.bundled import resolve
from quadlens.model.collapse import attended_streams
from quadlens.model.dyadic import DYADICS, Dyadic
from quadlens.model.exact import collapse_exactly
from quadlens.model.handmade import Recipe, build_mlp, build_transformer
from quadlens.model.native import save
from quadlens.model.task import task_by_name
from quadlens.model.weights import Weights
from quadlens.numbers import at_most
from quadlens.proofs import best_certificate, certify
from quadlens.proofs.brute import brute_force_operations
from quadlens.proofs.operations import collapse_operations
from quadlens.proofs.plan import Signs
from quadlens.proofs.thin import (
    INPUT_BITS,
    Thin,
    ThinHints,
    cut_skip_terms,
    reading,
    skip_terms,
    thin_items,
    thin_margins,
    writing,
)
from quadlens_checker import check
from small_models import adders, random_transformers
from soundness import check_sound, true_margins
from strategies import seeds


def entries(x: Dyadic) -> np.ndarray:
    table = np.array([Fraction(int(n), 1 << x.shift) for n in x.numerators.entries()], dtype=object)
    return table.reshape(x.shape)


def any_directions(rng: np.random.Generator, d: int, r: int) -> Dyadic:
    """Nothing to do with the model, and far from orthonormal."""
    return Dyadic.from_floats(rng.integers(-3, 4, (d, r)) / 4)


@settings(max_examples=60)
@given(random_transformers())
def test_streams_and_skip_terms_are_exact(model: Weights) -> None:
    exact, streams = collapse_exactly(model), attended_streams(model, DYADICS, thrifty=True)
    skips = skip_terms(model, streams)
    for mine, theirs in ((skips.S_a, exact.S_a), (skips.S_b, exact.S_b)):
        assert (entries(mine) == entries(theirs)).all()
    W_in, b_in = Dyadic.from_floats(model.W_in), Dyadic.from_floats(model.b_in[None]).repeated(model.config.p)
    assert (entries(streams[0] @ W_in) == entries(exact.U_a)).all()
    assert (entries(streams[1] @ W_in + b_in) == entries(exact.U_b)).all()


@settings(max_examples=80)
@given(random_transformers(), st.integers(1, 9), st.integers(1, 9), st.booleans(), seeds)
def test_any_directions_whatever_give_true_bounds(model: Weights, r: int, r_out: int, frugal: bool, seed: int) -> None:
    """|U - Ũ|, the residual of W_L, the margins, and the cost: against the exact collapse, without tolerance."""
    config, rng = model.config, np.random.default_rng(seed)
    p, d, n = config.p, config.d_model, config.d_mlp
    exact = collapse_exactly(model)
    streams = attended_streams(model, DYADICS, thrifty=True)
    means = any_directions(rng, 1, d), any_directions(rng, 1, d)
    read = reading(model, streams, any_directions(rng, d, r), means)
    P_out = any_directions(rng, d, r_out)
    write = writing(model, P_out)
    skips = cut_skip_terms(model, streams, means, P_out, write) if frugal else skip_terms(model, streams)
    for S, table, off in ((exact.S_a, skips.S_a, skips.off_a), (exact.S_b, skips.S_b, skips.off_b)):
        for row, most in zip(entries(S) - entries(table), off, strict=True):
            assert max(row) - min(row) <= most
    sides = ((exact.U_a, read.U_a, read.Y_a, read.A_a), (exact.U_b, read.U_b, read.Y_b, read.A_b))
    for U, rounded, Y, A in sides:
        for (token, i), value in np.ndenumerate(entries(U)):
            error = Y[token] * read.N[i] + A[token] * read.F[i] + Fraction(1, 2 << INPUT_BITS)
            assert abs(value - Fraction(int(rounded[token, i]), 1 << INPUT_BITS)) <= error
    unit = 1 << (write.shift_b + write.shift_h)
    W_L = entries(exact.W_L)
    remainder = W_L - np.array([[Fraction(int(x), unit) for x in row] for row in write.H.T @ write.B], dtype=object)
    for i in range(n):
        assert max(remainder[:, i]) - min(remainder[:, i]) <= write.residual[i]
        assert max(W_L[:, i]) - min(W_L[:, i]) <= write.spread[i]
    if config.activation == "relu":
        margins, rho, loss, _ = thin_margins(task_by_name("add", p), read, write, skips, rng.permutation(n))
        for (a, b), margin in np.ndenumerate(np.array(true_margins(model), dtype=object)):
            assert margins[a, b] - rho[a, b] - loss[a, b] <= margin


@settings(max_examples=60)
@given(st.one_of(adders(), random_transformers()))
def test_thin_never_claims_more_than_is_true(model: Weights) -> None:
    check_sound(Thin().prove(model), true_margins(model))


def test_a_clean_transformer_is_proved_whole() -> None:
    model = build_transformer(Recipe(31, (3, 7, 11, 13), 300, noise=0.001))
    proof = Thin().prove(model)
    check_sound(proof, true_margins(model))
    assert proof.verdict == "CERTIFIED"
    assert set(proof.terms) == {"output residual", "input residual"}
    # Results travel to the processes that draw.
    assert pickle.loads(pickle.dumps(proof)).margin == proof.margin


@pytest.mark.parametrize("name", ["pizza", "mismatched"])
def test_the_bundled_models_cost_a_tenth_of_brute_force_collapse_and_all(name: str, tmp_path: Path) -> None:
    model = load(name)
    certificate = certify(model, "thin")
    assert (certificate.verdict, certificate.collapse_flops) == ("CERTIFIED", 0)
    whole = brute_force_operations(59, 512) + collapse_operations(model.config)
    assert certificate.proof.operations <= 0.08 * whole
    assert certificate.proof.operations < collapse_operations(model.config)
    certificate.save(tmp_path / "c.json")
    report = check(str(tmp_path / "c.json"), str(resolve(name)))
    assert (report.verdict, report.claims) == ("VERIFIED", certificate.to_json()["claims"])


@settings(max_examples=60)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 12), seeds)
def test_sets_of_tokens_make_the_plan_that_single_signs_make(tokens: int, p: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    U_a, U_b = (rng.integers(-3, 4, (rows, n)).astype(object) for rows in (tokens, p))
    signs = Signs.of(U_a, U_b)
    by_sets, singly = signs.plan_by_sets(), signs.plan(0, tokens)
    for name in ("end_row", "end", "wrong_row", "wrong"):
        assert getattr(by_sets, name).tolist() == getattr(singly, name).tolist()


@pytest.mark.slow
def test_pizza_costs_so_many_operations_per_weight() -> None:
    """The items of docs/appendix.md; frugality is tried first and is what proves it."""
    model = load("pizza")
    proof = Thin().prove(model)
    assert isinstance(proof.hints, ThinHints)
    plan, r, r_out = proof.hints.arcs.plan, proof.hints.P.shape[1], proof.hints.P_out.shape[1]
    items = thin_items(model.config, r, r_out, True, plan.counted_ends, plan.mispredicted)
    assert sum(items.values()) == proof.operations
    assert proof.operations <= 87 * sum(x.size for x in model.tensors.values())
    page = (ROOT / "docs" / "appendix.md").read_text(encoding="utf-8")
    for name, count in items.items():
        assert f"| {name} | {at_most(count / 180_411, 1)} |" in page


def test_models_without_a_residual_stream_are_refused_with_a_reason() -> None:
    proof = Thin().prove(build_mlp(Recipe(5, (1, 2), 20)))
    assert proof.verdict == "UNPROVED"
    assert "use the strategy auto" in str(proof.reason)


def test_a_certificate_is_never_of_nothing_while_something_can_be_proved() -> None:
    """A proof without hints proves all but cannot be checked, `lipschitz` proves nothing: neither is one to keep."""
    model = build_transformer(Recipe(11, (1, 2, 4), 48))
    arcs = certify(model, "arcs")
    both = [replace(arcs, proof=replace(arcs.proof, hints=None)), certify(model, "lipschitz")]
    assert both[0].verdict == "CERTIFIED"
    assert best_certificate(both, checkable=True) is None
    # All costs are compared with the collapse that they need.
    more = [certify(model, "moments"), certify(model, "thin")]
    assert best_certificate([*both, *more], checkable=True) is min(more, key=lambda one: one.total_flops)


@pytest.mark.parametrize("exponent", [0, 40, 60])
def test_weights_of_any_size_give_hints_that_a_checker_accepts(exponent: int, tmp_path: Path) -> None:
    model = build_mlp(Recipe(31, (3, 7, 11, 13), 200, jitter=0.01, noise=0.002))
    large = Weights.mlp(model.config, model.W_a, model.W_b, np.ldexp(model.W_out, exponent))
    save(large, tmp_path / "m.safetensors")
    certificate = certify(large, "moments", checkable=True)
    certificate.save(tmp_path / "c.json")
    assert certificate.verdict == "CERTIFIED"
    assert check(str(tmp_path / "c.json"), str(tmp_path / "m.safetensors")).verdict == "VERIFIED"
