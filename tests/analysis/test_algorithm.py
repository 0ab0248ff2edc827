"""The measures of Zhong et al., against finite differences and their definitions written as
loops."""

import cmath
import math
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import quadlens
from network.test_deep import config_of, random_deep
from quadlens.analysis.logits import logit_parts
from quadlens.analysis.logits.algorithm import (
    AlgorithmMeasures,
    algorithm_measures,
    circularity,
    distance_irrelevance,
    draw_triples,
    embedding,
    gradients,
    published_triples,
    token_span,
)
from quadlens.network import Recipe, Weights, build_mlp, build_transformer
from quadlens.network.config import Config, Hidden, Softmax
from quadlens.training.config import TrainConfig
from quadlens.training.machines import start_of
from strategies import mlps, odd_moduli, seeds, transformers


def logit(model: Weights, x_a: np.ndarray, x_b: np.ndarray, c: int) -> float:
    """One logit from the two embedding vectors, the transformer written out for a single input."""
    config = model.config
    w = {name: array.astype(np.float64) for name, array in model.tensors.items()}
    streams = [x_a + w["W_pos"][0], x_b + w["W_pos"][1]]
    if config.has_equals:
        streams.append(w["W_E"][config.equals_token] + w["W_pos"][2])
    middle = streams[config.read_position] + w["b_O"]
    for alpha, stream in zip(config.attention, streams, strict=True):
        for h in range(config.n_heads):
            middle = middle + alpha * (stream @ w["W_V"][h] + w["b_V"][h]) @ w["W_O"][h]
    pre = middle @ w["W_in"] + w["b_in"]
    hidden = {"relu": np.maximum(pre, 0), "abs": np.abs(pre), "square": pre**2}[config.activation]
    return float((middle + hidden @ w["W_out"] + w["b_out"]) @ w["W_U"][:, c] + w["b_U"][c])


def numeric_gradient(f, x: np.ndarray, step: float) -> np.ndarray:  # type: ignore[no-untyped-def]
    rows = np.eye(len(x)) * step
    return np.array([(f(x + row) - f(x - row)) / (2 * step) for row in rows])


@given(transformers(np.float64), st.data())
def test_gradients_by_finite_differences(model: Weights, data: st.DataObject) -> None:
    config, collapsed = model.config, model.collapse()
    a, b, c = (data.draw(st.integers(0, config.p - 1)) for _ in range(3))
    pre = collapsed.U_a[a] + collapsed.U_b[b]
    scale = float(np.abs(model.W_E).max())
    step = 1e-5 * scale
    # A step across a kink would measure something else.
    assume(np.abs(pre).min() >= 1e-2 * np.abs(pre).max())
    W_E = model.W_E.astype(np.float64)
    x_a, x_b = W_E[a], W_E[b + config.b_token_offset]
    of_a = numeric_gradient(lambda x: logit(model, x, x_b, c), x_a, step)
    of_b = numeric_gradient(lambda x: logit(model, x_a, x, c), x_b, step)
    size = np.linalg.norm(of_a) * np.linalg.norm(of_b)
    value = abs(logit(model, x_a, x_b, c))
    # Differences of two logits lose the digits of the logit itself.
    assume(size != 0 and min(np.linalg.norm(of_a), np.linalg.norm(of_b)) * step >= 1e-9 * value)
    (cosine,) = gradients(model, np.array([[a, b, c]])).cosines()
    assert cosine == pytest.approx(of_a @ of_b / size, abs=1e-3)


@given(mlps(np.float64), st.data())
def test_gradients_of_an_mlp_are_those_of_its_one_hot_tokens(
    model: Weights, data: st.DataObject
) -> None:
    p = model.config.p
    a, b, c = (data.draw(st.integers(0, p - 1)) for _ in range(3))
    pre = model.W_a[a] + model.W_b[b]
    slope = {"relu": (pre > 0) * 1.0, "abs": np.sign(pre), "square": 2 * pre}[
        model.config.activation
    ]
    of_a, of_b = model.W_a @ (slope * model.W_out[:, c]), model.W_b @ (slope * model.W_out[:, c])
    cosines = gradients(model, np.array([[a, b, c]])).cosines()
    size = np.linalg.norm(of_a) * np.linalg.norm(of_b)
    assert len(cosines) == (size > 0)
    if size > 0:
        assert cosines[0] == pytest.approx(of_a @ of_b / size)


@given(odd_moduli, seeds)
def test_distance_irrelevance_by_loops(p: int, seed: int) -> None:
    logits = np.random.default_rng(seed).standard_normal((p, p))
    table = [[0.0] * p for _ in range(p)]
    for a in range(p):
        for b in range(p):
            table[(a + b) % p][(a - b) % p] = logits[a, b]
    columns = np.array(table)
    expected = np.mean([columns[:, d].std() for d in range(p)]) / columns.std()
    assert distance_irrelevance(logits) == pytest.approx(expected)


def test_distance_irrelevance_at_its_two_ends() -> None:
    a, b = np.ogrid[:13, :13]
    only_distance = np.cos((a - b) % 13) * 1.0
    only_sum = np.cos((a + b) % 13) * 1.0
    assert distance_irrelevance(only_distance) == pytest.approx(0, abs=1e-12)
    assert distance_irrelevance(only_sum) == pytest.approx(1)
    assert distance_irrelevance(np.full((13, 13), 7.0)) is None


@given(odd_moduli, seeds)
def test_circularity_by_loops(p: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).standard_normal((p, 6))
    centred = vectors - vectors.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred)
    shares = []
    for index in np.argsort(-values)[: min(4, p - 1)]:
        v = centred @ axes[:, index]
        waves = [
            abs(sum(v[x] * cmath.exp(2j * math.pi * k * x / p) for x in range(p))) ** 2
            for k in range(1, p)
        ]
        shares.append(2 * max(waves) / p / (v @ v))
    assert circularity(vectors) == pytest.approx(np.mean(shares), rel=1e-6)


def test_circularity_of_circles_is_one_and_of_nothing_is_none() -> None:
    assert circularity(embedding(build_transformer(Recipe(59, (3,), 20)))) == pytest.approx(
        1, abs=1e-6
    )
    assert circularity(embedding(build_mlp(Recipe(59, (3,), 20)))) == pytest.approx(1, abs=1e-6)
    assert circularity(np.zeros((5, 3))) is None
    assert circularity(np.ones((5, 3))) is None


@given(transformers(np.float64), seeds)
def test_the_span_is_where_tokens_differ(model: Weights, seed: int) -> None:
    """Projecting on the differences of embedding vectors, by least squares on those differences."""
    collapsed = model.collapse()
    triples = draw_triples(collapsed.p, np.random.default_rng(seed), 5)
    both = gradients(model, triples)
    span = token_span(model)
    W_E = model.W_E.astype(np.float64)
    tokens = [W_E[: collapsed.p], W_E[model.config.b_token_offset :][: collapsed.p]]
    differences = np.concatenate([x - x[0] for x in tokens])
    projected = both.in_span(span)
    for raw, inside in ((both.of_a, projected.of_a), (both.of_b, projected.of_b)):
        explicit = (np.linalg.pinv(differences, rcond=1e-6) @ differences @ raw.T).T
        assert np.allclose(inside @ span, explicit, atol=1e-5 * (1e-300 + np.abs(raw).max()))


def test_triples() -> None:
    rng = np.random.default_rng(0)
    assert len(np.unique(draw_triples(3, rng, 1000), axis=0)) == 27
    drawn = draw_triples(59, rng, 1000)
    assert drawn.shape == (1000, 3)
    assert drawn.min() >= 0
    assert drawn.max() < 59


@pytest.mark.parametrize("build", [build_mlp, build_transformer])
def test_a_hand_built_pizza_has_the_measures_of_a_pizza(build: Any) -> None:
    model = build(Recipe(59, (3, 5, 7), 300))
    collapsed = model.collapse()
    parts = logit_parts(collapsed, (3, 5, 7))
    measures = algorithm_measures(model, parts.correct_logit, np.random.default_rng(0))
    assert measures.gradient_symmetricity_in_span == pytest.approx(1, abs=1e-6)
    assert measures.distance_irrelevance is not None
    assert measures.distance_irrelevance < 0.05
    assert measures.nearer_by_distance == "pizza"
    if build is build_mlp:
        assert measures.gradient_symmetricity == pytest.approx(1, abs=1e-6)
        assert measures.nearer_by_gradient == "pizza"


def test_measures_are_named_after_the_nearer_published_model() -> None:
    clock = AlgorithmMeasures(0.3, 0.3, 10, 0.9, 1.0)
    assert (clock.nearer_by_gradient, clock.nearer_by_distance) == ("clock", "clock")
    nothing = AlgorithmMeasures(None, None, 0, None, None)
    assert (nothing.nearer_by_gradient, nothing.nearer_by_distance) == (None, None)


@pytest.mark.parametrize("equals", [False, True])
def test_gradients_through_softmax_by_finite_differences(equals: bool) -> None:
    settings = TrainConfig(
        p=5,
        d_model=6,
        d_mlp=9,
        n_heads=2,
        d_head=3,
        equals=equals,
        attention_rate=0.7,
        attention_rest="ones",
        activation="gelu",
        vocabularies=2,
        precision="float64",
        initial_scale=2.0,
    )
    model = start_of(settings).params
    assert isinstance(model, Weights)
    rng = np.random.default_rng(0)
    biases = {
        name: rng.standard_normal(x.shape)
        for name, x in model.tensors.items()
        if name.startswith("b_")
    }
    model = Weights(model.config, **{**model.tensors, **biases})
    triples = np.array([[1, 3, 2], [4, 0, 4], [2, 2, 1]])
    both = gradients(model, triples)
    for row, (a, b, c) in enumerate(triples):
        for token, expected in ((a, both.of_a[row]), (b + 5, both.of_b[row])):

            def value(
                x: np.ndarray, token: int = token, a: int = a, b: int = b, c: int = c
            ) -> float:
                W_E = model.W_E.copy()
                W_E[token] = x
                moved = Weights(model.config, **{**model.tensors, "W_E": W_E})
                return float(moved.forward(np.array([[a, b]]))[0, c])

            measured = numeric_gradient(value, model.W_E[token].copy(), 1e-5)
            np.testing.assert_allclose(expected, measured, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("softmax", [None, Softmax(1.0, 1.7), Softmax(0.4, 2.0, causal=False)])
def test_gradients_through_several_layers_by_finite_differences(softmax: Softmax | None) -> None:
    model = random_deep(config_of(3, 3, softmax, activation="gelu", b_token_offset=5))
    triples = np.array([[1, 3, 2], [4, 0, 4]])
    both = gradients(model, triples)
    for row, (a, b, c) in enumerate(triples):
        for token, expected in ((a, both.of_a[row]), (b + 5, both.of_b[row])):

            def value(
                x: np.ndarray, token: int = token, a: int = a, b: int = b, c: int = c
            ) -> float:
                W_E = model.W_E.copy()
                W_E[token] = x
                return float(model.replace(W_E=W_E).forward(np.array([[a, b]]))[0, c])

            measured = numeric_gradient(value, model.W_E[token].copy(), 1e-5)
            np.testing.assert_allclose(expected, measured, rtol=1e-5, atol=1e-6)


def test_gradients_through_hidden_layers_of_an_mlp_by_finite_differences() -> None:
    """A step along coordinate j of the one-hot token a adds a bit of row j of W_a to its row a."""
    hidden = (Hidden(6, None), Hidden(7, "tanh"))
    model = random_deep(Config.mlp(5, 8, "gelu", hidden=hidden))
    biases = {name: np.arange(len(x)) / 7 for name, x in model.tensors.items() if "b_" in name}
    model = Weights(model.config, **{**model.tensors, **biases})
    triples = np.array([[1, 3, 2], [4, 0, 4], [2, 2, 1]])
    both = gradients(model, triples)
    for row, (a, b, c) in enumerate(triples):
        for name, token, expected in (("W_a", a, both.of_a[row]), ("W_b", b, both.of_b[row])):

            def value(
                x: np.ndarray,
                name: str = name,
                token: int = token,
                a: int = a,
                b: int = b,
                c: int = c,
            ) -> float:
                W = model.tensors[name].copy()
                W[token] = x @ model.tensors[name]
                return float(
                    Weights(model.config, **{**model.tensors, name: W}).forward(np.array([[a, b]]))[
                        0, c
                    ]
                )

            measured = numeric_gradient(value, np.eye(5)[token], 1e-5)
            np.testing.assert_allclose(expected, measured, rtol=1e-5, atol=1e-8)


def test_the_published_triples_are_the_first_hundred_after_a_shuffle() -> None:
    for p in (7, 59):
        every = [(a, b, c) for a in range(p) for b in range(p) for c in range(p)]
        random.Random(42).shuffle(every)
        assert [tuple(row) for row in published_triples(p).tolist()] == every[:100]
    assert len(published_triples(4)) == 64
    many = published_triples(1009)
    assert many.shape == (100, 3)
    assert many.max() < 1009


# From result/1l_fixedwidth.csv of fjzzq2002/pizza: gradient symmetricity, distance irrelevance,
# circularity. The second is of their training script, which overwrites the right logits by the
# largest wrong ones before it divides. The first is of b's token without its offset where there are
# two vocabularies, which changes it by 2e-5.
PUBLISHED = {
    "18c9ev5v5p": (0.997397659, 0.180793251, 0.527588471),
    "4asyr7ht1p": (0.995473835, 0.935602386, 0.965522444),
}


@pytest.mark.parametrize("run", PUBLISHED)
def test_published_values_of_public_checkpoints(run: str) -> None:
    directory = os.environ.get("QUADLENS_PEERS")
    if not directory:
        pytest.skip("QUADLENS_PEERS names no directory of public checkpoints")
    model = quadlens.import_file(Path(directory) / "zhong" / f"model_{run}.pt").model
    layer, b = model.collapse(), np.arange(59)
    right, wrong = np.empty((59, 59)), np.empty((59, 59))
    for a in range(59):
        logits = layer.logits(a).copy()
        right[a] = logits[b, (a + b) % 59]
        logits[b, (a + b) % 59] = -np.inf
        wrong[a] = logits.max(axis=1)
    found = algorithm_measures(model, right)
    symmetricity, irrelevance, circular = PUBLISHED[run]
    assert found.triples == 100
    assert found.gradient_symmetricity == pytest.approx(symmetricity, abs=1e-4)
    assert found.circularity == pytest.approx(circular, abs=1e-4)
    assert distance_irrelevance(wrong) == pytest.approx(irrelevance, abs=1e-5)
    assert found.distance_irrelevance == pytest.approx(irrelevance, abs=0.03)
