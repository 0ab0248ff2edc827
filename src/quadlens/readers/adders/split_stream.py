"""Read adders whose residual stream is a token's part beside a position's.

They are MicroAdder, and JackCai1206's before it.

Queries and keys read the position's part, values the token's. The answer's logits are against the
embedding itself.
"""

import math

import numpy as np
from jaxtyping import Float

from quadlens.base.errors import BadConfig
from quadlens.network.norm import Norm, Norms
from quadlens.readers.adders.parts import (
    DIGITS,
    Array,
    Parts,
    Settings,
    add_task,
    built,
    check_heads,
    factored,
    narrowed,
    reading_heads,
    writing_heads,
)
from quadlens.readers.checkpoint import Checkpoint
from quadlens.readers.protocol import Hints, Imported, Marked

EPS = 1e-5
# With more tokens than digits, '+' is 10 and '=' is 11; with ten, 0 stands for both.
PLUS, EQUALS = 10, 11
RENAMED = {
    "blocks.0.attn.": "",
    "blocks.0.ffn.": "",
    "blocks.0.": "",
    "norm1.": "ln1.",
    "norm2.": "ln2.",
    "norm_f.": "ln_f.",
}
SPIRAL_RENAMED = {
    "ffn.0.": "fc1.",
    "ffn.2.": "fc2.",
    "pos_spiral_": "spiral_",
    "z10_enc": "z_hi_pos",
    "special_enc": "special_pos",
}
COMPUTED_ANEW = "the program computes it anew"
TIED = "the program uses one tensor for several"
# MicroAdder's settings that tie two tensors, and the one that its program leaves aside.
TIES = {
    "tie_qk": "k_proj.weight",
    "tie_vo": "v_proj.weight",
    "tie_tok_arc_ab": "tok_arc_B",
    "tie_fc2_head": "fc2.weight",
}


class MicroAdder(Marked):
    """evindor/MicroAdder: twelve layouts of 57 to 226 parameters.

    Files are those of its training program.
    """

    name = "microadder"
    # The position of the last digit, and the projection that queries and outputs share names with.
    marks = (("z_hi_pos", "head_proj.weight"),)

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Which tensors are tied is in the file's config; the rest its shapes say."""
        settings = Settings.saved_with(checkpoint, hints, "config")
        settings.need(settings, "which weights are tied, nor n_heads")
        settings.only(
            n_layers=1, qk_source="pos", qk_input="pos", attn_mode="split", v_section_mode="none"
        )
        settings.only(
            alibi=False, softmax1=False, num_kv_heads=0, q_proj_rank=0, q_proj_mode="full"
        )
        norm_mode = settings.get("norm_mode", "full")
        if norm_mode not in ("full", "shared", "weighted"):
            raise BadConfig(
                f"{checkpoint.source}: norm_mode is {norm_mode[:40]!r}; quadlens reads full, "
                "shared, weighted"
            )
        parts = Parts(checkpoint, RENAMED)
        parts.drop(COMPUTED_ANEW, "causal_mask", "_pos_sources", "_pos_indices")
        if norm_mode != "full":
            parts.drop(TIED, "ln2.weight", "ln_f.weight")
        for setting, name in TIES.items():
            if settings.get(setting, False):
                parts.drop(TIED, name)
        return _read(parts, hints, self.name, settings.get("n_heads", 0))


class SpiralAdder(Marked):
    """JackCai1206/smallest-addition-transformer: 234 to 260 parameters.

    It has RMSNorm or LayerNorm, and two heads.
    """

    name = "spiral-adder"
    # The position of the last digit, by its own name.
    marks = (("z10_enc", "head_proj.weight"),)

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Two heads: the one number of the published program that no shape says."""
        parts = Parts(checkpoint, SPIRAL_RENAMED)
        parts.drop(COMPUTED_ANEW, "causal_mask", "_pos_sources", "_pos_indices")
        parts.notes.append("two heads: the published program")
        return _read(parts, hints, self.name, 2)


def _read(parts: Parts, hints: Hints, format_name: str, n_heads: int) -> Imported:
    tokens = _token_table(parts)
    V, tok = tokens.shape
    head = parts.take("head_proj.weight", "tok", "d")
    places = _places(parts)
    d, pos = parts.width("d"), parts.width("pos")
    if parts.width("tok") != tok or d != tok + pos:
        raise BadConfig(
            f"{parts.source}: a stream of {d} cannot be a token's {tok} beside a position's {pos}"
        )
    ten = V == DIGITS
    task = add_task(0 if ten else PLUS, 0 if ten else EQUALS, stop=not ten)
    parts.notes.append(
        "ten tokens, 0 for '+' and '=': the answer ends after eleven digits"
        if ten
        else "add() of the published program reads a twelfth token, which must be no digit, or 0"
    )
    ln1, ln2, ln_f = (_norm(parts, name) for name in ("ln1", "ln2", "ln_f"))
    norms = {
        "ln1": ln1,
        **{ours: ln1 if x[0] is None else x for ours, x in (("ln2", ln2), ("ln_final", ln_f))},
    }
    W_in = parts.take("fc1.weight", "m", "d").T
    W_out = parts.take("fc2.weight", "d", "m").T if "fc2.weight" in parts else head
    norm = Norm("rms" if ln1[1] is None else "layer", EPS)
    attention = _attention(parts, head, n_heads)
    tensors = {
        "W_E": np.pad(tokens, ((0, 0), (0, pos))),
        "W_pos": np.pad(places, ((0, 0), (tok, 0))),
        **attention,
        **{
            f"{ours}_{kind}": x
            for ours, both in norms.items()
            for kind, x in zip("wb", both, strict=True)
        },
        "W_in": W_in,
        "b_in": parts.take_if("fc1.bias", "m"),
        "W_out": W_out,
        "b_out": parts.take_if("fc2.bias", "d"),
        "W_U": head.T @ tokens.T,
    }
    return built(
        parts,
        hints,
        format_name,
        task,
        tensors,
        activation="gelu",
        norms=Norms(attention=norm, mlp=norm, final=norm),
    )


def _norm(parts: Parts, name: str) -> tuple[Array | None, Array | None]:
    return parts.take_if(f"{name}.weight", "d"), parts.take_if(f"{name}.bias", "d")


def _token_table(parts: Parts) -> Float[np.ndarray, "v tok"]:
    """The embedding: stored, or ten points of an ellipse (A cos, B sin)(start + digit · stride)."""
    if "tok_emb.weight" in parts:
        return parts.take("tok_emb.weight", "v", "tok")
    A, start, stride = (float(parts.take(f"tok_arc_{name}")) for name in ("A", "start", "stride"))
    B = float(parts.take("tok_arc_B")) if "tok_arc_B" in parts else A
    angle = start + np.arange(DIGITS) * stride
    return np.stack([A * np.cos(angle), B * np.sin(angle)], axis=1)


def _places(parts: Parts) -> Float[np.ndarray, "t pos"]:
    """Return the positions' part of the stream.

    The i-th digits of x, y and z share one. '+', '=' and the eleventh digit have their own.
    """
    last = parts.take("z_hi_pos", 1, "pos")
    if "special_pos" in parts:
        special = parts.take("special_pos", 3, "pos")
    elif "special_pos_learned" in parts:
        special = parts.take("special_pos_learned", 2, "pos")
    else:
        special = np.concatenate(
            [parts.take(name, 1, "pos") for name in ("_plus_pos", "special_pos_equals")]
        )
    parts.drop("nothing is read after it", "_eos_pos")
    digits = _spiral(parts) if "spiral_amp" in parts else parts.take("digit_enc", DIGITS, "pos")
    return np.concatenate([digits, special[:1], digits, special[1:2], digits, last])


def _spiral(parts: Parts) -> Float[np.ndarray, "ten pos"]:
    """Return the digits' positions as a spiral, scaled by its corrections.

    They are (amp cos α, amp sin α, slope i + offset, 0 …) with α = 2π i / 10 + phase.
    """
    amp, phase, slope, offset = (
        float(parts.take(f"spiral_{x}")) for x in ("amp", "phase", "slope", "offset")
    )
    i = np.arange(DIGITS)
    angle = 2 * math.pi * i / DIGITS + phase
    if parts.width("pos") < 3:
        raise BadConfig(
            f"{parts.source}: positions of {parts.width('pos')} numbers; quadlens reads spirals of "
            "3 or more"
        )
    points = np.zeros((DIGITS, parts.width("pos")))
    points[:, :3] = np.stack([amp * np.cos(angle), amp * np.sin(angle), slope * i + offset], axis=1)
    if "pos_correction" in parts:
        return points * (1 + parts.take("pos_correction", DIGITS))[:, None]
    if "pos_corr_slope" in parts:
        slope, start = (float(parts.take(f"pos_corr_{x}")) for x in ("slope", "intercept"))
        return points * (1 + start + slope * i)[:, None]
    return points


def _attention(parts: Parts, head: Float[np.ndarray, "tok d"], n_heads: int) -> dict[str, Array]:
    """Return W_Q, W_K, W_V and W_O.

    Where queries and keys are tied, a query is a key turned by an angle.
    """
    tok, d = head.shape
    q = parts.take("q_proj.weight", "queries", "pos")
    check_heads(parts.source, len(q), n_heads)
    k = parts.take("k_proj.weight", "queries", "pos") if "k_proj.weight" in parts else q
    W_Q, W_K = (np.pad(reading_heads(x, n_heads), ((0, 0), (tok, 0), (0, 0))) for x in (q, k))
    if "q_phase_angle" in parts:
        W_Q = _turned(W_Q, parts.take("q_phase_angle", n_heads))
    v = parts.take("v_proj.weight", "values", "tok") if "v_proj.weight" in parts else head.T
    check_heads(parts.source, len(v), n_heads)
    W_V = np.pad(reading_heads(v, n_heads), ((0, 0), (0, d - tok), (0, 0)))
    if "out_proj.A" in parts:
        A, B = parts.take("out_proj.A", len(v), "r"), parts.take("out_proj.B", "r", "d")
        return {"W_Q": W_Q, "W_K": W_K, **factored(W_V, A, B)}
    W_O = writing_heads(parts.take("out_proj.weight", "d", len(v)), n_heads)
    return {"W_Q": W_Q, "W_K": W_K, **narrowed(W_V, W_O, range(tok))}


def _turned(
    W_Q: Float[np.ndarray, "h d q"], angle: Float[np.ndarray, " h"]
) -> Float[np.ndarray, "h d q"]:
    """Turn each head's queries by its angle, neighbours (0, 1), (2, 3), … together.

    An odd last entry stays.
    """
    pairs = W_Q.shape[2] // 2 * 2
    u, v = W_Q[..., 0:pairs:2], W_Q[..., 1:pairs:2]
    cos, sin = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
    turned = W_Q.copy()
    turned[..., 0:pairs:2], turned[..., 1:pairs:2] = u * cos - v * sin, u * sin + v * cos
    return turned
