"""The forward pass of a network on sequences, written the obvious way in float64."""

from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from quadlens.errors import BadConfig
from quadlens.model.activation import apply_activation
from quadlens.model.norm import Norm
from quadlens.model.sequence import SequenceConfig
from quadlens.model.weights import Weights

Array = Float[np.ndarray, "..."]


def sequence_config(weights: Weights) -> SequenceConfig:
    """The config of a network on sequences.

    Raises:
        BadConfig: for any other network.
    """
    config: object = weights.config
    if not isinstance(config, SequenceConfig):
        raise BadConfig("this network answers pairs; expected one on sequences, with a SequenceConfig")
    return config


def tensor(weights: Weights, name: str) -> Array:
    """A tensor in float64; one that is left out is 0, or 1 where it is a norm's weight."""
    if name in weights.tensors:
        return weights.tensors[name].astype(np.float64)
    return np.full(sequence_config(weights).shapes[name], 1.0 if name.endswith("_w") else 0.0)


def seen(weights: Weights, query: int, head: int) -> list[int]:
    """The positions that a head sees from position `query`."""
    if sequence_config(weights).mask == "causal":
        return list(range(query + 1))
    return [int(j) for j in np.flatnonzero(weights.mask[head, query])]


def forward(weights: Weights, tokens: Int[np.ndarray, "n t"], query: int) -> Float[np.ndarray, "n c"]:
    """Logits at position `query` of each row of tokens (docs/sequences.md §1 has the formulas).

    Args:
        weights: A network on sequences.
        tokens: One input in each row, from position 0 on.
        query: The position whose answer is asked for.
    """
    config, of = sequence_config(weights), partial(tensor, weights)
    x = of("W_E")[tokens] + of("W_pos")[: tokens.shape[1]]
    n = _norm(weights, "attention", "ln1", x)
    q, k = (_rotated(weights, n, name) for name in "QK")
    out = x[:, query] + of("b_O")
    for h in range(config.n_heads):
        keys_at = seen(weights, query, h)
        score = np.einsum("nd,njd->nj", q[:, query, h], k[:, keys_at, h]) / config.divisor
        score = score + of("score_bias")[h, query, keys_at]
        weight = np.exp(score - score.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        value = n[:, keys_at] @ of("W_V")[h] + of("b_V")[h]
        out = out + np.einsum("nj,njv->nv", weight, value) @ of("W_O")[h]
    if config.d_mlp:
        n = _norm(weights, "mlp", "ln2", out)
        hidden = n @ of("W_in") + of("b_in")
        if config.gated:
            hidden = activated(config, n @ of("W_gate") + of("b_gate")) * hidden
        else:
            hidden = activated(config, hidden)
        out = out + hidden @ of("W_out") + of("b_out")
    return _norm(weights, "final", "ln_final", out) @ of("W_U") + of("b_U")


def activated(config: SequenceConfig, x: Array) -> Array:
    """σ(x)."""
    if config.activation == "gelu_tanh":
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return apply_activation(config.activation, x)


def normalised(norm: Norm | None, x: Array, w: Array, b: Array | float) -> Array:
    """The rows x normalised over their last axis; x itself where there is no norm."""
    if norm is None:
        return x
    if norm.kind == "layer":
        x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + norm.eps) * w + b


def _norm(weights: Weights, place: str, name: str, x: Array) -> Array:
    norm = getattr(sequence_config(weights).norms, place)
    return x if norm is None else normalised(norm, x, tensor(weights, f"{name}_w"), tensor(weights, f"{name}_b"))


def _rotated(weights: Weights, n: Array, name: str) -> Float[np.ndarray, "n t h q"]:
    """Queries (`Q`) or keys (`K`) of every position and head, normalised and rotated as the network does."""
    config, of = sequence_config(weights), partial(tensor, weights)
    found: Any = np.einsum("ntd,hdq->nthq", n, of(f"W_{name}")) + of(f"b_{name}")
    if config.norms.query_key is not None:
        found = normalised(config.norms.query_key, found, of(f"{name.lower()}_norm_w"), 0.0)
    if config.rope is None:
        return found
    half, turned = config.d_head // 2, np.empty_like(found)
    first, second = (
        (slice(0, half), slice(half, None)) if config.rope == "halves" else (slice(0, None, 2), slice(1, None, 2))
    )
    cos, sin = (of(f"rope_{wave}")[: n.shape[1], None] for wave in ("cos", "sin"))
    u, v = found[..., first], found[..., second]
    turned[..., first], turned[..., second] = u * cos - v * sin, u * sin + v * cos
    return turned
