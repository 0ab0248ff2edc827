"""The forward pass of a network on sequences, in float64 or in Arb's balls.

There are more inputs than could be tried: `sampled` counts how many of a sample are answered right.

NumPy's functions work on arrays of balls as on arrays of floats, so that both are the same text; an
array of balls holds the true numbers, at the precision that `quadlens.base.numbers.precision` sets.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from quadlens.network.activation import NONLINEARITIES, apply_activation
from quadlens.network.margins import leads_of_set
from quadlens.network.norm import Norm
from quadlens.network.sequence import SequenceConfig
from quadlens.network.sequence_task import SAMPLE, SEED, Words, expand, sample_words
from quadlens.network.weights import Weights

# The constant of the tanh approximation, as a double.
GELU_TANH = 0.044715
# Of floats, or of Arb's balls as objects.
Numbers = np.ndarray


def sequence_config(weights: Weights) -> SequenceConfig:
    """Return the config of a network on sequences.

    Raises:
        BadConfig: for any other network.
    """
    return weights.config.need_sequences()


def tensor(weights: Weights, name: str) -> Float[np.ndarray, "..."]:
    """Return a tensor in float64.

    One that is left out is 0, or 1 where it is a norm's weight.
    """
    if name in weights.tensors:
        return weights.tensors[name].astype(np.float64)
    return np.full(sequence_config(weights).shapes[name], 1.0 if name.endswith("_w") else 0.0)


def balls(weights: Weights, name: str) -> Numbers:
    """Return a tensor as exact balls, as `tensor` does in float64."""
    from flint import arb

    values = tensor(weights, name)
    return np.array([arb(x) for x in values.ravel().tolist()], dtype=object).reshape(values.shape)


def seen(weights: Weights, query: int, head: int) -> list[int]:
    """Return the positions that a head sees from position `query`."""
    if sequence_config(weights).mask == "causal":
        return list(range(query + 1))
    return [int(j) for j in np.flatnonzero(weights.mask[head, query])]


def forward(
    weights: Weights, tokens: Int[np.ndarray, "n t"], query: int, enclosed: bool = False
) -> Numbers:
    """Return the logits at position `query` of each row of tokens.

    docs/sequences.md §1 has the formulas.

    Args:
        weights: A network on sequences.
        tokens: One input in each row, from position 0 on.
        query: The position whose answer is asked for.
        enclosed: Whether in balls, and not in float64.
    """
    out, written = attended(weights, tokens, query, enclosed)
    for head in written:
        out = out + head
    return after_attention(weights, out)


def attended(
    weights: Weights, tokens: Int[np.ndarray, "n t"], query: int, enclosed: bool = False
) -> tuple[Numbers, list[Numbers]]:
    """Return the residual stream at `query` with b_O, and what each head adds to it."""
    config, get = sequence_config(weights), partial(balls if enclosed else tensor, weights)
    # A task may feed what no step reads, as the last digit of an answer, beyond the network's last
    # position.
    x, n, q, k = parts(weights, tokens[:, : config.n_ctx], enclosed)
    written = []
    for h in range(config.n_heads):
        keys_at = seen(weights, query, h)
        score = (q[:, None, query, h] * k[:, keys_at, h]).sum(axis=2) / config.divisor
        score = score + get("score_bias")[h, query, keys_at]
        weight = np.exp(score if enclosed else score - score.max(axis=1, keepdims=True))
        weight = weight / weight.sum(axis=1, keepdims=True)
        value = n[:, keys_at] @ get("W_V")[h] + get("b_V")[h]
        written.append((weight[:, :, None] * value).sum(axis=1) @ get("W_O")[h])
    return x[:, query] + get("b_O"), written


def written_by_heads(weights: Weights, n: Numbers) -> list[Numbers]:
    """Return what each head's values write, of normalised streams in balls."""
    W_V, b_V, W_O = (balls(weights, name) for name in ("W_V", "b_V", "W_O"))
    return [(n @ W_V[h] + b_V[h]) @ W_O[h] for h in range(sequence_config(weights).n_heads)]


def after_attention(weights: Weights, out: Numbers) -> Numbers:
    """Return the logits of residual streams between attention and MLP.

    The streams are [input, d_model], of floats or of balls.
    """
    config, get = (
        sequence_config(weights),
        partial(balls if out.dtype == object else tensor, weights),
    )
    if config.d_mlp:
        n = _norm(config, "mlp", "ln2", out, get)
        hidden = n @ get("W_in") + get("b_in")
        if config.gated:
            hidden = activated(config, n @ get("W_gate") + get("b_gate")) * hidden
        else:
            hidden = activated(config, hidden)
        out = out + hidden @ get("W_out") + get("b_out")
    return _norm(config, "final", "ln_final", out, get) @ get("W_U") + get("b_U")


def parts(
    weights: Weights, tokens: Int[np.ndarray, "n t"], enclosed: bool
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return each position's stream, normalised stream, queries and keys.

    Each is [input, position, …], before attention.
    """
    config, get = sequence_config(weights), partial(balls if enclosed else tensor, weights)
    x = get("W_E")[tokens] + get("W_pos")[: tokens.shape[1]]
    n = _norm(config, "attention", "ln1", x, get)
    return x, n, _rotated(config, n, "Q", get), _rotated(config, n, "K", get)


def activated(config: SequenceConfig, x: Numbers) -> Numbers:
    """Return σ(x) of floats or of balls."""
    if x.dtype != object:
        if config.activation == "gelu_tanh":
            return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + GELU_TANH * x**3)))
        return apply_activation(config.activation, x)
    from flint import arb

    if config.activation == "gelu_tanh":
        return x / 2 * (1 + np.tanh((arb(2) / arb.pi()).sqrt() * (x + GELU_TANH * x * x * x)))
    return np.vectorize(NONLINEARITIES[config.activation].enclose, otypes=[object])(x)


def normalised(norm: Norm | None, x: Numbers, w: Numbers, b: Numbers | float) -> Numbers:
    """Normalise the rows x over their last axis; return x itself without a norm."""
    if norm is None:
        return x
    if norm.takes_mean:
        x = x - x.mean(axis=-1, keepdims=True)
    square = np.square(x).sum(axis=-1, keepdims=True) / norm.over(x.shape[-1])
    return x / np.sqrt(square + norm.eps) * w + b


def _norm(
    config: SequenceConfig, place: str, name: str, x: Numbers, get: Callable[[str], Numbers]
) -> Numbers:
    norm = getattr(config.norms, place)
    return x if norm is None else normalised(norm, x, get(f"{name}_w"), get(f"{name}_b"))


def _rotated(
    config: SequenceConfig, n: Numbers, name: str, get: Callable[[str], Numbers]
) -> Numbers:
    """Return queries (`Q`) or keys (`K`), [input, position, head, width].

    They are normalised and rotated as the network does.
    """
    W, b = get(f"W_{name}"), get(f"b_{name}")
    vectors: Any = np.stack([n @ W[h] + b[h] for h in range(config.n_heads)], axis=2)
    if config.norms.query_key is not None:
        vectors = normalised(config.norms.query_key, vectors, get(f"{name.lower()}_norm_w"), 0.0)
    if config.rope is None:
        return vectors
    half, turned = config.d_head // 2, np.empty_like(vectors)
    first, second = (
        (slice(0, half), slice(half, None))
        if config.rope == "halves"
        else (slice(0, None, 2), slice(1, None, 2))
    )
    cos, sin = (get(f"rope_{wave}")[: n.shape[1], None] for wave in ("cos", "sin"))
    u, v = vectors[..., first], vectors[..., second]
    turned[..., first], turned[..., second] = u * cos - v * sin, u * sin + v * cos
    return turned


def answered_right(model: Weights, words: Words) -> Bool[np.ndarray, " n"]:
    """Return whether every step of each input is answered right, in float64.

    A tie, or a logit that overflows, is not right.

    Each step is asked with the right answers before it: greedy decoding is right just where all of
    these are.
    """
    task = expand(sequence_config(model))
    tokens, right = task.tokens(words), np.ones(len(words), dtype=bool)
    with np.errstate(all="ignore"):
        for step, (query, _, _) in enumerate(task.steps):
            right &= leads_of_set(forward(model, tokens, query), task.right(words, step)) > 0
    return right


def sampled(model: Weights) -> tuple[int, int, str]:
    """Return the number of right answers, the sample's size, and a sentence on both."""
    task = expand(sequence_config(model))
    correct = int(answered_right(model, sample_words(task)).sum())
    half = ", half of them full of carries" if task.name.startswith("add:") else ""
    drawn = f"drawn of {task.inputs} with seed {SEED}{half}"
    return correct, SAMPLE, f"{correct} of {SAMPLE} inputs are answered right, {drawn}"
