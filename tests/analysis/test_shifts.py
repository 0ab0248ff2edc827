"""Phases of their own for a and b: a neuron's frequency comes from the plane (a, b), not from the
mean of two paths."""

import os
from pathlib import Path

import numpy as np
import pytest

from analysis.test_logits import least_squares, tensors
from quadlens.analysis.explanation import explain
from quadlens.analysis.spectrum.amplitude_phase import wrap
from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.network import Config, Weights

P = 23
KEYS = (3, 7)


def shifted(delta: np.ndarray, each: int = 40, second: float = 0.0) -> Weights:
    """Neurons that read cos(kwa + φ + δ) + cos(kwb + φ - δ), a share `second` of their double, and
    write 2φ."""
    k = np.repeat(KEYS, each)
    phi = np.tile(-np.pi + 2 * np.pi * (np.arange(each) + 0.5) / each, len(KEYS))
    turns = 2 * np.pi / P * np.outer(np.arange(P), k)

    def reads(phase: np.ndarray) -> np.ndarray:
        return np.cos(turns + phase) - second * np.cos(2 * (turns + phase))

    W_L = np.cos(turns + 2 * phi)
    return Weights.mlp(Config.mlp(P, len(k)), reads(phi + delta), reads(phi - delta), W_L.T.copy())


@pytest.mark.parametrize("common", [(1.5, -1.2), (np.pi / 2, 1.0), (-0.9, 1.45)])
def test_a_shift_in_common_is_a_shifted_pizza(common: tuple[float, float]) -> None:
    model = shifted(np.repeat(common, 40), second=0.1)
    anatomy = Anatomy(model)
    explanation = explain(anatomy)
    assert explanation.key_frequencies == KEYS
    assert explanation.good_model
    for cluster, delta, phases in zip(
        explanation.clusters, common, explanation.phases, strict=True
    ):
        assert len(cluster.neurons) == 40
        assert phases.r2 == pytest.approx(1.0)
        assert abs(np.sin(cluster.common_shift - delta)) < 1e-9
        assert cluster.shift is not None
        # φ and δ are known up to π, both together.
        true_phi = np.tile(-np.pi + 2 * np.pi * (np.arange(40) + 0.5) / 40, 2)[cluster.neurons]
        assert np.allclose(wrap(2 * (cluster.phi - true_phi)), 0, atol=1e-9)
        assert np.allclose(np.cos(cluster.phi - true_phi), np.cos(cluster.shift - delta), atol=1e-9)
    assert explanation.doubling.share == 1.0
    assert explanation.doubling.phase_r2 == pytest.approx(1.0)
    assert explanation.logits is not None
    assert explanation.logits.r2.abs_component.pizza == pytest.approx(1.0, abs=0.02)
    assert explanation.logits.parts.correct == explanation.logits.forms.by_parts.correct == P * P


def test_regressions_with_shifts_by_least_squares() -> None:
    explanation = explain(shifted(np.repeat((1.5, -1.2), 40), second=0.2))
    assert explanation.logits is not None
    a, b, c = np.ogrid[:P, :P, :P]
    w = 2 * np.pi / P
    u = {one.k: one.k * w * (a - b) / 2 + one.common_shift for one in explanation.clusters}
    clock = {k: np.cos(k * w * (a + b - c)) for k in KEYS}
    Y = tensors(shifted(np.repeat((1.5, -1.2), 40), second=0.2).collapse())
    for name in ("all_logits", "abs_component"):
        row = getattr(explanation.logits.r2, name)
        _, pizza = least_squares(Y[name], [np.abs(np.cos(u[k])) * clock[k] for k in KEYS])
        both = [f * clock[k] for k in KEYS for f in (np.abs(np.cos(u[k])), np.cos(2 * u[k]))]
        _, with_second = least_squares(Y[name], both)
        assert row.pizza == pytest.approx(pizza, abs=1e-9)
        assert row.pizza_and_secondary == pytest.approx(with_second, abs=1e-9)


def test_spread_shifts_have_none_in_common() -> None:
    spread = np.tile(np.pi * np.arange(40) * 17 / 40, 2)
    explanation = explain(shifted(spread))
    assert explanation.key_frequencies == KEYS
    assert explanation.good_model
    assert all(phases.r2 == pytest.approx(1.0) for phases in explanation.phases)
    assert all(cluster.common_shift == 0.0 for cluster in explanation.clusters)
    assert explanation.logits is not None
    assert explanation.logits.r2.all_logits.clock == pytest.approx(1.0, abs=0.05)


def test_one_embedding_keeps_the_mean() -> None:
    spectra = Anatomy(shifted(np.full(80, 0.05))).spectra
    assert spectra.shift is None
    assert Anatomy(shifted(np.full(80, 0.05))).clusters[0].common_shift == 0.0


def test_the_public_checkpoint_with_two_vocabularies() -> None:
    directory = os.environ.get("QUADLENS_PEERS")
    if directory is None:
        pytest.skip("QUADLENS_PEERS names no directory of public checkpoints")
    from quadlens.readers import import_file

    model = import_file(Path(directory) / "zhong" / "model_18c9ev5v5p.pt").model
    explanation = explain(model)
    assert explanation.key_frequencies == (7, 23, 28)
    assert explanation.roles.matching.all()
    assert explanation.logits is not None
    r2 = explanation.logits.r2
    assert r2.all_logits.pizza == pytest.approx(0.84, abs=0.01)
    assert r2.all_logits.clock == pytest.approx(0.99, abs=0.01)
    assert r2.abs_component.pizza == pytest.approx(0.99, abs=0.01)
    assert r2.abs_component.clock == pytest.approx(0.86, abs=0.01)
