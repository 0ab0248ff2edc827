"""The forward pass over any arithmetic: the oracle of every faster path.

Each block adds to every position's residual stream what attention brings, then what its MLP
computes of that; what either reads goes through a norm first where there is one (`norm.py`), and so
does what the unembedding reads. The weight of a head on position t, seen from position q, is
attention[t] + scale · softmax_t(q · k / divisor); where softmax is causal it leaves out t > q (the
constant part does not).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from quadlens.network.config import Config
from quadlens.network.norm import Norm, normalised
from quadlens.network.ring import Array, R, Ring

if TYPE_CHECKING:
    from quadlens.network.weights import Pairs, Weights

Block = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class BlockStreams(Generic[R]):
    """What one block reads, at every position.

    Attributes:
        before: What attention reads of every position: the residual stream before the block, after
            its norm where there is one, [input, d_model] each.
        gates: What softmax puts on each position, [from position][head][position], a column each;
            empty where attention is constant.
        middle: The residual stream of every position between attention and MLP.
    """

    before: list[R]
    gates: list[list[list[R]]]
    middle: list[R]


@dataclass(frozen=True, eq=False)
class FinalStreams(Generic[R]):
    """The streams at the end of a network, of each input.

    Attributes:
        read: What the last hidden layer reads, before its norm: the residual stream, or what an
            MLP's layers before it compute. An MLP's only hidden layer reads one-hot tokens: of that
            it is the pre-activations.
        written: What the unembedding reads, before its norm: the stream with what the last MLP
            writes, or the neurons.
        logits: Of the answers 0 … p-1.
    """

    read: R
    written: R
    logits: R


def forward(weights: "Weights", pairs: "Pairs", ring: Ring[R]) -> R:
    """Return the logits of each pair (a, b), [input, c]."""
    return final_streams(weights, pairs, ring).logits


def final_streams(weights: "Weights", pairs: "Pairs", ring: Ring[R]) -> FinalStreams[R]:
    """Run the forward pass on each pair (a, b)."""
    config = weights.config.need_pairs()
    block, p = weights.blocks[-1], config.p
    if config.has_stream:
        *_, last = block_streams(weights, pairs, ring)
        x: Any = last.middle[config.read_position]
        written: Any = _with_mlp(ring, config, block, x)
        W, b = weights.W_U[:, :p], weights.b_U[:p]
    else:
        x = _before_last(weights, pairs, ring)
        read = _next_layer(ring, config.norms.mlp, block, x) if config.hidden else x
        written = ring.sigma(config.activation, read)
        W, b = weights.W_out, weights.b_out if config.bias else np.zeros(p)
    final = normalised(ring, config.norms.final, written, weights.tensors, "ln_final")
    return FinalStreams(x, written, _linear(ring, final, W, b))


def _before_last(weights: "Weights", pairs: "Pairs", ring: Ring[R]) -> Any:
    """Return what an MLP's last hidden layer reads.

    Of an MLP with one hidden layer these are its pre-activations.
    """
    config, one_hot = weights.config, np.eye(weights.config.p)
    tokens: list[Any] = [ring.of(one_hot[pairs[:, i]]) for i in range(2)]
    x = tokens[0] @ ring.of(weights.W_a) + tokens[1] @ ring.of(weights.W_b)
    x = x + ring.repeated(ring.of(weights.b_in[None]), len(pairs)) if config.bias else x
    for number, layer in enumerate(config.hidden):
        x = _next_layer(ring, layer.norm, weights.blocks[number], x) if number else x
        x = x if layer.activation is None else ring.sigma(layer.activation, x)
    return x


def _next_layer(ring: Ring[Any], norm: Norm | None, block: Block, x: Any) -> Any:
    """Return the pre-activations of a hidden layer that reads another layer."""
    return _linear(ring, normalised(ring, norm, x, block, "ln2"), block["W_in"], block["b_in"])


def block_streams(weights: "Weights", pairs: "Pairs", ring: Ring[R]) -> Iterator[BlockStreams[R]]:
    """Yield what each block reads for these inputs."""
    config, n = weights.config, len(pairs)
    tokens = (pairs[:, 0], pairs[:, 1] + config.b_token_offset, np.full(n, config.equals_token))
    fed = range(len(config.attention))
    x: list[Any] = []
    for t in fed:
        token: Any = ring.of(weights.W_E[tokens[t]])
        x.append(token + ring.repeated(ring.of(weights.W_pos[t : t + 1]), n))
    for number, block in enumerate(weights.blocks):
        read = [normalised(ring, config.norms.attention, stream, block, "ln1") for stream in x]
        gates = [_gates(ring, config, block, read, q) for q in fed] if config.softmax else []
        brought = [_brought(ring, config, block, read, gates[q] if gates else []) for q in fed]
        middle = [stream + more for stream, more in zip(x, brought, strict=True)]
        yield BlockStreams(read, gates, middle)
        if number + 1 < config.n_layers:
            x = [_with_mlp(ring, config, block, stream) for stream in middle]


def _gates(ring: Ring[Any], config: Config, block: Block, x: list[Any], q: int) -> list[list[Any]]:
    """Return scale · softmax of each input from position q, [head][position seen]."""
    softmax = config.softmax
    if softmax is None:
        return []
    seen, by_head = x[: q + 1] if softmax.causal else x, []
    for h in range(config.n_heads):
        query = _linear(ring, x[q], block["W_Q"][h], block["b_Q"][h])
        keys = [_linear(ring, stream, block["W_K"][h], block["b_K"][h]) for stream in seen]
        shares = ring.softmax([ring.inner(query, key, softmax.divisor) for key in keys])
        by_head.append([ring.scaled(share, softmax.scale) for share in shares])
    return by_head


def _brought(
    ring: Ring[Any], config: Config, block: Block, x: list[Any], gates: list[list[Any]]
) -> Any:
    """Return what attention adds to one position of each input."""
    total = ring.repeated(ring.of(block["b_O"][None]), x[0].shape[0])
    for h in range(config.n_heads):
        values = [_linear(ring, stream, block["W_V"][h], block["b_V"][h]) for stream in x]
        mixed = sum_of(
            [
                ring.scaled(value, alpha)
                for value, alpha in zip(values, config.attention, strict=True)
            ]
        )
        for gate, value in zip(gates[h] if gates else (), values, strict=False):
            mixed = mixed + gate * value
        total = mixed @ ring.of(block["W_O"][h]) + total
    return total


def _with_mlp(ring: Ring[Any], config: Config, block: Block, middle: Any) -> Any:
    """Return the residual stream of each input with the MLP's output added."""
    hidden = ring.sigma(config.activation, _next_layer(ring, config.norms.mlp, block, middle))
    return middle + _linear(ring, hidden, block["W_out"], block["b_out"])


def _linear(ring: Ring[Any], x: Any, W: Array, b: Array) -> Any:
    """Return the rows x W + b."""
    return x @ ring.of(W) + ring.repeated(ring.of(b[None]), x.shape[0])


def sum_of(terms: Iterable[Any]) -> Any:
    """Return the sum of at least one matrix."""
    first, *rest = terms
    for term in rest:
        first = first + term
    return first
