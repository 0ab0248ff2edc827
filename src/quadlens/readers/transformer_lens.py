"""Read TransformerLens' state dicts, version 2 to 4, and write those of 2 and 3.

A state dict of one layer whose task is one on sequences, as a setting or a config says, is a
network on sequences.

An export runs with ordinary softmax attention, made uniform by W_Q = W_K = 0; W_V carries the rest.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from quadlens.base.errors import BadConfig, BadFile
from quadlens.network.config import Config
from quadlens.network.native import METADATA_KEY
from quadlens.network.norm import Norms
from quadlens.network.sequence import REQUIRED, TaskSpec
from quadlens.network.task import is_formula
from quadlens.network.tensor_names import NORM_NAMES, PAIR_NAMES, QUERY_KEY, unnumbered
from quadlens.network.weights import Weights
from quadlens.readers.adders.parts import Parts, built
from quadlens.readers.checkpoint import Checkpoint, Tensors, check_ranks, each_layer, take
from quadlens.readers.facts import (
    Missing,
    agreed,
    attention_in,
    known_activation,
    known_divisor,
    known_norm,
    whole_number,
)
from quadlens.readers.protocol import Exported, Hints, Imported, Marked, Sniff, SoftmaxAttention
from quadlens.readers.transformer import RANKS, Facts, read_transformer

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
# What the other key layout calls the bridge's modules.
RAW_MODULES = {
    "embed": "tok_embed",
    "pos_embed": "pos",
    "blocks": "layers",
    "in": "fc_in",
    "out": "fc_out",
    "unembed": "head",
    "ln_final": "ln_out",
}
RAW_NAMES = {
    short: ".".join(RAW_MODULES.get(module, module) for module in long.split("."))
    for short, long in BRIDGE_NAMES.items()
}
OPTIONAL = ("b_V", "b_O", "b_in", "b_out", "b_U", *QUERY_KEY, *NORM_NAMES)
# (a, b, '='); more are a sequence's.
MOST_POSITIONS = 3
BUFFERS = ("blocks.0.attn.mask", "blocks.0.attn.IGNORE")
SEQUENCE_TASK = re.compile(r"(cumsum-sign|max):[0-9]{1,3}")
# What a network on sequences has, a letter standing for a width.
SHAPES = {
    "W_E": "v d",
    "W_pos": "t d",
    **dict.fromkeys(("W_Q", "W_K", "W_V"), "h d k"),
    **dict.fromkeys(("b_Q", "b_K", "b_V"), "h k"),
    "W_O": "h k d",
    "b_O": "d",
    "W_U": "d c",
    "b_U": "c",
    **dict.fromkeys(NORM_NAMES, "d"),
}
MLP_SHAPES = {"W_in": "d m", "b_in": "m", "W_out": "m d", "b_out": "d"}
# One without positions has them elsewhere, as rotations.
NEEDED = REQUIRED | {"W_pos"}
# What TransformerLens adds to a variance unless a config says otherwise.
EPS = 1e-5


def state_dict_weights(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    """Return the weights of a TransformerLens 2/3 state dict by our short names.

    Its buffers are dropped.
    """
    weights = take(checkpoint, PAIR_NAMES, OPTIONAL, BUFFERS)
    check_ranks(checkpoint, weights, RANKS)
    return weights


def _read(
    checkpoint: Checkpoint,
    weights: Tensors,
    hints: Hints,
    format_name: str,
    missing: Missing | None = None,
) -> Imported:
    """A model from weights alone: p, attention and activation come from the hints."""
    vocabulary, answers = len(weights["W_E"]), weights["W_U"].shape[1]
    # An odd number of answers, fewer than tokens, is p; otherwise '=' or b's own tokens may be
    # among them.
    p = answers if answers < vocabulary and answers % 2 else None
    open_ = f" is {answers}, which may be p{', p + 1 or 2p' if answers % 2 == 0 else ' or p + 1'}"
    width = (p, f"the width of the unembedding{'' if p else open_}")
    direction = hints.in_config("attention_dir")
    if direction not in (None, "causal", "bidirectional"):
        raise BadConfig(
            f"{checkpoint.source}: attention_dir is {str(direction)[:40]!r}; expected causal, "
            "bidirectional"
        )
    written = hints.in_config("task")
    task = written if isinstance(written, str) and is_formula(written) else None
    facts = Facts(format_name, width, causal=direction != "bidirectional", task=task)
    return read_transformer(checkpoint.source, weights, hints, facts, missing)


def sequence_task(hints: Hints) -> str | None:
    """The task on sequences that a setting or a config names, None where neither does."""
    for task in (hints.task, hints.in_config("task")):
        if isinstance(task, str) and SEQUENCE_TASK.fullmatch(task):
            return task
    return None


class TransformerLens:
    """State dicts of TransformerLens 2.x and 3.x."""

    name = "transformer-lens"

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """W_O of rank 3 under TransformerLens' names."""
        rank = checkpoint.rank("blocks.0.attn.W_O")
        if rank != 3:
            return Sniff(
                0.0,
                (
                    f"blocks.0.attn.W_O has rank {rank}" if rank else "no blocks.0.attn.W_O",
                    "expected rank 3",
                ),
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
            more = (
                f"; or, where it reads {positions} numbers, give task=cumsum-sign:{positions} or "
                f"max:{positions}"
            )
            raise BadConfig(f"{error}{more}", settings=(*error.settings, "task")) from None

    def write(self, model: Weights) -> Exported:
        """Return a state dict for `HookedTransformer.load_state_dict`, and its config."""
        from safetensors.numpy import save

        uniform, notes = uniform_softmax(model, self.name)
        state = {
            name: np.ascontiguousarray(array) for name, array in _hooked_state_dict(uniform).items()
        }
        task = uniform.config.task
        if not task.by_formula:
            notes += (
                f"the config cannot say the task, {task.words}: give its table when the file is "
                "read again",
            )
        return Exported(save(state), _hooked_config(uniform.config), notes)


class HookedSequence:
    """Read `HookedTransformer.state_dict()` of networks on sequences.

    Such are ARENA's running sums and Gross et al.'s max-of-K.
    """

    name = "transformer-lens-sequence"

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """W_O of rank 3 under TransformerLens' names, and a task on sequences."""
        if sequence_task(hints) is None:
            return Sniff(0.0, ("no task on sequences is named",))
        rank = checkpoint.rank("blocks.0.attn.W_O")
        return (
            Sniff(1.0, ("W_O has rank 3",))
            if rank == 3
            else Sniff(0.0, (f"blocks.0.attn.W_O has rank {rank}",))
        )

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Read the network; a config may change TransformerLens' defaults.

        They are scores over √d_head and a causal mask.
        """
        source, missing = checkpoint.source, Missing(checkpoint.source)
        claims = [("the setting task", hints.task), (hints.sidecar_name, hints.in_config("task"))]
        task = agreed("the task", source, claims, "task")
        parts = Parts(checkpoint)
        parts.drop("buffers", *BUFFERS)
        has_mlp = PAIR_NAMES["W_in"] in parts
        tensors: dict[str, Any] = {
            name: (parts.take if name in NEEDED else parts.take_if)(
                PAIR_NAMES[name], *shape.split()
            )
            for name, shape in (SHAPES | MLP_SHAPES if has_mlp else SHAPES).items()
        }
        held = [name for name, array in tensors.items() if array is not None]
        norm = known_norm(source, hints, held, missing, EPS)
        activation = (
            known_activation(source, hints, ("the file", None), missing) if has_mlp else None
        )
        if task is None or missing:
            raise missing.error()
        if hints.in_config("attention_dir") not in (None, "causal"):
            raise BadConfig(
                f"{source}: attention_dir is not causal; a network on sequences is read with a "
                "causal mask"
            )
        parts.notes.append(f"task {task[0]}: {task[1]}")
        if task[0].startswith("cumsum"):
            # -m … m index rows as Python does, -1 being the last; here token 0 is -m.
            tensors["W_E"] = np.roll(tensors["W_E"], parts.width("v") // 2, axis=0)
            parts.notes.append(
                "numbers are fed as they are, so that the rows of W_E are those of 0 … m, -m … -1"
            )
        return built(
            parts,
            dataclasses.replace(hints, activation=None),
            self.name,
            _task(source, task[0], parts.width("v")),
            tensors,
            activation="relu" if activation is None else activation[0],
            divisor=known_divisor(hints, parts.width("k"), "TransformerLens' default")[0],
            norms=Norms(attention=norm, mlp=norm if has_mlp else None, final=norm),
        )


def _task(source: str, name: str, tokens: int) -> TaskSpec:
    """The task with what the number of tokens says: of numbers -m … m there are 2m + 1."""
    if name.startswith("max:"):
        return TaskSpec(name, tokens=tokens)
    if not name.startswith("cumsum-sign:"):
        raise BadConfig(
            f"{source}: networks on sequences are read in this format for the tasks cumsum-sign:N "
            f"and max:N, not for {name}; another format may hold one that adds",
            settings=("format", "task"),
        )
    if tokens % 2 == 0 or tokens < 3:
        raise BadConfig(
            f"{source}: {name} has an odd number of tokens, -m … m; the network has {tokens}"
        )
    return TaskSpec(name, largest=tokens // 2)


class TransformerLens4(Marked):
    """Toy models of TransformerLens 4.x, in one of the two key layouts of the same weights."""

    def __init__(self, layout: Literal["raw", "bridge"]) -> None:
        self.name = f"transformer-lens-4-{layout}"
        self._names = RAW_NAMES if layout == "raw" else BRIDGE_NAMES
        # Without queries `embed.weight` alone is many programs'.
        self.marks = ((self._names["W_E"], *(() if layout == "raw" else (self._names["W_Q"],))),)

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Read the model as one of TransformerLens 2/3; n_heads comes from a config.

        Where W_Q and W_K are zero it does not matter.
        """
        tensors = take(checkpoint, self._names, OPTIONAL)
        check_ranks(
            checkpoint, tensors, {name: 2 if name.startswith("W_") else 1 for name in self._names}
        )
        n_heads = whole_number(hints, "n_heads")
        softmax = any(
            isinstance(x, SoftmaxAttention) for x in (hints.attention, attention_in(hints))
        )
        looks = any(
            np.any(array) for name, array in tensors.items() if unnumbered(name) in ("W_Q", "W_K")
        )
        missing = Missing(checkpoint.source)
        if n_heads is None and (softmax or looks):
            # One head of the full width is the same function under constant attention, but not
            # under softmax.
            missing.add("n_heads", "softmax needs it; give a config that has n_heads")
        weights = each_layer(
            tensors, lambda layer: _from_linear(checkpoint.source, layer, n_heads or 1)
        )
        return _read(checkpoint, weights, hints, self.name, missing)


def _from_linear(source: str, tensors: Tensors, n_heads: int) -> dict[str, np.ndarray]:
    """Return the weights in our orientation.

    `nn.Linear` keeps [out, in], and heads lie one after the other along one axis.
    """
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
    """Return the same function with softmax attention, 1/n on each of n positions.

    W_V and b_V are scaled by α n.

    Requires equal weights α on all positions and the last position read; refuses anything else.
    """
    config = model.config.need_pairs(
        f"networks on sequences are not written as {format_name} so far; use format=quadlens",
        ("format",),
    )
    if config.no_tables is not None:
        raise BadConfig(
            f"{config.no_tables}; only one layer without norms is written so far. Use quadlens"
        )
    config.need_stream(
        f"{format_name} holds transformers; this model is an MLP: export it as onnx or quadlens"
    )
    if config.softmax is not None:
        raise BadConfig(
            f"attention is a {config.attention_kind}; only constant attention is written so far. "
            "Use format=quadlens",
            settings=("format",),
        )
    if len(set(config.attention)) != 1:
        raise BadConfig(
            f"attention {', '.join(f'{x:.6g}' for x in config.attention)} is not uniform; "
            f"{format_name} can only express equal weights on all positions. Use format=onnx or "
            "quadlens",
            settings=("format",),
        )
    if config.read_position != len(config.attention) - 1:
        raise BadConfig(
            f"the model reads position {config.read_position}; {format_name} reads the last one, "
            f"{len(config.attention) - 1}. Use format=onnx or quadlens",
            settings=("format",),
        )
    if config.activation != "relu":
        raise BadConfig(
            f"activation {config.activation!r} has no name in {format_name}; expected relu"
        )
    alpha, weight = config.attention[0], 1 / len(config.attention)
    if alpha == weight:
        return model, ()
    factor = alpha / weight
    values = {name: model.tensors[name] for name in ("W_V", "b_V")}
    scaled = {name: (x * factor).astype(x.dtype) for name, x in values.items()}
    exact = all(
        np.array_equal(scaled[n].astype(np.float64), x.astype(np.float64) * factor)
        for n, x in values.items()
    )
    uniform = dataclasses.replace(config, attention=(weight,) * len(config.attention))
    how = "exactly" if exact else "rounded to the weights' own precision"
    note = (
        f"attention {alpha:.6g} became {weight:.6g} by scaling W_V and b_V by {factor:.6g}, {how}"
    )
    return model.replace(uniform, **scaled), (note,)


def _hooked_state_dict(model: Weights) -> dict[str, np.ndarray]:
    """Return the full state dict, with zero queries and keys.

    The two buffers have the form of versions since 3.5.
    """
    zeros = {
        name: np.zeros_like(model.W_V if name.startswith("W_") else model.b_V) for name in QUERY_KEY
    }
    tensors = {PAIR_NAMES[name]: array for name, array in {**model.tensors, **zeros}.items()}
    mask, ignore = BUFFERS
    return tensors | {
        mask: np.zeros((0, 0), dtype=bool),
        ignore: np.array(-np.inf, dtype=np.float32),
    }


def _hooked_config(config: Config) -> Mapping[str, Any]:
    """Return the arguments of `HookedTransformerConfig`, and what it has no name for."""
    widths = ("d_model", "n_ctx", "d_head", "n_heads", "d_mlp", "d_vocab", "d_vocab_out")
    return {
        "hooked_transformer_config": {
            "n_layers": 1,
            **{name: getattr(config, name) for name in widths},
            "act_fn": config.activation,
            "normalization_type": None,
            "attention_dir": "causal",
        },
        "p": config.p,
        "attention": list(config.attention),
        "read_position": config.read_position,
        "b_token_offset": config.b_token_offset,
        **({"task": config.task.name} if config.task.by_formula else {}),
        **({"equals_token": config.equals_token} if config.has_equals else {}),
    }
