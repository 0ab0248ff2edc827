"""Read adders that are ordinary decoders, with learned positions or fixed scores.

Learned, with gelu: yinglunz's, rezabyt's and lichengliu03's factors, fblissjr's first one. Fixed:
fblissjr's of three heads, in whose scores -∞ is a mask.
"""

import re
from pathlib import Path

import numpy as np
from jaxtyping import Float

from quadlens.base.errors import BadConfig, BadFile
from quadlens.network.norm import Norm, Norms
from quadlens.readers.adders.parts import (
    Parts,
    Settings,
    add_task,
    built,
    check_heads,
    factored,
    reading_heads,
    writing_heads,
)
from quadlens.readers.checkpoint import Checkpoint
from quadlens.readers.protocol import Hints, Imported, Marked

PLUS, EQUALS = 10, 11
RMS = Norm("rms", 1e-8)
LAYER = Norm("layer", 1e-5)
MASKED_NORM = Norm("rms", 1e-6)
# Where queries, keys and values share the factor A: which factor B each has.
SHARED = {
    "shareA": ("q", "k", "v"),
    "shareA_tieKV": ("q", "kv", "kv"),
    "shareA_tieQK": ("qk", "qk", "v"),
}
# fblissjr's program names a file by its architecture, of which one has no norms.
RUN = re.compile(r"(?:submission_)?trained_((?:mask|steep|alibi)-\w+?)(?:_best)?")
WITHOUT_NORMS = "mask-nonorm"
RENAMED = {"blocks.0.attn.": "", "blocks.0.mlp.": "", "blocks.0.": ""}


class LowRank(Marked):
    """yinglunz's, rezabyt's and lichengliu03's layout: matrices of low rank.

    `model_state` lies beside `model_config`. Matrices are products A B; x and y come highest
    digit first.
    """

    name = "low-rank-adder"
    marks = (("token_emb.weight", "blocks.0.ln1.weight", "ln_f.weight"),)

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Read the network; norm, heads and ties are in the config.

        Names of tensors show which matrices are products.
        """
        settings = Settings.saved_with(checkpoint, hints, "model_config")
        settings.need(settings, "n_head, use_rmsnorm and tie_qkv")
        settings.only(
            n_layer=1,
            norm_type="",
            pe_type="learned",
            token_emb_rank=0,
            use_index_emb=False,
            lm_head_rank=0,
        )
        parts, n_heads = Parts(checkpoint, RENAMED), settings.get("n_head", 1)
        tokens = parts.take("token_emb.weight", "v", "d")
        if not np.array_equal(tokens, parts.take("lm_head.weight", "v", "d")):
            raise BadFile(
                f"{checkpoint.source}: lm_head.weight is not token_emb.weight, to which the "
                "program ties it"
            )
        task = add_task(PLUS, EQUALS, highest_first=True)
        parts.notes.append("the answer ends after eleven digits, as the published program reads it")
        d, positions = parts.width("d"), _matrix(parts, "pos_emb", "t", "d", turned=False)
        check_heads(checkpoint.source, d, n_heads)
        W_Q, W_K, W_V = (
            reading_heads(x.T, n_heads) for x in _queries(parts, settings.get("tie_qkv", "none"))
        )
        if "proj.A" in parts:
            out = factored(W_V, parts.take("proj.A", "d", "r"), parts.take("proj.B", "r", "d"))
        else:
            out = {"W_V": W_V, "W_O": writing_heads(parts.take("proj.weight", "d", "d"), n_heads)}
        norms = {
            f"{ours}_{kind[0]}": parts.take_if(f"{name}.{kind}", "d")
            for ours, name in (("ln1", "ln1"), ("ln2", "ln2"), ("ln_final", "ln_f"))
            for kind in ("weight", "bias")
        }
        W_in, W_out = _matrix(parts, "fc1", "d", "m"), _matrix(parts, "fc2", "m", "d")
        norm = RMS if settings.get("use_rmsnorm", False) else LAYER
        tensors = {
            "W_E": tokens,
            "W_pos": cut(parts, positions, len(task.template)),
            "W_Q": W_Q,
            "W_K": W_K,
            **out,
            **norms,
            "W_in": W_in,
            "W_out": W_out,
            "W_U": tokens.T,
        }
        return built(
            parts,
            hints,
            self.name,
            task,
            tensors,
            activation="gelu",
            norms=Norms(attention=norm, mlp=norm, final=norm),
        )


class PlainAdder(Marked):
    """The first layout in fblissjr/AdderBoard's archive: one head, RMSNorm.

    Its marks are `block.q_proj.weight` and a bias on the logits.
    """

    name = "plain-adder"
    marks = (("block.q_proj.weight", "lm_head_bias"),)

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """One head is the published program's, which reads a twelfth token."""
        parts = Parts(checkpoint, {"block.": ""})
        tokens = parts.take("embed.weight", "v", "d")
        task = add_task(PLUS, EQUALS, highest_first=True, stop=True)
        parts.notes.append(
            "one head; a twelfth token is read, which must be no digit, or 0: the published program"
        )
        tensors = {
            "W_E": tokens,
            "W_pos": cut(parts, parts.take("pos_embed.weight", "t", "d"), len(task.template)),
            **{
                f"W_{x.upper()}": reading_heads(parts.take(f"{x}_proj.weight", "d", "d"), 1)
                for x in "qkv"
            },
            "W_O": writing_heads(parts.take("o_proj.weight", "d", "d"), 1),
            "ln1_w": parts.take("ln1.weight", "d"),
            "ln2_w": parts.take("ln2.weight", "d"),
            "ln_final_w": parts.take("ln_f.weight", "d"),
            "W_in": parts.take("ff_up.weight", "m", "d").T,
            "W_out": parts.take("ff_down.weight", "d", "m").T,
            "W_U": tokens.T,
            "b_U": parts.take("lm_head_bias", "v"),
        }
        norms = Norms(attention=RMS, mlp=RMS, final=RMS)
        return built(parts, hints, self.name, task, tensors, activation="gelu", norms=norms)


class Masked(Marked):
    """`fixed_mask` or `alibi`: what is added to each head's scores; norms without weights; ReLU."""

    name = "masked-adder"
    marks = (("fixed_mask", "mlp_up.weight"), ("alibi", "mlp_up.weight"))

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Read a network with as many heads as its fixed part; answers have eleven digits."""
        parts = Parts(checkpoint)
        fixed = parts.take(
            "fixed_mask" if "fixed_mask" in parts else "alibi", "h", "t", "t", finite=False
        )
        n_heads, task = parts.width("h"), add_task(PLUS, EQUALS)
        T = len(task.template)
        if parts.width("t") < T:
            raise BadFile(
                f"{checkpoint.source}: {parts.width('t')} positions; ten digits and their sum take "
                f"{T}"
            )
        fixed = fixed[:, :T, :T]
        mask = np.isfinite(fixed)
        if (
            not np.all(mask | np.isneginf(fixed))
            or not mask.any(axis=2).all()
            or np.triu(mask, 1).any()
        ):
            raise BadFile(
                f"{checkpoint.source}: the fixed part of its scores; expected numbers and -∞, at "
                "least one number in each row, none of a later position"
            )
        tokens = parts.take("embed.weight", "v", "d")
        check_heads(checkpoint.source, tokens.shape[1], n_heads)
        norm = MASKED_NORM if self._normalised(checkpoint, hints, parts) else None
        head, bias = parts.take_if("lm_head.weight", "v", "d"), parts.take_if("lm_head.bias", "v")
        parts.notes.append("the answer ends after eleven digits, as the published program reads it")
        tensors = {
            "W_E": tokens,
            **{
                f"W_{x.upper()}": reading_heads(parts.take(f"{x}_proj.weight", "d", "d"), n_heads)
                for x in "qkv"
            },
            "W_O": writing_heads(parts.take("o_proj.weight", "d", "d"), n_heads),
            "mask": mask.astype(np.float64),
            "score_bias": np.where(mask, fixed, 0.0),
            "W_in": parts.take("mlp_up.weight", "m", "d").T,
            "b_in": parts.take_if("mlp_up.bias", "m"),
            "W_out": parts.take("mlp_down.weight", "d", "m").T,
            "W_U": tokens.T if head is None else head.T,
            "b_U": bias,
        }
        norms = Norms(attention=norm, mlp=norm, final=norm)
        return built(parts, hints, self.name, task, tensors, norms=norms, mask="tensor")

    def _normalised(self, checkpoint: Checkpoint, hints: Hints, parts: Parts) -> bool:
        """Return whether the network has norms, which have no weights.

        The file's name contains the architecture; else a config says it.
        """
        if "alibi" in checkpoint.tensors:
            parts.notes.append(
                "RMSNorm without weights: all architectures of the program that have `alibi`"
            )
            return True
        settings = Settings(checkpoint.source, hints.sidecar)
        run = RUN.fullmatch(Path(checkpoint.source).stem)
        how = "give a config that has skip_norm, or keep the file's name, trained_<architecture>"
        settings.need(
            hints.in_config("skip_norm") is not None or run, "whether the network has norms", how
        )
        skipped = settings.get("skip_norm", run is not None and run[1] == WITHOUT_NORMS)
        who = "the config" if hints.in_config("skip_norm") is not None else "the file's name"
        parts.notes.append(f"{'no norms' if skipped else 'RMSNorm without weights'}: {who}")
        return not skipped


def cut(parts: Parts, positions: Float[np.ndarray, "t d"], n: int) -> Float[np.ndarray, "n d"]:
    """The positions that are fed; refuses a network with fewer."""
    if len(positions) < n:
        raise BadFile(
            f"{parts.source}: {len(positions)} positions; ten digits and their sum take {n}"
        )
    return positions[:n]


def _matrix(
    parts: Parts, name: str, rows: str, columns: str, turned: bool = True
) -> Float[np.ndarray, "rows columns"]:
    """A product A B, or the matrix itself; `turned` where it is kept as `nn.Linear` keeps it."""
    if f"{name}.A" in parts:
        return parts.take(f"{name}.A", rows, f"{name} rank") @ parts.take(
            f"{name}.B", f"{name} rank", columns
        )
    if turned:
        return parts.take(f"{name}.weight", columns, rows).T
    return parts.take(f"{name}.weight", rows, columns)


def _queries(parts: Parts, tie: str) -> list[Float[np.ndarray, "d d"]]:
    """What makes queries, keys and values of the stream."""
    d = parts.width("d")
    if tie in SHARED:
        A = parts.take("qkv_A", "d", "r_qkv")
        B = {x: parts.take(f"qkv_B{x}", "r_qkv", "d") for x in dict.fromkeys(SHARED[tie])}
        return [A @ B[x] for x in SHARED[tie]]
    if tie != "none":
        raise BadConfig(
            f"{parts.source}: tie_qkv is {tie[:40]!r}; quadlens reads none, {', '.join(SHARED)}"
        )
    both = _matrix(parts, "qkv", "d", "three d")
    if both.shape[1] != 3 * d:
        raise BadFile(f"{parts.source}: qkv has {both.shape[1]} columns, expected 3 · {d}")
    return np.split(both, 3, axis=1)
