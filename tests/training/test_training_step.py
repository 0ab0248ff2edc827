"""A step is exact: gradients and steps of torch and TransformerLens."""

import dataclasses
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from quadlens.network.activation import ACTIVATIONS
from quadlens.network.weights import Weights
from quadlens.training import cpu
from quadlens.training.config import Seeding, TrainConfig
from quadlens.training.cpu import CpuEngine
from quadlens.training.device import DeviceEngine
from quadlens.training.engine import OptimiserState
from quadlens.training.initial import Start, gbmi_reseed
from quadlens.training.layout import Layout, PairLayout
from quadlens.training.machines import start_of

pytestmark = pytest.mark.slow


@st.composite
def train_configs(draw: st.DrawFn) -> TrainConfig:
    p = draw(st.integers(1, 6).map(lambda n: 2 * n + 1))
    return TrainConfig(
        p=p,
        d_model=draw(st.integers(1, 10)),
        d_mlp=draw(st.integers(1, 17)),
        n_heads=draw(st.integers(1, 3)),
        d_head=draw(st.integers(1, 4)),
        equals=draw(st.booleans()),
        train_share=draw(st.sampled_from([0.3, 0.8, 1.0])),
        weight_decay=draw(st.sampled_from([1.0, 0.01, 0.0])),
        seed=draw(st.integers(0, 2**32 - 1)),
        precision="float64",
        epochs=50,
        attention_rate=draw(st.sampled_from([0.0, 0.25, 1.0])),
        attention_rest=draw(st.sampled_from(["mean", "ones"])),
    )


@st.composite
def any_configs(draw: st.DrawFn) -> TrainConfig:
    """Models of every kind: attention, tasks, activations, vocabularies, MLPs, losses."""
    task, p = draw(st.sampled_from([("add", 7), ("add", 6), ("subtract", 5), ("linear:2,3", 5),
                                    ("multiply", 6),
                                    ("S3", 6), ("D4", 8), ("multiply0", 5)]))  # fmt: skip
    mlp = draw(st.booleans())
    return dataclasses.replace(
        draw(train_configs()),
        p=p,
        task=task,
        architecture="mlp" if mlp else "transformer",
        equals=not mlp and draw(st.booleans()),
        attention_rate=0.0 if mlp else draw(st.sampled_from([0.0, 0.25, 1.0])),
        attention_rest=draw(st.sampled_from(["mean", "ones"])),
        vocabularies=draw(st.sampled_from([1, 2])),
        activation=draw(st.sampled_from(ACTIVATIONS)),
        loss=draw(st.sampled_from(["cross-entropy", "squares"])),
    )


def start_state(config: TrainConfig, start: Start, bias_seed: int | None = None) -> OptimiserState:
    """The start as an engine wants it; trained biases are made non-zero where a seed is given."""
    layout = Layout.of_run(config)
    theta = layout.flatten(start.params)
    if bias_seed is not None and config.architecture == "transformer":
        for name in ("b_in", "b_out"):
            offset, size = layout.offsets[name], int(np.prod(layout.shapes[name]))
            theta[offset : offset + size] = np.random.default_rng(bias_seed).standard_normal(size)
    return OptimiserState(theta[None], np.zeros_like(theta)[None], np.zeros_like(theta)[None])


def full_model_loss(
    w: dict[str, torch.Tensor], config: TrainConfig, pairs: np.ndarray
) -> torch.Tensor:
    """Compute any model on pairs, position by position, for automatic differentiation."""
    activations: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "relu": torch.relu, "abs": torch.abs, "square": lambda x: x**2, "quartic": lambda x: x**4,
        "gelu": lambda x: x * (1 + torch.erf(x / 2**0.5)) / 2, "tanh": torch.tanh,
        "silu": lambda x: x / (1 + torch.exp(-x)),
        "softplus": lambda x: torch.log(1 + torch.exp(x)),
    }  # fmt: skip
    model, activation = config.model_config(), activations[config.activation]
    a, b = torch.tensor(pairs[:, 0]), torch.tensor(pairs[:, 1])
    right = torch.tensor(model.task.answers[pairs[:, 0], pairs[:, 1]])
    if not model.has_stream:
        logits = activation(w["W_a"][a] + w["W_b"][b]) @ w["W_out"]
    else:
        tokens = [a, b + model.b_token_offset] + (
            [torch.full_like(a, model.equals_token)] if model.has_equals else []
        )
        streams = [w["W_E"][token] + w["W_pos"][i] for i, token in enumerate(tokens)]
        middle = streams[-1]
        for head in range(model.n_heads):
            weights = [
                torch.full((len(a),), alpha, dtype=torch.float64) for alpha in model.attention
            ]
            if model.softmax is not None:
                query = streams[-1] @ w["W_Q"][head]
                scores = [
                    (query * (x @ w["W_K"][head])).sum(dim=1) / config.d_head**0.5 for x in streams
                ]
                shares = torch.softmax(torch.stack(scores), dim=0)
                weights = [
                    alpha + config.attention_rate * s
                    for alpha, s in zip(weights, shares, strict=True)
                ]
            for weight, stream in zip(weights, streams, strict=True):
                middle = middle + weight[:, None] * (stream @ w["W_V"][head]) @ w["W_O"][head]
        logits = (
            middle + activation(middle @ w["W_in"] + w["b_in"]) @ w["W_out"] + w["b_out"]
        ) @ w["W_U"]
    if config.loss == "squares":
        return ((logits - torch.eye(config.p, dtype=torch.float64)[right]) ** 2).sum(dim=1).mean()
    return torch.nn.functional.cross_entropy(logits, right)


@given(any_configs(), st.integers(0, 1000))
@examples(80)
def test_gradients_of_every_kind_equal_automatic_differentiation_of_the_full_model(
    config: TrainConfig, bias: int
) -> None:
    start, layout = start_of(config), Layout.of_run(config)
    state = start_state(config, start, bias)
    leaves = {
        n: torch.tensor(x, requires_grad=True)
        for n, x in layout.params(state.theta[0]).tensors.items()
    }
    if config.architecture == "mlp" and config.vocabularies == 1:
        leaves["W_b"] = leaves["W_a"]
    loss = full_model_loss(leaves, config, start.train)
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = {
        n: np.zeros(x.shape) if x.grad is None else x.grad.numpy() for n, x in leaves.items()
    }
    expected = layout.flatten(type(start.params)(config.model_config(), **gradients))
    # One seed takes the compiled passes of a CPU, two take the path of an accelerator.
    for seeds in (1, 2):
        states = OptimiserState(
            *(np.repeat(getattr(state, n), seeds, axis=0) for n in ("theta", "first", "second"))
        )
        pairs = [
            np.repeat(getattr(start, name)[None], seeds, axis=0) for name in ("train", "validation")
        ]
        engine = DeviceEngine(config, states, pairs[0], pairs[1], "cpu", 1)
        measure, gradient = engine._gradient()
        assert measure[0].loss == pytest.approx(loss.item(), rel=1e-12, abs=1e-300)
        for row in gradient.numpy():
            assert np.abs(row - expected).max() <= 1e-10 * max(np.abs(expected).max(), 1e-300)


@given(train_configs(), st.integers(0, 1000), st.integers(1, 3), st.sampled_from([1, 3, 256]))
@examples(60)
def test_gradient_equals_automatic_differentiation_of_the_full_transformer(
    config: TrainConfig, bias: int, threads: int, rows: int
) -> None:
    start, layout = start_of(config), Layout.of_run(config)
    state = start_state(config, start, bias)
    params = layout.params(state.theta[0])
    leaves = {
        name: torch.tensor(array, requires_grad=True) for name, array in params.tensors.items()
    }
    loss = full_model_loss(leaves, config, start.train)
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = {
        name: np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy()
        for name, leaf in leaves.items()
    }
    expected = layout.flatten(Weights(config=config.model_config(), **gradients))
    with mock.patch.object(cpu, "ROWS", rows):  # pairs in many blocks, and in one
        engine = CpuEngine(config.model_config(), state, start.train, start.validation, threads)
    measure = engine.step_gradient()
    engine.close()
    assert measure.loss == pytest.approx(loss.item(), rel=1e-12, abs=1e-300)
    assert np.abs(engine.gradient - expected).max() <= 1e-10 * max(np.abs(expected).max(), 1e-300)


@given(train_configs())
@examples(20)
def test_the_device_engine_takes_the_same_steps(config: TrainConfig) -> None:
    starts = [
        start_of(dataclasses.replace(config, seed=seed))
        for seed in (config.seed, config.seed // 2 + 1)
    ]
    states = [start_state(config, start) for start in starts]
    cpu = [
        CpuEngine(config.model_config(), s, st_.train, st_.validation)
        for s, st_ in zip(states, starts, strict=True)
    ]
    together = OptimiserState(
        *(np.concatenate([getattr(s, n) for s in states]) for n in ("theta", "first", "second"))
    )
    train, validation = (np.stack([getattr(s, n) for s in starts]) for n in ("train", "validation"))
    device = DeviceEngine(config, together, train, validation, "cpu")
    for epoch in range(10):
        expected = [engine.step(epoch, config, validate=True)[0] for engine in cpu]
        for mine, theirs in zip(device.step(epoch, config, validate=True), expected, strict=True):
            assert mine.train.loss == pytest.approx(theirs.train.loss, rel=1e-9, abs=1e-12)
            assert (mine.validation is None) == (theirs.validation is None)
    thetas = np.concatenate([engine.state().theta for engine in cpu])
    assert np.abs(device.state().theta - thetas).max() <= 1e-9 * np.abs(thetas).max()


def test_a_sure_float32_model_has_no_denormal_gradients() -> None:
    """Denormal products take four times as long, and are dropped.

    What is dropped is below 2^-126 of a gradient near 1.
    """
    config = TrainConfig(
        p=5, d_model=8, d_mlp=8, n_heads=1, d_head=4, train_share=1.0, attention_rate=1.0
    )
    start = start_of(config)
    state = start_state(config, start)
    engine = CpuEngine(
        config.model_config(),
        OptimiserState(state.theta * 12, state.first, state.second),
        start.train,
        start.validation,
    )
    engine.step_gradient()
    by_logits = np.abs(engine._train[0][0].gradient.numpy())
    assert (by_logits == 0).any()
    assert not ((by_logits > 0) & (by_logits < np.finfo(np.float32).tiny)).any()


def test_a_sure_model_keeps_its_gradient() -> None:
    """With logits far apart softmax rounds to 1; the tiny gradient must be right."""
    config = TrainConfig(
        p=5, d_model=8, d_mlp=8, n_heads=1, d_head=4, precision="float64", train_share=1.0
    )
    start = start_of(config)
    state = start_state(config, start)
    theta = state.theta * 12
    engine = CpuEngine(
        config.model_config(),
        OptimiserState(theta, state.first, state.second),
        start.train,
        start.validation,
    )
    engine.step_gradient()
    leaves = {
        name: torch.tensor(array, requires_grad=True)
        for name, array in Layout.of_run(config).params(theta[0]).tensors.items()
    }
    loss = full_model_loss(leaves, config, start.train)
    loss.backward()  # type: ignore[no-untyped-call]
    offset = Layout.of_run(config).offsets["W_in"]
    gradient = leaves["W_in"].grad
    assert gradient is not None
    np.testing.assert_allclose(
        engine.gradient[offset : offset + 64].reshape(8, 8), gradient.numpy(), rtol=1e-9
    )


def hooked_transformer(config: TrainConfig, seed: int | None = None) -> Any:
    transformer_lens = pytest.importorskip(
        "transformer_lens", reason="the extra 'peers' is not installed"
    )
    model = config.model_config()
    peer = transformer_lens.HookedTransformer(
        transformer_lens.HookedTransformerConfig(
            n_layers=1,
            d_model=model.d_model,
            n_ctx=model.n_ctx,
            d_head=model.d_head,
            n_heads=model.n_heads,
            d_mlp=model.d_mlp,
            d_vocab=model.d_vocab,
            d_vocab_out=model.d_vocab_out,
            act_fn="relu",
            normalization_type=None,
            seed=seed,
            init_weights=True,
        )
    )
    for name, parameter in peer.named_parameters():
        # Only the MLP's biases are trained; W_Q and W_K have no effect under constant attention.
        useless = name[-3:] in ("W_Q", "W_K") and config.attention_rate == 0
        parameter.requires_grad = not ("b_" in name and "mlp" not in name) and not useless
    return peer


def peer_tensor(peer: Any, name: str) -> torch.Tensor:
    room = {"W_E": "embed", "W_pos": "pos_embed", "W_U": "unembed", "b_U": "unembed"}
    module = room.get(name, "blocks.0.attn" if name[2:] in ("V", "O", "Q", "K") else "blocks.0.mlp")
    return peer.get_parameter(f"{module}.{name}")


@pytest.mark.parametrize("preset_equals", [False, True])
@pytest.mark.parametrize(("weight_decay", "rate"), [(1.0, 0.0), (0.01, 0.0), (1.0, 1.0)])
def test_fifty_steps_equal_transformer_lens(
    preset_equals: bool, weight_decay: float, rate: float
) -> None:
    config = TrainConfig(
        p=13, d_model=16, d_mlp=24, n_heads=2, d_head=8, equals=preset_equals,
        weight_decay=weight_decay, precision="float64", epochs=50, attention_rate=rate,
    )  # fmt: skip
    start, model = start_of(config), config.model_config()
    peer = hooked_transformer(config).to(torch.float64)
    with torch.no_grad():
        for name, array in start.params.tensors.items():
            peer_tensor(peer, name).copy_(torch.tensor(array))
    trained = [parameter for parameter in peer.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(
        trained, lr=config.lr, betas=(config.beta_1, config.beta_2), weight_decay=weight_decay
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda epoch: min(1.0, (epoch + 1) / config.warmup)
    )
    pairs = torch.tensor(start.train)
    tokens = (
        torch.cat([pairs, torch.full((len(pairs), 1), model.equals_token)], dim=1)
        if preset_equals
        else pairs
    )
    hooks = [
        (
            "blocks.0.attn.hook_pattern",
            lambda pattern, hook: torch.full_like(pattern, 1 / tokens.shape[1]),
        )
    ]
    state = start_state(config, start)
    if rate:
        hooks = []  # its own attention
    engine = CpuEngine(model, state, start.train, start.validation)
    for epoch in range(config.epochs):
        logits = peer.run_with_hooks(tokens, fwd_hooks=hooks)[:, -1].double()
        loss = torch.nn.functional.cross_entropy(logits, pairs.sum(dim=1) % config.p)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        (measures,) = engine.step(epoch, config, validate=False)
        assert measures.train.loss == pytest.approx(loss.item(), rel=1e-8)
    params = PairLayout.of(model).params(engine.state().theta[0])
    for name, array in params.tensors.items():
        difference = np.abs(array - peer_tensor(peer, name).detach().numpy()).max()
        assert difference <= 1e-8 * max(1e-3, np.abs(array).max()), name


@pytest.mark.parametrize(("seed", "rate"), [(0, 0.0), (123, 0.0), (123, 1.0)])
def test_gbmi_seeding_gives_the_weights_transformer_lens_draws(seed: int, rate: float) -> None:
    config = TrainConfig(
        p=13,
        d_model=16,
        d_mlp=24,
        n_heads=2,
        d_head=8,
        seed=seed,
        seeding="gbmi",
        attention_rate=rate,
    )
    peer = hooked_transformer(config, seed=gbmi_reseed(seed, "model"))
    for name, array in start_of(config).params.tensors.items():
        np.testing.assert_array_equal(array, peer_tensor(peer, name).detach().numpy(), err_msg=name)


def test_original_seeding_gives_the_weights_older_versions_of_transformer_lens_drew() -> None:
    """Before 1.13 W_O came after W_K and W_V."""
    config = TrainConfig(
        p=13, d_model=16, d_mlp=24, n_heads=2, d_head=8, seed=7, seeding="original"
    )
    peer = hooked_transformer(config, seed=0)
    drawn = dict(peer.named_parameters())
    torch.manual_seed(gbmi_reseed(7, "model"))
    for name in ("embed.W_E", "pos_embed.W_pos", *(f"blocks.0.attn.W_{x}" for x in "QKVO")):
        torch.nn.init.normal_(drawn[name], std=0.8 / 4)
    for name in ("blocks.0.mlp.W_in", "blocks.0.mlp.W_out", "unembed.W_U"):
        torch.nn.init.normal_(drawn[name], std=0.8 / 4)
    for name, array in start_of(config).params.tensors.items():
        np.testing.assert_array_equal(array, peer_tensor(peer, name).detach().numpy(), err_msg=name)


def test_zhongs_rule_divides_by_the_roots_of_zhongs_code() -> None:
    """Theirs: 1/√d_mlp for W_in, 1/√vocabulary for W_U, 1/√d_model for others.

    The draws are those of `gpt2`.
    """
    config = TrainConfig(
        p=13, d_model=16, d_mlp=24, n_heads=2, d_head=8, attention_rate=1.0, precision="float64"
    )
    usual = start_of(dataclasses.replace(config, initial_scale=1.0)).params.tensors
    theirs = start_of(
        dataclasses.replace(config, initial_scale=1.0, initial_rule="zhong")
    ).params.tensors
    for name, array in usual.items():
        width = {"W_in": 24, "W_U": 13}.get(name, 16)
        np.testing.assert_allclose(
            theirs[name], array * np.sqrt(16 / width), rtol=1e-14, err_msg=name
        )


@pytest.mark.parametrize("seeding", ["gbmi", "original"])
def test_gbmi_split_is_the_first_share_of_their_shuffle(seeding: Seeding) -> None:
    config = TrainConfig(p=7, d_model=4, d_mlp=4, n_heads=1, d_head=4, seeding=seeding, seed=5)
    pairs = np.array([(a, b) for a in range(7) for b in range(7)])
    np.random.default_rng(gbmi_reseed(5, "dataset_seed")).shuffle(pairs)
    start = start_of(config)
    assert {tuple(x) for x in start.train.tolist()} == {tuple(x) for x in pairs[:39].tolist()}
    assert {tuple(x) for x in start.validation.tolist()} == {tuple(x) for x in pairs[39:].tolist()}


@given(st.one_of(train_configs(), any_configs()))
def test_layout_round_trip(config: TrainConfig) -> None:
    layout, params = Layout.of_run(config), start_of(config).params
    for name, array in layout.params(layout.flatten(params)).tensors.items():
        np.testing.assert_array_equal(array, params.tensors[name], err_msg=name)


@given(train_configs())
def test_the_split_covers_every_pair_once(config: TrainConfig) -> None:
    start = start_of(config)
    both = np.concatenate([start.train, start.validation])
    assert len(start.train) == int(config.p**2 * config.train_share)
    assert sorted(map(tuple, both.tolist())) == [
        (a, b) for a in range(config.p) for b in range(config.p)
    ]
