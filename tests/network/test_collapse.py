"""The collapse equals the obvious forward pass.

It does so over every arithmetic, for every shape and attention.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from any_model import any_model, usual_weights
from quadlens.base.errors import BadConfig
from quadlens.network.activation import NONLINEARITIES
from quadlens.network.collapse import collapse
from quadlens.network.dyadic import DYADICS, Dyadic
from quadlens.network.evaluate import all_pairs
from quadlens.network.exact import exact_logits
from quadlens.network.forward import forward
from quadlens.network.ring import FLOATS
from quadlens.network.weights import Weights
from quadlens.proofs.pairs.deep import ENCLOSURES
from quadlens.proofs.pairs.enclosed import Enclosed
from strategies import mlps, transformers

small = st.integers(0, 10**6).map(
    lambda seed: any_model(np.random.default_rng(seed), usual_weights(1.0), 7)
)
exact = small.filter(
    lambda model: model.config.softmax is None and NONLINEARITIES[model.config.activation].exact
)


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


def entries(x: Dyadic) -> list[Fraction]:
    return [Fraction(int(n), 1 << x.shift) for n in x.numerators.entries()]


def assert_contains(enclosed: Enclosed, true: Dyadic) -> None:
    middle, radius = (
        x.ravel().tolist() for x in np.broadcast_arrays(enclosed.middle, enclosed.radius)
    )
    for x, m, r in zip(entries(true), middle, radius, strict=True):
        assert abs(x - Fraction(m)) <= Fraction(r)


@given(exact)
def test_without_rounding_the_collapse_is_the_forward_pass(model: Weights) -> None:
    found, true = exact_logits(model), forward(model, all_pairs(model.config.p), DYADICS)
    collapsed = [Fraction(int(n), 1 << found.shift) for n in found.slices.ravel()]
    assert collapsed == entries(true)


@given(exact)
def test_enclosures_hold_what_is_true_in_collapse_and_forward_pass(model: Weights) -> None:
    pairs = all_pairs(model.config.p)
    assert_contains(forward(model, pairs, ENCLOSURES), forward(model, pairs, DYADICS))
    found, true = collapse(model, ENCLOSURES), collapse(model, DYADICS)
    for name in ("U_a", "U_b", "W_L", "S_a", "S_b"):
        assert_contains(getattr(found, name), getattr(true, name))


@given(small)
def test_gated_tables_are_the_same_over_every_arithmetic(model: Weights) -> None:
    """Softmax too: up to e^x all is exact, and what float64 has is within the enclosures."""
    plain, held_tables, exactly = (
        collapse(model, FLOATS),
        collapse(model, ENCLOSURES),
        collapse(model, DYADICS),
    )
    for floats, enclosed, true in zip(plain.gated, held_tables.gated, exactly.gated, strict=True):
        for name in ("scores", "U", "S"):
            by_head = [list(getattr(table, name)) for table in (floats, enclosed, true)]
            for mine, held, right in zip(*by_head, strict=True):
                assert mine.shape == held.shape == right.shape
                assert_contains(held, right)
                assert np.abs(mine - held.middle).max() <= 4 * held.radius.max() + 1e-300


def test_what_an_arithmetic_cannot_do_is_said() -> None:
    rng = np.random.default_rng(0)
    drawn = [any_model(rng, usual_weights(1.0), 5) for _ in range(200)]
    gated = next(model for model in drawn if model.config.softmax is not None)
    bent = next(m for m in drawn if m.config.activation == "gelu" and m.config.softmax is None)
    for model, words in (
        (gated, "e\\^x is not rational"),
        (bent, "'gelu', which exact arithmetic cannot express"),
    ):
        with pytest.raises(BadConfig, match=words):
            forward(model, all_pairs(model.config.p), DYADICS)
