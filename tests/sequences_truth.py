"""Evaluate a network on sequences in Arb, the obvious way.

This is the truth that the checker's enclosures are compared with.
"""

from typing import Any

import numpy as np
from flint import arb, fmpq

from quadlens.network.sequence_forward import sequence_config
from quadlens.network.weights import Weights

Vector = list[Any]


def exact(x: float) -> Any:
    """A float as the real number that it is."""
    n, d = float(x).as_integer_ratio()
    return arb(fmpq(n, d))


def tensor(weights: Weights, name: str) -> Any:
    """A tensor as an array of Arb's; one left out is 0, or 1 where it is a norm's weight."""
    if name in weights.tensors:
        return np.vectorize(exact, otypes=[object])(weights.tensors[name])
    return np.full(
        sequence_config(weights).shapes[name],
        arb(1) if name.endswith("_w") else arb(0),
        dtype=object,
    )


def normalised(norm: Any, x: Any, w: Any, b: Any) -> Any:
    """X / √(mean x² + eps) · w + b."""
    if norm is None:
        return x
    if norm.kind == "layer":
        x = x - x.sum() / len(x)
    return x / ((x * x).sum() / len(x) + exact(norm.eps)).sqrt() * w + b


def activated(name: str, x: Any) -> Any:
    """The activation of one number."""
    if name == "relu":
        return x.max(arb(0))
    if name == "silu":
        return x / (1 + (-x).exp())
    if name == "gelu":
        return x * (1 + (x / arb(2).sqrt()).erf()) / 2
    return x / 2 * (1 + ((2 / arb.pi()).sqrt() * (x + exact(0.044715) * x**3)).tanh())


class Truth:
    """The parts of a forward pass.

    They are streams, queries, keys, what values write, and what follows attention.
    """

    def __init__(self, weights: Weights) -> None:
        self.weights, self.config = weights, sequence_config(weights)
        self.of = {name: tensor(weights, name) for name in self.config.shapes}

    def norm(self, place: str, name: str, x: Any) -> Any:
        """The norm at a place."""
        norm = getattr(self.config.norms, place)
        return (
            x if norm is None else normalised(norm, x, self.of[f"{name}_w"], self.of[f"{name}_b"])
        )

    def stream(self, j: int, v: int) -> Any:
        """The stream before attention."""
        return self.of["W_E"][v] + self.of["W_pos"][j]

    def turned(self, kind: str, h: int, j: int, v: int) -> Any:
        """A query (Q) or key (K)."""
        x = (
            self.norm("attention", "ln1", self.stream(j, v)) @ self.of[f"W_{kind}"][h]
            + self.of[f"b_{kind}"][h]
        )
        norm = self.config.norms.query_key
        if norm is not None:
            x = normalised(norm, x, self.of[f"{kind.lower()}_norm_w"], 0)
        if self.config.rope is None:
            return x
        half = self.config.d_head // 2
        pairs = [
            (i, i + half) if self.config.rope == "halves" else (2 * i, 2 * i + 1)
            for i in range(half)
        ]
        found, cos, sin = x.copy(), self.of["rope_cos"][j], self.of["rope_sin"][j]
        for n, (i, k) in enumerate(pairs):
            found[i], found[k] = x[i] * cos[n] - x[k] * sin[n], x[i] * sin[n] + x[k] * cos[n]
        return found

    def written(self, h: int, j: int, v: int) -> Any:
        """What a value writes."""
        n = self.norm("attention", "ln1", self.stream(j, v))
        return (n @ self.of["W_V"][h] + self.of["b_V"][h]) @ self.of["W_O"][h]

    def score(self, h: int, t: int, own: int, j: int, v: int) -> Any:
        """An attention score."""
        found = (self.turned("Q", h, t, own) * self.turned("K", h, j, v)).sum() / exact(
            self.config.divisor
        )
        return found + self.of["score_bias"][h, t, j]

    def tail(self, x: Any) -> Any:
        """Logits of the stream after attention."""
        if self.config.d_mlp:
            n = self.norm("mlp", "ln2", x)
            hidden = n @ self.of["W_in"] + self.of["b_in"]
            pre = n @ self.of["W_gate"] + self.of["b_gate"] if self.config.gated else hidden
            active = np.array([activated(self.config.activation, y) for y in pre], dtype=object)
            x = (
                x
                + (active * hidden if self.config.gated else active) @ self.of["W_out"]
                + self.of["b_out"]
            )
        return self.norm("final", "ln_final", x) @ self.of["W_U"] + self.of["b_U"]

    def seen(self, h: int, t: int) -> list[int]:
        """Positions that are not masked."""
        if self.config.mask == "causal":
            return list(range(t + 1))
        return [j for j in range(self.config.n_ctx) if self.weights.mask[h, t, j]]

    def logits(self, tokens: list[int], t: int) -> Any:
        """Logits at position t of one sequence of tokens."""
        x = self.stream(t, tokens[t]) + self.of["b_O"]
        for h in range(self.config.n_heads):
            places = self.seen(h, t)
            power = [self.score(h, t, tokens[t], j, tokens[j]).exp() for j in places]
            total = sum(power[1:], power[0])
            for j, w in zip(places, power, strict=True):
                x = x + w / total * self.written(h, j, tokens[j])
        return self.tail(x)
