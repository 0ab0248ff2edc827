"""The collapse for any attention, against the transformer written out input by input."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.base.errors import BadConfig, BadWeights
from quadlens.network import Weights, evaluate, load, save
from quadlens.network.activation import ACTIVATIONS, NONLINEARITIES
from quadlens.network.config import Config, Softmax
from quadlens.network.evaluate import all_pairs, margins, model_facts
from quadlens.network.native import to_bytes
from quadlens.network.task import task_by_name, task_from_table
from strategies import seeds


@st.composite
def softmax_configs(draw: st.DrawFn) -> Config:
    """Two tokens or three, one vocabulary or two, causal or not, any position read.

    Attention is softmax or a mixture.
    """
    p, d_head = draw(st.integers(2, 9)), draw(st.integers(1, 4))
    positions, offset = draw(st.sampled_from([2, 3])), draw(st.sampled_from([0, p]))
    constant = draw(st.sampled_from(["none", "zhong", "gbmi", "any"]))
    rate = draw(st.floats(0.05, 0.95))
    weights, scale = {
        "none": ((0.0,) * positions, 1.0),
        "zhong": ((1 - rate,) * positions, rate),
        "gbmi": ((rate / positions,) * positions, 1 - rate),
        "any": (
            tuple(draw(st.lists(st.floats(-2, 2), min_size=positions, max_size=positions))),
            -1.5,
        ),
    }[constant]
    tasks = [task_by_name("add", p), task_by_name("subtract", p)]
    return Config(
        p=p,
        d_model=draw(st.integers(1, 9)),
        d_mlp=draw(st.integers(1, 12)),
        n_heads=draw(st.integers(1, 4)),
        d_head=d_head,
        d_vocab=p + offset + positions - 2 + draw(st.integers(0, 2)),
        d_vocab_out=p + draw(st.integers(0, 2)),
        n_ctx=positions + draw(st.integers(0, 1)),
        attention=weights,
        read_position=draw(st.integers(0, positions - 1)),
        activation=draw(st.sampled_from(ACTIVATIONS)),
        b_token_offset=offset,
        softmax=Softmax(
            scale, draw(st.sampled_from([math.sqrt(d_head), 1.0])), draw(st.booleans())
        ),
        task=draw(st.sampled_from(tasks)),
    )


@st.composite
def softmax_transformers(draw: st.DrawFn, dtype: type[np.floating] = np.float32) -> Weights:
    """Random weights, every bias included."""
    config = draw(softmax_configs())
    rng = np.random.default_rng(draw(seeds))
    scale = draw(st.sampled_from([0.1, 0.7, 2.0]))
    shapes = config.shapes
    return Weights(
        config=config,
        **{n: (scale * rng.standard_normal(s)).astype(dtype) for n, s in shapes.items()},
    )


def transformer_by_hand(model: Weights, a: int, b: int) -> np.ndarray:
    """One input through the full attention matrix of every head, as a textbook has it."""
    config = model.config
    assert config.softmax is not None
    w = {name: array.astype(np.float64) for name, array in model.tensors.items()}
    tokens = [a, b + config.b_token_offset, config.b_token_offset + config.p][
        : len(config.attention)
    ]
    x = np.stack([w["W_E"][token] + w["W_pos"][place] for place, token in enumerate(tokens)])
    after = x + w["b_O"]
    for h in range(config.n_heads):
        queries, keys, values = (x @ w[f"W_{name}"][h] + w[f"b_{name}"][h] for name in "QKV")
        pattern = np.empty((len(x), len(x)))
        for i in range(len(x)):
            seen = range(i + 1) if config.softmax.causal else range(len(x))
            scores = [float(queries[i] @ keys[j]) / config.softmax.divisor for j in seen]
            powers = [math.exp(score - max(scores)) for score in scores]
            for j in range(len(x)):
                share = powers[j] / sum(powers) if j in seen else 0.0
                pattern[i, j] = config.attention[j] + config.softmax.scale * share
        after = after + pattern @ values @ w["W_O"][h]
    stream = after[config.read_position]
    hidden = NONLINEARITIES[config.activation].apply(stream @ w["W_in"] + w["b_in"])
    return ((stream + hidden @ w["W_out"] + w["b_out"]) @ w["W_U"] + w["b_U"])[: config.p]


def relative_difference(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.abs(found - true).max() / max(1e-30, np.abs(true).max()))


@given(st.one_of(softmax_transformers(), softmax_transformers(np.float64)))
def test_tables_are_the_transformer(model: Weights) -> None:
    p = model.config.p
    true = np.array([[transformer_by_hand(model, a, b) for b in range(p)] for a in range(p)])
    tables = model.collapse()
    pairs = all_pairs(p)
    # Relative to what the sums are made of: logits may cancel.
    size = max(np.abs(true).max(), 1.0)
    for found in (
        np.stack([tables.logits(a) for a in range(p)]),
        tables.pair_logits(pairs).reshape(p, p, p),
        model.forward(pairs).reshape(p, p, p),
    ):
        assert np.abs(found - true).max() <= 1e-12 * size * (1 + np.abs(tables.U_b).max())


@given(softmax_transformers(np.float64))
def test_gates_add_up_to_the_scale(model: Weights) -> None:
    p, softmax = model.config.p, model.config.softmax
    assert softmax is not None
    tables = model.collapse()
    pairs = all_pairs(p)
    gates = tables.gates(pairs[:, 0], pairs[:, 1])
    assert np.allclose(gates.sum(axis=0), softmax.scale, rtol=1e-14)
    low, high = np.moveaxis(tables.gate_range(), 2, 0)
    assert np.array_equal(low, gates.min(axis=2))
    assert np.array_equal(high, gates.max(axis=2))


@given(softmax_transformers())
def test_evaluation_is_by_the_tasks_answers(model: Weights) -> None:
    p, layer = model.config.p, model.collapse()
    result = evaluate(layer)
    logits = model.forward(all_pairs(p)).reshape(p, p, p)
    for a in range(p):
        for b in range(p):
            right = model.config.task.answers[a, b]
            margin = logits[a, b, right] - max(np.delete(logits[a, b], right))
            assert margins(layer)[a, b] == pytest.approx(margin, rel=1e-9, abs=1e-9)
    assert result.pairs == p * p
    assert result.min_margin == margins(layer).min()
    assert evaluate(layer, all_pairs(p)).loss == pytest.approx(result.loss)
    said = model_facts(model, layer)
    assert said["attention"]["kind"] in ("softmax", "mixture")
    assert said["task"] == model.config.task.name


def constant_by_softmax(seed: int) -> Weights:
    """W_Q = 0 and b_Q, b_K not: every head has a constant of its own.

    The constant is the same on all positions of equal keys.
    """
    config = Config(
        p=5,
        d_model=4,
        d_mlp=6,
        n_heads=3,
        d_head=2,
        d_vocab=6,
        d_vocab_out=5,
        n_ctx=3,
        attention=(0.0, 0.0, 0.0),
        read_position=2,
        softmax=Softmax(1.0, math.sqrt(2)),
    )
    rng = np.random.default_rng(seed)
    weights = {name: rng.standard_normal(shape) for name, shape in config.shapes.items()}
    return Weights(config=config, **(weights | {"W_K": np.zeros((3, 4, 2))}))


def test_constant_attention_is_a_finding() -> None:
    tables = constant_by_softmax(0).collapse()
    assert np.allclose(tables.gate_range(), 1 / 3)
    # Gates that are the same on every input collapse exactly.
    np.testing.assert_allclose(
        tables.with_mean_gates().logits(2), tables.logits(2), rtol=0, atol=1e-12
    )


@given(softmax_transformers())
def test_files_hold_softmax_and_task(
    tmp_path_factory: pytest.TempPathFactory, model: Weights
) -> None:
    path = tmp_path_factory.mktemp("softmax") / "m.safetensors"
    save(model, path)
    back = load(path)
    assert back.config == model.config
    assert to_bytes(back) == path.read_bytes()
    assert np.array_equal(
        back.forward(all_pairs(model.config.p)), model.forward(all_pairs(model.config.p))
    )


def test_files_hold_a_table(tmp_path: Path) -> None:
    from quadlens.network import Config, Weights

    table = np.array([[0, 1, 2], [2, 0, 1], [1, 1, 1]])
    # The transpose has its numbers in another order in memory.
    for task in (
        task_from_table(table),
        task_from_table(table.T),
        task_by_name("S3"),
        task_by_name("multiply", 4),
    ):
        config = Config.mlp(task.n, 4, "gelu", task)
        rng = np.random.default_rng(0)
        model = Weights(config, **{n: rng.standard_normal(s) for n, s in config.shapes.items()})
        save(model, tmp_path / "m.safetensors")
        back = load(tmp_path / "m.safetensors")
        assert back.config.task == task
        assert (back.config.task.answers == task.answers).all()
        assert evaluate(back.collapse()) == evaluate(model.collapse())


def test_what_does_not_fit() -> None:
    model = constant_by_softmax(0)
    with pytest.raises(
        BadConfig,
        match=r"attention is a softmax, which depends on the tokens.*"
        "explain.*lens.*certify.*report",
    ):
        _ = Anatomy(model).collapsed
    with pytest.raises(
        BadConfig, match=r"not a part of a plus a part of b.*attention depends on the tokens"
    ):
        model.collapse().as_addition()
    with pytest.raises(
        BadWeights, match="softmax, one layer: missing weights W_Q, weights without use none"
    ):
        Weights(model.config, **{name: x for name, x in model.tensors.items() if name != "W_Q"})
    with pytest.raises(BadConfig, match="softmax times 0"):
        Softmax(0.0, 1.0)
    with pytest.raises(BadConfig, match="scores divided by -1"):
        Softmax(1.0, -1.0)
    with pytest.raises(BadConfig, match="the task S3 has 6 elements, but the model has p = 5"):
        Config.paper(5).__class__(**{**vars(Config.paper(5)), "task": task_by_name("S3")})


@pytest.mark.parametrize("name", ["subtract", "linear:2,5", "multiply", "divide"])
def test_a_cyclic_task_is_addition_after_renaming(name: str) -> None:
    from quadlens.network import Config, Weights

    task = task_by_name(name, 12 if name in ("multiply", "divide") else 13)
    config = Config.mlp(task.n, 4, "relu", task)
    rng = np.random.default_rng(0)
    model = Weights(config, **{n: rng.standard_normal(s) for n, s in config.shapes.items()})
    renamed, found = Anatomy(model).collapsed, task.cyclic
    assert found is not None
    assert renamed.task.name == "add"
    before, after = (
        np.stack([x.logits(a) for a in range(task.n)]) for x in (model.collapse(), renamed)
    )
    for a, b, c in np.random.default_rng(1).integers(0, task.n, (50, 3)):
        assert before[a, b, c] == after[found.of_a[a], found.of_b[b], found.of_c[c]]
    old, new = evaluate(model.collapse()), evaluate(renamed)
    assert (old.correct, old.min_margin) == (new.correct, new.min_margin)
    assert old.loss == pytest.approx(new.loss)


def test_a_task_without_a_cyclic_relabelling_says_so() -> None:
    from quadlens.network import Config, Weights
    from quadlens.network.exact import agreement

    config = Config.mlp(6, 4, "relu", task_by_name("S3"))
    rng = np.random.default_rng(0)
    model = Weights(config, **{n: rng.standard_normal(s) for n, s in config.shapes.items()})
    with pytest.raises(
        BadConfig, match=r"S3 \(σ·τ in S3\) has no cyclic relabelling.*explain.*certify.*report"
    ):
        _ = Anatomy(model).collapsed
    assert agreement(model).correct == evaluate(model.collapse()).correct
