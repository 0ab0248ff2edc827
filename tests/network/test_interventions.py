"""Changed models against the obvious change, and against the explorer's dials."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadlens
from any_model import any_model, usual_weights
from cli_runner import quadlens as run
from explorer_chromium import pages, softmax_model, visit  # noqa: F401
from places import ROOT
from quadlens.analysis.edit import as_transformer
from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.base.errors import BadConfig
from quadlens.network.activation import ACTIVATIONS, NONLINEARITIES
from quadlens.network.config import Config, Softmax
from quadlens.network.evaluate import margins
from quadlens.network.norm import Norm, Norms
from quadlens.network.weights import Weights
from show.test_explorer_numbers import READ, checked, edited, edits

pytestmark = pytest.mark.slow

TABLES = ("U_a", "U_b", "W_L", "S_a", "S_b")
DIALS: dict[str, Any] = {
    "jitter": 0.0, "drop": 0.0, "arc": 0.0, "uneven": 0.0, "scope": "all", "k": None,
    "keep": "all", "carry": True, "moves": {}, "gains": {}, "off": (), "seed": 1,
}  # fmt: skip


def logits_of(model: Any) -> np.ndarray:
    layer = model.collapse()
    return np.stack([layer.logits(a) for a in range(layer.p)])


def test_any_collapsed_model_is_a_transformer() -> None:
    models = [any_model(np.random.default_rng(seed), usual_weights(1.0)) for seed in range(40)]
    layers = [layer for layer in (model.collapse() for model in models) if layer.is_additive]
    assert len(layers) > 10
    for collapsed in layers:
        again = as_transformer(collapsed).collapse()
        for name in TABLES:
            np.testing.assert_array_equal(getattr(again, name), getattr(collapsed, name))


@pytest.mark.parametrize("name", ["pizza", "times"])
def test_dropped_neurons_write_nothing(name: str) -> None:
    model = quadlens.load(name)
    k_in = Anatomy(model).roles.k_in
    k = int(np.bincount(k_in).argmax())
    changed = quadlens.edit.ablate(model, frequencies=[k], neurons=[0, 3])
    kept = (k_in != k) & ~np.isin(np.arange(len(k_in)), [0, 3])
    layer = model.collapse()
    hidden = NONLINEARITIES["relu"].apply(layer.U_a[:, None] + layer.U_b[None])[..., kept]
    expected = hidden @ layer.W_L[:, kept].T + layer.S_a[:, None] + layer.S_b
    np.testing.assert_allclose(logits_of(changed), expected, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_even_and_odd_part(activation: str) -> None:
    rng = np.random.default_rng(1)
    config = Config.mlp(5, 7, activation)  # type: ignore[arg-type]
    model = Weights.mlp(
        config, rng.normal(size=(5, 7)), rng.normal(size=(5, 7)), rng.normal(size=(7, 5))
    )
    pre, sigma = model.W_a[:, None] + model.W_b[None], NONLINEARITIES[config.activation].apply
    even, odd = (sigma(pre) + sigma(-pre)) / 2, (sigma(pre) - sigma(-pre)) / 2
    np.testing.assert_allclose(
        logits_of(quadlens.edit.ablate(model, keep="abs")), even @ model.W_out, atol=1e-12
    )
    np.testing.assert_allclose(
        logits_of(quadlens.edit.ablate(model, keep="identity")), odd @ model.W_out, atol=1e-12
    )
    swapped = quadlens.edit.swap_activation(model, "tanh")
    np.testing.assert_allclose(logits_of(swapped), np.tanh(pre) @ model.W_out, atol=1e-12)


def test_resampling_keeps_the_mean() -> None:
    model = quadlens.build(p=13, keys=(2, 5), neurons=60)
    mean = np.mean(
        [logits_of(quadlens.edit.resample(model, 700, seed=seed)) for seed in range(16)], axis=0
    )
    whole = logits_of(model)
    # 16 · 700 draws: the mean is closer to the whole than one draw of 700 by a factor of about 4.
    one = np.sqrt(np.mean((logits_of(quadlens.edit.resample(model, 700, seed=99)) - whole) ** 2))
    assert np.sqrt(np.mean((mean - whole) ** 2)) < one / 2


@pytest.mark.parametrize("kind", ["two tokens", "mixture", "three tokens"])
def test_attention_between_its_mean_and_softmax(kind: str) -> None:
    model: Any = quadlens.load("clock")
    if kind != "two tokens":
        shape: dict[str, Any] = {
            "p": 5,
            "d_model": 6,
            "d_mlp": 7,
            "n_heads": 2,
            "d_head": 3,
            "d_vocab": 6,
            "d_vocab_out": 5,
            "n_ctx": 3,
        }
        constant = (0.3, -0.2, 0.4) if kind == "three tokens" else (0.25, 0.5)
        config = Config(
            **shape, attention=constant, read_position=len(constant) - 1, softmax=Softmax(0.7, 1.3)
        )
        rng = np.random.default_rng(2)
        model = Weights(
            config, **{name: rng.normal(size=size) for name, size in config.shapes.items()}
        )
    layer = model.collapse()
    mean = layer.with_mean_gates()
    assert quadlens.edit.mix_attention(model, 1.0) is model
    for rate in (0.0, 0.3):
        mixed = quadlens.edit.mix_attention(model, rate).collapse()
        assert mixed.is_additive == (rate == 0)
        for a in (0, 3):
            for part in ("pre", "skip"):
                expected = (1 - rate) * getattr(mean, part)(a) + rate * getattr(layer, part)(a)
                np.testing.assert_allclose(
                    getattr(mixed, part)(a), expected, rtol=1e-12, atol=1e-12
                )


def test_the_explorer_mixes_attention_alike(visit: Any) -> None:  # noqa: F811
    page, model = visit("softmax"), softmax_model()
    for rate in (0.0, 0.4):
        said = page.page.evaluate(READ, f"attention={rate}")
        expected = margins(quadlens.edit.mix_attention(model, rate).collapse())
        np.testing.assert_allclose(said["margin"], expected.ravel(), rtol=1e-9, atol=1e-9)


def test_every_verb_takes_the_result() -> None:
    changed = quadlens.edit.jitter_phases("pizza", 0.02, frequencies=[5])
    assert quadlens.explain(changed).key_frequencies == (5, 9, 11)
    certificate = quadlens.certify(changed)
    assert certificate.verdict == "CERTIFIED"
    assert quadlens.check(certificate, changed).verdict == "VERIFIED"
    assert len(quadlens.bounds(changed).bounded) == 3


def a_softmax_with_norms() -> Weights:
    layer_norm = Norm("layer", 1e-5)
    config = replace(
        Config.paper(5, 6, 7, 2, 3),
        softmax=Softmax(1.0, 1.3),
        norms=Norms(layer_norm, None, layer_norm, layer_norm),
    )
    return Weights(config, **{name: np.ones(shape) for name, shape in config.shapes.items()})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda: quadlens.edit.ablate("pizza", frequencies=[30]),
            "no frequency 30; expected 1 … 29",
        ),
        (lambda: quadlens.edit.ablate("pizza", neurons=[512]), "no neuron 512; expected 0 … 511"),
        (
            lambda: quadlens.edit.ablate("pizza", share=2.0),
            "share = 2.0; expected a number from 0 to 1",
        ),
        (lambda: quadlens.edit.jitter_phases("clock", 0.1), "attention"),
        (lambda: quadlens.edit.mix_attention("pizza", 0.5), "nothing to mix"),
        (
            lambda: quadlens.edit.mix_attention(a_softmax_with_norms(), 0.5),
            "LayerNorm before attention.* expected one",
        ),
        (lambda: quadlens.edit.swap_activation("pizza", "sin"), "sin"),
        (lambda: quadlens.edit.resample("pizza", 0), "at least 1"),
    ],
)
def test_what_cannot_be_done_is_refused(change: Any, words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        change()


def changed_by(model: Any, state: dict[str, Any]) -> Any:
    """The dials' state by the package's own functions."""
    seed, only = state["seed"], () if state["scope"] == "all" else (state["k"],)
    changed = quadlens.edit.ablate(
        model, waves=state["keep"], share=state["drop"], arc=state["arc"], seed=seed
    )
    changed = quadlens.edit.jitter_weights(changed, state["uneven"], frequencies=only, seed=seed)
    return quadlens.edit.jitter_phases(
        changed, state["jitter"], frequencies=only, carry=state["carry"], seed=seed
    )


STATES: list[dict[str, Any]] = [
    {"jitter": 0.3, "seed": 7},
    {"jitter": 0.2, "carry": False, "keep": "secondary"},
    {"drop": 0.4, "uneven": 0.7, "seed": 3},
    {"arc": 0.3, "keep": "primary"},
    {"jitter": 0.5, "uneven": 0.5, "scope": "k", "k": 9},
]


@pytest.mark.parametrize("state", STATES)
def test_the_dials_by_hand(state: dict[str, Any]) -> None:
    one, whole = checked(quadlens.load("pizza")), DIALS | state
    expected = edited(one, whole, *edits(one.roles, whole))
    found = changed_by("pizza", whole).collapse()
    for name in TABLES:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-9)


def test_the_explorer_has_the_same_dials(visit: Any) -> None:  # noqa: F811
    page = visit("pizza")
    for state, part in itertools.product(STATES, ("relu", "abs")):
        whole = DIALS | state
        words = [f"{key}={int(value) if key == 'carry' else value}" for key, value in state.items()]
        said = page.page.evaluate(READ, "&".join([*words, f"part={part}"]))
        model = quadlens.edit.ablate(
            changed_by("pizza", whole), keep="all" if part == "relu" else "abs"
        )
        np.testing.assert_allclose(
            said["margin"], margins(model.collapse()).ravel(), rtol=1e-9, atol=1e-9
        )


def test_ablate_and_compare_from_the_command_line(tmp_path: Path) -> None:
    found = run(
        "ablate", "pizza", "--frequencies", "5,9", "-o", str(tmp_path / "one.safetensors"), "--json"
    )
    assert found.code == 0
    said = found.document
    assert said["before"]["correct"] == 3481 > said["after"]["correct"]
    model = quadlens.load(tmp_path / "one.safetensors")
    np.testing.assert_array_equal(
        logits_of(model), logits_of(quadlens.edit.ablate("pizza", frequencies=[5, 9]))
    )
    small = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    for path, neurons in zip(small, (60, 80), strict=True):
        quadlens.save(quadlens.build(p=13, keys=(2, 5), neurons=neurons), path)
    found = run("compare", *map(str, small), "--json")
    assert found.code == 0
    said = found.document
    assert (said["a"]["d_mlp"], said["b"]["d_mlp"]) == (60, 80)
    assert {"key": "d_mlp", "a": 60, "b": 80} in said["differences"]
    assert said["a"]["lens"]["r2"]["shared"] > 0.9
    assert said["answers_alike"] == 1.0
    assert not any(one["a"] == one["b"] for one in said["differences"])
    table = run("compare", *map(str, small))
    assert table.code == 0
    assert "what is proved" in table.out


def test_he_et_als_ablations() -> None:
    import sys

    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from he_ablation import rows  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    found = list(rows())
    assert len(found) == 10
    for row in found:
        # The smallest is the rounding of float64, in both.
        np.testing.assert_allclose(
            row.ours, row.published, rtol=1e-3 if row.published > 1e-12 else 0.5
        )
