"""The control of `answers_right`: integrals of random numbers, against their logits input by
input."""

import importlib
import itertools
from typing import Any

import numpy as np
import pytest

import quadlens
from places import ROOT
from quadlens.analysis.parameterisation import parameterise


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "experiments")
    return importlib.import_module("random_integrals")


def right_by_logits(p: int, numbers: list[tuple[int, float, float, float]]) -> np.ndarray:
    """Whether each input is right: every neuron's input and output written out, 720 neurons a
    key."""
    phi, w = 2 * np.pi * np.arange(720) / 720, 2 * np.pi / p
    right = np.zeros((p, p), dtype=bool)
    for a, b in itertools.product(range(p), repeat=2):
        logits = np.zeros(p)
        for k, size, eta, gamma in numbers:
            x, y = k * w * a + phi, k * w * b + phi
            reads = np.cos(x) + np.cos(y) + eta * (np.cos(2 * x) + np.cos(2 * y)) + gamma
            writes = np.cos(k * w * np.arange(p)[:, None] + 2 * phi)
            logits += size * (np.maximum(reads, 0) * writes).mean(axis=1)
        others = np.delete(logits, (a + b) % p)
        right[a, b] = logits[(a + b) % p] > others.max() + 1e-9
    return right


@pytest.mark.parametrize("seed", range(8))
def test_an_answer_depends_on_the_difference_alone(study: Any, seed: int) -> None:
    p, rng = 7, np.random.default_rng(seed)
    keys = rng.choice([1, 2, 3], rng.integers(1, 4), replace=False)
    numbers = [rng.uniform(*ends, len(keys)) for ends in ((0.1, 1.0), (-1.0, 0.2), (-0.5, 2.0))]
    found = study.answered(keys, *numbers, p=p)
    truth = right_by_logits(p, list(zip(keys.tolist(), *numbers, strict=True)))
    for a, b in itertools.product(range(p), repeat=2):
        assert truth[a, b] == found[(a - b) % p]


def test_random_numbers_in_the_trained_range_answer_everything(study: Any) -> None:
    """So `answers_right` = 1 says that η and γ are in a range, no more; and out of it the control
    fails."""
    counts = [study.answering(draw) for draw in study.DRAWS]
    assert counts[:2] == [400, 400]
    assert all(
        count < draw.draws / 2 for count, draw in zip(counts[2:], study.DRAWS[2:], strict=True)
    )


@pytest.mark.slow
def test_trained_numbers_are_those_of_the_bundled_model(study: Any) -> None:
    assert study.in_trained_range() == (525, 536)
    # The bundled file is another run of seed 0.
    seed = next(one for one in study.measured_models(0) if one.values["seed"] == 0)
    eta, gamma = study.trained_numbers(seed, 5)
    group = next(
        one for one in parameterise(quadlens.study("pizza").anatomy).groups if one.cluster.k == 5
    )
    alpha, second = np.mean([group.shared.a, group.shared.b], axis=0)
    assert eta == pytest.approx(second / alpha, abs=0.01)
    assert gamma == pytest.approx(group.shared.constant / alpha, abs=0.02)
