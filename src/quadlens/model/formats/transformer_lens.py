"""TransformerLens: `HookedTransformer.state_dict()` of 2.x and 3.x in and out, `TransformerBridge` of 4.x in.

An export runs with ordinary softmax attention, made uniform by W_Q = W_K = 0; W_V carries the rest.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from quadlens.errors import BadConfig, BadFile
from quadlens.model.formats.adders.hooked import sequence_task
from quadlens.model.formats.checkpoint import Checkpoint, Tensors, check_ranks, each_layer, take
from quadlens.model.formats.facts import Missing, attention_in, whole_number
from quadlens.model.formats.protocol import Exported, Hints, Imported, Sniff, SoftmaxAttention
from quadlens.model.formats.transformer import RANKS, Facts, read_transformer
from quadlens.model.native import METADATA_KEY
from quadlens.model.tensor_names import NORM_NAMES, PAIR_NAMES, QUERY_KEY, own_name
from quadlens.model.weights import Weights

RAW_NAMES = {
    "W_E": "tok_embed.weight",
    "W_pos": "pos.weight",
    **{f"W_{x.upper()}": f"layers.0.attn.{x}.weight" for x in "qkvo"},
    **{f"b_{x.upper()}": f"layers.0.attn.{x}.bias" for x in "qkvo"},
    "W_in": "layers.0.mlp.fc_in.weight",
    "b_in": "layers.0.mlp.fc_in.bias",
    "W_out": "layers.0.mlp.fc_out.weight",
    "b_out": "layers.0.mlp.fc_out.bias",
    "W_U": "head.weight",
    "b_U": "head.bias",
    **{f"ln{i}_{x[0]}": f"layers.0.ln{i}.{x}" for i in (1, 2) for x in ("weight", "bias")},
    "ln_final_w": "ln_out.weight",
    "ln_final_b": "ln_out.bias",
}
BRIDGE_NAMES = {
    "W_E": "embed.weight",
    "W_pos": "pos_embed.weight",
    **{f"W_{x.upper()}": f"blocks.0.attn.{x}.weight" for x in "qkvo"},
    **{f"b_{x.upper()}": f"blocks.0.attn.{x}.bias" for x in "qkvo"},
    "W_in": "blocks.0.mlp.in.weight",
    "b_in": "blocks.0.mlp.in.bias",
    "W_out": "blocks.0.mlp.out.weight",
    "b_out": "blocks.0.mlp.out.bias",
    "W_U": "unembed.weight",
    "b_U": "unembed.bias",
    **{f"ln{i}_{x[0]}": f"blocks.0.ln{i}.{x}" for i in (1, 2) for x in ("weight", "bias")},
    "ln_final_w": "ln_final.weight",
    "ln_final_b": "ln_final.bias",
}
OPTIONAL = ("b_V", "b_O", "b_in", "b_out", "b_U", *QUERY_KEY, *NORM_NAMES)
# (a, b, '='); more are a sequence's.
MOST_POSITIONS = 3
BUFFERS = ("blocks.0.attn.mask", "blocks.0.attn.IGNORE")


def state_dict_weights(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    """The weights of a TransformerLens 2/3 state dict by our short names; its buffers are dropped."""
    weights = take(checkpoint, PAIR_NAMES, OPTIONAL, BUFFERS)
    check_ranks(checkpoint, weights, RANKS)
    return weights


def _read(
    checkpoint: Checkpoint, weights: Tensors, hints: Hints, format_name: str, missing: Missing | None = None
) -> Imported:
    """A model from weights alone: p, attention and activation come from the hints."""
    vocabulary, answers = len(weights["W_E"]), weights["W_U"].shape[1]
    # An odd number of answers, fewer than tokens, is p; otherwise '=' or b's own tokens may be among them.
    found = answers if answers < vocabulary and answers % 2 else None
    open_ = f" is {answers}, which may be p{', p + 1 or 2p' if answers % 2 == 0 else ' or p + 1'}"
    width = (found, f"the width of the unembedding{'' if found else open_}")
    direction = hints.of("attention_dir")
    if direction not in (None, "causal", "bidirectional"):
        raise BadConfig(
            f"{checkpoint.source}: attention_dir is {str(direction)[:40]!r}; expected causal, bidirectional"
        )
    facts = Facts(format_name, width, causal=direction != "bidirectional")
    return read_transformer(checkpoint.source, weights, hints, facts, missing)


class TransformerLens:
    """State dicts of TransformerLens 2.x and 3.x."""

    name = "transformer-lens"

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """W_O of rank 3 under TransformerLens' names."""
        rank = checkpoint.rank("blocks.0.attn.W_O")
        if rank != 3:
            return Sniff(
                0.0, (f"blocks.0.attn.W_O has rank {rank}" if rank else "no blocks.0.attn.W_O", "expected rank 3")
            )
        if "x_embed" in checkpoint.tensors:
            return Sniff(0.5, ("W_O has rank 3", "but x_embed lies beside it"))
        if sequence_task(hints) is not None:
            return Sniff(0.5, ("W_O has rank 3", "but a task on sequences is named"))
        for key in ("run_config", METADATA_KEY):
            if key in checkpoint.extras:
                return Sniff(0.5, ("W_O has rank 3", f"but {key} lies beside the state dict"))
        return Sniff(1.0, ("W_O has rank 3",))

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Tensors from the file; p, attention and activation from flags or sidecar."""
        weights = state_dict_weights(checkpoint)
        try:
            return _read(checkpoint, weights, hints, self.name)
        except BadConfig as error:
            positions = len(weights["W_pos"])
            if positions <= MOST_POSITIONS:
                raise
            more = f"; or, where it reads {positions} numbers, give task=cumsum-sign:{positions} or max:{positions}"
            raise BadConfig(f"{error}{more}", settings=(*error.settings, "task")) from None

    def write(self, model: Weights) -> Exported:
        """A state dict that `HookedTransformer.load_state_dict` takes, and the config to construct it with."""
        from safetensors.numpy import save

        uniform, notes = uniform_softmax(model, self.name)
        state = {name: np.ascontiguousarray(array) for name, array in _hooked_state_dict(uniform).items()}
        return Exported(save(state), _hooked_config(uniform), notes)


class TransformerLens4:
    """Toy models of TransformerLens 4.x, in one of the two key layouts of the same weights."""

    def __init__(self, layout: Literal["raw", "bridge"]) -> None:
        self.name = f"transformer-lens-4-{layout}"
        self._names = RAW_NAMES if layout == "raw" else BRIDGE_NAMES
        self._layout = layout

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """`tok_embed.weight` is raw; `embed.weight` with `blocks.0.attn.q.weight` is the bridge."""
        marks = ["tok_embed.weight"] if self._layout == "raw" else ["embed.weight", "blocks.0.attn.q.weight"]
        absent = [mark for mark in marks if mark not in checkpoint.tensors]
        if absent:
            return Sniff(0.0, tuple(f"no {mark}" for mark in absent))
        return Sniff(1.0, tuple(f"has {mark}" for mark in marks))

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """As TransformerLens 2/3; n_heads comes from a config unless W_Q and W_K are zero, where it does not matter."""
        tensors = take(checkpoint, self._names, OPTIONAL)
        check_ranks(checkpoint, tensors, {name: 2 if name.startswith("W_") else 1 for name in self._names})
        n_heads = whole_number(hints, "n_heads")
        softmax = any(isinstance(x, SoftmaxAttention) for x in (hints.attention, attention_in(hints)))
        looks = any(np.any(array) for name, array in tensors.items() if own_name(name) in ("W_Q", "W_K"))
        missing = Missing(checkpoint.source)
        if n_heads is None and (softmax or looks):
            # One head of the full width is the same function under constant attention, but not under softmax.
            missing.add("n_heads", "softmax needs it; give a config that has n_heads")
        weights = each_layer(tensors, lambda one: _from_linear(checkpoint.source, one, n_heads or 1))
        return _read(checkpoint, weights, hints, self.name, missing)


def _from_linear(source: str, tensors: Tensors, n_heads: int) -> dict[str, np.ndarray]:
    """Our orientation: `nn.Linear` keeps [out, in], and heads lie one after the other along one axis."""
    width, d_model = tensors["W_V"].shape
    if n_heads < 1 or width % n_heads:
        raise BadFile(f"{source}: {width} attention rows cannot be {n_heads} heads")
    shapes: dict[str, tuple[int, ...]] = {
        "W_Q": (width, d_model),
        "W_K": (width, d_model),
        "W_V": (width, d_model),
        "W_O": (d_model, width),
    }
    shapes |= dict.fromkeys(("b_Q", "b_K", "b_V"), (width,))
    present = {name: shape for name, shape in shapes.items() if name in tensors}
    wrong = [
        f"{name} has shape {tensors[name].shape}, expected {s}"
        for name, s in present.items()
        if tensors[name].shape != s
    ]
    if wrong:
        raise BadFile(f"{source}: {'; '.join(wrong)}")
    split = (n_heads, width // n_heads)
    weights = {name: array for name, array in tensors.items() if name not in shapes}
    weights |= {name: tensors[name].T for name in ("W_in", "W_out", "W_U")}
    for name in present:
        if name == "W_O":
            weights[name] = tensors[name].T.reshape(*split, d_model)
        elif name.startswith("W_"):
            weights[name] = tensors[name].reshape(*split, d_model).transpose(0, 2, 1)
        else:
            weights[name] = tensors[name].reshape(split)
    return weights


def uniform_softmax(model: Weights, format_name: str) -> tuple[Weights, tuple[str, ...]]:
    """The same function with softmax attention over n positions, 1/n on each: W_V and b_V are scaled by α n.

    Requires equal weights α on all positions and the last position read; refuses anything else.
    """
    if model.config.no_tables is not None:
        raise BadConfig(f"{model.config.no_tables}; only one layer without norms is written so far. Use quadlens")
    model.config.need_stream(f"{format_name} holds transformers; this model is an MLP: export it as onnx or quadlens")
    params, config = model, model.config
    weight = 1 / len(config.attention)
    if config.softmax is not None:
        raise BadConfig(
            f"attention is a {config.attention_kind}; only constant attention is written so far. Use format=quadlens",
            settings=("format",),
        )
    if len(set(config.attention)) != 1:
        raise BadConfig(
            f"attention {', '.join(f'{x:.6g}' for x in config.attention)} is not uniform; "
            f"{format_name} can only express equal weights on all positions. Use format=onnx or quadlens",
            settings=("format",),
        )
    if config.read_position != len(config.attention) - 1:
        raise BadConfig(
            f"the model reads position {config.read_position}; {format_name} reads the last one, "
            f"{len(config.attention) - 1}. Use format=onnx or quadlens",
            settings=("format",),
        )
    if config.activation != "relu":
        raise BadConfig(f"activation {config.activation!r} has no name in {format_name}; expected relu")
    alpha = config.attention[0]
    if alpha == weight:
        return params, ()
    factor = alpha / weight
    W_V, b_V = ((x * factor).astype(x.dtype) for x in (params.W_V, params.b_V))
    exact = all(
        np.array_equal(y.astype(np.float64), x.astype(np.float64) * factor)
        for x, y in ((params.W_V, W_V), (params.b_V, b_V))
    )
    scaled = params.replace(dataclasses.replace(config, attention=(weight,) * len(config.attention)), W_V=W_V, b_V=b_V)
    how = "exactly" if exact else "rounded to the weights' own precision"
    return scaled, (f"attention {alpha:.6g} became {weight:.6g} by scaling W_V and b_V by {factor:.6g}, {how}",)


def _hooked_state_dict(params: Weights) -> dict[str, np.ndarray]:
    """The full state dict, with zero queries and keys and the two buffers in the form they have since 3.5."""
    zeros = {name: np.zeros_like(params.W_V if name.startswith("W_") else params.b_V) for name in QUERY_KEY}
    weights = {**params.tensors, **zeros}
    tensors = {PAIR_NAMES[name]: array for name, array in weights.items()}
    return tensors | {
        "blocks.0.attn.mask": np.zeros((0, 0), dtype=bool),
        "blocks.0.attn.IGNORE": np.array(-np.inf, dtype=np.float32),
    }


def _hooked_config(params: Weights) -> Mapping[str, Any]:
    """The keyword arguments of `HookedTransformerConfig`, and what TransformerLens has no name for."""
    config = params.config
    return {
        "hooked_transformer_config": {
            "n_layers": 1,
            "d_model": config.d_model,
            "n_ctx": config.n_ctx,
            "d_head": config.d_head,
            "n_heads": config.n_heads,
            "d_mlp": config.d_mlp,
            "d_vocab": config.d_vocab,
            "d_vocab_out": config.d_vocab_out,
            "act_fn": config.activation,
            "normalization_type": None,
            "attention_dir": "causal",
        },
        "p": config.p,
        "attention": list(config.attention),
        "read_position": config.read_position,
        "b_token_offset": config.b_token_offset,
        **({"equals_token": config.equals_token} if config.has_equals else {}),
    }
