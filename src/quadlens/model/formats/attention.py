"""True attention, computed on every input: whether it is constant, and what replacing it by a constant changes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from quadlens.errors import BadConfig, BadWeights
from quadlens.model.activation import apply_activation
from quadlens.model.config import EOS_POSITIONS
from quadlens.model.params import Params

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
class OwnAttention:
    """A checkpoint's own attention, read at the last position; row-vector mathematics as in `Params`.

    Attributes:
        W_Q: Query weights.
        W_K: Key weights.
        b_Q: Query biases.
        b_K: Key biases.
        divisor: Scores are divided by this, √d_head unless a config says otherwise.
        mix: How softmax becomes attention.
        streams: Residual streams before attention, by position: all a, all b and, with three, the one '='.
    """

    W_Q: Float[np.ndarray, "n_heads d_model d_head"]
    W_K: Float[np.ndarray, "n_heads d_model d_head"]
    b_Q: Float[np.ndarray, "n_heads d_head"]
    b_K: Float[np.ndarray, "n_heads d_head"]
    divisor: float
    mix: Mix
    streams: tuple[Float[np.ndarray, "_ d_model"], ...]

    def patterns(self) -> Iterator[Float[np.ndarray, "n_heads p positions"]]:
        """The attention weights of all heads on all b, for one a after the other, in float64."""
        streams = self.streams
        queries = np.einsum("td,hdk->htk", streams[-1], self.W_Q.astype(np.float64)) + self.b_Q[:, None]
        keys = [np.einsum("td,hdk->htk", x, self.W_K.astype(np.float64)) + self.b_K[:, None] for x in streams]
        # Scores that do not involve a: position b against the query of the same input, and '=' against itself.
        to_b = np.broadcast_to(
            np.einsum("htk,htk->ht", np.broadcast_to(queries, keys[1].shape), keys[1]), (len(queries), len(streams[0]))
        )
        fixed = [to_b]
        if len(streams) == EOS_POSITIONS:
            fixed.append(np.broadcast_to(np.einsum("htk,htk->ht", queries, keys[2]), to_b.shape))
        if not all(np.isfinite(scores).all() for scores in (*keys, queries, *fixed)):
            raise BadWeights("attention scores overflow; expected finite W_E, W_pos, W_Q and W_K")
        for a in range(len(streams[0])):
            to_a = np.broadcast_to(np.einsum("htk,hk->ht", queries, keys[0][:, a]), to_b.shape)
            yield self.mix.scale * _softmax(np.stack([to_a, *fixed], axis=-1) / self.divisor) + self.mix.shift

    def farthest(self, reference: Float[np.ndarray, " positions"] | None = None) -> "Farthest":
        """Where attention is farthest from `reference`, which is head 0 on a = 0, b = 0 when None."""
        worst = Farthest(0, 0, 0, 0.0, np.zeros(0), np.zeros(0))
        for a, weights in enumerate(self.patterns()):
            reference = weights[0, 0] if reference is None else reference
            gap = np.abs(weights - reference).max(axis=-1)
            head, b = (int(i) for i in np.unravel_index(int(gap.argmax()), gap.shape))
            if a == 0 or gap[head, b] > worst.gap:
                worst = Farthest(a, b, head, float(gap[head, b]), weights[head, b], reference)
        return worst

    def constant(self) -> tuple[float, ...]:
        """The weights on each position, the same for every head and every (a, b).

        Raises:
            BadWeights: when two inputs or two heads differ, saying by how much and on which.
        """
        found = self.farthest()
        if found.gap > CONSTANT_WITHIN:
            raise BadWeights(
                f"attention is not constant: {found}, head 0 on a = 0, b = 0 has {_show(found.reference)}: "
                f"a difference of {found.gap:.3g}. "
                "quadlens reads models whose attention is the same on every input and in every head"
            )
        return tuple(float(x) for x in found.reference)

    def effect_of_replacing(self, replaced: Params) -> str:
        """In words, how the logits of `replaced` (constant attention) differ from those with the attention here."""
        w = {name: array.astype(np.float64) for name, array in replaced.tensors().items()}
        p, largest, changed = replaced.config.p, 0.0, 0
        written = [
            np.einsum("htk,hkd->htd", np.einsum("td,hdk->htk", x, w["W_V"]) + w["b_V"][:, None], w["W_O"])
            for x in self.streams
        ]
        for a, weights in enumerate(self.patterns()):
            middle = self.streams[-1] + w["b_O"]
            for position, parts in enumerate(written):
                rows = parts[:, a : a + 1] if position == 0 else parts
                middle = middle + np.einsum("hb,hbd->bd", weights[:, :, position], np.broadcast_to(
                    rows, (len(rows), p, rows.shape[-1])
                ))  # fmt: skip
            neurons = apply_activation(replaced.config.activation, middle @ w["W_in"] + w["b_in"])
            own = ((middle + neurons @ w["W_out"] + w["b_out"]) @ w["W_U"] + w["b_U"])[:, :p]
            new = replaced.forward(np.stack([np.full(p, a), np.arange(p)], axis=1))
            largest = max(largest, float(np.abs(own - new).max()))
            changed += int((own.argmax(axis=1) != new.argmax(axis=1)).sum())
        return (
            f"this is another model than the checkpoint: logits differ by up to {largest:.3g}, "
            f"and {changed} of {p * p} answers ({changed / p**2:.1%}) are others"
        )


@dataclass(frozen=True, eq=False)
class Farthest:
    """The input and head on which attention is farthest from a reference.

    Attributes:
        a: First operand.
        b: Second operand.
        head: Head.
        gap: Largest difference of a weight there.
        weights: The weights there.
        reference: What they are compared with.
    """

    a: int
    b: int
    head: int
    gap: float
    weights: Float[np.ndarray, " positions"]
    reference: Float[np.ndarray, " positions"]

    def __str__(self) -> str:
        return f"head {self.head} on a = {self.a}, b = {self.b} has the weights {_show(self.weights)}"


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
    if len(tokens) != positions or W_pos.shape[0] < positions or W_E.shape[0] < tokens[-1][1]:
        raise BadConfig(
            f"{positions} positions with p = {p} need {tokens[-1][1]} tokens and {positions} position vectors; "
            f"W_E has {W_E.shape[0]} rows and W_pos {W_pos.shape[0]}"
        )
    return tuple(W_E[start:stop] + W_pos[i] for i, (start, stop) in enumerate(tokens))


def _softmax(scores: Float[np.ndarray, "*rows n"]) -> Float[np.ndarray, "*rows n"]:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _show(weights: Float[np.ndarray, " n"]) -> str:
    return "(" + ", ".join(f"{x:.4g}" for x in weights) + ")"
