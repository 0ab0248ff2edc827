"""Readers against each project's own forward pass, written out here.

Writers against readers, bit for bit.
"""

import contextlib
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quadlens
from quadlens.base.errors import BadConfig, BadFile, BadWeights, QuadlensError
from quadlens.network import build_mlp, build_transformer
from quadlens.network.config import Config
from quadlens.network.evaluate import all_pairs, evaluate
from quadlens.network.handmade import Recipe
from quadlens.network.weights import Weights
from quadlens.readers import (
    READERS,
    Hints,
    SoftmaxAttention,
    export_file,
    from_state_dict,
    import_file,
    parse_attention,
)
from quadlens.readers.checkpoint import Checkpoint
from quadlens.readers.registry import recognise
from torch_zips import torch_zip

P, D, M, H, DH = 7, 6, 9, 2, 3
Tensors = dict[str, np.ndarray]


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


def double(tensors: Tensors) -> Tensors:
    return {name: array.astype(np.float64) for name, array in tensors.items()}


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def assert_same_logits(model: Weights, expected: np.ndarray) -> None:
    """Logits, not accuracy: a wrong attention constant often keeps the accuracy."""
    logits = model.forward(all_pairs(model.config.p))
    assert np.abs(logits - expected).max() <= 1e-12 * np.abs(expected).max()


def same_weights(x: Weights, y: Weights) -> bool:
    return x.config == y.config and all(
        x.tensors[n].dtype == a.dtype and np.array_equal(x.tensors[n], a)
        for n, a in y.tensors.items()
    )


def token_rows(equals: int | None = None, offset: int = 0) -> np.ndarray:
    pairs = all_pairs(P) + np.array([0, offset])
    return (
        pairs
        if equals is None
        else np.concatenate([pairs, np.full((len(pairs), 1), equals)], axis=1)
    )


# --- each project's layout and forward pass
# ---------------------------------------------------------------------------


def tl_state_dict(vocab: int = P + 1, out: int = P, n_ctx: int = 3) -> Tensors:
    block = "blocks.0."
    return {
        "embed.W_E": random(vocab, D),
        "pos_embed.W_pos": random(n_ctx, D),
        **{f"{block}attn.W_{x}": random(H, D, DH, seed=i) for i, x in enumerate("QKV")},
        **{f"{block}attn.b_{x}": random(H, DH, seed=i) for i, x in enumerate("QKV")},
        f"{block}attn.W_O": random(H, DH, D),
        f"{block}attn.b_O": random(D, seed=1),
        f"{block}attn.mask": np.tril(np.ones((n_ctx, n_ctx), dtype=bool)),
        f"{block}attn.IGNORE": np.array(-np.inf, dtype=np.float32),
        f"{block}mlp.W_in": random(D, M),
        f"{block}mlp.b_in": random(M),
        f"{block}mlp.W_out": random(M, D),
        f"{block}mlp.b_out": random(D, seed=2),
        "unembed.W_U": random(D, out),
        "unembed.b_U": random(out),
    }


def tl_middle(
    tensors: Tensors, tokens: np.ndarray, attention: tuple[float, ...] | None
) -> np.ndarray:
    """HookedTransformer's residual stream after attention, with `attention` as its pattern.

    None leaves its own.
    """
    t = double(
        {
            k.removeprefix("blocks.0."): v
            for k, v in tensors.items()
            if "mask" not in k and "IGNORE" not in k
        }
    )
    x = t["embed.W_E"][tokens] + t["pos_embed.W_pos"][: tokens.shape[1]]
    q, k, v = (
        np.einsum("bsd,hdk->bhsk", x, t[f"attn.W_{n}"]) + t[f"attn.b_{n}"][:, None] for n in "QKV"
    )
    pattern = softmax(np.einsum("bhk,bhsk->bhs", q[:, :, -1], k) / np.sqrt(DH))
    pattern = pattern if attention is None else np.broadcast_to(np.array(attention), pattern.shape)
    z = np.einsum("bhs,bhsk->bhk", pattern, v)
    return x[:, -1] + np.einsum("bhk,hkd->bd", z, t["attn.W_O"]) + t["attn.b_O"]


def tl_end(tensors: Tensors, middle: np.ndarray) -> np.ndarray:
    """HookedTransformer after attention."""
    t = double(
        {
            k.removeprefix("blocks.0."): v
            for k, v in tensors.items()
            if "mask" not in k and "IGNORE" not in k
        }
    )
    final = middle + relu(middle @ t["mlp.W_in"] + t["mlp.b_in"]) @ t["mlp.W_out"] + t["mlp.b_out"]
    return (final @ t["unembed.W_U"] + t["unembed.b_U"])[:, :P]


def tl_logits(
    tensors: Tensors, tokens: np.ndarray, attention: tuple[float, ...] | None
) -> np.ndarray:
    """HookedTransformer with `attention` as the pattern of the last position.

    None leaves its own softmax.
    """
    return tl_end(tensors, tl_middle(tensors, tokens, attention))


def tl_patterns(tensors: Tensors, tokens: np.ndarray) -> np.ndarray:
    """HookedTransformer's attention at the last position."""
    t = double({k.removeprefix("blocks.0."): v for k, v in tensors.items() if "mask" not in k})
    x = t["embed.W_E"][tokens] + t["pos_embed.W_pos"][: tokens.shape[1]]
    q, k = (
        np.einsum("bsd,hdk->bhsk", x, t[f"attn.W_{n}"]) + t[f"attn.b_{n}"][:, None] for n in "QK"
    )
    return softmax(np.einsum("bhk,bhsk->bhs", q[:, :, -1], k) / np.sqrt(DH))


def nanda_state_dict(vocab: int, n_ctx: int) -> Tensors:
    block = "blocks.0."
    return {
        "embed.W_E": random(D, vocab),
        "pos_embed.W_pos": random(n_ctx, D),
        "unembed.W_U": random(D, vocab, seed=4),
        **{f"{block}attn.W_{x}": random(H, DH, D, seed=i) for i, x in enumerate("KQV")},
        f"{block}attn.W_O": random(D, H * DH),
        f"{block}attn.mask": np.tril(np.ones((n_ctx, n_ctx), dtype=np.float32)),
        f"{block}mlp.W_in": random(M, D),
        f"{block}mlp.b_in": random(M),
        f"{block}mlp.W_out": random(D, M),
        f"{block}mlp.b_out": random(D, seed=2),
    }


def nanda_logits(tensors: Tensors, tokens: np.ndarray, coeff: float = 1.0) -> np.ndarray:
    """Nanda's transformer, with Zhong's `softmax·coeff + (1 - coeff)`.

    Heads concatenated before W_O.
    """
    t = double({k.removeprefix("blocks.0."): v for k, v in tensors.items()})
    x = t["embed.W_E"][:, tokens].transpose(1, 2, 0) + t["pos_embed.W_pos"][: tokens.shape[1]]
    k, q, v = (np.einsum("hkd,bsd->bhsk", t[f"attn.W_{n}"], x) for n in "KQV")
    scores = np.einsum("bhk,bhsk->bhs", q[:, :, -1], k) / np.sqrt(DH)
    z = np.einsum("bhs,bhsk->bhk", softmax(scores) * coeff + (1 - coeff), v).reshape(
        len(tokens), H * DH
    )
    middle = x[:, -1] + z @ t["attn.W_O"].T
    final = (
        middle + relu(middle @ t["mlp.W_in"].T + t["mlp.b_in"]) @ t["mlp.W_out"].T + t["mlp.b_out"]
    )
    return (final @ t["unembed.W_U"])[:, :P]


def linear_state_dict(layout: str) -> Tensors:
    attn, mlp, tail = {
        "raw": (
            "layers.0.attn.",
            ("layers.0.mlp.fc_in", "layers.0.mlp.fc_out"),
            ("tok_embed", "pos", "head"),
        ),
        "bridge": (
            "blocks.0.attn.",
            ("blocks.0.mlp.in", "blocks.0.mlp.out"),
            ("embed", "pos_embed", "unembed"),
        ),
    }[layout]
    tensors = {f"{attn}{x}.weight": random(H * DH, D, seed=i) for i, x in enumerate("qkv")}
    tensors |= {f"{attn}{x}.bias": random(H * DH, seed=i) for i, x in enumerate("qkv")}
    tensors |= {f"{attn}o.weight": random(D, H * DH), f"{attn}o.bias": random(D, seed=5)}
    tensors |= {f"{mlp[0]}.weight": random(M, D), f"{mlp[0]}.bias": random(M)}
    tensors |= {f"{mlp[1]}.weight": random(D, M), f"{mlp[1]}.bias": random(D, seed=6)}
    tensors |= {
        f"{tail[0]}.weight": random(P + 1, D),
        f"{tail[1]}.weight": random(3, D),
        f"{tail[2]}.weight": random(P, D),
    }
    return tensors if layout == "raw" else tensors | {"unembed.bias": random(P)}


def linear_logits(tensors: Tensors, tokens: np.ndarray, attention: tuple[float, ...]) -> np.ndarray:
    """nn.Linear everywhere: y = x Wᵀ + b."""
    rename = {
        "tok_embed": "embed",
        "pos": "pos_embed",
        "head": "unembed",
        "fc_in": "in",
        "fc_out": "out",
    }
    t = {}
    for name, array in double(tensors).items():
        parts = [
            rename.get(part, part)
            for part in name.removeprefix("layers.0.").removeprefix("blocks.0.").split(".")
        ]
        t[".".join(parts)] = array
    x = t["embed.weight"][tokens] + t["pos_embed.weight"][: tokens.shape[1]]
    v = x @ t["attn.v.weight"].T + t["attn.v.bias"]
    z = np.einsum("s,bsk->bk", np.array(attention), v)
    middle = x[:, -1] + z @ t["attn.o.weight"].T + t["attn.o.bias"]
    final = (
        middle
        + relu(middle @ t["mlp.in.weight"].T + t["mlp.in.bias"]) @ t["mlp.out.weight"].T
        + t["mlp.out.bias"]
    )
    return final @ t["unembed.weight"].T + t.get("unembed.bias", np.zeros(P))


def write(path: Path, tensors: dict[str, Any], container: str) -> Path:
    """As a torch zip or as safetensors."""
    if container == "torch":
        path = path.with_suffix(".pt")
        path.write_bytes(torch_zip(tensors))
        return path
    from safetensors.numpy import save_file

    path = path.with_suffix(".safetensors")
    save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, path)
    return path


containers = pytest.mark.parametrize("container", ["torch", "safetensors"])


def blind(tensors: Tensors) -> Tensors:
    """The same with queries and keys of zero, so that attention looks at nothing."""
    looks = re.compile(r"attn\.(W_Q|W_K|b_Q|b_K|[qk]\.weight|[qk]\.bias)$")
    return {
        name: np.zeros_like(array) if looks.search(name) else array
        for name, array in tensors.items()
    }


# --- import
# --------------------------------------------------------------------------------------------------


@containers
@pytest.mark.parametrize("attention", [(0.5, 0.5), (0.2, -0.7), (1 / 3, 1 / 3, 1 / 3)])
def test_transformer_lens(tmp_path: Path, container: str, attention: tuple[float, ...]) -> None:
    tensors = blind(tl_state_dict())
    hints = Hints(attention, activation="relu")
    imported = import_file(write(tmp_path / "m", tensors, container), hints=hints)
    assert imported.format == "transformer-lens"
    tokens = token_rows(P if len(attention) == 3 else None)
    assert_same_logits(imported.model, tl_logits(tensors, tokens, attention))


@pytest.mark.parametrize("attention", [(0.5, 0.5), (1 / 3, 1 / 3, 1 / 3)])
def test_a_constant_in_place_of_attention_that_looks_is_refused(
    tmp_path: Path, attention: tuple[float, ...]
) -> None:
    """It would be another model; the message says how far its attention is from the constant."""
    tensors = tl_state_dict()
    path = write(tmp_path / "m", tensors, "torch")
    with pytest.raises(
        BadConfig, match="by the setting attention, but by the checkpoint's own W_Q and W_K head"
    ) as caught:
        import_file(path, hints=Hints(attention, activation="relu"))
    gap = np.abs(
        tl_patterns(tensors, token_rows(P if len(attention) == 3 else None)) - np.array(attention)
    ).max()
    assert f"a difference of {gap:.3g}. " in str(caught.value)
    assert caught.value.settings == ("attention", "config")
    with pytest.raises(
        BadConfig, match="by the config, but by the checkpoint's own W_Q and W_K head"
    ):
        from_state_dict(tensors, config={"attention": list(attention)}, activation="relu")
    # What the message advises for a run that was trained with the constant.
    alone = {
        name: array
        for name, array in tensors.items()
        if not name.endswith(("W_Q", "W_K", "b_Q", "b_K"))
    }
    assert (
        from_state_dict(alone, attention=attention, activation="relu").model.config.attention
        == attention
    )


def test_attention_of_a_wrong_length_or_of_an_mlp_is_refused() -> None:
    with pytest.raises(BadConfig, match="attention has 1 weights"):
        from_state_dict(blind(tl_state_dict()), attention=(0.5,), activation="relu")
    with pytest.raises(BadConfig, match="an MLP has no attention"):
        from_state_dict(
            {"fc1.weight": random(M, 2 * P), "fc2.weight": random(P, M)},
            attention=(0.5, 0.5),
            activation="relu",
        )


@pytest.mark.parametrize(
    "tensors", [blind(tl_state_dict()), nanda_state_dict(P, 2), nanda_state_dict(P + 1, 3)]
)
def test_a_state_dict_alone_does_not_say_its_activation(tmp_path: Path, tensors: Tensors) -> None:
    hints = Hints((0.5,) * len(tensors["pos_embed.W_pos"]))
    with pytest.raises(
        BadConfig, match=r"the weights do not say the activation: give activation=NAME \(relu, abs"
    ):
        import_file(write(tmp_path / "m", tensors, "torch"), hints=hints)


def test_a_wrong_attention_constant_changes_every_margin(tmp_path: Path) -> None:
    """Why it is never guessed: a pizza model answers just as right with the wrong one."""
    model = build_transformer(Recipe(13, (2, 5), 80))
    export_file(model, "transformer-lens", tmp_path / "model_x.safetensors")
    (tmp_path / "config_x.json").unlink()
    right, wrong = (
        evaluate(
            import_file(
                tmp_path / "model_x.safetensors", hints=Hints((w, w), 13, "relu")
            ).model.collapse()
        )
        for w in (0.5, 1.0)
    )
    assert right.accuracy == wrong.accuracy == 1.0
    assert wrong.min_margin > 1.9 * right.min_margin


@containers
@pytest.mark.parametrize("layout", ["raw", "bridge"])
@pytest.mark.parametrize("n_heads", [None, H])
def test_transformer_lens_4(
    tmp_path: Path, container: str, layout: str, n_heads: int | None
) -> None:
    tensors = blind(linear_state_dict(layout))
    hints = Hints(
        (0.5, 0.5), activation="relu", sidecar=None if n_heads is None else {"n_heads": n_heads}
    )
    imported = import_file(write(tmp_path / "m", tensors, container), hints=hints)
    assert imported.format == f"transformer-lens-4-{layout}"
    assert isinstance(imported.model, Weights)
    assert imported.model.config.n_heads == (n_heads or 1)
    assert_same_logits(imported.model, linear_logits(tensors, token_rows(), (0.5, 0.5)))


class HookedTransformerConfig:
    """Stands for the class that gbmi's files name and nobody has any more."""

    def __init__(self) -> None:
        self.d_model, self.act_fn = D, "relu"


@pytest.mark.parametrize("equals", [False, True])
def test_gbmi(tmp_path: Path, equals: bool) -> None:
    torch = pytest.importorskip("torch")
    tensors = tl_state_dict()
    experiment = {
        "p": P,
        "attention_rate": 1,
        "use_end_of_sequence": equals,
        "act_fn": "relu",
        "fn_name": "add",
    }
    value = {
        "model": {name: torch.from_numpy(array) for name, array in tensors.items()},
        "model_config": HookedTransformerConfig(),
        "run_config": {"seed": 0, "experiment": experiment},
        "train_metrics": [{"loss": torch.tensor(0.5), "acc": np.float64(1.0)}],
        "wandb_id": None,
    }
    path = tmp_path / "gbmi.pth"
    torch.save(value, path)
    with pytest.raises(Exception, match=r"[Ww]eights.only"):
        torch.load(path, weights_only=True)
    imported = import_file(path)
    attention = (1 / 3,) * 3 if equals else (0.5, 0.5)
    assert imported.format == "gbmi"
    assert_same_logits(
        imported.model, tl_logits(tensors, token_rows(P if equals else None), attention)
    )


@containers
@pytest.mark.parametrize("diff_vocab", [0, 1])
@pytest.mark.parametrize("eqn_sign", [0, 1])
def test_zhong(tmp_path: Path, container: str, diff_vocab: int, eqn_sign: int) -> None:
    vocab = P * (1 + diff_vocab) + eqn_sign
    tensors = nanda_state_dict(vocab, 2 + eqn_sign)
    path = write(tmp_path / "model_abc", tensors, container)
    config = {
        "C": P,
        "n_layers": 1,
        "n_heads": H,
        "d_model": D,
        "act_fn": "ReLU",
        "attn_coeff": 0.0,
        "frac": 0.8,
    }
    config |= {"diff_vocab": diff_vocab, "eqn_sign": eqn_sign, "funcs": "lambda x: (x[0]+x[1])%7"}
    (tmp_path / "config_abc.json").write_text(json.dumps(config))
    imported = import_file(path)
    assert imported.format == "zhong"
    assert isinstance(imported.model, Weights)
    assert imported.model.config.attention == (1.0,) * (2 + eqn_sign)
    tokens = token_rows(vocab - 1 if eqn_sign else None, P * diff_vocab)
    assert_same_logits(imported.model, nanda_logits(tensors, tokens, coeff=0.0))


def test_zhong_without_a_config(tmp_path: Path) -> None:
    path = write(tmp_path / "m", nanda_state_dict(P, 2), "torch")
    with pytest.raises(
        BadConfig,
        match=r"do not say the attention: it is not in the weights.*give it with attention=…",
    ):
        import_file(path, hints=Hints(activation="relu"))
    with pytest.raises(
        BadConfig, match=r"by the checkpoint's own W_Q and W_K .* a config that says so, attn_coeff"
    ):
        import_file(path, hints=Hints((1.0, 1.0), activation="relu"))
    imported = from_state_dict(
        nanda_state_dict(P, 2), config={"attn_coeff": 0}, p=P, activation="relu"
    )
    assert imported.format == "zhong"
    assert_same_logits(
        imported.model, nanda_logits(nanda_state_dict(P, 2), token_rows(), coeff=0.0)
    )


@pytest.mark.parametrize(
    ("container", "wrapped"), [("torch", False), ("torch", True), ("safetensors", False)]
)
def test_nanda_with_uniform_attention(tmp_path: Path, container: str, wrapped: bool) -> None:
    tensors = nanda_state_dict(P + 1, 3)
    tensors["blocks.0.attn.W_Q"] *= 0
    value: dict[str, Any] = (
        {"model": tensors, "epoch": 7, "train_loss": 0.1} if wrapped else tensors
    )
    imported = import_file(
        write(tmp_path / "m", value, container), hints=Hints(SoftmaxAttention(), activation="relu")
    )
    assert imported.format == "nanda"
    assert_same_logits(imported.model, nanda_logits(tensors, token_rows(P)))


def test_constant_attention_that_is_not_uniform(tmp_path: Path) -> None:
    """Queries see only '=', keys see only the position.

    Every input gets the same, unequal weights.
    """
    tensors = nanda_state_dict(P + 1, 3)
    tensors["embed.W_E"][:3] = 0
    tensors["pos_embed.W_pos"][:, 3:] = 0
    for name in "KQ":
        tensors[f"blocks.0.attn.W_{name}"][:, :, 3:] = 0
    tensors["blocks.0.attn.W_K"][1], tensors["blocks.0.attn.W_Q"][1] = (
        tensors["blocks.0.attn.W_K"][0],
        tensors["blocks.0.attn.W_Q"][0],
    )
    imported = import_file(
        write(tmp_path / "m", tensors, "torch"), hints=Hints(SoftmaxAttention(), activation="relu")
    )
    assert isinstance(imported.model, Weights)
    assert len(set(imported.model.config.attention)) == 3
    assert_same_logits(imported.model, nanda_logits(tensors, token_rows(P)))


@containers
@pytest.mark.parametrize("activation", ["relu", "square"])
@pytest.mark.parametrize("basis", [False, True])
def test_he(tmp_path: Path, container: str, activation: str, basis: bool) -> None:
    tensors = {"mlp.W_in": random(M, P), "mlp.W_out": random(P, M)} | (
        {"mlp.basis": random(P, P)} if basis else {}
    )
    imported = import_file(
        write(tmp_path / "m", tensors, container), hints=Hints(activation=activation)
    )
    assert imported.format == "he"
    t, one_hot = double(tensors), np.eye(P)[all_pairs(P)].sum(axis=1)
    pre = one_hot @ t["mlp.W_in"].T
    assert_same_logits(
        imported.model, (relu(pre) if activation == "relu" else pre**2) @ t["mlp.W_out"].T
    )


def test_he_needs_its_activation(tmp_path: Path) -> None:
    path = write(
        tmp_path / "model_1", {"mlp.W_in": random(M, P), "mlp.W_out": random(P, M)}, "torch"
    )
    with pytest.raises(
        BadConfig, match="the weights do not say the activation: give activation=NAME"
    ):
        import_file(path)
    (tmp_path / "config_1.json").write_text('{"act_type": "Quad"}')
    assert import_file(path).model.config.activation == "square"


@containers
@pytest.mark.parametrize("activation", ["relu", "square"])
def test_two_layer_mlp(tmp_path: Path, container: str, activation: str) -> None:
    tensors = {"fc1.weight": random(M, 2 * P), "fc2.weight": random(P, M)}
    path = write(tmp_path / "m", tensors, container)
    imported = import_file(path, hints=Hints(activation=activation))
    assert imported.format == "mlp"
    t, one_hot = double(tensors), np.eye(P)[all_pairs(P)].reshape(-1, 2 * P)
    pre = one_hot @ t["fc1.weight"].T
    logits = (relu(pre) if activation == "relu" else pre**2) @ t["fc2.weight"].T
    assert_same_logits(imported.model, logits)
    right = int((logits.argmax(axis=1) == all_pairs(P).sum(axis=1) % P).sum())
    assert (imported.correct, imported.pairs) == (right, P * P)
    assert imported.notes[-1] == f"{right} of {P * P} inputs are answered right"
    assert f"activation {activation}: the setting activation" in imported.notes


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@containers
def test_other_precisions_are_read_exactly(tmp_path: Path, dtype: str, container: str) -> None:
    torch = pytest.importorskip("torch")
    wide = {"fc1.weight": torch.randn(M, 2 * P), "fc2.weight": torch.randn(P, M)}
    narrow = {name: tensor.to(getattr(torch, dtype)) for name, tensor in wide.items()}
    if container == "torch":
        torch.save(narrow, path := tmp_path / "m.pt")
    else:
        pytest.importorskip("safetensors.torch").save_file(
            narrow, path := tmp_path / "m.safetensors"
        )
    model = import_file(path, hints=Hints(activation="relu")).model
    expected = narrow["fc2.weight"].double().numpy().T
    np.testing.assert_array_equal(model.tensors["W_out"].astype(np.float64), expected)


# --- export and back
# --------------------------------------------------------------------------------------------------


def shaped(**changes: Any) -> Weights:
    """Random weights in the shape a format keeps whole."""
    config = dataclasses.replace(
        Config(
            P, D, M, H, DH, d_vocab=P, d_vocab_out=P, n_ctx=2, attention=(0.5, 0.5), read_position=1
        ),
        **changes,
    )
    tensors = {n: random(*s, seed=i) for i, (n, s) in enumerate(config.shapes.items())}
    return Weights(config=config, **tensors)


def without(model: Weights, *names: str) -> Weights:
    return model.replace(**{name: np.zeros_like(getattr(model, name)) for name in names})


EQUALS: dict[str, Any] = {"d_vocab": P + 1, "n_ctx": 3, "read_position": 2}
MLP = build_mlp(Recipe(P, (1, 2), M, noise=0.1))
ROUND_TRIPS: list[tuple[str, Weights]] = [
    ("transformer-lens", shaped()),
    ("transformer-lens", shaped(**EQUALS, attention=(1 / 3,) * 3)),
    ("transformer-lens", shaped(d_vocab=P + 3, d_vocab_out=P + 2, n_ctx=5)),
    ("transformer-lens", shaped(d_vocab=2 * P, b_token_offset=P)),
    ("quadlens", shaped(attention=(0.3, -2.0), read_position=0, activation="abs")),
    ("quadlens", MLP),
]


@pytest.mark.parametrize(
    ("name", "model"), ROUND_TRIPS, ids=[f"{i}-{n}" for i, (n, _) in enumerate(ROUND_TRIPS)]
)
def test_round_trips_bit_for_bit(tmp_path: Path, name: str, model: Weights) -> None:
    path = tmp_path / "model_1.safetensors"
    files, _ = export_file(model, name, path)
    assert sorted(files) == sorted(tmp_path.iterdir())
    imported = import_file(path)
    assert imported.format == name
    assert same_weights(imported.model, model)
    export_file(imported.model, name, tmp_path / "model_2.safetensors")
    assert path.read_bytes() == (tmp_path / "model_2.safetensors").read_bytes()


@pytest.mark.parametrize("alpha", [0.25, 1.0, 1 / 3])
def test_exports_of_other_uniform_attention_keep_the_logits(tmp_path: Path, alpha: float) -> None:
    """W_V takes up the difference; rounding it is the only change."""
    model = without(shaped(**EQUALS, attention=(alpha,) * 3), "b_V", "b_O", "b_U")
    _, notes = export_file(model, "transformer-lens", tmp_path / "model_1.safetensors")
    back = import_file(tmp_path / "model_1.safetensors").model
    logits, expected = back.forward(all_pairs(P)), model.forward(all_pairs(P))
    assert np.abs(logits - expected).max() <= 1e-6 * np.abs(expected).max()
    assert (notes == ()) == (alpha == 1 / 3)


@pytest.mark.parametrize(
    ("name", "model", "message"),
    [
        ("transformer-lens", shaped(attention=(0.3, 0.7)), "attention 0.3, 0.7 is not uniform"),
        (
            "transformer-lens",
            shaped(read_position=0),
            "the model reads position 0; transformer-lens reads the last one, 1",
        ),
        (
            "transformer-lens",
            shaped(activation="abs"),
            "activation 'abs' has no name in transformer-lens",
        ),
        ("transformer-lens", MLP, "transformer-lens holds transformers; this model is an MLP"),
        *(
            (name, MLP, f"format '{name}' is read, not written")
            for name in (
                "gbmi",
                "zhong",
                "nanda",
                "he",
                "mlp",
                "transformer-lens-4-raw",
                "transformer-lens-4-bridge",
            )
        ),
        (
            "word",
            MLP,
            "format 'word' is not known; expected one of quadlens, transformer-lens, onnx",
        ),
    ],
)
def test_what_a_format_cannot_express_is_refused(
    tmp_path: Path, name: str, model: Weights, message: str
) -> None:
    with pytest.raises(BadConfig, match=message.replace("(", r"\(")):
        export_file(model, name, tmp_path / "model_1.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("model_1.pt", "PyTorch"),
        ("model_1.PTH", "PyTorch"),
        ("model_1.ckpt", "PyTorch"),
        ("model_1.npz", "NumPy"),
    ],
)
def test_no_file_of_torch_or_numpy_is_written(tmp_path: Path, name: str, program: str) -> None:
    told = (
        f"the name of a file that {program} writes, and quadlens writes none; give a name that "
        "ends in .safetensors"
    )
    for format_name in ("transformer-lens", "onnx", "quadlens"):
        with pytest.raises(BadConfig, match=told):
            export_file(shaped(), format_name, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_no_export_replaces_the_file_it_was_given(tmp_path: Path) -> None:
    """In Python as on the command line, by path, by a link, and by a study of it."""
    path, link = quadlens.save(shaped(), tmp_path / "m.safetensors"), tmp_path / "link.safetensors"
    link.symlink_to(path)
    before = path.read_bytes()
    for model in (path, str(path), quadlens.study(path)):
        for output in (path, str(path), link):
            with pytest.raises(
                BadFile, match=r"cannot write .*: it is .*, an input, which would be lost"
            ):
                quadlens.export_file(model, "transformer-lens", output)
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [link, path]
    assert quadlens.export_file(path, "transformer-lens", tmp_path / "other.safetensors")


# --- refusals while importing
# -----------------------------------------------------------------------------------------


@given(st.sampled_from([2, 3]), st.integers(0, 99))
def test_softmax_attention_equals_the_slow_pattern(positions: int, seed: int) -> None:
    """Queries and keys that see nothing but biases.

    Constant, not uniform over heads unless the biases agree.
    """
    tensors = tl_state_dict()
    for name in "QK":
        tensors[f"blocks.0.attn.W_{name}"] *= 0
        bias = np.random.default_rng([seed, ord(name)]).standard_normal(DH).astype(np.float32)
        tensors[f"blocks.0.attn.b_{name}"][:] = bias
    checkpoint = Checkpoint("file", tensors, {})
    model = (
        READERS["transformer-lens"]
        .read(checkpoint, Hints(SoftmaxAttention(positions), activation="relu"))
        .model
    )
    assert isinstance(model, Weights)
    assert model.config.attention == (1 / positions,) * positions
    assert_same_logits(model, tl_logits(tensors, token_rows(P if positions == 3 else None), None))


def edited(changes: dict[str, np.ndarray | None]) -> Tensors:
    tensors = blind(tl_state_dict()) | {
        name: array for name, array in changes.items() if array is not None
    }
    return {
        name: array
        for name, array in tensors.items()
        if name not in changes or changes[name] is not None
    }


NAN = random(D, M)
NAN[2, 3] = np.nan
HALF = Hints((0.5, 0.5), activation="relu")


@pytest.mark.parametrize(
    ("tensors", "hints", "error", "message"),
    [
        (
            edited({}),
            Hints(activation="relu"),
            BadConfig,
            "do not say the attention: it is not in the weights",
        ),
        (
            edited({"blocks.0.mlp.W_in": None}),
            HALF,
            BadFile,
            "missing tensors: blocks.0.mlp.W_in, no unknown",
        ),
        (
            edited({"blocks.0.ln1.w": random(D)}),
            HALF,
            BadConfig,
            "the norm: it has ln1_w; give a config that has norm",
        ),
        (
            edited({"blocks.1.mlp.W_in": random(D, M)}),
            HALF,
            BadFile,
            "missing tensors: blocks.1.attn.W_V",
        ),
        (
            edited({"blocks.0.mlp.W_in": NAN}),
            HALF,
            BadWeights,
            r"W_in\[2, 3\] is nan, expected finite weights",
        ),
        (
            edited({"blocks.0.mlp.W_in": random(D + 1, M)}),
            HALF,
            BadWeights,
            r"W_in has shape \(7, 9\), expected \(6, 9\)",
        ),
        (
            edited({"blocks.0.mlp.W_in": random(M)}),
            HALF,
            BadFile,
            r"W_in has shape \(9,\), expected 2 dimensions",
        ),
        (
            edited({"blocks.0.mlp.b_in": np.ones(M, int)}),
            HALF,
            BadWeights,
            "b_in has dtype int64, expected float32",
        ),
        (
            edited({"unembed.W_U": random(D, 8), "unembed.b_U": random(8)}),
            HALF,
            BadConfig,
            "is 8, which may be p, p . 1 or 2p; give it with p=N",
        ),
        (
            edited({}),
            Hints((0.5, 0.5), p=9, activation="relu"),
            BadConfig,
            "d_vocab = 8 is less than the 9 tokens used",
        ),
        (edited({}), Hints((0.5,), activation="relu"), BadConfig, "attention has 1 weights"),
        (
            edited({}),
            Hints((0.5, 0.5), activation="mish"),
            BadConfig,
            "activation 'mish' is not supported",
        ),
        (
            edited({}),
            Hints((0.5, 0.5), sidecar={"act_fn": "mish"}),
            BadConfig,
            "activation 'mish' is not supported",
        ),
        (
            edited({}),
            Hints((0.5, 0.5), sidecar={"normalization_type": "LN"}),
            BadConfig,
            "nor the norm: give a config that has normalization_type",
        ),
        (
            edited({}),
            Hints((0.5, 0.5), sidecar={"attention": [1, 1]}, activation="relu"),
            BadConfig,
            "0.5, 0.5 by the setting attention but 1.0, 1.0 by",
        ),
        (
            edited({}),
            Hints(sidecar={"attention": ["x"]}, activation="relu"),
            BadConfig,
            "attention is not a finite number",
        ),
        (
            edited({}),
            Hints((0.5, 0.5), p=7, sidecar={"p": 5}),
            BadConfig,
            "p is 7 by the setting p but 5 by the config file",
        ),
        (
            edited({}),
            Hints((0.5, 0.5), sidecar={"p": "7"}),
            BadConfig,
            "p is str, expected a whole number",
        ),
        (
            edited({}),
            Hints(SoftmaxAttention(), activation="relu"),
            BadConfig,
            "do not say whether '=' is fed: n_ctx is 3; give attention=softmax:2",
        ),
        (
            edited({"blocks.0.attn.W_K": None}),
            Hints(SoftmaxAttention(2), activation="relu"),
            BadFile,
            "no W_Q and W_K to compute attention",
        ),
        (
            edited({"blocks.0.attn.W_K": random(H, D, DH + 1)}),
            Hints(SoftmaxAttention(2), activation="relu"),
            BadWeights,
            r"W_K has shape \(2, 6, 4\), expected \(2, 6, 3\)",
        ),
    ],
)
def test_bad_checkpoints_say_what_is_wrong(
    tensors: Tensors, hints: Hints, error: type[QuadlensError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        READERS["transformer-lens"].read(Checkpoint("file.pt", tensors, {}), hints)
    assert "file.pt" in str(caught.value) or "the config file" in str(caught.value)


@pytest.mark.parametrize(
    ("experiment", "message"),
    [
        ({"fn_name": "divide"}, "fn_name is 'divide'; quadlens reads add and subtract"),
        ({"seq_len": 3}, "seq_len is 3"),
        (
            {"attention_rate": None},
            "run_config has no attention_rate; give format=transformer-lens, and attention",
        ),
        (
            {"attention_rate": None, "use_end_of_sequence": None, "act_fn": None},
            "run_config has no attention_rate and no use_end_of_sequence; .*; nor the activation: "
            "give activation",
        ),
        ({"attention_rate": "1"}, "attention_rate is not a finite number"),
        ({"attention_rate": 10**400}, "attention_rate is not a finite number"),
        ({"act_fn": "mish"}, "activation 'mish' is not supported"),
        ({"p": "7"}, "p in run_config is a str"),
    ],
)
def test_gbmi_runs_that_are_something_else(experiment: dict[str, Any], message: str) -> None:
    run = {
        "experiment": {"p": P, "attention_rate": 1, "use_end_of_sequence": False, "act_fn": "relu"}
        | experiment
    }
    with pytest.raises(BadConfig, match=message):
        READERS["gbmi"].read(Checkpoint("file.pth", tl_state_dict(), {"run_config": run}), Hints())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"funcs": "lambda x: (x[0]*x[1])%7"},
            r"do not say the task: it was trained on .*give task=NAME, or its table with",
        ),
        ({"funcs": "lambda x: (x[0]+x[1]*x[1])%7"}, "do not say the task: it was trained on"),
        ({"diff_vocab": 1}, "7 tokens of operands do not fit p = 7 and diff_vocab True"),
        ({"eqn_sign": 1}, "W_pos has 2 positions and eqn_sign is True"),
        ({"n_layers": 2}, "n_layers is 2 in the config file, but the weights have 1"),
        ({"act_fn": "Mish"}, "activation '[Mm]ish' is not supported"),
        ({"diff_vocab": "no"}, "diff_vocab is a str, expected true or false"),
        ({"attn_coeff": "0"}, "attn_coeff is not a finite number"),
    ],
)
def test_zhong_configs_that_are_something_else(config: dict[str, Any], message: str) -> None:
    hints = Hints(sidecar={"C": P, "attn_coeff": 0, "act_fn": "ReLU"} | config)
    with pytest.raises(BadConfig, match=message):
        READERS["zhong"].read(Checkpoint("file.pt", nanda_state_dict(P, 2), {}), hints)


def test_transformer_lens_4_shapes_are_checked() -> None:
    for name, array, message in (
        ("blocks.0.attn.v.bias", random(5), r"b_V has shape \(5,\), expected \(6,\)"),
        ("blocks.0.attn.o.weight", random(6, 5), r"W_O has shape \(6, 5\), expected \(6, 6\)"),
    ):
        with pytest.raises(BadFile, match=message):
            READERS["transformer-lens-4-bridge"].read(
                Checkpoint("file", blind(linear_state_dict("bridge")) | {name: array}, {}), HALF
            )
    with pytest.raises(
        BadConfig, match=r"do not say n_heads: softmax needs it; .*; nor the activation: give"
    ):
        READERS["transformer-lens-4-bridge"].read(
            Checkpoint("file", linear_state_dict("bridge"), {}), Hints(SoftmaxAttention(2))
        )
    with pytest.raises(BadFile, match="6 attention rows cannot be 4 heads"):
        READERS["transformer-lens-4-bridge"].read(
            Checkpoint("file", linear_state_dict("bridge"), {}),
            Hints((0.5, 0.5), sidecar={"n_heads": 4}, activation="relu"),
        )


def test_mlps_have_no_attention_and_one_p() -> None:
    checkpoint = Checkpoint(
        "file", {"fc1.weight": random(M, 2 * P), "fc2.weight": random(P, M)}, {}
    )
    for hints, message in (
        (Hints((0.5, 0.5)), "an MLP has no attention"),
        (Hints(p=5), "p is 5 by the setting p, but the weights are for p = 7"),
        (Hints(), "the weights do not say the activation: give activation=NAME"),
    ):
        with pytest.raises(BadConfig, match=message):
            READERS["mlp"].read(checkpoint, hints)
    with pytest.raises(BadFile, match=r"fc1.weight has 13 columns, expected 2p = 14"):
        READERS["mlp"].read(
            Checkpoint("f", {"fc1.weight": random(M, 13), "fc2.weight": random(P, M)}, {}), Hints()
        )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
SIDECAR_KEYS = [
    *(
        "p",
        "C",
        "attention",
        "attn_coeff",
        "diff_vocab",
        "eqn_sign",
        "act_fn",
        "act_type",
        "n_layers",
        "n_heads",
    ),
    *(
        "read_position",
        "b_token_offset",
        "normalization_type",
        "attn_scale",
        "use_attn_scale",
        "funcs",
    ),
]
CHECKPOINTS = [
    tl_state_dict(),
    nanda_state_dict(P, 2),
    nanda_state_dict(P + 1, 3),
    linear_state_dict("bridge"),
]


@given(
    st.sampled_from(CHECKPOINTS),
    st.dictionaries(st.sampled_from(SIDECAR_KEYS), json_values, max_size=5),
    st.dictionaries(
        st.sampled_from(["p", "attention_rate", "use_end_of_sequence", "act_fn"]), json_values
    ),
    st.sampled_from([None, (0.5, 0.5), SoftmaxAttention(2)]),
)
def test_nonsense_in_configs_never_gives_a_stack_trace(
    tensors: Tensors, sidecar: dict[str, Any], experiment: dict[str, Any], attention: Any
) -> None:
    hints = Hints(attention, sidecar=sidecar)
    for extras in ({}, {"run_config": {"experiment": experiment}}):
        checkpoint = Checkpoint("file", tensors, extras)
        with contextlib.suppress(QuadlensError), np.errstate(over="ignore", invalid="ignore"):
            recognise(checkpoint, hints).read(checkpoint, hints)


@given(st.sampled_from(CHECKPOINTS), st.data())
def test_damaged_foreign_safetensors_never_give_a_stack_trace(
    tmp_path_factory: pytest.TempPathFactory, tensors: Tensors, data: st.DataObject
) -> None:
    """They have no checksum of their own, so a flipped weight cannot be seen.

    A flipped header must not crash.
    """
    from safetensors.numpy import save

    damaged = bytearray(
        save({name: np.ascontiguousarray(array) for name, array in tensors.items()})
    )
    header = 8 + int.from_bytes(damaged[:8], "little")
    for bit in data.draw(st.lists(st.integers(0, 8 * header - 1), min_size=1, max_size=3)):
        damaged[bit // 8] ^= 1 << bit % 8
    path = tmp_path_factory.mktemp("f") / "m.safetensors"
    path.write_bytes(bytes(damaged))
    with contextlib.suppress(QuadlensError), np.errstate(over="ignore", invalid="ignore"):
        import_file(path, hints=HALF)


# --- telling them apart
# -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (
            tl_state_dict() | {"fc1.weight": random(2, 2)},
            r"could be several formats \(transformer-lens: W_O has rank 3; mlp",
        ),
        (
            {"hello": random(2)},
            r"is in no known format \(quadlens: no metadata .*he: no mlp.basis.*format=NAME",
        ),
        (
            nanda_state_dict(P, 4),
            r"could be several formats \(zhong: W_O has rank 2.*"
            r"nanda: W_O has rank 2, but n_ctx is 4, not 3 \(",
        ),
    ],
)
def test_ambiguity_is_refused_with_reasons(tensors: Tensors, message: str) -> None:
    with pytest.raises(BadFile, match=message):
        recognise(Checkpoint("file", tensors, {}), Hints())


def test_a_run_config_beside_another_layout_is_not_gbmi() -> None:
    checkpoint = Checkpoint("file", nanda_state_dict(P, 2), {"run_config": {}})
    assert recognise(checkpoint, Hints()).name == "zhong"
    with pytest.raises(BadFile, match="no run_config with an experiment in it"):
        READERS["gbmi"].read(checkpoint, Hints())


def test_layouts_that_contradict_themselves() -> None:
    tensors = nanda_state_dict(P, 2) | {"blocks.0.attn.W_O": random(D, 5)}
    with pytest.raises(BadFile, match=r"W_O has shape \(6, 5\), expected \(6, 6\)"):
        READERS["zhong"].read(Checkpoint("file", tensors, {}), Hints((1.0, 1.0), activation="relu"))


def test_weights_that_overflow_the_scores() -> None:
    tensors = nanda_state_dict(P + 1, 3)
    tensors = {name: array.astype(np.float64) for name, array in tensors.items()}
    tensors["blocks.0.attn.W_Q"] *= 1e200
    tensors["blocks.0.attn.W_K"] *= 1e200
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(BadWeights, match="overflow"):
        READERS["nanda"].read(
            Checkpoint("file", tensors, {}), Hints(SoftmaxAttention(), activation="relu")
        )


def test_positions_that_do_not_exist() -> None:
    tensors = tl_state_dict(vocab=P + 1, n_ctx=2)
    with pytest.raises(BadConfig, match="n_ctx = 2 is less than the 3 positions fed"):
        READERS["transformer-lens"].read(
            Checkpoint("file", tensors, {}), Hints(SoftmaxAttention(3), activation="relu")
        )


def test_zero_queries_and_keys_do_not_say_which_constant(tmp_path: Path) -> None:
    """Zhong's '=' variant and Nanda's layout are one and the same file.

    1 and 1/3 are not the same model.
    """
    tensors = blind(nanda_state_dict(P + 1, 3))
    path = write(tmp_path / "model_1", tensors, "torch")
    with pytest.raises(
        BadConfig,
        match=r"do not say the activation: .*; nor the attention: it is not in the weights",
    ):
        import_file(path)
    for hints, name in (
        (Hints((1.0,) * 3), "nanda"),
        (Hints(sidecar={"C": P, "attn_coeff": 0, "eqn_sign": 1}), "zhong"),
    ):
        imported = import_file(path, hints=dataclasses.replace(hints, activation="relu"))
        assert imported.format == name
        assert_same_logits(imported.model, nanda_logits(tensors, token_rows(P), coeff=0.0))


def test_softmax_is_read_at_the_last_position() -> None:
    hints = Hints(SoftmaxAttention(2), sidecar={"read_position": 0}, activation="relu")
    with pytest.raises(
        BadConfig, match="softmax is computed at the last position, but read_position is 0"
    ):
        READERS["transformer-lens"].read(Checkpoint("file", tl_state_dict(), {}), hints)


def test_a_named_format_is_taken_at_its_word(tmp_path: Path) -> None:
    path = write(tmp_path / "m", nanda_state_dict(P, 2), "torch")
    with pytest.raises(BadFile, match="missing tensors"):
        import_file(path, "he")
    with pytest.raises(
        BadConfig, match="format 'onnx' is written, not read; expected one of auto, quadlens, "
    ):
        import_file(path, "onnx")
    with pytest.raises(
        BadConfig, match="format 'foo' is not known; expected one of auto, quadlens, "
    ) as refusal:
        import_file(path, "foo")
    assert "onnx" not in str(refusal.value)


@pytest.mark.parametrize("text", ["", "0.5;0.5", "half", "1/0", "nan,1", "softmax:4"])
def test_attention_flags_that_are_not_understood(text: str) -> None:
    with pytest.raises(BadConfig, match="is not understood; expected a weight for each position"):
        parse_attention(text)


def test_config_files_that_are_not(tmp_path: Path) -> None:
    path = write(tmp_path / "m", nanda_state_dict(P, 2), "torch")
    for content, message in (("[1]", "holds a list; expected a JSON object"), ("{", "is not JSON")):
        (tmp_path / "c.json").write_text(content)
        with pytest.raises(BadFile, match=message):
            import_file(path, config=tmp_path / "c.json")
    with pytest.raises(BadFile, match="cannot read the config"):
        import_file(path, config=tmp_path / "absent.json")


# --- in memory
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["numpy", "torch", "parameter", "bfloat16"])
def test_a_state_dict_in_memory_is_read_as_from_a_file(tmp_path: Path, kind: str) -> None:
    tensors: dict[str, Any] = blind(tl_state_dict())
    if kind != "numpy":
        torch = pytest.importorskip("torch")
        tensors = {name: torch.from_numpy(array) for name, array in tensors.items()}
        if kind == "parameter":
            tensors = {
                n: torch.nn.Parameter(x) if x.is_floating_point() else x for n, x in tensors.items()
            }
        if kind == "bfloat16":
            tensors = {n: x.bfloat16() if x.is_floating_point() else x for n, x in tensors.items()}
        torch.save(tensors, tmp_path / "m.pt")
    else:
        write(tmp_path / "m", tensors, "torch")
    mine, theirs = (
        from_state_dict(tensors, attention=(0.5, 0.5), activation="relu"),
        import_file(tmp_path / "m.pt", hints=HALF),
    )
    assert same_weights(mine.model, theirs.model)
    # The same notes and the same count.
    assert mine.notes == theirs.notes
    assert (mine.correct, mine.pairs) == (theirs.correct, theirs.pairs)
    experiment = {"p": P, "attention_rate": 1, "use_end_of_sequence": False, "act_fn": "relu"}
    wrapped = {"model": tensors, "run_config": {"experiment": experiment}}
    assert isinstance(from_state_dict(wrapped).model.config, Config)


def test_what_a_repository_may_hold_in_place_of_a_checkpoint(tmp_path: Path) -> None:
    pointer = tmp_path / "model.pt"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 325151\n")
    with pytest.raises(
        BadFile,
        match="is a Git LFS pointer, not the checkpoint itself; fetch it with `git lfs pull`",
    ):
        import_file(pointer)
    losses = write(tmp_path / "m", {"train_losses": [1.0], "test_losses": [1.0]}, "torch")
    with pytest.raises(
        BadFile, match="has no tensors but train_losses, test_losses; expected a dictionary"
    ):
        import_file(losses)


def test_a_state_dict_in_memory_is_refused_as_a_file_would_be() -> None:
    tensors = tl_state_dict()
    for arguments, message in (
        ({"attention": (0.5, 0.5)}, "the state dict: the weights do not say the activation"),
        (
            {"activation": "relu"},
            "the state dict: the weights do not say the attention: it is not in the weights",
        ),
        ({"activation": "relu", "attention": "softmax"}, "do not say whether '=' is fed"),
        ({"activation": "relu", "attention": "half"}, "attention 'half' is not understood"),
        (
            {"activation": "relu", "attention": (0.5, 0.5)},
            "the state dict: attention 0.5, 0.5 by the setting attention, but",
        ),
        ({"attention": (0.5, 0.5)}, "give activation=NAME"),
        ({"activation": "relu", "attention": "softmax"}, "give attention=softmax:2"),
    ):
        with pytest.raises(QuadlensError, match=message) as refused:
            from_state_dict(tensors, **arguments)
        assert "--" not in str(refused.value)
    with pytest.raises(BadFile, match="the state dict: its state dict has no tensors"):
        from_state_dict({"x": 1})
    with pytest.raises(
        BadConfig, match="read_position is 0 by the setting read_position but 1 by the config"
    ):
        from_state_dict(
            blind(tensors),
            attention=(1.0, 1.0),
            activation="relu",
            read_position=0,
            config={"read_position": 1},
        )
    read = from_state_dict(blind(tensors), attention=(1.0, 1.0), activation="relu", read_position=0)
    assert isinstance(read.model.config, Config)
    assert read.model.config.read_position == 0
