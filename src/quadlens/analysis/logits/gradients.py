"""Gradients of logits by the vectors of a and b, embedded or one-hot, in float64."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int

from quadlens.network.activation import NONLINEARITIES
from quadlens.network.config import Config
from quadlens.network.forward import BlockStreams, block_streams
from quadlens.network.ring import FLOATS, Array
from quadlens.network.weights import Pairs, Weights

Streams = Float[np.ndarray, "n positions d_model"]


def token_gradients(
    weights: Weights, pairs: Pairs, c: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "n d_model"], Float[np.ndarray, "n d_model"]]:
    """Return ∂logit(a,b,c)/∂E_a and ∂logit(a,b,c)/∂E_b of each input."""
    config = weights.config
    seen = list(block_streams(weights, pairs, FLOATS))
    g = np.zeros((len(pairs), len(config.attention), config.d_model))
    g[:, config.read_position] = weights.W_U.T[c]
    for block, step in zip(weights.blocks[::-1], seen[::-1], strict=True):
        slope = NONLINEARITIES[config.activation].derivative(
            np.stack(step.middle, axis=1) @ block["W_in"] + block["b_in"]
        )
        g = g + (g @ block["W_out"].T * slope) @ block["W_in"].T
        g = g + _back_through_attention(config, block, step, g)
    return g[:, 0], g[:, 1]


def one_hot_gradients(
    weights: Weights, pairs: Pairs, c: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, "n p"]]:
    """Return the gradients of an MLP without norms, by the one-hot coordinates."""
    config, (a, b) = weights.config, pairs.T
    W_a, W_b = weights.W_a.astype(np.float64), weights.W_b.astype(np.float64)
    x, slopes = W_a[a] + (W_b[b] + (weights.b_in if config.bias else 0.0)), []
    for number, activation in enumerate(
        [*(layer.activation for layer in config.hidden), config.activation]
    ):
        if number:
            x = x @ weights.blocks[number]["W_in"] + weights.blocks[number]["b_in"]
        sigma = None if activation is None else NONLINEARITIES[activation]
        slopes.append(1.0 if sigma is None else sigma.derivative(x))
        x = x if sigma is None else sigma.apply(x)
    g = weights.W_out.T.astype(np.float64)[c]
    for block, slope in zip(weights.blocks[:0:-1], slopes[:0:-1], strict=True):
        g = (slope * g) @ block["W_in"].T
    g = slopes[0] * g
    return g @ W_a.T, g @ W_b.T


def _back_through_attention(
    config: Config, block: Mapping[str, Array], step: BlockStreams[Array], g: Streams
) -> Streams:
    """Return the gradient before attention, from the gradient after it.

    Values carry one part, and scores the other: ∂/∂s_t = P_t (g_t - Σ_u P_u g_u).
    """
    x, softmax = np.stack(step.before, axis=1), config.softmax
    shares = _shares(config, step, len(g))
    weights = np.array(config.attention) + shares * (softmax.scale if softmax else 0.0)
    back = np.einsum("nqe,hke->nhqk", g, block["W_O"], optimize=True)
    gradient = np.einsum(
        "nhtk,hdk->ntd", weights.swapaxes(2, 3) @ back, block["W_V"], optimize=True
    )
    if softmax is None:
        return gradient
    values, queries, keys = (
        np.einsum("ntd,hdk->nhtk", x, block[f"W_{name}"], optimize=True)
        + block[f"b_{name}"][:, None]
        for name in "VQK"
    )
    by_share = back @ values.swapaxes(2, 3) * softmax.scale
    by_score = (
        shares * (by_share - (shares * by_share).sum(axis=3, keepdims=True)) / softmax.divisor
    )
    gradient = gradient + np.einsum("nhqk,hdk->nqd", by_score @ keys, block["W_Q"], optimize=True)
    return gradient + np.einsum(
        "nhtk,hdk->ntd", by_score.swapaxes(2, 3) @ queries, block["W_K"], optimize=True
    )


def _shares(
    config: Config, step: BlockStreams[Array], n: int
) -> Float[np.ndarray, "n heads positions positions"]:
    """Return softmax, [input, head, from, to]; 0 where a position is not seen."""
    positions = len(config.attention)
    shares = np.zeros((n, config.n_heads, positions, positions))
    for q, by_head in enumerate(step.gates):
        for h, gates in enumerate(by_head):
            for t, gate in enumerate(gates):
                shares[:, h, q, t] = gate[:, 0] / (config.softmax.scale if config.softmax else 1.0)
    return shares
