"""The forward pass, written the obvious way over any arithmetic: the oracle of every faster path.

Each block adds to every position's residual stream what attention brings, then what its MLP computes of that. The
weight of a head on position t, seen from position q, is attention[t] + scale · softmax_t(q · k / divisor); where
softmax is causal it leaves out t > q (the constant part does not).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from quadlens.model.config import Config
from quadlens.model.ring import Array, R, Ring

if TYPE_CHECKING:
    from quadlens.model.weights import Pairs, Weights

Block = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Step(Generic[R]):
    """What one block sees.

    Attributes:
        before: The residual stream of every position before the block, [input, d_model] each.
        gates: What softmax puts on each position, [from position][head][position], a column each; empty where attention
            is constant.
        middle: The residual stream of every position between attention and MLP.
    """

    before: list[R]
    gates: list[list[list[R]]]
    middle: list[R]


def forward(weights: "Weights", pairs: "Pairs", ring: Ring[R]) -> R:
    """Logits of each pair (a, b), [input, c]."""
    config, p, of = weights.config, weights.config.p, ring.of
    if not config.has_stream:
        one_hot = np.eye(p)
        read: list[Any] = [of(one_hot[pairs[:, i]]) for i in range(2)]
        hidden: Any = ring.sigma(config.activation, read[0] @ of(weights.W_a) + read[1] @ of(weights.W_b))
        return hidden @ of(weights.W_out)
    *_, last = steps(weights, pairs, ring)
    final = _with_mlp(ring, config, weights.blocks[-1], last.middle[config.read_position], len(pairs))
    return final @ of(weights.W_U[:, :p]) + ring.repeated(of(weights.b_U[None, :p]), len(pairs))


def steps(weights: "Weights", pairs: "Pairs", ring: Ring[R]) -> Iterator[Step[R]]:
    """What each block sees of these inputs."""
    config, n, of = weights.config, len(pairs), ring.of
    tokens = (pairs[:, 0], pairs[:, 1] + config.b_token_offset, np.full(n, config.equals_token))
    fed = range(len(config.attention))
    x: list[Any] = []
    for t in fed:
        token: Any = of(weights.W_E[tokens[t]])
        x.append(token + ring.repeated(of(weights.W_pos[t : t + 1]), n))
    for number, block in enumerate(weights.blocks):
        gates = [_gates(ring, config, block, x, q, n) for q in fed] if config.softmax else []
        brought = [_brought(ring, config, block, x, gates[q] if gates else [], n) for q in fed]
        middle = [stream + more for stream, more in zip(x, brought, strict=True)]
        yield Step(x, gates, middle)
        if number + 1 < config.n_layers:
            x = [_with_mlp(ring, config, block, stream, n) for stream in middle]


def _gates(ring: Ring[Any], config: Config, block: Block, x: list[Any], q: int, n: int) -> list[list[Any]]:
    """Scale · softmax of n inputs from position q, [head][position seen]."""
    softmax = config.softmax
    if softmax is None:
        return []
    seen, found = x[: q + 1] if softmax.causal else x, []
    for h in range(config.n_heads):
        query = _linear(ring, x[q], block["W_Q"][h], block["b_Q"][h], n)
        keys = [_linear(ring, stream, block["W_K"][h], block["b_K"][h], n) for stream in seen]
        shares = ring.softmax([ring.inner(query, key, softmax.divisor) for key in keys])
        found.append([ring.scaled(share, softmax.scale) for share in shares])
    return found


def _brought(ring: Ring[Any], config: Config, block: Block, x: list[Any], gates: list[list[Any]], n: int) -> Any:
    """What attention brings to one position of n inputs."""
    total = ring.repeated(ring.of(block["b_O"][None]), n)
    for h in range(config.n_heads):
        values = [_linear(ring, stream, block["W_V"][h], block["b_V"][h], n) for stream in x]
        mixed = sum_of([ring.scaled(value, alpha) for value, alpha in zip(values, config.attention, strict=True)])
        for gate, value in zip(gates[h] if gates else (), values, strict=False):
            mixed = mixed + gate * value
        total = mixed @ ring.of(block["W_O"][h]) + total
    return total


def _with_mlp(ring: Ring[Any], config: Config, block: Block, middle: Any, n: int) -> Any:
    """The residual stream of n inputs with what the MLP writes."""
    hidden = ring.sigma(config.activation, _linear(ring, middle, block["W_in"], block["b_in"], n))
    return middle + _linear(ring, hidden, block["W_out"], block["b_out"], n)


def _linear(ring: Ring[Any], x: Any, W: Array, b: Array, n: int) -> Any:
    """The rows x W + b."""
    return x @ ring.of(W) + ring.repeated(ring.of(b[None]), n)


def sum_of(terms: Iterable[Any]) -> Any:
    """The sum of at least one matrix."""
    first, *rest = terms
    for term in rest:
        first = first + term
    return first
