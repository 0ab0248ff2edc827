"""Counts of wrong words between bounds, against every word tried."""

import dataclasses
import importlib.util
import itertools
from types import ModuleType

import numpy as np
import pytest

from places import ROOT
from quadlens.network.sequence_forward import forward
from quadlens.proofs.sequences.certificate import certify_sequence
from quadlens.training.config import load_config
from quadlens.training.sequence import initial_weights
from quadlens.training.train import train


@pytest.fixture(scope="module")
def counting() -> ModuleType:
    spec = importlib.util.spec_from_file_location("max_of_k", ROOT / "experiments" / "max_of_k.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    ("K", "seed", "epochs"), [(2, 0, 0), (3, 1, 0), (3, 2, 120), (4, 3, 120), (4, 4, 300)]
)
def test_every_word_tried_is_between_the_bounds(
    counting: ModuleType, K: int, seed: int, epochs: int
) -> None:
    flags = {
        "task": f"max:{K}",
        "p": 7,
        "d_model": 8,
        "d_head": 6,
        "seed": seed,
        "lr": 1e-2,
        "epochs": max(1, epochs),
    }
    config = load_config("max", flags=flags)
    if epochs:
        weights = train(config, threads=1, device="cpu").params
    else:
        weights = initial_weights(dataclasses.replace(config, initial_scale=3.0))
    words = np.array(list(itertools.product(range(7), repeat=K)))
    wrong = int((forward(weights, words, K - 1).argmax(axis=1) != words.max(axis=1)).sum())
    low, high = certify_sequence(weights).wrong_inputs
    assert low <= wrong <= high
    assert high - low <= 0.02 * 7**K
    if K == 4:
        assert counting.brute(weights) == 7**4 - wrong
