"""Proofs of every kind of network, against logits enclosed to 200 bits, without tolerance."""

import numpy as np
import pytest
from hypothesis import given, settings

from any_models import any_models
from enclosed_truth import check_enclosed, enclosed_margins
from quadlens.model.activation import ACTIVATIONS, NONLINEARITIES, Activation
from quadlens.model.params import Model
from quadlens.proofs import STRATEGIES
from quadlens.proofs.proof import attempt


@settings(max_examples=60)
@given(any_models())
def test_no_strategy_claims_more_than_is_true_of_any_model(model: Model) -> None:
    """Task × attention × activation × strategy."""
    truth = enclosed_margins(model)
    for strategy in STRATEGIES.values():
        check_enclosed(attempt(strategy, model), truth, model.config.task.answers)


@settings(max_examples=60)
@given(any_models())
def test_brute_force_proves_all_that_is_clearly_right(model: Model) -> None:
    """What leads by more than the room that a claim leaves is certified; what is behind by more is a witness."""
    proof = attempt(STRATEGIES["brute"], model)
    loss = float(proof.terms["rounding"].bound) if proof.terms else 0.0
    room = 2 * max(2.0**-20, 5 * loss)
    for a, row in enumerate(enclosed_margins(model)):
        for b, (low, high) in enumerate(row):
            if float(low) > room:
                assert proof.certified[a, b]
            if float(high) < 0:
                assert not proof.certified[a, b]


@pytest.mark.parametrize("activation", [name for name in ACTIVATIONS if NONLINEARITIES[name].far is not None])
def test_tabulated_activations_are_within_their_error(activation: Activation) -> None:
    """At random arguments, close to nodes and far out; and slope and curvature are what the bound says."""
    from flint import arb

    from quadlens.proofs.float_layer import CURVATURE, FAR, STEEPEST, enclosed_activation

    one, rng = NONLINEARITIES[activation], np.random.default_rng(0)
    reach = np.array([2.0 * FAR])
    sigma, error, _ = enclosed_activation(activation, reach, np.zeros(1))
    x = np.concatenate([rng.uniform(-3, 3, 3000), rng.uniform(-50, 50, 2000), np.arange(-8, 8) / 2048, [40.0, -40.0]])
    for at, found in zip(x.tolist(), sigma(x).tolist(), strict=True):
        assert abs(one.enclose(arb(at)) - arb(found)) <= arb(float(error[0]))
    h = 2.0**-10
    grid = np.arange(-45, 45, h)
    assert np.abs(one.derivative(grid)).max() < STEEPEST
    assert np.abs(np.diff(one.derivative(grid))).max() / h < CURVATURE
