"""Models of several layers: as written out, in files, and through every verb."""

import dataclasses
import math
import os
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

import quadlens
from cli_runner import quadlens as cli
from enclosed_truth import _plus, _rows, _times
from examples import examples
from quadlens.base.errors import BadConfig, BadFile, BadWeights, QuadlensError
from quadlens.base.numbers import significant
from quadlens.network.activation import NONLINEARITIES, Activation
from quadlens.network.config import Config, Softmax
from quadlens.network.evaluate import all_pairs, attention_ranges
from quadlens.network.forward import forward
from quadlens.network.native import load_file, save, to_bytes
from quadlens.network.task import task_from_table
from quadlens.network.weights import Weights
from quadlens.proofs.pairs.deep import ENCLOSURES, exponential, prove_deep
from quadlens.proofs.pairs.enclosed import Enclosed
from quadlens.proofs.pairs.produce import strategies
from quadlens.readers import Hints, SoftmaxAttention, import_file
from quadlens.readers.checkpoint import Checkpoint
from quadlens.readers.registry import READERS, recognise
from torch_zips import torch_zip

pytestmark = pytest.mark.slow


def random_deep(config: Config, seed: int = 0, dtype: type = np.float64) -> Weights:
    rng = np.random.default_rng(seed)
    shapes = config.shapes
    weights: dict[str, np.ndarray] = {
        name: (rng.standard_normal(shape) / 4).astype(dtype) for name, shape in shapes.items()
    }
    return Weights.with_zero_biases(config, **weights)


def config_of(
    layers: int = 2, positions: int = 2, softmax: Softmax | None = None, **changes: object
) -> Config:
    plain = Config(
        p=5, d_model=6, d_mlp=7, n_heads=2, d_head=3, d_vocab=11, d_vocab_out=6, n_ctx=3,
        attention=(0.3, 0.7, 0.2)[:positions], read_position=positions - 1, softmax=softmax,
        n_layers=layers,
    )  # fmt: skip
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def slow(model: Weights, a: int, b: int) -> tuple[list[float], list[float]]:
    """Pre-activations of the last MLP and logits of one input, sums written out."""
    c = model.config
    w = {name: array.tolist() for name, array in model.tensors.items()}
    tokens = [a, b + c.b_token_offset, c.equals_token][: len(c.attention)]
    x = [
        [w["W_E"][t][i] + w["W_pos"][q][i] for i in range(c.d_model)] for q, t in enumerate(tokens)
    ]

    def times(v: list[float], matrix: list[list[float]], bias: list[float]) -> list[float]:
        return [
            math.fsum(v[i] * matrix[i][j] for i in range(len(v))) + bias[j]
            for j in range(len(bias))
        ]

    pre: list[list[float]] = []
    for at in range(c.n_layers):
        layer = {
            name: w[f"{at}.{name}"]
            for name in ("W_V", "b_V", "W_O", "b_O", "W_in", "b_in", "W_out", "b_out")
        }
        after = [[v + layer["b_O"][i] for i, v in enumerate(row)] for row in x]
        for h in range(c.n_heads):
            values = [times(row, layer["W_V"][h], layer["b_V"][h]) for row in x]
            for q in range(len(x)):
                weights = list(c.attention)
                if c.softmax is not None:
                    query = times(x[q], w[f"{at}.W_Q"][h], w[f"{at}.b_Q"][h])
                    seen = range(q + 1) if c.softmax.causal else range(len(x))
                    keys = [times(x[t], w[f"{at}.W_K"][h], w[f"{at}.b_K"][h]) for t in seen]
                    powers = [
                        math.exp(
                            sum(map(math.prod, zip(query, k, strict=True))) / c.softmax.divisor
                        )
                        for k in keys
                    ]
                    for t in seen:
                        weights[t] += c.softmax.scale * powers[t] / sum(powers)
                brought = [
                    sum(wt * values[t][k] for t, wt in enumerate(weights)) for k in range(c.d_head)
                ]
                for i, add in enumerate(times(brought, layer["W_O"][h], [0.0] * c.d_model)):
                    after[q][i] += add
        pre = [times(row, layer["W_in"], layer["b_in"]) for row in after]
        hidden = [NONLINEARITIES[c.activation].apply(np.array(row)).tolist() for row in pre]
        written = [times(row, layer["W_out"], layer["b_out"]) for row in hidden]
        x = [
            [u + v for u, v in zip(*rows, strict=True)] for rows in zip(after, written, strict=True)
        ]
    return pre[c.read_position], times(x[c.read_position], w["W_U"], w["b_U"])[: c.p]


SOFTMAXES = [None, Softmax(1.0, 1.7), Softmax(0.4, 2.0, causal=False)]


@examples(25)
@given(
    st.integers(2, 4),
    st.integers(2, 3),
    st.sampled_from(SOFTMAXES),
    st.integers(0, 10**6),
    st.data(),
)
def test_the_transformer_written_out(
    layers: int, positions: int, softmax: Softmax | None, seed: int, data: st.DataObject
) -> None:
    changes: dict[str, object] = data.draw(
        st.sampled_from(
            [
                {},
                {"b_token_offset": 5},
                {"activation": "gelu"},
                {"activation": "abs", "read_position": 0},
            ]
        )
    )
    model = random_deep(config_of(layers, positions, softmax, **changes), seed)
    layer = model.collapse()
    assert layer.before is not None
    a, b = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 4))
    pre, logits = slow(model, a, b)
    scale = max(1.0, np.abs(logits).max(), np.abs(pre).max())
    for found, expected in (
        (layer.pre(a)[b], pre),
        (layer.logits(a)[b], logits),
        (layer.pair_logits(np.array([[a, b]]))[0], logits),
        (model.forward(np.array([[a, b]]))[0], logits),
        (
            layer.skip(a)[b] + NONLINEARITIES[layer.activation].apply(np.array(pre)) @ layer.W_L.T,
            logits,
        ),
    ):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * scale)


def test_attention_of_every_layer() -> None:
    model = random_deep(config_of(3, 3, Softmax(1.0, 2.0), attention=(0.0, 0.0, 0.0)))
    ranges = attention_ranges(model, model.collapse())
    assert [(one.layer, one.head, one.position) for one in ranges] == list(np.ndindex(3, 2, 3))
    assert all(0 <= one.low < one.high <= 1 for one in ranges)


@pytest.mark.parametrize("softmax", SOFTMAXES)
def test_files(tmp_path: Path, softmax: Softmax | None) -> None:
    model = random_deep(config_of(3, 2, softmax), dtype=np.float32)
    save(model, tmp_path / "m.safetensors")
    back = load_file(tmp_path / "m.safetensors")
    assert isinstance(back, Weights)
    assert to_bytes(back) == to_bytes(model)
    assert back.config == model.config
    assert set(model.config.names.values()) >= {
        "blocks.0.mlp.W_in",
        "blocks.2.attn.W_V",
        "embed.W_E",
    }
    for name, array in model.tensors.items():
        np.testing.assert_array_equal(back.tensors[name], array)
    imported = import_file(tmp_path / "m.safetensors")
    assert imported.format == "quadlens"


def test_values_check_themselves() -> None:
    model = random_deep(config_of(2))
    tensors = model.tensors
    with pytest.raises(BadConfig, match="n_layers = 5 is not supported; expected 1 … 4"):
        config_of(5)
    with pytest.raises(BadWeights, match=r"3 layers: missing weights 2\.W_O, 2\.W_V"):
        quadlens.Weights(config_of(3), **tensors)
    with pytest.raises(
        BadWeights, match=r"2 layers: missing weights 0\.W_O.*weights without use W_O, W_V"
    ):
        quadlens.Weights(
            config_of(2), **{n.removeprefix("0."): x for n, x in tensors.items() if n[0] != "1"}
        )
    with pytest.raises(BadWeights, match=r"missing weights 1\.W_in, weights without use none"):
        Weights.with_zero_biases(
            config_of(2), **{n: x for n, x in tensors.items() if n != "1.W_in"}
        )
    with pytest.raises(BadWeights, match=r"1.W_in has shape \(7, 7\), expected \(6, 7\)"):
        Weights.with_zero_biases(config_of(2), **{**tensors, "1.W_in": np.ones((7, 7))})
    with pytest.raises(BadWeights, match=r"missing weights 0\.W_K"):
        Weights.with_zero_biases(config_of(2, softmax=Softmax(1.0, 1.0)), **tensors)
    with pytest.raises(BadWeights, match="overflows: the weights are too large for float64"):
        quadlens.evaluate(
            Weights.with_zero_biases(config_of(2), **{n: x * 1e200 for n, x in tensors.items()})
        )


# --- other people's files
# ---------------------------------------------------------------------------------------------


def hooked(model: Weights) -> dict[str, np.ndarray]:
    """As TransformerLens 2 and 3 keep it."""
    return {long: model.tensors[short] for short, long in model.config.names.items()}


def columns(model: Weights) -> dict[str, np.ndarray]:
    """As Nanda et al. and Zhong et al. keep it, without the biases that they do not have."""
    t = hooked(model)
    turned = {
        "embed.W_E": t["embed.W_E"].T,
        "pos_embed.W_pos": t["pos_embed.W_pos"],
        "unembed.W_U": t["unembed.W_U"],
    }
    for i in range(model.config.n_layers):
        at = f"blocks.{i}."
        turned |= {f"{at}attn.W_{x}": t[f"{at}attn.W_{x}"].transpose(0, 2, 1) for x in "QKV"}
        turned |= {
            f"{at}attn.W_O": np.concatenate(list(t[f"{at}attn.W_O"])).T,
            f"{at}attn.mask": np.ones((2, 2)),
        }
        turned |= {f"{at}mlp.W_{x}": t[f"{at}mlp.W_{x}"].T for x in ("in", "out")}
        turned |= {f"{at}mlp.b_{x}": t[f"{at}mlp.b_{x}"] for x in ("in", "out")}
    return turned


def same_function(found: object, expected: Weights) -> None:
    assert isinstance(found, Weights)
    pairs = all_pairs(5)
    np.testing.assert_allclose(found.forward(pairs), expected.forward(pairs), rtol=0, atol=1e-12)


def without_biases(model: Weights) -> Weights:
    absent = ("b_V", "b_O", "b_Q", "b_K", "b_U")
    kept = {name: x for name, x in model.tensors.items() if name.rpartition(".")[2] not in absent}
    return Weights.with_zero_biases(model.config, **kept)


def read(tensors: dict[str, np.ndarray], hints: Hints) -> tuple[str, object]:
    checkpoint = Checkpoint("file.pt", tensors, {})
    reader = recognise(checkpoint, hints)
    return reader.name, reader.read(checkpoint, hints).model


def test_transformer_lens() -> None:
    config = config_of(2, 3, Softmax(1.0, math.sqrt(3)), attention=(0.0, 0.0, 0.0), d_vocab=6)
    model = random_deep(config)
    hints = Hints(SoftmaxAttention(3), p=5, activation="relu", sidecar={"n_layers": 2})
    name, found = read(hooked(model), hints)
    assert name == "transformer-lens"
    same_function(found, model)
    both_ways = dataclasses.replace(hints, sidecar={"attention_dir": "bidirectional"})
    other = dataclasses.replace(config, softmax=Softmax(1.0, math.sqrt(3), causal=False))
    same_function(read(hooked(model), both_ways)[1], model.replace(other))


def test_transformer_lens_4() -> None:
    model = random_deep(
        config_of(2, 3, Softmax(1.0, math.sqrt(3)), attention=(0.0, 0.0, 0.0), d_vocab=6)
    )
    t, raw = hooked(model), {}
    for i in range(2):
        at, to = f"blocks.{i}.", f"layers.{i}."
        for x in "QKV":
            raw[f"{to}attn.{x.lower()}.weight"] = np.concatenate(
                [head.T for head in t[f"{at}attn.W_{x}"]]
            )
            raw[f"{to}attn.{x.lower()}.bias"] = t[f"{at}attn.b_{x}"].reshape(-1)
        raw |= {
            f"{to}attn.o.weight": np.concatenate(list(t[f"{at}attn.W_O"])).T,
            f"{to}attn.o.bias": t[f"{at}attn.b_O"],
        }
        for x in ("in", "out"):
            raw |= {
                f"{to}mlp.fc_{x}.weight": t[f"{at}mlp.W_{x}"].T,
                f"{to}mlp.fc_{x}.bias": t[f"{at}mlp.b_{x}"],
            }
    raw |= {"tok_embed.weight": t["embed.W_E"], "pos.weight": t["pos_embed.W_pos"]}
    raw |= {"head.weight": t["unembed.W_U"].T, "head.bias": t["unembed.b_U"]}
    name, found = read(
        raw, Hints(SoftmaxAttention(3), p=5, activation="relu", sidecar={"n_heads": 2})
    )
    assert name == "transformer-lens-4-raw"
    same_function(found, model)


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_zhong(rate: float) -> None:
    softmax = Softmax(rate, math.sqrt(3), causal=False) if rate else None
    config = config_of(3, 2, softmax, attention=(1 - rate,) * 2, d_vocab=5, d_vocab_out=5, n_ctx=2)
    model = without_biases(random_deep(config))
    queries = (
        {}
        if softmax
        else {f"blocks.{i}.attn.W_{x}": np.ones((2, 6, 3)) for i in range(3) for x in "QK"}
    )
    tensors = columns(model) if softmax else columns_of_constant(model, queries)
    name, found = read(
        tensors, Hints(sidecar={"C": 5, "attn_coeff": rate, "act_fn": "ReLU", "n_layers": 3})
    )
    assert name == "zhong"
    same_function(found, model)


def columns_of_constant(model: Weights, queries: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """With queries and keys that play no part, as runs with constant attention have them."""
    looking = dataclasses.replace(model.config, softmax=Softmax(1.0, 1.0))
    extra = {f"{i}.W_{x}": np.ones((2, 6, 3)) for i in range(model.config.n_layers) for x in "QK"}
    return columns(Weights.with_zero_biases(looking, **{**model.tensors, **extra})) | {
        name: array.transpose(0, 2, 1) for name, array in queries.items()
    }


def test_nanda() -> None:
    config = config_of(2, 3, Softmax(1.0, math.sqrt(3)), attention=(0.0,) * 3, d_vocab=6)
    model = without_biases(random_deep(config))
    name, found = read(columns(model), Hints(SoftmaxAttention(), p=5, activation="relu"))
    assert name == "nanda"
    same_function(found, model)


@pytest.mark.parametrize("kind", ["B", "C"])
def test_zhongs_linear_models_with_two_hidden_layers(kind: str) -> None:
    rng = np.random.default_rng(0)
    shapes = {
        "embed.weight": (5, 3),
        "l1.weight": (4, 3),
        "l1.bias": (4,),
        "l2.weight": (4, 4),
        "l2.bias": (4,),
    }
    t = {
        name: rng.standard_normal(shape)
        for name, shape in (shapes | {"unembed.weight": (5, 4)}).items()
    }
    name, found = read(t, Hints(sidecar={"C": 5, "model_type": kind}))
    assert name == "zhong-linear"
    assert isinstance(found, Weights)
    a, b = all_pairs(5).T
    bias = t["l1.bias"] * (2 if kind == "C" else 1)
    first = np.maximum((t["embed.weight"][a] + t["embed.weight"][b]) @ t["l1.weight"].T + bias, 0)
    logits = np.maximum(first @ t["l2.weight"].T + t["l2.bias"], 0) @ t["unembed.weight"].T
    np.testing.assert_allclose(found.forward(all_pairs(5)), logits, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        found.collapse().pair_logits(all_pairs(5)), logits, rtol=0, atol=1e-12
    )
    with pytest.raises(
        BadConfig, match="model_type 'A' has two hidden layers; expected a config with B or C"
    ):
        read(t, Hints(sidecar={"C": 5, "model_type": "A"}))


SOFTMAX3 = Hints(SoftmaxAttention(3), p=5, activation="relu")
UNSAID_NORM = "the weights do not say the norm: it has "
NORMED, SHALLOW = (
    dataclasses.replace(SOFTMAX3, sidecar=x)
    for x in ({"normalization_type": "LN"}, {"n_layers": 1})
)


@pytest.mark.parametrize(
    ("change", "hints", "error", "message"),
    [
        ({"blocks.0.ln1.w": np.ones(6)}, SOFTMAX3, BadConfig, UNSAID_NORM + "0.ln1_w"),
        ({"ln_final.w": np.ones(6)}, SOFTMAX3, BadConfig, UNSAID_NORM + "ln_final_w"),
        ({}, NORMED, BadConfig, "give a config that has normalization_type .* and eps"),
        ({}, SHALLOW, BadConfig, "n_layers is 1 .*, but the weights have 2"),
        (
            {"blocks.1.mlp.W_in": None}, SOFTMAX3,
            BadFile, "missing tensors: blocks.1.mlp.W_in, no unknown tensors",
        ),
        (
            {"blocks.7.mlp.W_in": np.ones((6, 7))}, SOFTMAX3,
            BadConfig, "it has 8 layers; quadlens reads up to 4",
        ),
        (
            {}, Hints((0.5, 0.5), p=5, activation="relu"),
            BadConfig, "2 layers: constant weights on the positions",
        ),
    ],
)  # fmt: skip
def test_refusals(
    change: dict[str, np.ndarray | None], hints: Hints, error: type[QuadlensError], message: str
) -> None:
    model = random_deep(
        config_of(2, 3, Softmax(1.0, math.sqrt(3)), attention=(0.0,) * 3, d_vocab=6)
    )
    tensors = {name: x for name, x in (hooked(model) | change).items() if x is not None}
    with pytest.raises(error, match=message) as caught:
        READERS["transformer-lens"].read(Checkpoint("file.pt", tensors, {}), hints)
    assert "[" not in str(caught.value)


def test_chughtai_and_gbmi() -> None:
    model = random_deep(
        config_of(2, 3, Softmax(1.0, math.sqrt(3)), attention=(0.0,) * 3, d_vocab=6)
    )
    found = READERS["chughtai"].read(
        Checkpoint("file.pt", {**hooked(model), "x_embed": np.ones(1), "y_embed": np.ones(1)}, {}),
        Hints(sidecar={"model": "Transformer", "n_layers": 2}),
    )
    same_function(found.model, model)
    run = {"run_config": {"experiment": {"p": 5, "attention_rate": 1}}}
    with pytest.raises(
        BadConfig, match="several layers; of gbmi's files quadlens reads those with one"
    ):
        READERS["gbmi"].read(Checkpoint("file.pt", hooked(model), run), Hints())


# --- proofs ---


def balls(model: Weights, a: int, b: int) -> list[arb]:
    """The logits of one input as balls of 200 bits, from the formulas."""
    config, softmax, act = (
        model.config,
        model.config.softmax,
        NONLINEARITIES[model.config.activation].enclose,
    )
    tokens = [a, b + config.b_token_offset, config.equals_token][: len(config.attention)]
    x = [_plus(*_rows(model.W_E[[t]]), *_rows(model.W_pos[[i]])) for i, t in enumerate(tokens)]
    for layer in (SimpleNamespace(**block) for block in model.blocks):
        after = []
        for q, stream in enumerate(x):
            total = _plus(stream, *_rows(layer.b_O[None]))
            for h in range(config.n_heads):
                weights = [arb(alpha) for alpha in config.attention]
                if softmax is not None:
                    seen = q + 1 if softmax.causal else len(x)
                    query = _plus(_times(stream, _rows(layer.W_Q[h])), *_rows(layer.b_Q[h][None]))
                    keys = [
                        _plus(_times(one, _rows(layer.W_K[h])), *_rows(layer.b_K[h][None]))
                        for one in x[:seen]
                    ]
                    powers = [
                        (_times(query, [[k] for k in key])[0] / arb(softmax.divisor)).exp()
                        for key in keys
                    ]
                    for t, power in enumerate(powers):
                        weights[t] += arb(softmax.scale) * power / sum(powers, arb(0))
                for weight, one in zip(weights, x, strict=True):
                    value = _plus(_times(one, _rows(layer.W_V[h])), *_rows(layer.b_V[h][None]))
                    total = _plus(total, [weight * y for y in _times(value, _rows(layer.W_O[h]))])
            hidden = [
                act(y) for y in _plus(_times(total, _rows(layer.W_in)), *_rows(layer.b_in[None]))
            ]
            after.append(
                _plus(total, _times(hidden, _rows(layer.W_out)), *_rows(layer.b_out[None]))
            )
        x = after
    return _plus(_times(x[config.read_position], _rows(model.W_U)), *_rows(model.b_U[None]))[
        : config.p
    ]


@pytest.mark.parametrize("activation", ["relu", "gelu", "quartic"])
@pytest.mark.parametrize(
    "softmax", [None, Softmax(1.0, 1.4142135, causal=True), Softmax(0.7, 2.0, causal=False)]
)
def test_proofs_of_layers_never_claim_more_than_is_true(
    softmax: Softmax | None, activation: Activation
) -> None:
    """Enclosed logits hold the true ones; the proved margin is below the true margins.

    There is no tolerance.
    """
    for seed, layers, positions in ((0, 2, 2), (1, 3, 3)):
        model = random_deep(config_of(layers, positions, softmax, activation=activation), seed)
        p = model.config.p
        own = task_from_table(model.forward(all_pairs(p)).argmax(axis=1).reshape(p, p))
        model = model.asked(own)
        found, proof = forward(model, all_pairs(p), ENCLOSURES), prove_deep(model)
        assert proof.margin is None or proof.certified.any()
        with ctx.workprec(200):
            for row, (a, b) in enumerate(all_pairs(p).tolist()):
                logits, right = balls(model, a, b), int(own.answers[a, b])
                for c, ball in enumerate(logits):
                    assert abs(ball - arb(float(found.middle[row, c]))) <= arb(
                        float(found.radius[row, c])
                    )
                    if proof.certified[a, b] and c != right:
                        assert logits[right] - ball >= arb(float(proof.margin or 0))
        assert softmax is None or activation == "quartic" or proof.certified.any()


def test_the_enclosed_exponential() -> None:
    rng = np.random.default_rng(0)
    ends = [0.0, 690.0, -690.0, -690.5, 691.0, -1e300]
    x = np.concatenate([rng.uniform(-30, 30, 400), rng.uniform(-700, 700, 400), ends])
    radius = np.where(rng.random(len(x)) < 0.5, 0.0, 10.0 ** rng.uniform(-20, 0, len(x)))
    with np.errstate(all="ignore"):
        found = exponential(Enclosed(x, radius))
    assert np.isfinite(found.radius[np.abs(x) < 600]).all()
    with ctx.workprec(200):
        for at, r, middle, reach in zip(
            *(y.tolist() for y in (x, radius, found.middle, found.radius)), strict=True
        ):
            for end in (arb(at) - arb(r), arb(at) + arb(r)):
                assert math.isinf(reach) or abs(end.exp() - arb(middle)) <= arb(reach)


# --- through the verbs
# ------------------------------------------------------------------------------------------------


def test_verbs(tmp_path: Path) -> None:
    model = random_deep(config_of(2, 2, Softmax(0.5, 2.0)))
    path = quadlens.save(model, tmp_path / "m.safetensors")
    assert (
        repr(quadlens.load(path)) == "Weights(p=5, d_mlp=7, relu, mixture, 2 layers, weights=656)"
    )
    found = quadlens.explain(path)
    assert "7 neurons of the last of 2 layers answer a + b mod 5" in found.summary()
    assert found.to_dict()["n_layers"] == 2
    assert quadlens.lens(path).n == 5
    proof = quadlens.study(path).certify()
    assert (proof.proof.strategy, proof.checkable, proof.cost_share) == ("brute", True, 1.0)
    for verb in (
        quadlens.bounds,
        lambda m: quadlens.certify(m, "moments"),
        lambda m: quadlens.explore(m, tmp_path / "x.html"),
    ):
        with pytest.raises(BadConfig, match="2 layers"):
            verb(path)
    report = quadlens.report(path, tmp_path / "report")
    page = report.page.read_text()
    assert "the model has 2 layers, and the last reads what those before it compute" in page
    margin = f"at least {significant(proof.proof.margin, 'down', 4)}"
    for words in (proof.statement, margin, f"{proof.total_flops:,}"):
        assert words in re.sub("<[^>]*>", "", page)  # words of the glossary are links
    assert strategies(model.config) == ("brute",)
    for name in ("onnx", "transformer-lens"):
        with pytest.raises(QuadlensError, match="layer"):
            quadlens.export_file(path, name, tmp_path / "out.safetensors")


def test_a_checkpoint_on_disk(tmp_path: Path) -> None:
    config = config_of(
        2,
        2,
        Softmax(0.3, math.sqrt(3), causal=False),
        attention=(0.7, 0.7),
        d_vocab=5,
        d_vocab_out=5,
    )
    model = without_biases(random_deep(dataclasses.replace(config, n_ctx=2)))
    (tmp_path / "model_x.pt").write_bytes(torch_zip(columns(model)))
    (tmp_path / "config_x.json").write_text(
        '{"C": 5, "attn_coeff": 0.3, "act_fn": "ReLU", "n_layers": 2}'
    )
    imported = quadlens.import_file(tmp_path / "model_x.pt")
    assert "2 layers: the weights" in imported.notes
    assert any("computed in every layer" in note for note in imported.notes)
    same_function(imported.model, model)


@pytest.mark.parametrize(
    ("name", "right", "margin"),
    [("4asyr7ht1p", 3481, 12.314612244654953), ("p71frej8t7", 3481, 13.765084949807132)],
)
def test_public_checkpoints(name: str, right: int, margin: float) -> None:
    """Margins of a forward pass in PyTorch in float64, by their formulas.

    No code of ours takes part.
    """
    directory = os.environ.get("QUADLENS_PEERS")
    if not directory:
        pytest.skip("QUADLENS_PEERS names no directory of public checkpoints")
    found = quadlens.evaluate(quadlens.import_file(Path(directory) / "zhong" / f"model_{name}.pt"))
    assert found.correct == right
    assert found.min_margin == pytest.approx(margin, rel=1e-12)


@pytest.mark.parametrize("size", [1e30, 1e77, 1e120, 1e154])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_stream_that_overflows_is_an_outcome_in_words(
    activation: Activation, size: float, seed: int, tmp_path: Path
) -> None:
    config = config_of(
        softmax=Softmax(scale=1.0, divisor=1.7, causal=bool(seed % 2)), activation=activation
    )
    small = random_deep(config, seed)
    model = Weights.with_zero_biases(
        config, **{name: array * size for name, array in small.tensors.items()}
    )
    proof = prove_deep(model)
    assert not proof.certified.any()
    assert proof.reason is not None
    assert "beyond float64: scale the weights down" in proof.reason
    path = quadlens.save(model, tmp_path / "huge.safetensors")
    for words in (
        ("certify",),
        ("evaluate",),
        ("explain",),
        ("lens",),
        ("certify", "--all", "-o", tmp_path / "out"),
    ):
        done = cli(words[0], path, *words[1:])
        assert "internal error" not in done.err, done.err
