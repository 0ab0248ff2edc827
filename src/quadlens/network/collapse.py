"""The residual stream multiplied out once, from weights to the last layer's table.

With constant attention, weight α_t on position t, x_t = W_E[token] + W_pos[t] and OV = Σ_h W_V^h
W_O^h,

    from_a[a] = α_0 x_0 OV,    from_b[b] = α_1 x_1 OV + …    plus x_t of the position that is read
    U_a = from_a W_in,         U_b = from_b W_in + b_in
    S_a = from_a W_U,          S_b = (from_b + b_out) W_U + b_U,            W_L = (W_out W_U)ᵀ

Every constant (biases, '=') is in b's part. Softmax adds gated tables (`tables.py`). Exact over
`Dyadic`, and over every other arithmetic as exact as that is. With norms, W_in and W_U stand for C
diag(w) W_in and C diag(w) W_U, w a norm's weight and C = I - 1/d what takes the mean off, I for an
RMSNorm.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from quadlens.base.errors import BadConfig, BadWeights
from quadlens.network.config import Config
from quadlens.network.forward import final_streams, sum_of
from quadlens.network.norm import Norm, centred, inverse_size, normalised
from quadlens.network.ring import FLOATS, Array, R, Ring
from quadlens.network.tables import Before, Gated, Pairs, Sizes, Tables
from quadlens.network.weights import Weights

# Inputs that go through earlier blocks together.
TOGETHER = 1 << 11


def collapse(weights: Weights, ring: Ring[R]) -> Tables[R]:
    """Return the tables of what the last hidden layer reads and writes.

    Raises:
        BadConfig: for several blocks or norms over another arithmetic than float64.
        BadWeights: when tables are too large for float64.
    """
    config = weights.config.need_pairs()
    p = config.p
    if config.no_tables is not None and ring is not FLOATS:
        raise BadConfig(
            f"{config.no_tables}: tables are in float64 alone; `evaluate`, `explain` and `lens` "
            "work"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        parts = (_of_stream if config.has_stream else _of_one_hot)(weights, ring)
        U_b, S_b, sizes = parts.U_b, parts.S_b, _sizes(weights, parts.bias, parts.constant)
        if sizes is None:
            U_b = U_b + ring.repeated(_row(ring, parts.bias), p)
            S_b = S_b + ring.repeated(_row(ring, parts.constant), p)
        return Tables(
            config.task,
            config.activation,
            U_a=parts.U_a,
            U_b=U_b,
            W_L=ring.transposed(parts.W_L),
            S_a=parts.S_a,
            S_b=S_b,
            gated=parts.gated,
            softmax=config.softmax if parts.gated else None,
            before=parts.before,
            sizes=sizes,
        )


class _Parts(NamedTuple):
    """Tables without the last constants.

    The constants stand apart where a norm's factor does not multiply them.
    """

    U_a: Any
    U_b: Any
    W_L: Any
    S_a: Any
    S_b: Any
    bias: Array
    constant: Array
    gated: tuple[Gated[Any], ...] = ()
    before: Before | None = None


def _of_stream(weights: Weights, ring: Ring[R]) -> _Parts:
    """Return the tables of a transformer's last MLP; `W_L` is still [neuron, answer]."""
    config, p, last = weights.config, weights.config.p, weights.blocks[-1]
    into, bias = _folded(config.norms.mlp, last["W_in"], last["b_in"], last, "ln2")
    out, constant = _folded(
        config.norms.final, weights.W_U[:, :p], weights.b_U[:p], weights.tensors, "ln_final"
    )
    W_out: Any = ring.of(last["W_out"])
    W_in, W_U, b_out = ring.of(into), ring.of(out), _row(ring, last["b_out"])
    if config.depth > 1:
        wide, square = np.zeros((p, config.d_mlp)), np.zeros((p, p))
        after: Any = ring.repeated(b_out @ W_U, p)
        return _Parts(
            wide,
            wide.copy(),
            W_out @ W_U,
            square,
            after,
            bias,
            constant,
            before=_Earlier(weights, into, out),
        )
    from_a, from_b = attended_streams(weights, ring)
    after = from_b + ring.repeated(b_out, p)
    gated = gated_tables(weights, ring, W_in, W_U)
    return _Parts(
        from_a @ W_in, from_b @ W_in, W_out @ W_U, from_a @ W_U, after @ W_U, bias, constant, gated
    )


def _of_one_hot(weights: Weights, ring: Ring[R]) -> _Parts:
    """Return the tables of the last hidden layer of an MLP on one-hot tokens."""
    config, p, last = weights.config, weights.config.p, weights.blocks[-1]
    b_in, b_out = (
        (last["b_in"], weights.b_out) if config.bias else (np.zeros(config.d_mlp), np.zeros(p))
    )
    out, constant = _folded(config.norms.final, weights.W_out, b_out, weights.tensors, "ln_final")
    S_a, S_b = ring.of(np.zeros((p, p))), ring.of(np.zeros((p, p)))
    if not config.hidden:
        return _Parts(
            ring.of(weights.W_a), ring.of(weights.W_b), ring.of(out), S_a, S_b, b_in, constant
        )
    wide = np.zeros((p, config.d_mlp))
    into, bias = _folded(config.norms.mlp, last["W_in"], b_in, last, "ln2")
    before = _Earlier(weights, into, np.zeros((len(into), p)))
    return _Parts(wide, wide.copy(), out, S_a, S_b, bias, constant, before=before)


def _folded(
    norm: Norm | None, W: Array, b: Array, tensors: Mapping[str, Array], name: str
) -> tuple[Array, Array]:
    """Return C diag(w) W and b_norm W + b.

    This is the linear layer that reads a norm's output, except for the norm's factor.
    """
    W, b = W.astype(np.float64), b.astype(np.float64)
    if norm is None:
        return W, b
    weighted = tensors[f"{name}_w"].astype(np.float64)[:, None] * W
    return weighted - (weighted.mean(axis=0) if norm.takes_mean else 0.0), tensors[
        f"{name}_b"
    ] @ W + b


def _sizes(weights: Weights, bias: Array, constant: Array) -> Sizes | None:
    """Return the norms' factors, with the constants they do not multiply.

    None of a network without norms before the last hidden layer and the unembedding.
    """
    norms = weights.config.norms
    if norms.mlp is None and norms.final is None:
        return None
    return Sizes(_Factors(weights), bias, constant)


@dataclass(frozen=True, eq=False)
class _Factors:
    """The function from pairs to r and f of `tables.py`.

    It is a value, not a closure, so that tables can be pickled for another process.
    """

    weights: Weights

    def __call__(self, pairs: Pairs) -> tuple[Array, Array]:
        norms, streams = self.weights.config.norms, _last_streams(self.weights, pairs)
        factors = [
            np.ones((len(pairs), 1))
            if norm is None
            else inverse_size(FLOATS, norm, centred(FLOATS, norm, stream))
            for norm, stream in zip((norms.mlp, norms.final), streams, strict=True)
        ]
        return factors[0][:, 0], factors[1][:, 0]


def attended_streams(weights: Weights, ring: Ring[R], thrifty: bool = False) -> tuple[Any, Any]:
    """Return the attended stream at the position read: from_a[a] + from_b[b].

    Constants (biases, the '=' token, the value biases that softmax brings) belong to b's part; the
    rest of softmax is in the gated tables.
    """
    config, p, block = weights.config, weights.config.p, weights.blocks[-1]
    parts = [
        part + x if position == config.read_position else part
        for position, (part, x) in enumerate(
            zip(attended_parts(weights, ring, thrifty), token_streams(weights, ring), strict=True)
        )
    ]
    # Every position brings each head's value bias as often as it is attended to, and softmax adds
    # up to its scale.
    bias = sum_of(value_biases(weights, ring))
    times = [*config.attention, *([config.softmax.scale] if config.softmax else [])]
    constant = sum_of([_row(ring, block["b_O"]), *(ring.scaled(bias, alpha) for alpha in times)])
    return parts[0], sum_of([parts[1], *(ring.repeated(x, p) for x in (constant, *parts[2:]))])


def value_biases(weights: Weights, ring: Ring[R]) -> list[Any]:
    """Return what each head's value bias writes at full attention, one row each."""
    block = weights.blocks[-1]
    return [
        _row(ring, b_V) @ ring.of(W_O) for b_V, W_O in zip(block["b_V"], block["W_O"], strict=True)
    ]


def attended_parts(weights: Weights, ring: Ring[R], thrifty: bool = False) -> list[Any]:
    """Return α_t x_t OV of each position, without value biases.

    This is what the constant part of attention writes for all tokens of the position.

    With `thrifty`, tokens that a and b share go through attention once, and head by head where that
    takes fewer operations than OV: `thin`, whose cost they are a large part of, does so; the
    collapse is the plain yardstick.
    """
    config = weights.config
    if config.softmax is not None and not any(config.attention):
        return [
            ring.of(np.zeros((stop - start, config.d_model))) for start, stop in config.token_rows
        ]
    if not thrifty:
        OV = values_written(weights, ring)
        return [
            ring.scaled(x @ OV, alpha)
            for alpha, x in zip(config.attention, _attended(weights, ring), strict=True)
        ]

    heads = _heads(weights, ring)

    def mixed(x: Any, rows: int) -> Any:
        if by_heads(config, rows):
            return sum_of(x @ W_V @ W_O for W_V, W_O in heads)
        return x @ values_written(weights, ring)

    through: dict[int, Any] = {}
    parts = []
    for position, (alpha, (start, stop)) in enumerate(
        zip(config.attention, config.token_rows, strict=True)
    ):
        tokens, place = (
            ring.of(weights.W_E[start:stop]),
            ring.of(weights.W_pos[position : position + 1]),
        )
        if stop - start == 1:
            parts.append(ring.scaled(mixed(tokens + place, 1), alpha))  # type: ignore[operator]
            continue
        # Where a and b share their tokens, only what their positions add differs.
        if start not in through:
            through[start] = mixed(tokens, stop - start)
        parts.append(
            ring.scaled(through[start] + ring.repeated(mixed(place, 1), stop - start), alpha)
        )
    return parts


def values_written(weights: Weights, ring: Ring[R]) -> Any:
    """Return OV = Σ_h W_V^h W_O^h, what full attention writes for a row of the stream."""
    return sum_of(W_V @ W_O for W_V, W_O in _heads(weights, ring))


def _heads(weights: Weights, ring: Ring[R]) -> list[tuple[Any, Any]]:
    block = weights.blocks[-1]
    return [
        (ring.of(W_V), ring.of(W_O)) for W_V, W_O in zip(block["W_V"], block["W_O"], strict=True)
    ]


def by_heads(config: Config, rows: int) -> bool:
    """Whether `rows` rows take fewer operations head by head than through Σ_h W_V W_O."""
    inner, d = config.n_heads * config.d_head, config.d_model
    return 2 * rows * d * inner <= d * inner * d + rows * d * d


def token_streams(weights: Weights, ring: Ring[Any] = FLOATS) -> list[Any]:
    """Return the stream before attention of all a, all b and, where fed, '='."""
    streams = []
    for position, (start, stop) in enumerate(weights.config.token_rows):
        tokens: Any = ring.of(weights.W_E[start:stop])
        streams.append(
            tokens + ring.repeated(ring.of(weights.W_pos[position : position + 1]), stop - start)
        )
    return streams


def _attended(weights: Weights, ring: Ring[R]) -> list[Any]:
    """Return the stream before attention, after attention's norm where there is one."""
    norm, block = weights.config.norms.attention, weights.blocks[-1]
    return [normalised(ring, norm, x, block, "ln1") for x in token_streams(weights, ring)]


def _row(ring: Ring[R], vector: Array) -> Any:
    return ring.of(vector[None])


def gated_tables(weights: Weights, ring: Ring[R], W_in: R, W_U: R) -> tuple[Gated[R], ...]:
    """Return one table for each position that softmax sees from the position read.

    There is none where attention is constant.
    """
    config, block = weights.config, weights.blocks[-1]
    if config.softmax is None:
        return ()
    by_head = {
        name: [ring.of(np.atleast_2d(head)) for head in block[name]]
        for name in ("W_Q", "W_K", "W_V", "W_O")
    }
    bias = {name: [_row(ring, head) for head in block[name]] for name in ("b_Q", "b_K")}
    read = config.read_position
    streams = _attended(weights, ring)
    queries = _biased(ring, _times(streams[read], by_head["W_Q"]), bias["b_Q"])
    # A head is narrow: what it writes goes through W_in and W_U once, before any token does.
    outward = tuple(_into(by_head["W_O"], out) for out in (W_in, W_U))
    through: dict[int, list[list[Any]]] = {}
    tables = []
    for position, (start, stop) in enumerate(config.token_rows[: config.positions_seen]):
        if config.norms.attention is not None:
            keys, U, S = _keys_and_tables(streams[position], by_head, outward)
        else:
            if start not in through:
                through[start] = _keys_and_tables(
                    ring.of(weights.W_E[start:stop]), by_head, outward
                )
            place = _keys_and_tables(
                ring.of(weights.W_pos[position : position + 1]), by_head, outward
            )
            # All is linear in the stream, W_E + W_pos: where a and b share their tokens, only the
            # row differs.
            keys, U, S = (
                _biased(ring, tokens, rows)
                for tokens, rows in zip(through[start], place, strict=True)
            )
        keys = _biased(ring, keys, bias["b_K"])
        scores = [_scores(ring, q, read, k, position) for q, k in zip(queries, keys, strict=True)]
        tables.append(Gated(position, ring.heads(scores), ring.heads(U), ring.heads(S)))
    return tuple(tables)


def _times(x: Any, by_head: Sequence[Any]) -> list[Any]:
    return [x @ W for W in by_head]


def _into(by_head: Sequence[Any], W: Any) -> list[Any]:
    return [x @ W for x in by_head]


def _biased(ring: Ring[Any], by_head: Sequence[Any], rows: Sequence[Any]) -> list[Any]:
    """Add one row per head to each row of that head's matrix."""
    return [x + ring.repeated(row, x.shape[0]) for x, row in zip(by_head, rows, strict=True)]


def _keys_and_tables(
    x: Any, by_head: dict[str, list[Any]], outward: tuple[list[Any], ...]
) -> list[list[Any]]:
    """Return keys without bias, and what values add to neurons and logits, by head."""
    values = _times(x, by_head["W_V"])
    return [
        _times(x, by_head["W_K"]),
        *([v @ out for v, out in zip(values, into, strict=True)] for into in outward),
    ]


def _scores(ring: Ring[Any], query: Any, read: int, key: Any, position: int) -> Any:
    """Return query · key as [a, b].

    It has one row or one column where it does not depend on a or on b.
    """
    product = key @ ring.transposed(query)
    if read == position:
        # The same token on both sides: the diagonal, along a or along b.
        return ring.diagonal(product, along_a=position == 0)
    # So far it is [token of the position, token read]; '=' has one token only.
    return product if position == 0 or (position, read) == (2, 1) else ring.transposed(product)


@dataclass(frozen=True, eq=False)
class _Earlier:
    """The function from pairs to what the earlier blocks add.

    It adds to the pre-activations of the last block and, past its neurons, to the logits.
    """

    weights: Weights
    W_in: Array
    W_U: Array

    def __call__(self, pairs: Pairs) -> tuple[Array, Array]:
        read, _ = _last_streams(self.weights, pairs)
        return read @ self.W_in, read @ self.W_U


def _last_streams(
    weights: Weights, pairs: Pairs
) -> tuple[Float[np.ndarray, "n _"], Float[np.ndarray, "n _"]]:
    """Return what the last hidden layer and the unembedding read, before their norms.

    Raises:
        BadWeights: when it is too large for float64.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        starts = range(0, max(1, len(pairs)), TOGETHER)
        together = [
            final_streams(weights, pairs[start : start + TOGETHER], FLOATS) for start in starts
        ]
    read, written = (
        np.concatenate(blocks)
        for blocks in zip(*((x.read, x.written) for x in together), strict=True)
    )
    if not (np.isfinite(read).all() and np.isfinite(written).all()):
        raise BadWeights("the residual stream overflows: the weights are too large for float64")
    return read, written
