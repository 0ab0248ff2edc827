"""What strategies state, what proofs of one model share, and which can be written."""

import json
import math
import os
import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from any_model import any_model, extreme_model, extreme_weights, own_answers
from examples import examples
from quadlens.analysis.spectrum import anatomy as anatomy_module
from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.base.errors import BadConfig
from quadlens.network import load
from quadlens.network.activation import NONLINEARITIES, Activation
from quadlens.network.config import Config, Softmax
from quadlens.network.handmade import Recipe, build_mlp, build_transformer
from quadlens.network.native import save, to_bytes
from quadlens.network.study import study_of
from quadlens.network.weights import Weights
from quadlens.proofs.pairs.brute import brute_force_operations
from quadlens.proofs.pairs.certificate import summary
from quadlens.proofs.pairs.checker_limits import checker_error
from quadlens.proofs.pairs.produce import STRATEGIES, Prover, best_certificate, certify, strategies
from quadlens_checker import check, limits
from quadlens_checker.direct import read_layers
from quadlens_checker.model_file import read_model
from quadlens_checker.reading import Rejected
from quadlens_checker.verdict import verify

pytestmark = pytest.mark.slow


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a model was taken apart, by name."""
    counts: Counter[str] = Counter()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            counts[name] += 1
            return function(*arguments)

        return call

    monkeypatch.setattr(Weights, "collapse", counted("collapse", Weights.collapse))
    for name in ("collapse_exactly", "integer_model", "neuron_spectra"):
        monkeypatch.setattr(anatomy_module, name, counted(name, getattr(anatomy_module, name)))
    return counts


ONCE = {"collapse": 1, "collapse_exactly": 1, "integer_model": 1, "neuron_spectra": 1}


def test_all_strategies_share_one_anatomy(computed: Counter[str]) -> None:
    prover = Prover(Anatomy(build_transformer(Recipe(11, (1, 2, 4), 48, noise=0.02))))
    for name in STRATEGIES:
        prover.certify(name)
    assert computed == ONCE


def test_a_study_proves_by_every_strategy_and_takes_the_model_apart_once(
    computed: Counter[str],
) -> None:
    study = study_of(build_transformer(Recipe(11, (1, 2, 4), 48, noise=0.02)))
    assert all(study.certify(name) for name in strategies(study.config))
    assert computed == ONCE


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_anatomy_proves_what_its_model_proves(strategy: str) -> None:
    model = build_transformer(Recipe(7, (1, 2), 24, noise=0.02))
    assert certify(Anatomy(model), strategy).to_bytes() == certify(model, strategy).to_bytes()


def test_strategies_say_what_they_are() -> None:
    for name, strategy in STRATEGIES.items():
        facts = strategy.facts
        assert facts.name == name
        assert facts.description.endswith(".")
        assert set(facts.activations) >= {"relu"}
    assert strategies() == ("brute", "arcs", "moments", "thin")
    assert strategies(Config.mlp(11, 48), 10) == ("moments",)
    marks = [strategy.facts.mark.shape for strategy in STRATEGIES.values()]
    assert len(set(marks)) == len(marks)


@pytest.mark.parametrize("name", strategies())
def test_proofs_keep_what_the_facts_say(name: str) -> None:
    facts = STRATEGIES[name].facts
    certificate = certify(build_transformer(Recipe(11, (1, 2, 4), 48)), name)
    assert certificate.proof.exact == facts.exact
    assert certificate.proof.own_collapse == facts.own_collapse
    assert (certificate.collapse_flops == 0) == facts.own_collapse
    assert certificate.proof.hints is not None
    square = certify(square_mlp(1.0), name)
    assert ("square" in facts.activations) == (
        square.proof.reason is None or "inputs" in square.proof.reason
    )


def test_both_shares_of_the_cost_have_brute_force_for_their_unit() -> None:
    prover = Prover(Anatomy(load("pizza")))
    brute = prover.collapse_flops + brute_force_operations(59, 512)
    found = {name: prover.certify(name) for name in ("arcs", "moments", "thin")}
    for one in found.values():
        assert one.cost_share == (one.proof.operations + one.collapse_flops) / brute
        assert one.cost_share_beyond_collapse == one.proof.operations / one.brute_force_flops
    assert min(found, key=lambda name: found[name].cost_share) == "thin"
    # What thin leaves of the margin is not enough for float32 execution, so that a dearer one says
    # more.
    assert not found["thin"].float32_certified
    best = best_certificate(found.values())
    assert best is found["moments"]
    assert best.float32_certified


def square_mlp(size: float, tiny: float = 1.0) -> Weights:
    """x² neurons, weights of two sizes."""
    config, rng = Config.mlp(5, 6, "square"), np.random.default_rng(0)
    tensors = {name: size * rng.uniform(-1, 1, shape) for name, shape in config.shapes.items()}
    tensors["W_a"][0] *= tiny
    return Weights(config, **tensors)


def extreme_transformer(activation: Activation) -> Weights:
    """Weights from 5e-324 to 1e300: margins of some 10,000 digits."""
    model = build_transformer(Recipe(5, (1, 2), 20, jitter=0.02, seed=1))
    tensors = {
        name: np.where(array == 0, 5e-324, array.astype(np.float64))
        for name, array in model.tensors.items()
    }
    tensors["W_out"] *= 1e300
    config = replace(model.config, attention=(1 / 3, 1 / 3), activation=activation)
    return model.replace(config, **tensors)


@pytest.mark.parametrize("strategy", ["auto", "brute", "arcs", "moments", "thin"])
@pytest.mark.parametrize(
    "model",
    [
        square_mlp(1e300, 1e-300),
        square_mlp(5e-324),
        square_mlp(1e-150),
        extreme_transformer("relu"),
        extreme_transformer("square"),
        build_mlp(Recipe(7, (1, 2), 24)),
    ],
    ids=[
        "square, wide",
        "square, denormal",
        "square, tiny",
        "transformer",
        "transformer, square",
        "usual",
    ],
)
def test_a_certificate_is_written_only_if_the_checker_can_read_it(
    model: Weights, strategy: str, tmp_path: Path
) -> None:
    """Any weights: a file that is verified or a refusal, never a rejected certificate."""
    certificate = certify(model, strategy, checkable=True)
    assert summary(certificate)["verdict"] == certificate.verdict
    if certificate.obstacle:
        with pytest.raises(
            BadConfig, match=f"{certificate.verdict}: .* but no certificate is written: .*digits"
        ):
            certificate.save(tmp_path / "c.json")
        assert not (tmp_path / "c.json").exists()
        return
    if certificate.verdict == "UNPROVED":
        with pytest.raises(BadConfig, match=r"no certificate is written.*claims nothing"):
            certificate.save(tmp_path / "c.json")
        assert not (tmp_path / "c.json").exists()
        return
    certificate.save(tmp_path / "c.json")
    save(model, tmp_path / "m.safetensors")
    report = check(str(tmp_path / "c.json"), str(tmp_path / "m.safetensors"))
    assert report.verdict == "VERIFIED"


EXTREME_MODELS = 2000 if os.environ.get("QUADLENS_HYPOTHESIS") == "long" else 150


@pytest.mark.parametrize("share", range(3))
def test_every_certificate_written_is_verified_whatever_the_model(share: int) -> None:
    """Extreme softmax, pre-activations and scores: the producer knows the checker's limits."""
    found: Counter[str] = Counter()
    for number in range(share, EXTREME_MODELS, 3):
        model = extreme_model(np.random.default_rng([35, number]))
        prover, content = Prover(Anatomy(model)), to_bytes(model)
        for strategy in ("brute", "arcs", "moments", "thin"):
            certificate = prover.certify(strategy, checkable=True)
            if certificate.proof.margin is None or certificate.obstacle:
                found["refused" if certificate.obstacle else "nothing proved"] += 1
                continue
            verify(json.loads(certificate.to_bytes()), content, lambda operations: None)
            found["verified"] += 1
    assert found["verified"] > EXTREME_MODELS / 3


def gated(
    scale: float, values: float, activation: Activation = "relu", scores: float = 1.0
) -> Weights:
    """Two positions, p = 3: softmax times `scale`; the answer comes through the skip."""
    config = Config(
        3, 3, 2, 1, 1, 3, 3, 2, (0.0, 0.0), 1, activation, softmax=Softmax(scale, 1.0, True)
    )
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=shape) for name, shape in config.shapes.items()}
    weights["W_V"] *= values
    weights["b_V"] *= values
    weights["W_Q"] *= scores
    return own_answers(Weights(config, **weights))


@pytest.mark.parametrize("strategy", ["brute", "moments"])
def test_a_claim_leaves_room_for_what_the_checker_loses(strategy: str) -> None:
    """More rounding in the checker than in the proof: a smaller claim, or none."""
    assert outcome(gated(1.0, 1.0), strategy) == outcome(gated(1e-15, 1e15), strategy) == "verified"
    assert "the checker's own enclosure can lose" in outcome(gated(1e-20, 1e20), strategy)
    assert "scores below 2^60" in outcome(gated(1e-12, 1.0, scores=1e19), strategy)


def outcome(model: Weights, strategy: str) -> str:
    """The obstacle, or `verified`, which it then is."""
    certificate = certify(model, strategy, checkable=True)
    assert certificate.proof.margin is not None
    if certificate.obstacle is None:
        verify(json.loads(certificate.to_bytes()), to_bytes(model), lambda operations: None)
    return certificate.obstacle or "verified"


@examples(100)
@given(st.integers(0, 2**32 - 1))
def test_the_producer_knows_what_the_checker_loses(seed: int) -> None:
    """Four times the loss that the checker proves for itself, and nothing where it refuses."""
    model = extreme_model(np.random.default_rng(seed))
    exact = Anatomy(model).tables
    if not exact.gated and NONLINEARITIES[model.config.activation].degree is not None:
        return
    config, tensors = read_model(to_bytes(model))
    if checker_error(model, exact).refusal:
        with pytest.raises(Rejected, match="an attention score beyond"):
            read_layers(config, tensors, {}, lambda operations: None)
        return
    layers = read_layers(config, tensors, {}, lambda operations: None)
    W_L = np.array(exact.W_L.numerators.entries(), dtype=object).reshape(exact.W_L.shape)
    spread = Fraction(int((W_L.max(axis=0) - W_L.min(axis=0)).sum()), 1 << exact.W_L.shift)
    if spread < 2**1000:
        known = checker_error(model, exact).loss(math.nextafter(float(spread), math.inf), 0.0)
        assert known == math.inf or 4 * Fraction(layers.loss, 1 << layers.shift) <= Fraction(known)


@pytest.mark.parametrize("exponent", [-1000, -980, -600])
def test_moments_of_tiny_weights_stay_within_the_checkers_shift(
    exponent: int, tmp_path: Path
) -> None:
    model = build_mlp(Recipe(31, (3, 7, 11, 13), 100, jitter=0.01))
    tiny = Weights.mlp(
        model.config, model.W_a, model.W_b, np.ldexp(model.W_out.astype(np.float64), exponent)
    )
    save(tiny, tmp_path / "m.safetensors")
    for strategy in ("moments", "auto"):
        certificate = certify(tiny, strategy, checkable=True)
        if certificate.verdict == "UNPROVED":
            with pytest.raises(BadConfig, match=r"no certificate is written.*claims nothing"):
                certificate.save(tmp_path / "c.json")
            continue
        certificate.save(tmp_path / "c.json")
        report = check(str(tmp_path / "c.json"), str(tmp_path / "m.safetensors"))
        assert report.verdict == "VERIFIED"
    assert certificate.verdict == "CERTIFIED"


def test_what_the_checker_never_reads_is_refused_before_the_proof() -> None:
    large = build_mlp(Recipe(259, (1, 2), 8))
    with pytest.raises(BadConfig, match="p up to 257, and this model has p = 259"):
        certify(large, checkable=True)


def test_an_activation_without_exact_values_and_a_tie_is_unproved_in_words() -> None:
    gelu = Weights.mlp(Config.mlp(5, 6, "gelu"), *(np.ones(s) for s in ((5, 6), (5, 6), (6, 5))))
    for strategy in STRATEGIES:
        certificate = certify(gelu, strategy)
        assert certificate.verdict == "UNPROVED"
        words = str(certificate.proof.reason)
        assert (
            "gelu" in words
            or "this model is none" in words
            or "25 of 25 inputs are not proved" in words
        )


def test_what_is_computed_travels_to_another_process() -> None:
    prover = Prover(Anatomy(build_transformer(Recipe(11, (1, 2, 4), 48))))
    here = prover.certify("arcs").to_bytes()
    there = pickle.loads(pickle.dumps(prover))
    assert {"collapsed", "spectra"} <= set(vars(there.anatomy))
    assert there.certify("arcs").to_bytes() == here


@pytest.mark.parametrize("seed", [*range(12), 254])
def test_certificates_of_models_with_weights_of_any_size_are_verified(seed: int) -> None:
    """What is written can be checked: pre-activations beyond 2^52, output maps beyond 2^800."""
    rng = np.random.default_rng((7, seed))
    model = any_model(rng, extreme_weights(rng), largest=6)
    for strategy in ("brute", "moments"):
        one = certify(model, strategy)
        if one.proof.margin is not None and one.checkable:
            verify(json.loads(one.to_bytes()), to_bytes(model), lambda operations: None)


def test_the_producer_counts_what_the_checker_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks of JSON: a certificate with more of them than the checker reads is not written."""
    certificate = certify(build_mlp(Recipe(7, (1, 2), 24)), "arcs")
    commas = certificate.to_bytes().count(b",")
    assert commas > 50
    for most, refused in ((commas, False), (commas - 1, True)):
        monkeypatch.setitem(limits.MAX_JSON_MARKS, ",", most)
        again = replace(certificate)
        assert bool(again.obstacle and f"more than {most:,} times ," in again.obstacle) == refused
