"""Read adders in Qwen3's layout: RoPE, normalised queries and keys, SwiGLU, ten tokens.

They are staghado's, vijec's and dimopep's.
"""

import math
from typing import Literal

import numpy as np
from jaxtyping import Float

from quadlens.base.errors import BadConfig, BadFile
from quadlens.network.norm import Norm, Norms
from quadlens.readers.adders.parts import (
    DIGITS,
    Array,
    Parts,
    Settings,
    built,
    check_heads,
    framed_task,
    narrowed,
    reading_heads,
    writing_heads,
)
from quadlens.readers.checkpoint import Checkpoint
from quadlens.readers.protocol import Hints, Imported, Marked, Sniff

NORM = Norm("rms", 1e-6)
# The programs of staghado and dimopep fix it.
THETA = 3.0
RENAMED = {
    "model.layers.0.self_attn.": "attn.",
    "model.layers.0.mlp.": "mlp.",
    "model.layers.0.input_layernorm.": "ln1.",
    "model.layers.0.post_attention_layernorm.": "ln2.",
    "model.norm.": "final_norm.",
    "model.embed_tokens.": "embed.",
}
TIED_RENAMED = {
    "embedding.": "embed.",
    "norm1.": "ln1.",
    "norm2.": "ln2.",
    "norm_final.": "final_norm.",
    "W_q.": "attn.q_proj.",
    "W_kv.": "attn.k_proj.",
    "q_norm.": "attn.q_norm.",
    "k_norm.": "attn.k_norm.",
    "W_gate.": "mlp.gate_proj.",
    "W_up.": "mlp.up_proj.",
    "W_down.": "mlp.down_proj.",
}


class Qwen(Marked):
    """staghado/minimal-ten-digit-addition-transformer: MLX's Qwen3 with ten tokens, `.npz`."""

    name = "qwen-adder"
    marks = (("model.embed_tokens.weight", "model.layers.0.self_attn.q_norm.weight"),)

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """Qwen3's names with a vocabulary of ten digits, and logits against the embedding."""
        sniff = super().sniff(checkpoint, hints)
        if sniff.confidence and len(checkpoint.tensors["model.embed_tokens.weight"]) != DIGITS:
            return Sniff(0.0, (*sniff.reasons, "but its tokens are not the ten digits"))
        return sniff

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Read the network; the published program fixes θ = 3 and its inputs.

        The number of heads is the queries' width over the norm's.
        """
        parts = Parts(checkpoint, RENAMED)
        parts.notes.append(
            "RoPE with θ = 3, cosines and sines of real angles, halves; eps 1e-6: the published "
            "program"
        )
        return _read(
            parts, hints, self.name, parts.take("embed.weight", DIGITS, "d"), THETA, "halves"
        )


class ArcQwen(Marked):
    """vijec/AdderBoard-Submission: Qwen3 in PyTorch, its embedding an arc of a circle.

    Projections are tied.
    """

    name = "arc-qwen-adder"
    marks = (("arc_A", "block.attn.q_proj.weight"),)

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """θ is in the file's config; what is tied is what the file does not have twice."""
        settings = Settings.saved_with(checkpoint, hints, "config")
        theta = settings.get("rope_theta", 0.0)
        settings.need(math.isfinite(theta) and theta > 0, "rope_theta", "give a config that has it")
        parts = Parts(checkpoint, {"block.": ""})
        A, start, stride = (float(parts.take(f"arc_{x}")) for x in ("A", "start", "stride"))
        ln1 = checkpoint.tensors.get("block.ln1.weight")
        d = 0 if ln1 is None or ln1.ndim != 1 else len(ln1)
        if d not in (2, 3):
            raise BadConfig(
                f"{checkpoint.source}: an arc in a stream of {d}; the program has 2 or 3"
            )
        angle = start + np.arange(DIGITS) * stride
        tokens = np.zeros((DIGITS, d))
        tokens[:, :2] = np.stack([A * np.cos(angle), A * np.sin(angle)], axis=1)
        parts.notes.append(
            "RoPE: cosines and sines of real angles, neighbours; eps 1e-6: the published program"
        )
        return _read(parts, hints, self.name, tokens, theta, "pairs")


class TiedQwen(Marked):
    """dimopep's 140 parameters: keys are values, and queries and outputs share a matrix."""

    name = "tied-qwen-adder"
    marks = (("W_kv.weight", "norm_final.weight"),)

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Read the tensors; the published program fixes θ = 3 and the order of the tokens."""
        parts = Parts(checkpoint, TIED_RENAMED)
        parts.notes.append(
            "RoPE with θ = 3, cosines and sines of real angles, neighbours; eps 1e-6: the "
            "published program"
        )
        return _read(
            parts, hints, self.name, parts.take("embed.weight", DIGITS, "d"), THETA, "pairs"
        )


def _read(
    parts: Parts,
    hints: Hints,
    format_name: str,
    tokens: Float[np.ndarray, "v d"],
    theta: float,
    rope: Literal["halves", "pairs"],
) -> Imported:
    """Build the network; projections that the file does not have are tied.

    Values then share the keys' projection, and outputs the queries'.
    """
    ln1_w, ln2_w, final_w = (
        parts.take(f"{x}.weight", tokens.shape[1]) for x in ("ln1", "ln2", "final_norm")
    )
    q_norm, k_norm = (parts.take(f"attn.{x}_norm.weight", "k") for x in "qk")
    width = parts.width("k")
    q, k = parts.take("attn.q_proj.weight", "q", "d"), parts.take("attn.k_proj.weight", "kv", "d")
    d = parts.width("d")
    if d != tokens.shape[1]:
        raise BadFile(
            f"{parts.source}: projections read a stream of {d}, tokens have {tokens.shape[1]}"
        )
    v = parts.take("attn.v_proj.weight", "kv", "d") if "attn.v_proj.weight" in parts else k
    o = parts.take("attn.o_proj.weight", "d", "q") if "attn.o_proj.weight" in parts else q.T
    n_heads, groups = len(q) // width, len(k) // width
    for rows, n in ((len(q), n_heads), (len(k), groups), (n_heads, groups)):
        check_heads(parts.source, rows, n)
    if len(q) != n_heads * width or len(k) != groups * width or width % 2:
        raise BadFile(
            f"{parts.source}: {len(q)} and {len(k)} rows are not heads of {width}, an even width"
        )
    W_K, W_V = (np.repeat(reading_heads(x, groups), n_heads // groups, axis=0) for x in (k, v))
    live = np.flatnonzero(np.any(tokens != 0, axis=0)).tolist()
    out: dict[str, Array] = narrowed(W_V, writing_heads(o, n_heads), live)
    gate, up = (parts.take(f"mlp.{x}_proj.weight", "m", "d").T for x in ("gate", "up"))
    task = framed_task()
    angle = np.arange(len(task.template))[:, None] * theta ** -(np.arange(0, width, 2) / width)
    tensors = {
        "W_E": tokens,
        "ln1_w": ln1_w,
        "W_Q": reading_heads(q, n_heads),
        "W_K": W_K,
        "q_norm_w": q_norm,
        "k_norm_w": k_norm,
        **out,
        "rope_cos": np.cos(angle),
        "rope_sin": np.sin(angle),
        "ln2_w": ln2_w,
        "W_gate": gate,
        "W_in": up,
        "W_out": parts.take("mlp.down_proj.weight", "d", "m").T,
        "ln_final_w": final_w,
        "W_U": tokens.T,
    }
    norms = Norms(attention=NORM, query_key=NORM, mlp=NORM, final=NORM)
    return built(
        parts,
        hints,
        format_name,
        task,
        tensors,
        activation="silu",
        gated=True,
        norms=norms,
        rope=rope,
    )
