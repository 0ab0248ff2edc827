"""Hand-built models against their closed form, and what each dial does."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadlens.base.errors import BadConfig
from quadlens.network import Recipe, build_mlp, build_transformer, evaluate
from quadlens.network.handmade import neurons_of, waves
from quadlens.network.weights import Weights


def all_logits(model: Weights) -> np.ndarray:
    collapsed = model.collapse()
    return np.stack([collapsed.logits(a) for a in range(collapsed.p)])


def closed_form(recipe: Recipe) -> np.ndarray:
    """scale · Σ_k |cos u| cos(k w (a+b-c)), u = k w (a-b)/2, written as the loop it is."""
    p = recipe.p
    a, b, c = np.meshgrid(*[np.arange(p)] * 3, indexing="ij")
    total = np.zeros((p, p, p))
    for k in recipe.keys:
        total += np.abs(np.cos(np.pi * k * (a - b) / p)) * np.cos(2 * np.pi * k * (a + b - c) / p)
    return recipe.scale * total


def aliasing(neurons: int) -> float:
    """Largest relative error of n equally spaced phases.

    These are the Fourier terms of ReLU∘cos that n points cannot see.

    ReLU(cos x) = 1/π + ½cos x + Σ_m a_m cos 2mx with |a_m| = (2/π)/(4m²-1). Against cos 2φ, n equal
    points confuse frequency j with 2 when n divides j ± 2; each such term counts at most once,
    relative to the integral (2/3)/2π.
    """
    orders = [
        j for shift in (-2, 2) for j in (q * neurons + shift for q in range(1, 2000)) if j % 2 == 0
    ]
    return sum((2 / np.pi) / (j * j - 1) for j in orders) * np.pi / (2 / 3)


@given(
    st.integers(2, 12).map(lambda n: 2 * n + 1),
    st.data(),
    st.integers(20, 60),
    st.sampled_from([0.5, 10.0]),
    st.sampled_from([build_mlp, build_transformer]),
)
def test_logits_are_the_closed_form(
    p: int, data: st.DataObject, count: int, scale: float, build: object
) -> None:
    keys = data.draw(st.lists(st.integers(1, (p - 1) // 2), min_size=1, max_size=3, unique=True))
    recipe = Recipe(p, tuple(keys), count * len(keys), scale=scale)
    model = build(recipe)  # type: ignore[operator]
    error = np.abs(all_logits(model) - closed_form(recipe)).max()
    assert error <= len(keys) * scale * (aliasing(count) + 1e-5)


def test_the_integral_is_reached_as_neurons_grow() -> None:
    errors = []
    for neurons in (20, 80, 320):
        recipe = Recipe(11, (3,), neurons)
        errors.append(np.abs(all_logits(build_mlp(recipe)) - closed_form(recipe)).max())
    assert errors[1] < errors[0] / 10
    assert errors[2] < errors[1] / 10


def test_both_architectures_are_one_function() -> None:
    recipe = Recipe(13, (2, 5), 60)
    np.testing.assert_allclose(
        all_logits(build_mlp(recipe)), all_logits(build_transformer(recipe)), atol=1e-5
    )


def test_skip_terms_vanish() -> None:
    collapsed = build_transformer(Recipe(13, (2, 5), 60)).collapse()
    assert not collapsed.S_a.any()
    assert not collapsed.S_b.any()
    np.testing.assert_array_equal(collapsed.U_a, collapsed.U_b)


@pytest.mark.parametrize("dial", ["jitter", "noise", "missing"])
def test_each_dial_goes_from_perfect_to_broken(dial: str) -> None:
    def min_margin(amount: float) -> float:
        recipe = Recipe(23, (3, 7), 100, **{dial: amount})  # type: ignore[arg-type]
        return evaluate(build_mlp(recipe).collapse()).min_margin

    perfect, slight, strong = (min_margin(x) for x in (0.0, 0.05, 0.9))
    assert perfect > 0
    assert strong < 0
    assert strong < slight <= perfect


def test_seeds_are_arguments() -> None:
    one, same, other = (build_mlp(Recipe(7, (1, 2), 10, noise=0.1, seed=s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.W_a, same.W_a)
    assert not np.array_equal(one.W_a, other.W_a)


def test_missing_leaves_out_an_arc() -> None:
    full = neurons_of(Recipe(59, (3,), 100), np.random.default_rng(0))
    cut = neurons_of(Recipe(59, (3,), 100, missing=0.25), np.random.default_rng(0))
    assert len(full.phi) == 100
    assert len(cut.phi) == 75
    assert cut.phi.min() >= -np.pi + 2 * np.pi * 0.25
    np.testing.assert_array_equal(cut.omega, full.omega[25:])


def test_neurons_are_shared_out_evenly() -> None:
    keys, counts = np.unique(
        neurons_of(Recipe(59, (3, 5, 7), 512), np.random.default_rng(0)).key, return_counts=True
    )
    assert dict(zip(keys.tolist(), counts.tolist(), strict=True)) == {3: 171, 5: 171, 7: 170}


def test_large_p_loses_no_digits() -> None:
    p, k = 10_007, 4_999
    wave = waves(p, np.array([k]), np.array([0.0]))[:, 0]
    exact = [np.cos(2 * np.pi * ((k * x) % p) / p) for x in (0, 1, 5_000, p - 1)]
    np.testing.assert_array_equal(wave[[0, 1, 5_000, p - 1]], exact)


def test_a_huge_model_is_built_without_huge_arrays() -> None:
    """p = 10,007, d_mlp = 4,096: the whole build stays below 50 MB.

    p³ floats would be 8 TB, and p² already 0.8 GB.
    """
    tracemalloc.start()
    model = build_transformer(Recipe(10_007, (3, 50, 700), 4_096))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.config.p == 10_007
    assert model.config.d_mlp == 4_096
    assert peak < 50e6


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ({"p": 58}, "p = 58 is not supported; expected an odd modulus of at least 3"),
        ({"p": 1}, "p = 1 is not supported"),
        ({"keys": ()}, r"keys \[\] are not distinct frequencies in 1 … 29"),
        ({"keys": (3, 3)}, r"keys \[3, 3\] are not distinct"),
        ({"keys": (30,)}, r"keys \[30\] are not distinct frequencies in 1 … 29"),
        ({"neurons": 1}, "1 neurons cannot serve 2 key frequencies"),
        ({"jitter": -1.0}, "jitter = -1.0 is not a finite number of at least 0"),
        ({"noise": float("nan")}, "noise = nan is not a finite number"),
        ({"missing": 1.0}, r"missing = 1.0; expected a share of the circle in \[0, 1\)"),
        ({"scale": 0.0}, "scale = 0.0; expected a finite number above 0"),
    ],
)
def test_recipes_that_make_no_sense(recipe: dict[str, object], message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        Recipe(**({"p": 59, "keys": (3, 5), "neurons": 64} | recipe))  # type: ignore[arg-type]


def test_a_recipe_that_leaves_no_neuron() -> None:
    with pytest.raises(BadConfig, match="leaves no neuron"):
        build_mlp(Recipe(59, (3,), 1, missing=0.9))
