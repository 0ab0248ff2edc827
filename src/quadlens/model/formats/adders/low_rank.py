"""Adders with learned positions and gelu: yinglunz's, rezabyt's and lichengliu03's factors, fblissjr's first one."""

import numpy as np
from jaxtyping import Float

from quadlens.errors import BadConfig, BadFile
from quadlens.model.formats.adders.parts import (
    Marked,
    Parts,
    Settings,
    add_task,
    built,
    check_heads,
    factored,
    reading_heads,
    writing_heads,
)
from quadlens.model.formats.checkpoint import Checkpoint
from quadlens.model.formats.protocol import Hints, Imported
from quadlens.model.norm import Norm, Norms

PLUS, EQUALS = 10, 11
RMS = Norm("rms", 1e-8)
LAYER = Norm("layer", 1e-5)
# Where queries, keys and values share the factor A: which factor B each has.
SHARED = {"shareA": ("q", "k", "v"), "shareA_tieKV": ("q", "kv", "kv"), "shareA_tieQK": ("qk", "qk", "v")}
RENAMED = {"blocks.0.attn.": "", "blocks.0.mlp.": "", "blocks.0.": ""}


class LowRank(Marked):
    """`model_state` beside `model_config`: matrices as products A B of low rank, x and y highest digit first."""

    name = "low-rank-adder"
    marks = (("token_emb.weight", "blocks.0.ln1.weight", "ln_f.weight"),)

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """The config says which norm, how many heads and what is tied; names say what is a product."""
        settings = Settings.of(checkpoint, hints, "model_config")
        settings.need(settings, "n_head, use_rmsnorm and tie_qkv")
        settings.only(n_layer=1, norm_type="", pe_type="learned", token_emb_rank=0, use_index_emb=False, lm_head_rank=0)
        parts, n_heads = Parts(checkpoint, RENAMED), settings.get("n_head", 1)
        tokens = parts.take("token_emb.weight", "v", "d")
        if not np.array_equal(tokens, parts.take("lm_head.weight", "v", "d")):
            raise BadFile(f"{checkpoint.source}: lm_head.weight is not token_emb.weight, to which the program ties it")
        task = add_task(PLUS, EQUALS, highest_first=True)
        parts.notes.append("the answer ends after eleven digits, as the published program reads it")
        d, positions = parts.width("d"), _matrix(parts, "pos_emb", "t", "d", turned=False)
        check_heads(checkpoint.source, d, n_heads)
        W_Q, W_K, W_V = (reading_heads(x.T, n_heads) for x in _queries(parts, settings.get("tie_qkv", "none")))
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
            parts, hints, self.name, task, tensors, activation="gelu", norms=Norms(attention=norm, mlp=norm, final=norm)
        )


class PlainAdder(Marked):
    """fblissjr/AdderBoard, archive: `block.q_proj.weight` and a bias on the logits; one head, RMSNorm."""

    name = "plain-adder"
    marks = (("block.q_proj.weight", "lm_head_bias"),)

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """One head is the published program's, which reads a twelfth token."""
        parts = Parts(checkpoint, {"block.": ""})
        tokens = parts.take("embed.weight", "v", "d")
        task = add_task(PLUS, EQUALS, highest_first=True, stop=True)
        parts.notes.append("one head; a twelfth token is read, which must be no digit, or 0: the published program")
        tensors = {
            "W_E": tokens,
            "W_pos": cut(parts, parts.take("pos_embed.weight", "t", "d"), len(task.template)),
            **{f"W_{x.upper()}": reading_heads(parts.take(f"{x}_proj.weight", "d", "d"), 1) for x in "qkv"},
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


def cut(parts: Parts, positions: Float[np.ndarray, "t d"], n: int) -> Float[np.ndarray, "n d"]:
    """The positions that are fed; refuses a network with fewer."""
    if len(positions) < n:
        raise BadFile(f"{parts.source}: {len(positions)} positions; ten digits and their sum take {n}")
    return positions[:n]


def _matrix(parts: Parts, name: str, rows: str, columns: str, turned: bool = True) -> Float[np.ndarray, "rows columns"]:
    """A product A B, or the matrix itself; `turned` where it is kept as `nn.Linear` keeps it."""
    if f"{name}.A" in parts:
        return parts.take(f"{name}.A", rows, f"{name} rank") @ parts.take(f"{name}.B", f"{name} rank", columns)
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
        raise BadConfig(f"{parts.source}: tie_qkv is {tie[:40]!r}; quadlens reads none, {', '.join(SHARED)}")
    both = _matrix(parts, "qkv", "d", "three d")
    if both.shape[1] != 3 * d:
        raise BadFile(f"{parts.source}: qkv has {both.shape[1]} columns, expected 3 · {d}")
    return np.split(both, 3, axis=1)
