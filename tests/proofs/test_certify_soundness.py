"""No claim may exceed the truth: exhaustive exact evaluation, without tolerance."""

import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from functools import partialmethod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from examples import examples
from places import TESTS
from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.analysis.spectrum.cluster import neuron_spectra
from quadlens.base.errors import BadConfig
from quadlens.network.bundled import load
from quadlens.network.config import Config
from quadlens.network.dyadic import Dyadic
from quadlens.network.evaluate import all_pairs
from quadlens.network.exact import IntegerModel, collapse_exactly, exact_logits, integer_model
from quadlens.network.handmade import Recipe, build_mlp, plant_error
from quadlens.network.native import to_bytes
from quadlens.network.weights import Weights
from quadlens.proofs.pairs import STRATEGIES, certify
from quadlens.proofs.pairs import plan as plan_module
from quadlens.proofs.pairs.arcs import ArcsStrategy, arc_answers, arcs_operations
from quadlens.proofs.pairs.brute import Brute, brute_force_operations
from quadlens.proofs.pairs.direct import MomentHints
from quadlens.proofs.pairs.float32 import UNIT_ROUNDOFFS, bound_float32, magnitude, roundings
from quadlens.proofs.pairs.low_rank import LowRank
from quadlens.proofs.pairs.moments import MomentsStrategy, moments_operations, score_margins
from quadlens.proofs.pairs.moments_large import moments_large_operations, prove_large
from quadlens.proofs.pairs.operations import collapse_operations
from quadlens.proofs.pairs.plan import ArcPlan, group_by_frequency
from quadlens.proofs.pairs.proof import Proof, attempt
from quadlens_checker.reading import Rejected
from quadlens_checker.verdict import verify
from small_models import (
    adders,
    nearly_tied_adders,
    random_mlps,
    random_transformers,
    small_models,
    tied_mlps,
)
from soundness import check_complete, check_sound, quick_margins, true_margins
from strategies import mlps, seeds


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "number"), [("small", "1000"), ("any", "200")])
def test_a_thousand_models_without_a_counter_example(kind: str, number: str) -> None:
    """Run every strategy on each model, in a process without run-time shape checks.

    More: python tests/soundness_marathon.py any 20000
    """
    marathon = TESTS / "soundness_marathon.py"
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, str(marathon), kind, number],
        capture_output=True,
        text=True,
        check=False,
        env=one_thread,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@examples(60)
@given(small_models)
def test_the_quick_truth_is_the_truth(model: Weights) -> None:
    assert quick_margins(model) == true_margins(model)


@examples(120)
@given(small_models)
def test_arcs_say_exactly_what_is_true(model: Weights) -> None:
    proof, truth = ArcsStrategy().prove(model), true_margins(model)
    check_sound(proof, truth)
    check_complete(proof, truth)


@examples(80)
@given(small_models)
def test_moments_never_claim_more_than_is_true(model: Weights) -> None:
    proof, truth = MomentsStrategy().prove(model), true_margins(model)
    check_sound(proof, truth)
    if proof.complete:
        assert int(proof.certified.sum()) == sum(margin > 0 for row in truth for margin in row)
    else:
        assert proof.witnesses == ()


@examples(60)
@given(small_models, st.integers(1, 4), seeds)
def test_any_basis_whatever_gives_a_true_bound(model: Weights, rank: int, seed: int) -> None:
    """For random functions and coefficients each margin less ρ is at most the truth."""
    exact, rng = integer_model(collapse_exactly(model)), np.random.default_rng(seed)
    form = LowRank(
        rng.integers(-9, 9, (rank, exact.p)),
        rng.integers(-9, 9, (rank, exact.d_mlp)),
        int(rng.integers(70)),
    )
    scores, rho, _, _ = score_margins(exact, rng.permutation(exact.d_mlp), form)
    for a, row in enumerate(true_margins(model)):
        for b, margin in enumerate(row):
            assert Fraction(int(scores.margins[a, b] - rho[a, b]), 1 << scores.shift) <= margin


@examples(80)
@given(st.one_of(adders(), random_mlps(), tied_mlps(), nearly_tied_adders()))
def test_moments_in_float64_never_claim_more_than_is_true(model: Weights) -> None:
    """The path for large p, on small p where the truth is known."""
    assume(not model.config.has_stream and model.config.activation == "relu")
    proof = prove_large("moments", model.collapse(), neuron_spectra(model.collapse()))
    check_sound(proof, true_margins(model))


def test_moments_in_float64_prove_a_clean_model_and_count_their_operations() -> None:
    model = build_mlp(Recipe(31, (3, 7, 11, 13), 200, jitter=0.01, noise=0.002))
    collapsed = model.collapse()
    proof = prove_large("moments", collapsed, neuron_spectra(collapsed))
    truth = true_margins(model)
    check_sound(proof, truth)
    assert proof.verdict == "CERTIFIED"
    assert proof.margin is not None
    assert proof.margin > min(map(min, truth)) / 2
    assert proof.terms["rounding"].bound < Fraction(1, 10**8)
    order = np.concatenate(
        [group.neurons for group in group_by_frequency(neuron_spectra(collapsed).input)]
    )
    plan = plan_module.plan_arcs(collapsed.U_a[:, order], collapsed.U_b[:, order])
    counted = moments_large_operations(31, 200, 4, plan.counted_ends, plan.mispredicted)
    assert proof.operations == counted


def test_moments_in_float64_refuse_what_their_theorem_does_not_cover() -> None:
    """Skip terms that make answers wrong, and another activation: no proof, not a false one."""
    collapsed = build_mlp(Recipe(31, (3, 7, 11, 13), 200)).collapse()
    wrong = replace(collapsed, S_a=collapsed.S_a + 1e6 * (np.arange(31) == 0))
    for outside in (wrong, replace(collapsed, activation="abs")):
        with pytest.raises(ValueError, match="relu models without skip terms"):
            prove_large("moments", outside, neuron_spectra(outside))


@pytest.mark.parametrize("largest_integer_p", [0, 211])
def test_one_wrong_input_is_found_and_named_and_the_others_are_proved(
    largest_integer_p: int,
) -> None:
    model = plant_error(build_mlp(Recipe(31, (3, 7, 11, 13), 200, noise=0.002)), 5, 20)
    truth, proof = true_margins(model), MomentsStrategy(largest_integer_p).prove(model)
    check_sound(proof, truth)
    assert proof.uncertified == ((5, 20),)
    assert proof.witnesses == ((5, 20, 26),)
    assert proof.complete
    assert "5 + 20" in str(proof.reason)
    collapsed = model.collapse()
    order = np.concatenate(
        [group.neurons for group in group_by_frequency(neuron_spectra(collapsed).input)]
    )
    plan = plan_module.plan_arcs(collapsed.U_a[:, order], collapsed.U_b[:, order])
    ends = plan.counted_ends, plan.mispredicted
    if largest_integer_p:
        assert isinstance(proof.hints, MomentHints)
        counted = moments_operations(31, 200, proof.hints.form.rank, *ends, settled=1)
    else:
        counted = moments_large_operations(31, 200, 4, *ends, settled=1)
    assert proof.operations == counted


def test_a_planted_error_has_a_certificate_whose_exact_inputs_are_looked_at() -> None:
    model = plant_error(build_mlp(Recipe(31, (3, 7, 11, 13), 200, noise=0.002)), 5, 20)
    certificate, content = certify(model, "moments").to_json(), to_bytes(model)
    verify(certificate, content, lambda operations: None)
    for exact in ([[5, 31]], [[5]], [[0, b] for b in range(31)] + [[1, 0]]):
        changed = certificate | {"hints": certificate["hints"] | {"exact": exact}}
        with pytest.raises(Rejected):
            verify(changed, content, lambda operations: None)
    claims = certificate["claims"] | {"certified_inputs": 961}
    with pytest.raises(Rejected):
        verify(
            certificate | {"uncertified": [], "claims": claims}, content, lambda operations: None
        )


@pytest.mark.slow
def test_one_wrong_input_of_994009_is_found_below_half_a_percent_of_brute_force() -> None:
    model = plant_error(
        build_mlp(Recipe(997, (4, 18, 221, 270, 282, 369, 384, 488), 512, noise=0.001)), 123, 456
    )
    certificate = certify(model)
    assert certificate.certified_inputs == 994_008
    assert certificate.proof.witnesses == ((123, 456, 580),)
    assert certificate.cost_share < 0.005


def test_auto_takes_the_cheap_proof_unless_it_is_to_be_checked() -> None:
    """Past integer moments' largest p: float64 moments to know, arcs for a certificate."""
    model = build_mlp(Recipe(31, (3, 7, 11, 13), 200, noise=0.001))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            MomentsStrategy,
            "__init__",
            partialmethod(MomentsStrategy.__init__, largest_integer_p=0),
        )
        known, saved = certify(model, "auto"), certify(model, "auto", checkable=True)
    assert (known.proof.strategy, known.verdict, known.checkable) == ("moments", "CERTIFIED", False)
    assert (saved.proof.strategy, saved.verdict, saved.checkable) == ("arcs", "CERTIFIED", True)
    assert known.proof.operations < saved.proof.operations


def test_auto_goes_on_with_arcs_where_float64_leaves_an_input_open() -> None:
    """A margin that float64 moments do not decide is proved by arcs."""
    wrong = plant_error(build_mlp(Recipe(31, (3, 7, 11, 13), 200, noise=0.001, scale=0.1)), 5, 20)
    lifted = wrong.W_out.copy()
    lifted[-1, 26] += float(true_margins(wrong)[5][20]) / 2 - 2.0**-22  # the neuron fires with 2
    model = wrong.replace(W_out=lifted)
    truth = true_margins(model)
    assert 0 < truth[5][20] < 2**-20
    left = MomentsStrategy(largest_integer_p=0).prove(model)
    check_sound(left, truth)
    assert (left.uncertified, left.complete) == (((5, 20),), False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            MomentsStrategy,
            "__init__",
            partialmethod(MomentsStrategy.__init__, largest_integer_p=0),
        )
        decided = certify(model, "auto")
    assert (decided.proof.strategy, decided.verdict) == ("arcs", "CERTIFIED")


def test_large_models_take_the_float64_path() -> None:
    keys = (10, 71, 8, 104, 108, 42, 19, 82)
    model = build_mlp(Recipe(251, keys, 128, noise=0.001))
    certificate = certify(model, "moments")
    assert certificate.verdict == "CERTIFIED"
    assert "rounding" in certificate.proof.terms
    assert certificate.proof.operations < 0.02 * certificate.brute_force_flops
    with pytest.raises(BadConfig, match=r"no certificate is written: .*; run without -o"):
        certificate.save(Path("never-written.json"))


@examples(40)
@given(nearly_tied_adders())
def test_moments_of_full_rank_are_as_good_as_exact(model: Weights) -> None:
    """A look-up table has no low rank: at full rank only the hints' rounding is lost."""
    right = sum(margin > Fraction(1, 10**5) for row in true_margins(model) for margin in row)
    assert int(MomentsStrategy().prove(model).certified.sum()) >= right


@examples(60)
@given(st.one_of(small_models, mlps(), random_transformers()))
def test_brute_says_exactly_what_is_true(model: Weights) -> None:
    proof, truth = Brute().prove(model), true_margins(model)
    check_sound(proof, truth)
    check_complete(proof, truth)


@examples(30)
@given(random_transformers())
def test_every_strategy_is_sound_on_every_transformer(model: Weights) -> None:
    truth = true_margins(model)
    for strategy in STRATEGIES.values():
        check_sound(strategy.prove(model), truth)


@examples(100)
@given(small_models, seeds)
def test_any_order_of_the_neurons_gives_the_same_answers(model: Weights, seed: int) -> None:
    exact = integer_model(collapse_exactly(model))
    order = np.random.default_rng(seed).permutation(exact.d_mlp)
    mixed, _ = arc_answers(exact, order)
    straight, _ = arc_answers(exact, np.arange(exact.d_mlp))
    assert (mixed.margins == straight.margins).all()
    assert (mixed.rival == straight.rival).all()


def test_exactly_tied_logits_are_not_certified() -> None:
    """All weights 0: every answer ties with every other."""
    config = Config.mlp(5, 2)
    model = Weights(config, **{n: np.zeros(s, np.float32) for n, s in config.shapes.items()})
    for strategy in STRATEGIES.values():
        proof = strategy.prove(model)
        assert proof.verdict == "UNPROVED"
        assert proof.margin is None
        assert proof.reason
        assert not proof.witnesses
    exact = Brute().prove(model)
    assert len(exact.tied) == 25
    assert (
        exact.reason == "the model is tied on 25 of 25 inputs, for example 0 + 0: the "
        "logit of 1 equals that of 0"
    )


def test_a_strategy_that_fails_is_told_from_one_that_does_not_apply() -> None:
    config = Config.mlp(5, 2, "square")
    model = Weights(config, **{n: np.ones(s, np.float32) for n, s in config.shapes.items()})
    assert not ArcsStrategy().prove(model).applies
    assert Brute().prove(model).applies

    class Failing:
        facts = Brute.facts

        def prove(self, subject: Weights | Anatomy) -> Proof:
            raise OverflowError("too large")

    failed = attempt(Failing(), model)
    assert failed.applies
    assert failed.reason is not None
    # To one who asked for brute force, brute force is no remedy.
    assert "try the strategy brute" not in failed.reason


def written_out(exact: IntegerModel, plan: ArcPlan, weights: np.ndarray) -> tuple[np.ndarray, int]:
    """Σ_i v_i ReLU(pre_i) of every input for each row v, in loops, and their operations."""
    p, d_mlp = exact.p, exact.d_mlp
    # Every sign, and every neighbour's sign beside it.
    counted = 2 * p * p * d_mlp + plan.mispredicted
    found = np.zeros((len(weights), p, p), dtype=object)
    for row, v in enumerate(weights):
        tables = []
        for U in (exact.U_a, exact.U_b):
            table = [[0] for _ in range(p)]
            for token in range(p):
                for i in range(d_mlp):
                    table[token].append(table[token][-1] + v[i] * U[token, i])
                    counted += 2
            tables.append(table)
        for n in range(plan.inputs):
            a, b = divmod(n, p)
            for j, end in enumerate(plan.end[plan.end_row == n]):
                found[row, a, b] += (tables[0][a][end] + tables[1][b][end]) * (1 if j % 2 else -1)
                counted += 2 if end else 0
            for i in plan.wrong[plan.wrong_row == n]:
                found[row, a, b] += v[i] * abs(exact.U_a[a, i] + exact.U_b[b, i])
                counted += 2
    return found, counted


@examples(60)
@given(tied_mlps())
def test_operations_are_those_of_the_proof_written_out(model: Weights) -> None:
    """Plain loops give the same logits and sums, and count the closed formula."""
    p, d_mlp = model.config.p, model.config.d_mlp
    exact = integer_model(collapse_exactly(model))
    answers, plan = arc_answers(exact, np.arange(d_mlp))
    sums, counted = written_out(exact, plan, exact.W_L)
    logits = sums + exact.S_a.T[:, :, None] + exact.S_b.T[:, None, :]
    right, others = np.take_along_axis(logits, exact.task.answers[None], 0)[0], logits.copy()
    np.put_along_axis(others, exact.task.answers[None], -(10**400), 0)
    assert (right - others.max(axis=0) == answers.margins).all()
    # Skip terms, comparisons of answers and the margin itself, for every input.
    assert counted + 3 * p**3 == arcs_operations(p, d_mlp, plan.counted_ends, plan.mispredicted)
    assert ArcsStrategy().prove(model).operations > 0
    rank, rng = 2, np.random.default_rng(0)
    _, counted = written_out(exact, plan, rng.integers(-9, 9, (rank + 1, d_mlp)).astype(object))
    rest = 2 * rank * p * d_mlp + 2 * p * d_mlp + d_mlp + (2 * rank + 2) * p**3 + p**2
    assert counted + rest == moments_operations(
        p, d_mlp, rank, plan.counted_ends, plan.mispredicted
    )
    assert Brute().prove(model).operations == brute_force_operations(p, d_mlp)


@examples(100)
@given(small_models, st.integers(1, 30))
def test_arcs_and_corrections_together_are_the_active_neurons(
    model: Weights, most_ends: int
) -> None:
    """Also when so few ends are allowed that long runs must become corrections."""
    exact = integer_model(collapse_exactly(model))
    p, d_mlp = exact.p, exact.d_mlp
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_module, "MAX_ENDS_PER_INPUT", most_ends)
        plan = plan_module.plan_arcs(exact.U_a, exact.U_b)
    assert len(plan.end) <= most_ends * p * p
    covered = np.zeros((p * p, d_mlp), dtype=bool)
    for n in range(p * p):
        ends = plan.end[plan.end_row == n]
        assert (np.diff(ends) > 0).all()
        for start, stop in ends.reshape(-1, 2):
            covered[n, start:stop] = True
    covered[plan.wrong_row, plan.wrong] ^= True
    pre = (exact.U_a[:, None, :] + exact.U_b[None, :, :]).reshape(p * p, d_mlp)
    assert (covered == (pre > 0)).all()
    assert (
        len(set(zip(plan.wrong_row.tolist(), plan.wrong.tolist(), strict=True)))
        == plan.mispredicted
    )


@examples(30)
@given(random_transformers())
def test_collapse_cost_counts_every_product_of_the_exact_collapse(model: Weights) -> None:
    products = 0
    original = Dyadic.__matmul__

    def counting(self: Dyadic, other: Dyadic) -> Dyadic:
        nonlocal products
        products += self.shape[0] * self.shape[1] * other.shape[1]
        return original(self, other)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dyadic, "__matmul__", counting)
        collapse_exactly(model)
    assert collapse_operations(model.config) == 2 * products


def float32_logits(model: Weights) -> np.ndarray:
    """The forward pass as people run it: every array float32, NumPy's own order of summation."""
    pairs, p = all_pairs(model.config.p), model.config.p
    w = {name: array.astype(np.float32) for name, array in model.tensors.items()}

    def sigma(x: np.ndarray) -> np.ndarray:
        return np.abs(x) if model.config.activation == "abs" else np.maximum(x, np.float32(0))

    if not model.config.has_stream:
        return sigma(w["W_a"][pairs[:, 0]] + w["W_b"][pairs[:, 1]]) @ w["W_out"]
    config = model.config
    tokens = [
        pairs[:, 0],
        pairs[:, 1] + config.b_token_offset,
        np.full(len(pairs), config.equals_token),
    ]
    streams = [w["W_E"][t] + w["W_pos"][n] for n, t in enumerate(tokens[: len(config.attention)])]
    attended = w["b_O"]
    for head in range(config.n_heads):
        for alpha, stream in zip(config.attention, streams, strict=True):
            values = stream @ w["W_V"][head] + w["b_V"][head]
            attended = attended + np.float32(alpha) * values @ w["W_O"][head]
    middle = streams[config.read_position] + attended
    final = middle + sigma(middle @ w["W_in"] + w["b_in"]) @ w["W_out"] + w["b_out"]
    logits: np.ndarray = (final @ w["W_U"] + w["b_U"])[:, :p]
    if logits.dtype != np.float32:
        raise TypeError(logits.dtype)
    return logits


@examples(60)
@given(st.one_of(small_models, random_transformers()))
def test_float32_execution_stays_within_the_bound(model: Weights) -> None:
    bound = bound_float32(model)
    if model.config.activation == "square":
        assert bound.error is None
        return
    assert bound.error is not None
    exact, p = exact_logits(model), model.config.p
    for n, row in enumerate(float32_logits(model)):
        for c, computed in enumerate(row):
            assert abs(Fraction(float(computed)) - exact.logit(n // p, n % p, c)) <= bound.error


@examples(60)
@given(st.one_of(small_models, random_transformers()))
def test_four_underflows_for_each_rounding_on_a_path_are_all_there_are(model: Weights) -> None:
    """The proof in `float32.py`: every η of every sum of one forward pass, in units of 2^-126 Q."""
    config = model.config

    def of_sum(terms: int, added: int = 1) -> int:
        """Products, additions and rounded weights of a sum, with a rounded bias and more terms."""
        return terms + (terms - 1 + added) + terms + min(added, 1)

    if not config.has_stream:
        all_of_them = of_sum(2) + of_sum(config.d_mlp, added=0)
    else:
        attended = 2 * config.n_heads * len(config.attention) * config.d_head + 2
        embedded, values, unembedded = 3, of_sum(config.d_model), of_sum(config.d_model)
        mlp = of_sum(config.d_model) + of_sum(config.d_mlp, added=2)
        all_of_them = embedded + values + attended + mlp + unembedded
    assert all_of_them <= 4 * roundings(config)


def test_tf32_is_excluded_because_it_can_change_answers() -> None:
    """Ten operands of 11 bits on a path: ten times the margin of `pizza`."""
    model = load("pizza")
    bound, width = bound_float32(model), Fraction(10, 2**11)
    lost = width + Fraction(bound.roundings, UNIT_ROUNDOFFS)
    allowed = lost / (1 - lost) * magnitude(model)
    assert 152 < allowed < 153


def test_square_models_are_refused_by_arcs_with_a_reason() -> None:
    config = Config.mlp(5, 2, "square")
    model = Weights(config, **{n: np.ones(s, np.float32) for n, s in config.shapes.items()})
    certificate = certify(model, "arcs")
    assert certificate.verdict == "UNPROVED"
    assert "piecewise linear" in str(certificate.proof.reason)


def test_collapse_cost_of_attention_that_looks_nowhere() -> None:
    rng = np.random.default_rng(0)
    config = Config(3, 2, 2, 1, 2, 3, 3, 2, (0.0, 0.0), 0)
    weights = {name: rng.normal(size=shape) for name, shape in config.shapes.items()}
    counted = test_collapse_cost_counts_every_product_of_the_exact_collapse
    counted.hypothesis.inner_test(Weights(config, **weights))  # type: ignore[attr-defined]
