"""Norms, and MLPs of several hidden layers with biases.

They are held against PyTorch and TransformerLens, as tables and in files.
"""

import dataclasses
import pickle
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from balls import BALLS, drawn, precise
from quadlens.base.errors import BadConfig
from quadlens.network.architectures import config_from_dict
from quadlens.network.config import Config, Hidden, Softmax
from quadlens.network.dyadic import DYADICS
from quadlens.network.evaluate import all_pairs
from quadlens.network.forward import forward
from quadlens.network.native import from_bytes, to_bytes
from quadlens.network.norm import Norm, Norms
from quadlens.network.tables import FloatTables
from quadlens.network.weights import Weights
from quadlens.proofs.pairs.deep import ENCLOSURES
from quadlens.proofs.pairs.enclosed import Enclosed
from quadlens.proofs.pairs.euclidean import EUCLIDEAN, bound_singular

LAYER, RMS = Norm("layer", 1e-5), Norm("rms", 1e-3)
PLACES = (
    Norms(),
    Norms(attention=LAYER, mlp=RMS, final=LAYER),
    Norms(attention=RMS),
    Norms(mlp=LAYER),
    Norms(final=RMS),
    Norms(mlp=RMS, final=LAYER),
)
ALL = Norms(attention=LAYER, mlp=LAYER, final=LAYER)


def transformer(norms: Norms, layers: int = 1, softmax: bool = False, **changes: Any) -> Config:
    attention = Softmax(1.0, 2.0) if softmax else None
    plain = Config(
        5, 6, 7, 2, 3, 6, 6, 3, (0.3, 0.2, 0.1), 2, softmax=attention, n_layers=layers, norms=norms
    )
    return dataclasses.replace(plain, **changes)


def mlps() -> list[Config]:
    """One hidden layer with biases; several, with norms and with a linear one."""
    deep = (Hidden(4, None), Hidden(6, "gelu", LAYER), Hidden(3, "abs"))
    return [
        Config.mlp(5, 7, bias=True),
        Config.mlp(5, 7, norms=Norms(final=LAYER)),
        Config.mlp(5, 7, hidden=(Hidden(4),)),
        Config.mlp(5, 7, "silu", hidden=deep, norms=Norms(mlp=RMS, final=LAYER)),
    ]


def networks() -> list[Config]:
    return [transformer(*kind) for kind in product(PLACES, (1, 2), (False, True))] + mlps()


def torch_norm(norm: Norm | None, x: Any, w: dict[str, Any], name: str) -> Any:
    """PyTorch's own layers."""
    import torch

    if norm is None:
        return x
    d = x.shape[-1]
    make: Any = torch.nn.LayerNorm if norm.kind == "layer" else torch.nn.RMSNorm
    layer = make(d, eps=norm.eps, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(w[f"{name}_w"])
        if norm.kind == "layer":
            layer.bias.copy_(w[f"{name}_b"])
        return layer(x) + (0.0 if norm.kind == "layer" else w[f"{name}_b"])


def torch_mlp(model: Weights, pairs: np.ndarray) -> np.ndarray:
    """The MLP by PyTorch's linear layers, norms and activations, on one-hot pairs."""
    import torch
    from torch.nn.functional import gelu, linear, relu, silu

    config = model.config
    sigma = {None: lambda x: x, "relu": relu, "gelu": gelu, "silu": silu, "abs": torch.abs}
    w = {name: torch.tensor(np.array(x), dtype=torch.float64) for name, x in model.tensors.items()}
    one_hot = torch.eye(config.p, dtype=torch.float64)
    x = torch.cat([one_hot[pairs[:, 0]], one_hot[pairs[:, 1]]], dim=1)
    x = linear(x, torch.cat([w["W_a"], w["W_b"]]).T, w.get("b_in"))
    kinds = [*config.hidden, Hidden(config.d_mlp, config.activation, config.norms.mlp)]
    for number, layer in enumerate(kinds):
        if number:
            own = {
                name.removeprefix(f"{number}."): y
                for name, y in w.items()
                if name.startswith(f"{number}.")
            }
            x = linear(torch_norm(layer.norm, x, own, "ln2"), own["W_in"].T, own["b_in"])
        x = sigma[layer.activation](x)
    return linear(
        torch_norm(config.norms.final, x, w, "ln_final"), w["W_out"].T, w.get("b_out")
    ).numpy()


@pytest.mark.parametrize("config", mlps(), ids=str)
def test_an_mlp_is_what_pytorch_computes(config: Config) -> None:
    model = drawn(config, np.random.default_rng(0))
    pairs = all_pairs(5)
    np.testing.assert_allclose(model.forward(pairs), torch_mlp(model, pairs), rtol=0, atol=1e-12)


@pytest.mark.parametrize("norm", [LAYER, RMS])
def test_norms_are_pytorchs(norm: Norm) -> None:
    """One block whose attention and MLP write nothing.

    Logits are the final norm of the stream times W_U.
    """
    import torch

    model = drawn(transformer(Norms(final=norm)), np.random.default_rng(1))
    silent = model.replace(
        model.config,
        **{name: np.zeros_like(model.tensors[name]) for name in ("W_O", "b_O", "W_out", "b_out")},
    )
    stream = (silent.W_E[5] + silent.W_pos[2])[None]
    w = {name: torch.tensor(np.array(x)) for name, x in silent.tensors.items()}
    read = torch_norm(norm, torch.tensor(stream), w, "ln_final").numpy()
    expected = read @ silent.W_U[:, :5] + silent.b_U[:5]
    np.testing.assert_allclose(silent.forward(np.array([[0, 3]])), expected, rtol=0, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_transformer_lens_with_normalisation(seed: int) -> None:
    """Random shapes, LN and RMS, one layer and two.

    The logits are those of TransformerLens' own forward pass.
    """
    lens = pytest.importorskip("transformer_lens", reason="the extra 'peers' is not installed")
    import torch

    rng = np.random.default_rng(seed)
    p, heads, dh, layers, m = (int(x) for x in rng.integers((3, 1, 1, 1, 2), (8, 4, 5, 3, 12)))
    d, kind = heads * dh + int(rng.integers(0, 3)), "LN" if seed % 3 else "RMS"
    cfg = lens.HookedTransformerConfig(
        n_layers=layers, d_model=d, n_ctx=3, d_head=dh, n_heads=heads, d_mlp=m, d_vocab=p + 1,
        act_fn="relu", normalization_type=kind, seed=seed, device="cpu", dtype=torch.float64,
    )  # fmt: skip
    other = lens.HookedTransformer(cfg)
    norm = Norm("layer" if kind == "LN" else "rms", cfg.eps)
    config = Config(
        p, d, m, heads, dh, p + 1, p + 1, 3, (0.0, 0.0, 0.0), 2,
        softmax=Softmax(1.0, cfg.attn_scale), n_layers=layers, norms=Norms(norm, None, norm, norm),
    )  # fmt: skip
    model = drawn(config, rng)

    names = config.names
    state = {names[n]: torch.tensor(np.array(x)) for n, x in model.tensors.items()}
    if kind == "RMS":
        no_bias = {
            name: torch.zeros_like(x)
            for name, x in state.items()
            if ".ln" in f".{name}" and name.endswith(".b")
        }
        state |= no_bias
        model = model.replace(
            config, **{n: np.zeros_like(x) for n, x in model.tensors.items() if names[n] in no_bias}
        )
    known = other.state_dict()
    other.load_state_dict(known | {name: x for name, x in state.items() if name in known})
    pairs = all_pairs(p)
    tokens = torch.tensor(np.concatenate([pairs, np.full((len(pairs), 1), p)], axis=1))
    with torch.no_grad():
        expected = other(tokens)[:, -1, :p].numpy()
    np.testing.assert_allclose(model.forward(pairs), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("config", networks(), ids=str)
def test_tables_are_the_forward_pass(config: Config) -> None:
    model, pairs = drawn(config, np.random.default_rng(2)), all_pairs(config.p)
    logits, layer = model.forward(pairs), model.collapse()
    np.testing.assert_allclose(
        np.concatenate([layer.logits(a) for a in range(5)]), logits, rtol=0, atol=1e-12
    )
    np.testing.assert_allclose(layer.pair_logits(pairs), logits, rtol=0, atol=1e-12)
    there: FloatTables = pickle.loads(pickle.dumps(layer))  # as a report's processes get it
    np.testing.assert_array_equal(there.pair_logits(pairs), layer.pair_logits(pairs))


@pytest.mark.parametrize("softmax", [False, True])
def test_mean_gates_are_the_model_where_gates_are_constant(softmax: bool) -> None:
    """Streams of one size in every direction that matters.

    The model with mean gates is the model itself.
    """
    model = drawn(transformer(ALL, softmax=softmax), np.random.default_rng(3))
    same = {"W_E": np.broadcast_to(model.W_E[:1], model.W_E.shape), "W_pos": 0 * model.W_pos}
    model = model.replace(model.config, **same)
    layer = model.collapse()
    mean = layer.with_mean_gates()
    assert mean.is_additive
    assert not layer.is_additive
    assert np.ptp(layer.size_table, axis=(1, 2)).max() < 1e-12
    np.testing.assert_allclose(
        mean.logits(1), model.forward(all_pairs(5)).reshape(5, 5, 5)[1], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("config", networks(), ids=str)
def test_enclosures_contain_the_logits_and_200_bits(config: Config) -> None:
    model, pairs = (
        drawn(config, np.random.default_rng(4), dtype=np.float32),
        all_pairs(config.p)[::3],
    )
    found = forward(model, pairs, ENCLOSURES)
    with precise():
        truth = forward(model, pairs, BALLS)
        middle, radius = BALLS.of(found.middle), BALLS.of(found.radius)
        inside = [
            bool(abs(x - m) <= r)
            for x, m, r in zip(truth.flat, middle.flat, radius.flat, strict=True)
        ]
    assert all(inside)
    floats = model.forward(pairs)
    assert (np.abs(floats - found.middle) <= 1e-12 + found.radius).all()


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.1, 0.5, 3.0])
def test_errors_of_whole_rows_contain_200_bits(size: float) -> None:
    known = 0
    for config in networks():
        model, pairs = (
            drawn(config, np.random.default_rng(9), size, np.float32),
            all_pairs(config.p)[::6],
        )
        with np.errstate(all="ignore"):
            found = forward(model, pairs, EUCLIDEAN)
        with precise():
            truth = forward(model, pairs, BALLS)
            for row, middle, radius in zip(truth, found.middle, found.radius[:, 0], strict=True):
                if np.isfinite(radius):
                    off, most = row - BALLS.of(middle), BALLS.of(radius)[()]
                    assert bool((off * off).sum() <= most * most), config
                    known += 1
    assert known > 90


def test_largest_singular_values_are_bounded() -> None:
    rng = np.random.default_rng(10)
    for shape in ((1, 1), (5, 3), (3, 50), (64, 128)):
        W = rng.standard_normal(shape) * 10.0 ** rng.uniform(-8, 8)
        assert 1 <= bound_singular(W) / np.linalg.norm(W, 2) < 1.2
    # Of rank one the bound is nearly attained, and the truth is known: |x| |y|.
    x, y = rng.integers(-99, 99, (2, 30))
    bound = bound_singular(np.outer(x, y).astype(np.float64))
    assert Fraction(bound) ** 2 >= int(x @ x) * int(y @ y)
    assert bound_singular(np.zeros((3, 4))) >= 0


def test_inverse_roots_of_all_sizes() -> None:
    rng = np.random.default_rng(5)
    middle = np.ldexp(rng.uniform(0.5, 1, 2000), rng.integers(-900, 900, 2000))
    radius = middle * 2.0 ** -rng.integers(0, 60, 2000) * rng.uniform(0, 1, 2000)
    found = ENCLOSURES.inverse_root(Enclosed(middle, radius))
    with precise():
        for end in (-1, 0, 1):
            x = BALLS.of(middle) + end * BALLS.of(radius)
            known = np.isfinite(found.radius)
            off = [
                abs(y.rsqrt() - m)
                for y, m in zip(x[known], BALLS.of(found.middle[known]), strict=True)
            ]
            assert all(
                bool(o <= r) for o, r in zip(off, BALLS.of(found.radius[known]), strict=True)
            )
    assert known.sum() > 1900
    assert not ENCLOSURES.inverse_root(Enclosed(np.array([1.0]), np.array([1.0]))).finite


@pytest.mark.parametrize("config", networks(), ids=str)
def test_files_hold_every_network(config: Config) -> None:
    model = drawn(config, np.random.default_rng(6))
    content = to_bytes(model)
    again = from_bytes(content, Path("model"))
    assert again.config == config
    assert to_bytes(again) == content
    assert all((again.tensors[name] == x).all() for name, x in model.tensors.items())


def test_what_a_config_refuses() -> None:
    said = transformer(ALL).to_dict()
    said["norms"]["mlp"]["kind"] = "batch"
    with pytest.raises(BadConfig, match="a file: norms = "):
        config_from_dict(said, "a file")
    for eps in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(BadConfig, match="expected a finite number above 0"):
            Norm("layer", eps)
    with pytest.raises(BadConfig, match="reads tokens"):
        Config.mlp(5, 7, norms=Norms(mlp=LAYER))
    with pytest.raises(BadConfig, match=r"hidden\[0\]\.norm = None"):
        Config.mlp(5, 7, hidden=(Hidden(3, norm=LAYER),))
    with pytest.raises(BadConfig, match="query_key = None"):
        transformer(Norms(query_key=RMS))
    with pytest.raises(BadConfig, match=r"expected hidden = \(\)"):
        transformer(Norms(), hidden=(Hidden(3),))
    with pytest.raises(BadConfig, match="without biases; expected bias = True"):
        dataclasses.replace(Config.mlp(5, 7), hidden=(Hidden(3),))


@pytest.mark.parametrize("norms", [Norms(attention=LAYER), Norms(mlp=RMS), Norms(final=LAYER)])
def test_exact_arithmetic_refuses_a_norm(norms: Norms) -> None:
    model = drawn(transformer(norms), np.random.default_rng(7))
    with pytest.raises(BadConfig, match="neither is 1/√x"):
        forward(model, all_pairs(5), DYADICS)


def test_biases_left_out_are_zero() -> None:
    config = transformer(ALL, layers=2)
    full = drawn(config, np.random.default_rng(8))
    kept = {
        n: x
        for n, x in full.tensors.items()
        if not (n.rpartition(".")[2].startswith("b_") or n.endswith("_b"))
    }
    short = Weights.with_zero_biases(config, **kept)
    assert not any(short.tensors[name].any() for name in full.tensors if name not in kept)
