"""The collapse is exact: it equals the full forward pass for every shape, attention and bias."""

import numpy as np
import pytest
from hypothesis import given

from quadlens.model.evaluate import all_pairs
from quadlens.model.exact import exact_logits
from quadlens.model.weights import Weights
from strategies import mlps, transformers


def relative_difference(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.abs(x - y).max() / max(np.abs(x).max(), np.abs(y).max(), 1e-300))


def magnitude(model: Weights) -> float:
    """The size of the numbers a logit is summed from: what rounding is relative to."""
    weights = {name: np.abs(array.astype(np.float64)) for name, array in model.tensors.items()}
    positive = Weights(
        config=model.config.__class__(
            **{**model.config.__dict__, "attention": tuple(abs(x) for x in model.config.attention)}
        ),
        **weights,
    )
    return float(np.abs(positive.forward(all_pairs(model.config.p))).max())


@given(transformers())
def test_collapse_equals_the_full_forward_pass(model: Weights) -> None:
    pairs = all_pairs(model.config.p)
    difference = np.abs(model.collapse().pair_logits(pairs) - model.forward(pairs)).max()
    assert difference <= 1e-12 * magnitude(model)


@given(mlps())
def test_collapse_of_an_mlp_equals_its_forward_pass(model: Weights) -> None:
    pairs = all_pairs(model.config.p)
    assert relative_difference(model.collapse().pair_logits(pairs), model.forward(pairs)) <= 1e-12


@given(transformers())
def test_exact_logits_equal_the_forward_pass(model: Weights) -> None:
    p = model.config.p
    exact = exact_logits(model).to_floats().reshape(p * p, p)
    assert np.abs(exact - model.forward(all_pairs(p))).max() <= 1e-12 * magnitude(model)


@given(mlps())
def test_exact_logits_of_an_mlp_equal_its_forward_pass(model: Weights) -> None:
    p = model.config.p
    exact = exact_logits(model).to_floats().reshape(p * p, p)
    assert relative_difference(exact, model.forward(all_pairs(p))) <= 1e-12


@given(transformers())
def test_weights_are_frozen(model: Weights) -> None:
    with pytest.raises(ValueError, match="read-only"):
        model.W_in[0, 0] = 1.0
