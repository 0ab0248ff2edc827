"""TransformerLens 4.x toy models, `TransformerBridge.boot_native`: raw and bridge keys (formats.md, 2)."""

from typing import Literal

import numpy as np

from quadlens.errors import BadConfig, BadFile
from quadlens.model.formats.checkpoint import Checkpoint
from quadlens.model.formats.facts import attention_in, whole_number
from quadlens.model.formats.protocol import Exported, Hints, Imported, Sniff, SoftmaxAttention
from quadlens.model.formats.transformer_lens import QUERY_KEY_NAMES, hooked_config, read_by_hints
from quadlens.model.formats.uniform import uniform_softmax
from quadlens.model.formats.weights import Weights, check_ranks, take
from quadlens.model.params import Model

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
}
OPTIONAL = ("b_V", "b_O", "b_in", "b_out", "b_U", *QUERY_KEY_NAMES)


def _from_linear(source: str, tensors: Weights, n_heads: int) -> dict[str, np.ndarray]:
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


def _to_linear(weights: Weights) -> dict[str, np.ndarray]:
    """The inverse of `_from_linear`."""
    d_model = weights["W_E"].shape[1]
    turned: dict[str, np.ndarray] = {name: weights[name] for name in ("W_E", "W_pos", "b_O", "b_in", "b_out")}
    turned |= {name: weights[name].T for name in ("W_in", "W_out", "W_U")}
    turned |= {name: weights[name].transpose(0, 2, 1).reshape(-1, d_model) for name in ("W_Q", "W_K", "W_V")}
    turned |= {name: weights[name].reshape(-1) for name in ("b_Q", "b_K", "b_V")}
    return turned | {"W_O": weights["W_O"].reshape(-1, d_model).T, "b_U": weights["b_U"]}


class TransformerLens4:
    """One of the two key layouts of the same weights."""

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
        """As TransformerLens 2/3; without n_heads in a config all heads are read as one, which computes the same."""
        tensors = take(checkpoint, self._names, OPTIONAL)
        check_ranks(checkpoint, tensors, {name: 2 if name.startswith("W_") else 1 for name in self._names})
        n_heads = whole_number(hints, "n_heads")
        if n_heads is None and any(isinstance(x, SoftmaxAttention) for x in (hints.attention, attention_in(hints))):
            # One head of the full width is the same function under constant attention, but not under softmax.
            raise BadConfig(
                f"{checkpoint.source}: softmax needs n_heads, which the weights do not say; give a --config"
            )
        return read_by_hints(checkpoint, _from_linear(checkpoint.source, tensors, n_heads or 1), hints, self.name)

    def write(self, model: Model) -> Exported:
        """A state dict that `TransformerBridge.load_state_dict` takes, and the config to boot it with."""
        uniform = uniform_softmax(model, self.name)
        params = uniform.params
        zeros = {"W_Q": np.zeros_like(params.W_V), "W_K": np.zeros_like(params.W_V)}
        zeros |= {"b_Q": np.zeros_like(params.b_V), "b_K": np.zeros_like(params.b_V)}
        turned = _to_linear({**params.tensors(), **zeros})
        if self._layout == "raw":
            if np.any(params.b_U):
                raise BadConfig("the raw layout of TransformerLens 4 has no unembedding bias, and b_U is not zero")
            del turned["b_U"]
        content = {self._names[name]: np.ascontiguousarray(array) for name, array in turned.items()}
        sidecar = dict(hooked_config(params))
        sidecar = {"bridge_config": sidecar.pop("hooked_transformer_config"), **sidecar}
        return Exported(content, sidecar, uniform.notes)
