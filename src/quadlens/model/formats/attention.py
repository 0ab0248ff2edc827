"""True attention: computed on every input, and accepted only when it is the same on all of them."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from quadlens.errors import BadConfig, BadWeights
from quadlens.model.config import EOS_POSITIONS

# Softmax in float64 of equal scores differs by a few units of 1e-16; anything above this is attention that looks.
CONSTANT_WITHIN = 1e-12


@dataclass(frozen=True)
class Mix:
    """weight = scale · softmax + shift: how a project blends its attention with a constant.

    Ordinary attention is (1, 0); Zhong et al. (coeff, 1 - coeff); gbmi (1 - rate, rate / n).
    """

    scale: float = 1.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and math.isfinite(self.shift)):
            raise BadConfig(f"attention {self.scale} · softmax + {self.shift} is not finite")


@dataclass(frozen=True, eq=False)
class QueryKey:
    """What decides where a head looks; row-vector mathematics as in `Params`.

    Attributes:
        W_Q: Query weights.
        W_K: Key weights.
        b_Q: Query biases.
        b_K: Key biases.
        divisor: Scores are divided by this, √d_head unless a config says otherwise.
    """

    W_Q: Float[np.ndarray, "n_heads d_model d_head"]
    W_K: Float[np.ndarray, "n_heads d_model d_head"]
    b_Q: Float[np.ndarray, "n_heads d_head"]
    b_K: Float[np.ndarray, "n_heads d_head"]
    divisor: float


def token_streams(
    W_E: Float[np.ndarray, "d_vocab d_model"],
    W_pos: Float[np.ndarray, "n_ctx d_model"],
    p: int,
    b_token_offset: int,
    positions: int,
) -> tuple[Float[np.ndarray, "_ d_model"], ...]:
    """Residual streams before attention: all a, all b and, with three positions, the one '='."""
    W_E, W_pos = W_E.astype(np.float64), W_pos.astype(np.float64)
    tokens = [(0, p), (b_token_offset, b_token_offset + p), (b_token_offset + p, b_token_offset + p + 1)][:positions]
    if W_pos.shape[0] < positions or W_E.shape[0] < tokens[-1][1]:
        raise BadConfig(
            f"{positions} positions with p = {p} need {tokens[-1][1]} tokens and {positions} position vectors; "
            f"W_E has {W_E.shape[0]} rows and W_pos {W_pos.shape[0]}"
        )
    return tuple(W_E[start:stop] + W_pos[i] for i, (start, stop) in enumerate(tokens))


def constant_attention(
    query_key: QueryKey, streams: tuple[Float[np.ndarray, "_ d_model"], ...], mix: Mix
) -> tuple[float, ...]:
    """The attention weights from the last position, the same for every head and every (a, b).

    Computes the pattern on all p² inputs, in float64, one a at a time.

    Raises:
        BadWeights: when two inputs or two heads differ, saying by how much and on which.
    """
    queries = np.einsum("td,hdk->htk", streams[-1], query_key.W_Q.astype(np.float64)) + query_key.b_Q[:, None]
    keys = [np.einsum("td,hdk->htk", x, query_key.W_K.astype(np.float64)) + query_key.b_K[:, None] for x in streams]
    p = len(streams[0])
    # Scores that do not involve a: position b against the query of the same input, and '=' against itself.
    to_b = np.broadcast_to(
        np.einsum("htk,htk->ht", np.broadcast_to(queries, keys[1].shape), keys[1]), (len(queries), p)
    )
    fixed = [to_b]
    if len(streams) == EOS_POSITIONS:
        fixed.append(np.broadcast_to(np.einsum("htk,htk->ht", queries, keys[2]), to_b.shape))
    if not all(np.isfinite(scores).all() for scores in (*keys, queries, *fixed)):
        raise BadWeights("attention scores overflow; expected finite W_E, W_pos, W_Q and W_K")
    reference: Float[np.ndarray, " n"] | None = None
    worst, witness = 0.0, (0, 0, 0, np.zeros(len(streams)))
    for a in range(p):
        to_a = np.broadcast_to(np.einsum("htk,hk->ht", queries, keys[0][:, a]), to_b.shape)
        weights = mix.scale * _softmax(np.stack([to_a, *fixed], axis=-1) / query_key.divisor) + mix.shift
        reference = weights[0, 0] if reference is None else reference
        gap = np.abs(weights - reference).max(axis=-1)
        head, b = (int(i) for i in np.unravel_index(int(gap.argmax()), gap.shape))
        if gap[head, b] > worst:
            worst, witness = float(gap[head, b]), (a, b, head, weights[head, b])
    if reference is None:
        raise BadConfig("no inputs: p is 0")
    if worst > CONSTANT_WITHIN:
        a, b, head, there = witness
        raise BadWeights(
            f"attention is not constant: head {head} on a = {a}, b = {b} has the weights {_show(there)}, "
            f"head 0 on a = 0, b = 0 has {_show(reference)}: a difference of {worst:.3g}. "
            "quadlens reads models whose attention is the same on every input and in every head"
        )
    return tuple(float(x) for x in reference)


def _softmax(scores: Float[np.ndarray, "*rows n"]) -> Float[np.ndarray, "*rows n"]:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _show(weights: Float[np.ndarray, " n"]) -> str:
    return "(" + ", ".join(f"{x:.4g}" for x in weights) + ")"
