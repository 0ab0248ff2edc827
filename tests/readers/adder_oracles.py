"""Forward passes of public adders as their authors describe them, in NumPy on the tensors of their
own files.

Nothing here is shared with the readers: no tensor is rearranged into ours, and every position's
logits are computed.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Tensors = Mapping[str, np.ndarray]
Array = np.ndarray


def gelu(x: Array) -> Array:
    return x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def rms(x: Array, eps: float, w: Array | float = 1.0) -> Array:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * w


def layer(x: Array, eps: float, w: Array | float, b: Array | float) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * w + b


def attend(q: Array, k: Array, v: Array, fixed: Array | None = None) -> Array:
    """Of [n, heads, t, width] each; causal unless a fixed part of the scores is added."""
    T = q.shape[2]
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    scores = scores + (
        np.where(np.tril(np.ones((T, T))) > 0, 0.0, -np.inf) if fixed is None else fixed[:, :T, :T]
    )
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def heads(x: Array, n: int) -> Array:
    return x.reshape(*x.shape[:2], n, -1).transpose(0, 2, 1, 3)


def joined(x: Array) -> Array:
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def wide(tensors: Tensors) -> dict[str, Array]:
    return {name: x.astype(np.float64) if x.dtype.kind == "f" else x for name, x in tensors.items()}


def split_stream(tensors: Tensors, tokens: Array, n_heads: int, config: Mapping[str, Any]) -> Array:
    """MicroAdder and JackCai1206's: x = [token | position].

    Queries and keys of positions, values of tokens.
    """
    t = {
        name.replace("blocks.0.attn.", "").replace("blocks.0.ffn.", ""): x
        for name, x in wide(tensors).items()
    }
    t = {name.replace("blocks.0.", "").replace("pos_spiral", "spiral"): x for name, x in t.items()}
    table = t.get("tok_emb.weight")
    if table is None:
        angles = t["tok_arc_start"] + np.arange(10) * t["tok_arc_stride"]
        B = t["tok_arc_A"] if config.get("tie_tok_arc_ab", "tok_arc_B" not in t) else t["tok_arc_B"]
        table = np.stack([t["tok_arc_A"] * np.cos(angles), B * np.sin(angles)], axis=1)
    last = t["z_hi_pos"] if "z_hi_pos" in t else t["z10_enc"]
    digits = t.get("digit_enc")
    if digits is None:
        i = np.arange(10)
        angle = 2 * np.pi * i / 10 + t["spiral_phase"]
        digits = np.zeros((10, last.shape[1]))
        digits[:, 0], digits[:, 1] = (
            t["spiral_amp"] * np.cos(angle),
            t["spiral_amp"] * np.sin(angle),
        )
        digits[:, 2] = t["spiral_slope"] * i + t["spiral_offset"]
        correction = t.get("pos_correction", np.zeros(10))
        if "pos_corr_slope" in t:
            correction = t["pos_corr_intercept"] + t["pos_corr_slope"] * i
        digits = digits * (1 + correction)[:, None]
    special = next(
        (t[name] for name in ("special_pos", "special_enc", "special_pos_learned") if name in t),
        None,
    )
    if special is None:
        special = np.concatenate([t["_plus_pos"], t["special_pos_equals"]])
    places = [*digits, special[0], *digits, special[1], *digits, last[0]]
    tok = table.shape[1]
    x = np.concatenate(
        [table[tokens], np.stack([places[: tokens.shape[1]]] * len(tokens))], axis=-1
    )
    shared = config.get("norm_mode", "full") != "full"

    def norm(x: Array, name: str, other: str) -> Array:
        chosen = next(one for one in (name, other, "ln1", "norm1") if f"{one}.weight" in t)
        if shared:
            chosen = "ln1" if "ln1.weight" in t else "norm1"
        if f"{chosen}.bias" in t:
            return layer(x, 1e-5, t[f"{chosen}.weight"], t[f"{chosen}.bias"])
        return rms(x, 1e-5, t[f"{chosen}.weight"])

    h, head = norm(x, "ln1", "norm1"), t["head_proj.weight"]
    q = h[..., tok:] @ t["q_proj.weight"].T
    k = h[..., tok:] @ t.get("k_proj.weight", t["q_proj.weight"]).T
    tied = config.get("tie_vo", "v_proj.weight" not in t)
    v = h[..., :tok] @ head if tied else h[..., :tok] @ t["v_proj.weight"].T
    q, k, v = (heads(one, n_heads) for one in (q, k, v))
    if "q_phase_angle" in t:
        cos, sin, turned = (
            np.cos(t["q_phase_angle"])[:, None],
            np.sin(t["q_phase_angle"])[:, None],
            q.copy(),
        )
        for pair in range(q.shape[-1] // 2):
            a, b = q[..., 2 * pair], q[..., 2 * pair + 1]
            turned[..., 2 * pair], turned[..., 2 * pair + 1] = a * cos - b * sin, a * sin + b * cos
        q = turned
    out = joined(attend(q, k, v))
    x = x + (
        out @ t["out_proj.A"] @ t["out_proj.B"]
        if "out_proj.A" in t
        else out @ t["out_proj.weight"].T
    )
    fc1, fc2 = ("fc1", "fc2") if "fc1.weight" in t else ("ffn.0", "ffn.2")
    hidden = gelu(norm(x, "ln2", "norm2") @ t[f"{fc1}.weight"].T + t.get(f"{fc1}.bias", 0.0))
    written = hidden @ t[f"{fc2}.weight"].T if f"{fc2}.weight" in t else hidden @ head
    x = x + written + t.get(f"{fc2}.bias", 0.0)
    return norm(x, "ln_f", "norm_f") @ head.T @ table.T


def low_rank(tensors: Tensors, tokens: Array, config: Mapping[str, Any]) -> Array:
    """yinglunz's, rezabyt's, lichengliu03's."""
    t = {name.replace("blocks.0.", ""): x for name, x in wide(tensors).items()}
    n_heads = config.get("n_head", 1)

    def linear(x: Array, name: str) -> Array:
        return (
            x @ t[f"{name}.A"] @ t[f"{name}.B"] if f"{name}.A" in t else x @ t[f"{name}.weight"].T
        )

    def norm(x: Array, name: str) -> Array:
        if config.get("use_rmsnorm", False):
            return rms(x, 1e-8, t[f"{name}.weight"])
        return layer(x, 1e-5, t[f"{name}.weight"], t[f"{name}.bias"])

    places = t["pos_emb.A"] @ t["pos_emb.B"] if "pos_emb.A" in t else t["pos_emb.weight"]
    x = t["token_emb.weight"][tokens] + places[: tokens.shape[1]]
    h = norm(x, "ln1")
    if config.get("tie_qkv", "none") == "shareA_tieKV":
        q, k = (h @ t["attn.qkv_A"] @ t[f"attn.qkv_B{name}"] for name in ("q", "kv"))
        v = k
    else:
        q, k, v = np.split(linear(h, "attn.qkv"), 3, axis=-1)
    x = x + linear(joined(attend(*(heads(one, n_heads) for one in (q, k, v)))), "attn.proj")
    x = x + linear(gelu(linear(norm(x, "ln2"), "mlp.fc1")), "mlp.fc2")
    return norm(x, "ln_f") @ t["token_emb.weight"].T


def plain(tensors: Tensors, tokens: Array) -> Array:
    """fblissjr's first one."""
    t = wide(tensors)
    x = t["embed.weight"][tokens] + t["pos_embed.weight"][: tokens.shape[1]]
    h = rms(x, 1e-8, t["block.ln1.weight"])
    out = attend(*(heads(h @ t[f"block.{name}_proj.weight"].T, 1) for name in "qkv"))
    x = x + joined(out) @ t["block.o_proj.weight"].T
    hidden = gelu(rms(x, 1e-8, t["block.ln2.weight"]) @ t["block.ff_up.weight"].T)
    x = x + hidden @ t["block.ff_down.weight"].T
    return rms(x, 1e-8, t["ln_f.weight"]) @ t["embed.weight"].T + t["lm_head_bias"]


def rope(x: Array, theta: float, pairs: bool) -> Array:
    """Of [n, heads, t, width]: features 2i and 2i + 1 turned together, or i and i + width / 2."""
    width, out = x.shape[-1], x.copy()
    for i in range(width // 2):
        angle = np.arange(x.shape[2]) / theta ** (2 * i / width)
        a, b = (2 * i, 2 * i + 1) if pairs else (i, i + width // 2)
        out[..., a] = x[..., a] * np.cos(angle) - x[..., b] * np.sin(angle)
        out[..., b] = x[..., a] * np.sin(angle) + x[..., b] * np.cos(angle)
    return out


def qwen(tensors: Tensors, tokens: Array, theta: float = 3.0) -> Array:
    """staghado's and, where there is an arc, vijec's."""
    t, arc = wide(tensors), "arc_A" in tensors
    if arc:
        names = {name.removeprefix("block."): x for name, x in t.items()}
        angle = t["arc_start"] + np.arange(10) * t["arc_stride"]
        table = np.stack(
            [t["arc_A"] * np.cos(angle), t["arc_A"] * np.sin(angle), np.zeros(10)], axis=1
        )
        attn, mlp, norms = "attn.", "mlp.", ("ln1", "ln2", "final_norm")
    else:
        names = {name.removeprefix("model.layers.0."): x for name, x in t.items()}
        table, attn, mlp = t["model.embed_tokens.weight"], "self_attn.", "mlp."
        norms = ("input_layernorm", "post_attention_layernorm", "model.norm")
    x = table[tokens]
    h = rms(x, 1e-6, names[f"{norms[0]}.weight"])
    width = len(names[f"{attn}q_norm.weight"])
    q, k = (h @ names[f"{attn}{name}_proj.weight"].T for name in "qk")
    v = h @ names[f"{attn}v_proj.weight"].T if f"{attn}v_proj.weight" in names else k
    q, k, v = (heads(one, one.shape[-1] // width) for one in (q, k, v))
    q, k = (
        rope(rms(one, 1e-6, names[f"{attn}{n}_norm.weight"]), theta, arc)
        for one, n in ((q, "q"), (k, "k"))
    )
    groups = q.shape[1] // k.shape[1]
    out = joined(attend(q, np.repeat(k, groups, axis=1), np.repeat(v, groups, axis=1)))
    o = names.get(f"{attn}o_proj.weight")
    x = x + (out @ names[f"{attn}q_proj.weight"] if o is None else out @ o.T)
    h = rms(x, 1e-6, names[f"{norms[1]}.weight"])
    hidden = silu(h @ names[f"{mlp}gate_proj.weight"].T) * (h @ names[f"{mlp}up_proj.weight"].T)
    x = x + hidden @ names[f"{mlp}down_proj.weight"].T
    return rms(x, 1e-6, names[f"{norms[2]}.weight"]) @ table.T


def tied_qwen(tensors: Tensors, tokens: Array) -> Array:
    """dimopep's: one head, keys are values, and what attention writes goes back through the
    queries' matrix.
    """
    t = wide(tensors)
    x = t["embedding.weight"][tokens]
    h = rms(x, 1e-6, t["norm1.weight"])
    keys = heads(h @ t["W_kv.weight"].T, 1)
    queries = rope(rms(heads(h @ t["W_q.weight"].T, 1), 1e-6, t["q_norm.weight"]), 3.0, pairs=True)
    out = attend(queries, rope(rms(keys, 1e-6, t["k_norm.weight"]), 3.0, pairs=True), keys)
    x = x + joined(out) @ t["W_q.weight"]
    h = rms(x, 1e-6, t["norm2.weight"])
    x = x + silu(h @ t["W_gate.weight"].T) * (h @ t["W_up.weight"].T) @ t["W_down.weight"].T
    return rms(x, 1e-6, t["norm_final.weight"]) @ t["embedding.weight"].T


def masked(tensors: Tensors, tokens: Array, norms: bool = True) -> Array:
    """fblissjr's with a fixed part of the scores."""
    t = wide(tensors)
    fixed = t["fixed_mask"] if "fixed_mask" in t else t["alibi"]
    x = t["embed.weight"][tokens]
    h = rms(x, 1e-6) if norms else x
    q, k, v = (heads(h @ t[f"{name}_proj.weight"].T, len(fixed)) for name in "qkv")
    x = x + joined(attend(q, k, v, fixed)) @ t["o_proj.weight"].T
    h = rms(x, 1e-6) if norms else x
    x = x + np.maximum(h @ t["mlp_up.weight"].T + t["mlp_up.bias"], 0) @ t["mlp_down.weight"].T
    return (rms(x, 1e-6) if norms else x) @ t["lm_head.weight"].T + t["lm_head.bias"]


def hooked(tensors: Tensors, tokens: Array, numbers: int = 0, norm: bool = False) -> Array:
    """TransformerLens' network on sequences.

    Numbers -m … m (m = `numbers`) are fed as they are; LayerNorm without weights, or none.
    """
    t = {name.replace("blocks.0.", ""): x for name, x in wide(tensors).items()}
    fold = (lambda x: layer(x, 1e-5, 1.0, 0.0)) if norm else (lambda x: x)
    x = t["embed.W_E"][tokens - numbers] + t["pos_embed.W_pos"]
    h = fold(x)
    q, k, v = (
        np.einsum("ntd,hdk->nhtk", h, t[f"attn.W_{n}"]) + t[f"attn.b_{n}"][:, None] for n in "QKV"
    )
    x = x + np.einsum("nhtk,hkd->ntd", attend(q, k, v), t["attn.W_O"]) + t["attn.b_O"]
    if "mlp.W_in" in t:
        x = (
            x
            + np.maximum(fold(x) @ t["mlp.W_in"] + t["mlp.b_in"], 0) @ t["mlp.W_out"]
            + t["mlp.b_out"]
        )
    return fold(x) @ t["unembed.W_U"] + t["unembed.b_U"]
