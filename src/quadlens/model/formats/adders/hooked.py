"""TransformerLens' state dicts of one layer whose task is one on sequences: said by a setting or a config."""

import dataclasses
import math
import re

import numpy as np

from quadlens.errors import BadConfig
from quadlens.model.formats.adders.parts import Parts, built
from quadlens.model.formats.checkpoint import Checkpoint
from quadlens.model.formats.facts import Missing, agreed, finite_number, known_activation, switch
from quadlens.model.formats.protocol import Hints, Imported, Sniff
from quadlens.model.norm import Norm, Norms
from quadlens.model.sequence import TaskSpec

SEQUENCE_TASK = re.compile(r"(cumsum-sign|max):\d{1,3}")
RENAMED = {
    "blocks.0.attn.": "",
    "blocks.0.mlp.": "mlp.",
    "blocks.0.": "",
    "unembed.": "",
    "embed.": "",
    "pos_embed.": "",
}
EPS = 1e-5


def sequence_task(hints: Hints) -> str | None:
    """The task on sequences that a setting or a config names, None where neither does."""
    for said in (hints.task, hints.of("task")):
        if isinstance(said, str) and SEQUENCE_TASK.fullmatch(said):
            return said
    return None


class HookedSequence:
    """`HookedTransformer.state_dict()`: ARENA's running sums, Gross et al.'s max-of-K, and anybody's."""

    name = "transformer-lens-sequence"

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """W_O of rank 3 under TransformerLens' names, and a task on sequences."""
        if sequence_task(hints) is None:
            return Sniff(0.0, ("no task on sequences is named",))
        rank = checkpoint.rank("blocks.0.attn.W_O")
        return Sniff(1.0, ("W_O has rank 3",)) if rank == 3 else Sniff(0.0, (f"blocks.0.attn.W_O has rank {rank}",))

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Scores over √d_head and a causal mask are TransformerLens' defaults; a config may say otherwise."""
        source, missing = checkpoint.source, Missing(checkpoint.source)
        claims = [("the setting task", hints.task), (hints.sidecar_name, hints.of("task"))]
        task = agreed("the task", source, claims, "task")
        parts = Parts(checkpoint, RENAMED)
        parts.drop("buffers", "mask", "IGNORE")
        W_E, W_U = parts.take("W_E", "v", "d"), parts.take("W_U", "d", "c")
        W_Q = parts.take("W_Q", "h", "d", "k")
        W_in = parts.take_if("mlp.W_in", "d", "m")
        activation = known_activation(source, hints, None, "the file", missing) if W_in is not None else None
        if task is None or missing:
            raise missing.error()
        norm = _norm(source, hints)
        parts.notes.append(f"task {task[0]}: {task[1]}")
        if task[0].startswith("cumsum"):
            # -m … m index rows as Python does, -1 being the last; here token 0 is -m.
            W_E = np.roll(W_E, len(W_E) // 2, axis=0)
            parts.notes.append("numbers are fed as they are, so that the rows of W_E are those of 0 … m, -m … -1")
        tensors = {
            "W_E": W_E,
            "W_pos": parts.take("W_pos", "t", "d"),
            "W_Q": W_Q,
            "W_K": parts.take("W_K", "h", "d", "k"),
            "W_V": parts.take("W_V", "h", "d", "k"),
            "W_O": parts.take("W_O", "h", "k", "d"),
            **{f"b_{x}": parts.take_if(f"b_{x}", "h", "k") for x in "QKV"},
            "b_O": parts.take_if("b_O", "d"),
            **{f"{ln}_{x}": parts.take_if(f"{ln}.{x}", "d") for ln in ("ln1", "ln2", "ln_final") for x in "wb"},
            "W_in": W_in,
            "b_in": parts.take_if("mlp.b_in", "m"),
            "W_out": parts.take_if("mlp.W_out", "m", "d"),
            "b_out": parts.take_if("mlp.b_out", "d"),
            "W_U": W_U,
            "b_U": parts.take_if("b_U", "c"),
        }
        return built(
            parts,
            dataclasses.replace(hints, activation=None),
            self.name,
            _task(source, task[0], len(W_E)),
            tensors,
            activation="relu" if activation is None else activation[0],
            divisor=_divisor(source, hints, parts.width("k")),
            norms=Norms(attention=norm, mlp=None if W_in is None else norm, final=norm),
        )


def _task(source: str, name: str, tokens: int) -> TaskSpec:
    """The task with what the number of tokens says: of numbers -m … m there are 2m + 1."""
    if name.startswith("max:"):
        return TaskSpec(name, tokens=tokens)
    if tokens % 2 == 0 or tokens < 3:
        raise BadConfig(f"{source}: {name} has an odd number of tokens, -m … m; the network has {tokens}")
    return TaskSpec(name, largest=tokens // 2)


def _norm(source: str, hints: Hints) -> Norm | None:
    """What a config says of norms; nothing where it is silent, as everywhere in TransformerLens' formats."""
    kind = hints.of("normalization_type")
    if kind not in (None, "LN", "LNPre", "RMS", "RMSPre"):
        raise BadConfig(f"{source}: normalization_type is {str(kind)[:40]!r}; expected LN, LNPre, RMS, RMSPre or null")
    if kind is None:
        return None
    eps = hints.of("eps")
    return Norm(
        "layer" if str(kind).startswith("LN") else "rms",
        EPS if eps is None else finite_number(hints.sidecar_name, "eps", eps),
    )


def _divisor(source: str, hints: Hints, d_head: int) -> float:
    """√d_head, unless a config has attn_scale, or use_attn_scale false."""
    if hints.of("attention_dir") not in (None, "causal"):
        raise BadConfig(f"{source}: attention_dir is not causal; a network on sequences is read with a causal mask")
    scale = hints.of("attn_scale")
    if switch(hints, "use_attn_scale") is False:
        return 1.0
    return math.sqrt(d_head) if scale is None else finite_number(hints.sidecar_name, "attn_scale", scale)
