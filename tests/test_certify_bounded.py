"""`arcs-bounded`: every claim against exhaustive exact evaluation, without tolerance, whatever is predicted."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadlens import load
from quadlens.errors import BadConfig
from quadlens.model.config import MLPConfig
from quadlens.model.exact import collapse_exactly
from quadlens.model.handmade import Recipe, build_mlp
from quadlens.model.integers import IntegerModel, integer_model
from quadlens.model.params import MLPParams, Model
from quadlens.proofs import certify
from quadlens.proofs.arcs import ArcsStrategy
from quadlens.proofs.arcs_bounded import BoundedArcs, bounded_answers, bounded_operations
from quadlens.proofs.operations import Operations
from quadlens.proofs.order import group_by_frequency
from quadlens.proofs.shared_function import shared_functions
from small_models import small_models
from soundness import check_sound, true_margins
from strategies import seeds


def obvious_bounds(model: IntegerModel, Z_a: np.ndarray, Z_b: np.ndarray) -> np.ndarray:
    """The sharper bound of every input, from the theorem read aloud: every neuron, every rival, no arcs, no β."""
    p = model.p
    bounds = np.empty((p, p), dtype=object)
    for a in range(p):
        for b in range(p):
            Z, pre = Z_a[a] + Z_b[b], model.U_a[a] + model.U_b[b]
            E = np.abs(model.U_a[a] - Z_a[a]) + np.abs(model.U_b[b] - Z_b[b])
            slack = np.maximum(E - np.abs(Z), 0)
            linear = model.W_L @ np.where(Z > 0, pre, 0) + model.S_a[a] + model.S_b[b]
            c = (a + b) % p
            taken = np.maximum(model.W_L - model.W_L[c], 0) @ slack
            bounds[a, b] = min(np.delete(linear[c] - linear - taken, c))
    return bounds


def any_prediction(model: IntegerModel, kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The truth, nearly the truth, nothing at all, the opposite, or noise."""
    U_a, U_b = model.U_a, model.U_b
    noise_a, noise_b = (rng.integers(-(2**30), 2**30, U.shape).astype(object) for U in (U_a, U_b))
    unit = 1 << (model.shift - model.shift_w)
    return {
        "truth": (U_a, U_b),
        "near": (U_a + noise_a * unit // 2**33, U_b + noise_b * unit // 2**33),
        "nothing": (U_a * 0, U_b * 0),
        "opposite": (-U_a, -U_b),
        "noise": (noise_a * unit // 2**29, noise_b * unit // 2**29),
    }[kind]


@settings(max_examples=50)
@given(small_models)
def test_bounded_arcs_never_claim_more_than_is_true(model: Model) -> None:
    proof, truth = BoundedArcs().prove(model), true_margins(model)
    check_sound(proof, truth)
    assert proof.witnesses == ()
    assert not proof.exact


@settings(max_examples=40)
@given(small_models, st.sampled_from(["truth", "near", "nothing", "opposite", "noise"]), seeds)
def test_any_prediction_gives_a_true_bound_at_the_cost_of_the_formula(model: Model, kind: str, seed: int) -> None:
    """Certified inputs, smallest margin and number of operations, against the truth and the obvious version."""
    exact, rng = integer_model(collapse_exactly(model)), np.random.default_rng(seed)
    Z_a, Z_b = any_prediction(exact, kind, rng)
    ops = Operations()
    answers = bounded_answers(exact, rng.permutation(exact.d_mlp), Z_a, Z_b, ops)
    bounds = obvious_bounds(exact, Z_a, Z_b)
    assert (answers.certified == (bounds > 0)).all()
    assert answers.margin == (min(bounds[answers.certified]) if answers.certified.any() else None)
    assert ops.total == bounded_operations(exact.p, exact.d_mlp, answers.sizes)
    for a, row in enumerate(true_margins(model)):
        for b, margin in enumerate(row):
            bound = Fraction(int(bounds[a, b]), 1 << exact.shift)
            assert bound == margin if kind == "truth" else bound <= margin


def test_a_clean_model_is_proved_without_a_look_at_any_sign() -> None:
    model = build_mlp(Recipe(31, (3, 7, 11, 13), 200, jitter=0.05, noise=0.01))
    proof, arcs = BoundedArcs().prove(model), ArcsStrategy().prove(model)
    check_sound(proof, true_margins(model))
    assert proof.verdict == "CERTIFIED"
    assert proof.margin is not None
    assert arcs.margin is not None
    assert arcs.margin / 2 < proof.margin < arcs.margin
    assert proof.terms["mispredicted"].bound > 0


def test_the_bundled_mainline_is_proved_at_full_size() -> None:
    """The figures of docs/certificates.md: all inputs, 13.492 of the true margin 14.440, at 7.96 % of brute force."""
    certificate = certify(load("mainline"), "arcs-bounded")
    assert certificate.verdict == "CERTIFIED"
    assert certificate.proof.margin is not None
    assert Fraction("13.4") < certificate.proof.margin < Fraction("14.43")
    assert certificate.proof.operations.total < 0.081 * certificate.brute_force_flops


def test_irregular_neurons_are_left_as_they_are() -> None:
    clean = build_mlp(Recipe(31, (3, 7), 100, jitter=0.01))
    W_a = clean.W_a.copy()
    W_a[:, 5] = np.random.default_rng(0).standard_normal(31).astype(W_a.dtype) * np.abs(W_a).max()
    collapsed = MLPParams(clean.config, W_a, clean.W_b, clean.W_out).collapse()
    groups = group_by_frequency(collapsed)
    strict, lenient = (shared_functions(collapsed, groups, most) for most in (0.3, 1e3))
    assert np.flatnonzero(strict.irregular).tolist() == [5]
    assert (strict.Z_a[:, 5] == collapsed.U_a[:, 5]).all()
    assert not lenient.irregular.any()


def test_a_wrong_model_gets_a_reason() -> None:
    proof = BoundedArcs().prove(build_mlp(Recipe(11, (1, 2, 4), 48, noise=0.8, seed=3)))
    assert proof.verdict != "CERTIFIED"
    assert "the term 'mispredicted' may take" in str(proof.reason)
    assert "--strategy arcs" in str(proof.reason)


def test_there_is_no_certificate_file() -> None:
    certificate = certify(build_mlp(Recipe(11, (1, 2, 4), 48)), "arcs-bounded")
    assert certificate.verdict == "CERTIFIED"
    with pytest.raises(
        BadConfig, match=r"arcs-bounded .* bounds that the checker does not know and has no certificate"
    ):
        certificate.save(Path("never-written.json"))


def test_square_models_are_refused_with_a_reason() -> None:
    config = MLPConfig(5, 2, "square")
    model = MLPParams(config, **{n: np.ones(s, np.float32) for n, s in MLPParams.shapes(config).items()})
    proof = BoundedArcs().prove(model)
    assert proof.verdict == "NOT"
    assert "arcs-bounded needs a piecewise linear activation" in str(proof.reason)
