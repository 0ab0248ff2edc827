"""The residual stream, multiplied out once: from the weights of a network to the tables of its last hidden layer.

With constant attention, weight α_t on position t, x_t = W_E[token] + W_pos[t] and OV = Σ_h W_V^h W_O^h,

    from_a[a] = α_0 x_0 OV,    from_b[b] = α_1 x_1 OV + …        plus x_t itself for the position that is read
    U_a = from_a W_in,         U_b = from_b W_in + b_in
    S_a = from_a W_U,          S_b = (from_b + b_out) W_U + b_U,            W_L = (W_out W_U)ᵀ

Every constant (biases, '=') is in b's part. Softmax adds gated tables (`tables.py`). Exact over `Dyadic`, and over
every other arithmetic as exact as that is.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.errors import BadConfig, BadWeights
from quadlens.model.config import Config
from quadlens.model.forward import steps, sum_of
from quadlens.model.ring import FLOATS, Array, R, Ring
from quadlens.model.tables import Gated, Pairs, Tables
from quadlens.model.weights import Weights

# Inputs that go through earlier blocks together.
TOGETHER = 1 << 11


def collapse(weights: Weights, ring: Ring[R]) -> Tables[R]:
    """What the last hidden layer reads and writes.

    Raises:
        BadConfig: for several blocks over another arithmetic than float64.
        BadWeights: when tables are too large for float64.
    """
    config, p, of = weights.config, weights.config.p, ring.of
    task, activation = config.task, config.activation
    if not config.has_stream:
        nothing = np.zeros((p, p))
        U_a, U_b, W_out = of(weights.W_a), of(weights.W_b), of(weights.W_out)
        return Tables(task, activation, U_a, U_b, ring.transposed(W_out), of(nothing), of(nothing.copy()))
    W_U: Any = of(weights.W_U[:, :p])
    last = weights.blocks[-1]
    W_in, W_out = of(last["W_in"]), of(last["W_out"])
    with np.errstate(over="ignore", invalid="ignore"):
        if config.n_layers > 1:
            return _last_block(weights, ring, W_U)
        from_a, from_b = attended_streams(weights, ring)
        after = from_b + ring.repeated(of(last["b_out"][None]), p)
        return Tables(
            task,
            activation,
            U_a=from_a @ W_in,
            U_b=from_b @ W_in + ring.repeated(of(last["b_in"][None]), p),
            W_L=ring.transposed(W_out @ W_U),
            S_a=from_a @ W_U,
            S_b=after @ W_U + ring.repeated(of(weights.b_U[None, :p]), p),
            gated=gated_tables(weights, ring, W_in, W_U),
            softmax=config.softmax,
        )


def attended_streams(weights: Weights, ring: Ring[R], thrifty: bool = False) -> tuple[Any, Any]:
    """The residual stream after attention at the position read, as one part per token: from_a[a] + from_b[b].

    Constants (biases, the '=' token, the value biases that softmax brings) belong to b's part; the rest of softmax is
    in the gated tables.
    """
    config, p, block = weights.config, weights.config.p, weights.blocks[-1]
    parts = [
        part + x if position == config.read_position else part
        for position, (part, x) in enumerate(
            zip(attended_parts(weights, ring, thrifty), _streams(weights, ring), strict=True)
        )
    ]
    # Every position brings each head's value bias as often as it is attended to, and softmax adds up to its scale.
    bias = sum_of(_row(ring, block["b_V"][h]) @ ring.of(block["W_O"][h]) for h in range(config.n_heads))
    times = [*config.attention, *([config.softmax.scale] if config.softmax else [])]
    constant = sum_of([_row(ring, block["b_O"]), *(ring.scaled(bias, alpha) for alpha in times)])
    return parts[0], sum_of([parts[1], *(ring.repeated(x, p) for x in (constant, *parts[2:]))])


def attended_parts(weights: Weights, ring: Ring[R], thrifty: bool = False) -> list[Any]:
    """α_t x_t OV of each position: what attention's constant part brings of all its tokens, without value biases.

    With `thrifty`, tokens that a and b share go through attention once, and head by head where that takes fewer
    operations than OV: `thin`, whose cost they are a large part of, does so; the collapse is the plain yardstick.
    """
    config, block = weights.config, weights.blocks[-1]
    if config.softmax is not None and not any(config.attention):
        return [ring.of(np.zeros((stop - start, config.d_model))) for start, stop in config.token_rows]
    heads: list[tuple[Any, Any]] = [(ring.of(V), ring.of(O_)) for V, O_ in zip(block["W_V"], block["W_O"], strict=True)]

    if not thrifty:
        OV = sum_of(W_V @ W_O for W_V, W_O in heads)
        return [ring.scaled(x @ OV, alpha) for alpha, x in zip(config.attention, _streams(weights, ring), strict=True)]

    def mixed(x: Any, rows: int) -> Any:
        if by_heads(config, rows):
            return sum_of(x @ W_V @ W_O for W_V, W_O in heads)
        return x @ sum_of(W_V @ W_O for W_V, W_O in heads)

    through: dict[int, Any] = {}
    found = []
    for position, (alpha, (start, stop)) in enumerate(zip(config.attention, config.token_rows, strict=True)):
        tokens, place = ring.of(weights.W_E[start:stop]), ring.of(weights.W_pos[position : position + 1])
        if stop - start == 1:
            found.append(ring.scaled(mixed(tokens + place, 1), alpha))  # type: ignore[operator]
            continue
        # Where a and b share their tokens, only what their positions add differs.
        if start not in through:
            through[start] = mixed(tokens, stop - start)
        found.append(ring.scaled(through[start] + ring.repeated(mixed(place, 1), stop - start), alpha))
    return found


def by_heads(config: Config, rows: int) -> bool:
    """Whether so many rows go through attention head by head for less than through Σ_h W_V W_O."""
    inner, d = config.n_heads * config.d_head, config.d_model
    return 2 * rows * d * inner <= d * inner * d + rows * d * d


def token_streams(weights: Weights) -> list[Float[np.ndarray, "_ d_model"]]:
    """The residual stream before attention, of all a, all b and, where it is fed, the one '='."""
    return _streams(weights, FLOATS)


def _streams(weights: Weights, ring: Ring[R]) -> list[Any]:
    found = []
    for position, (start, stop) in enumerate(weights.config.token_rows):
        tokens: Any = ring.of(weights.W_E[start:stop])
        found.append(tokens + ring.repeated(ring.of(weights.W_pos[position : position + 1]), stop - start))
    return found


def _row(ring: Ring[R], vector: Array) -> Any:
    return ring.of(vector[None])


def gated_tables(weights: Weights, ring: Ring[R], W_in: R, W_U: R) -> tuple[Gated[R], ...]:
    """One table per position that softmax sees from the one read; none where attention is constant."""
    config, block = weights.config, weights.blocks[-1]
    if config.softmax is None:
        return ()
    by_head = {name: [ring.of(np.atleast_2d(head)) for head in block[name]] for name in ("W_Q", "W_K", "W_V", "W_O")}
    bias = {name: [_row(ring, head) for head in block[name]] for name in ("b_Q", "b_K")}
    read = config.read_position
    queries = _biased(ring, _times(_streams(weights, ring)[read], by_head["W_Q"]), bias["b_Q"], _rows(config, read))
    # A head is narrow: what it writes goes through W_in and W_U once, before any token does.
    outward = tuple([W_O @ out for W_O in by_head["W_O"]] for out in (W_in, W_U))  # type: ignore[operator]
    through: dict[int, list[list[Any]]] = {}
    found = []
    for position, (start, stop) in enumerate(config.token_rows[: config.positions_seen]):
        if start not in through:
            through[start] = _keys_and_tables(ring.of(weights.W_E[start:stop]), by_head, outward)
        place = _keys_and_tables(ring.of(weights.W_pos[position : position + 1]), by_head, outward)
        # Everything is linear in the stream, W_E + W_pos: where a and b share their tokens, only the row differs.
        keys, U, S = (
            _biased(ring, tokens, rows, stop - start) for tokens, rows in zip(through[start], place, strict=True)
        )
        keys = _biased(ring, keys, bias["b_K"], stop - start)
        scores = [_scores(ring, q, read, k, position) for q, k in zip(queries, keys, strict=True)]
        found.append(Gated(position, ring.heads(scores), ring.heads(U), ring.heads(S)))
    return tuple(found)


def _rows(config: Config, position: int) -> int:
    start, stop = config.token_rows[position]
    return stop - start


def _times(x: Any, by_head: Sequence[Any]) -> list[Any]:
    return [x @ W for W in by_head]


def _biased(ring: Ring[Any], by_head: Sequence[Any], rows: Sequence[Any], n: int) -> list[Any]:
    """One row per head added to each of n rows."""
    return [x + ring.repeated(row, n) for x, row in zip(by_head, rows, strict=True)]


def _keys_and_tables(x: Any, by_head: dict[str, list[Any]], outward: tuple[list[Any], ...]) -> list[list[Any]]:
    """Keys without their bias, and what the values add to neurons and to logits, head by head."""
    values = _times(x, by_head["W_V"])
    return [_times(x, by_head["W_K"]), *([v @ out for v, out in zip(values, into, strict=True)] for into in outward)]


def _scores(ring: Ring[Any], query: Any, read: int, key: Any, position: int) -> Any:
    """Query · key as [a, b], of one row or column where it does not depend on a or b."""
    product = key @ ring.transposed(query)
    if read == position:
        # The same token on both sides: the diagonal, along a or along b.
        return ring.diagonal(product, along_a=position == 0)
    # So far it is [token of the position, token read]; '=' has one token only.
    return product if position == 0 or (position, read) == (2, 1) else ring.transposed(product)


def _last_block(weights: Weights, ring: Ring[R], W_U: Any) -> Tables[R]:
    """The last MLP, over the stream that the blocks before it compute."""
    config, p, last = weights.config, weights.config.p, weights.blocks[-1]
    if ring is not FLOATS:
        raise BadConfig(f"{config.no_collapse}: tables are in float64 alone; `evaluate`, `explain` and `lens` work")

    def before(pairs: Pairs) -> tuple[Array, Array]:
        x = attended(weights, pairs)
        return x @ last["W_in"], x @ W_U

    wide, square = np.zeros((p, config.d_mlp)), np.zeros((p, p))
    return Tables(
        config.task,
        config.activation,
        U_a=ring.of(wide),
        U_b=ring.of(wide + last["b_in"]),
        W_L=ring.of((last["W_out"] @ W_U).T),
        S_a=ring.of(square),
        S_b=ring.of(square + last["b_out"] @ W_U + weights.b_U[:p]),
        before=before,
    )


def attended(weights: Weights, pairs: Pairs) -> Float[np.ndarray, "n d_model"]:
    """The residual stream that the last MLP reads, at the position read, in float64.

    Raises:
        BadWeights: when it is too large for float64.
    """
    found = [np.zeros((0, weights.config.d_model))]
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(pairs), TOGETHER):
            *_, last = steps(weights, pairs[start : start + TOGETHER], FLOATS)
            found.append(last.middle[weights.config.read_position])
    if not all(np.isfinite(block).all() for block in found):
        raise BadWeights("the residual stream overflows: the weights are too large for float64")
    return np.concatenate(found)
