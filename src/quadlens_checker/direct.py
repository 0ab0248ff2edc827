"""Sums over all neurons, added up directly: for `brute`, and for `moments` without arcs.

The first takes every logit, the second a low-rank form of W_L.

Where attention is constant and σ rational, everything is exact. Else tables are rounded to 2^-q,
gates to 2^-64, and σ is enclosed (`enclose`); one number bounds what all of this can change of the
difference of two logits.
"""

import math
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from operator import mul
from typing import Any

from quadlens_checker import limits
from quadlens_checker.activations import enclosed
from quadlens_checker.arcs import ScoreBounds
from quadlens_checker.collapse import (
    DEGREES,
    Model,
    Weights,
    collapse,
    collapse_work,
    tables,
    token_streams,
    used_weights,
)
from quadlens_checker.gates import read_gates
from quadlens_checker.matrices import (
    Matrix,
    Rows,
    field_size,
    halves,
    largest,
    packed,
    plus,
    rows,
    times,
    to_bits,
    transposed,
    unpacked,
)
from quadlens_checker.model_file import Config, Tensors
from quadlens_checker.moments import check_keys, read_low_rank
from quadlens_checker.reading import Clock, keys, ticking

EXACT: Mapping[str, Callable[[int], int]] = {
    "relu": lambda x: x if x > 0 else 0,
    "abs": abs,
    "square": lambda x: x * x,
    "quartic": lambda x: x * x * x * x,
}
PRE_BYTES, WORD = 16, 64  # of a field of pre-activations, whose upper half is looked at


@dataclass(frozen=True)
class Layers:
    """The hidden layer of every input, and what passes by it, in integers.

    rows: for each input in order σ̄ of every neuron, and the skip term of every answer as fields of
    the size given. most, most_skip: no σ̄ and no skip term is larger. W_L: by answer, over
    2^shift_w; scores are over 2^shift. loss: for two answers, what Σ_i W_L[c,i] σ̄_i + skip can be
    off the difference of their logits, over 2^shift.
    """

    p: int
    d_mlp: int
    activation: str
    rows: Callable[[int], Iterator[tuple[list[int], int]]]
    most: int
    most_skip: int
    W_L: Rows
    shift: int
    shift_w: int
    loss: int
    float32_error: Fraction | None


def read_layers(config: Config, tensors: Tensors, hints: Any, clock: Clock) -> Layers:
    """The model's hidden layer, exactly where that is possible."""
    if config.softmax is None and config.activation in DEGREES:
        return exact_layers(collapse(config, tensors, hints, clock))
    return enclose(config, tensors, clock)


def exact_layers(model: Model) -> Layers:
    """The hidden layer of a collapsed model, without any loss."""
    sigma = EXACT[model.activation]

    def every_layer(size: int) -> Iterator[tuple[list[int], int]]:
        S_b = [packed(row, size) for row in model.S_b]
        for u, s in zip(model.U_a, (packed(row, size) for row in model.S_a), strict=True):
            for v, t in zip(model.U_b, S_b, strict=True):
                yield list(map(sigma, map(int.__add__, u, v))), s + t

    return Layers(
        p=model.p, d_mlp=model.d_mlp, activation=model.activation, rows=every_layer,
        most=sigma(largest(model.U_a) + largest(model.U_b)),
        most_skip=largest(model.S_a) + largest(model.S_b),
        W_L=model.W_L, shift=model.shift, shift_w=model.shift_w, loss=0,
        float32_error=model.float32_error,
    )  # fmt: skip


def size_of(x: Matrix) -> Fraction:
    """The largest size of an entry."""
    return Fraction(largest(x[0]), 1 << x[1])


def gated_tables(
    config: Config, weights: Weights, clock: Clock
) -> list[tuple[int, Matrix, Matrix]]:
    """For each head and position seen, return what its tokens add.

    The tables are the position, and what is added to pre-activations and to logits.
    """
    d, dh, streams, tables_of_heads = (
        config.d_model,
        config.d_head,
        token_streams(config, weights),
        [],
    )
    for h in range(config.n_heads):
        V, b_V = rows(weights["W_V"], h * d, h * d + d), rows(weights["b_V"], h, h + 1)
        out = rows(weights["W_O"], h * dh, h * dh + dh)
        for t, x in enumerate(streams[: config.seen]):
            written = times(plus(times(x, V, clock), b_V), out, clock)
            tables_of_heads.append(
                (t, times(written, weights["W_in"], clock), times(written, weights["W_U"], clock))
            )
    return tables_of_heads


def enclose(config: Config, tensors: Tensors, clock: Clock) -> Layers:
    """The hidden layer over 2^q, from rounded tables, enclosed gates and an enclosed σ.

    pre = U_a + U_b + Σ_g γ_g U_g over heads and positions g (there are T), and skip = S_a + S_b +
    Σ_g γ_g S_g, exactly. Gates: |γ_g - Γ_g/2^64| ≤ ε and Σ_g |γ_g| = H |scale|, so Σ_g |Γ_g/2^64| ≤
    Γ = H |scale| + T ε. Tables are rounded to the nearest multiple of 2^-q. Then p̄re, the sum with
    Γ_g and rounded tables, rounded down to 2^-q, is within
        δ = 2^-q + T ε max|U_g| + Γ 2^-(q+1) + 2^-q
    of pre: for U_a and U_b, for the gates, for the rounded U_g, and for rounding down. σ̄ of p̄re
    is within e = slope δ + error of σ(pre) (`enclosed`; p̄re and pre are at most `most`, as q ≥
    10). With s_i the spread of W_L[·,i] and W_L rounded to 2^-w the difference of two logits is
    then off by at most
        e Σ_i s_i + 2^-w d_mlp max|σ̄| + 2 (2^-q + Γ 2^-(q+1) + T ε max|S_g|)
    for σ, for W_L (half of 2^-w for each answer), and for the skip terms of two answers; w is 64,
    and as much more as max|σ̄| is beyond 2^20.
    """
    p, d_mlp = config.p, config.d_mlp
    clock(collapse_work(config))
    weights = used_weights(config, tensors)
    U_a, U_b, out, S_a, S_b = tables(config, weights, clock)
    gates = None if config.softmax is None else read_gates(config, config.softmax, weights, clock)
    gated = [] if gates is None else gated_tables(config, weights, clock)
    epsilon, scale = (
        (gates.error, abs(Fraction(gates.scale))) if gates else (Fraction(0), Fraction(0))
    )
    lost, total = len(gated) * epsilon, config.n_heads * scale + len(gated) * epsilon
    U_g = max((size_of(U) for _, U, _ in gated), default=Fraction(0))
    S_g = max((size_of(S) for _, _, S in gated), default=Fraction(0))
    most = math.ceil(size_of(U_a) + size_of(U_b) + total * (U_g + 1)) + 2
    sigma = enclosed(config.activation, limits.WIDE_BITS, most)
    q = (
        limits.PRE_BITS - most.bit_length()
    )  # |p̄re| 2^(q + 64) is below 2^126, which a field of 16 bytes holds
    wide = q <= limits.GRID_BITS or sigma.slope * (2 + total / 2) > Fraction(2) ** (
        q - limits.LOSS_BITS
    )
    if wide:  # fields are as wide as it takes
        q = limits.WIDE_BITS
    pre_bytes = field_size(most << (q + limits.GATE_BITS + 1)) if wide else PRE_BYTES
    last = Fraction(1, 1 << q)
    sigma = enclosed(config.activation, q, most)
    error = sigma.slope * ((2 + total / 2) * last + lost * U_g) + sigma.error
    spread = Fraction(sum(max(row) - min(row) for row in out[0]), 1 << out[1])
    finer = max(0, sigma.largest.bit_length() - limits.SIGMA_BITS)
    loss = error * spread + Fraction(d_mlp * sigma.largest, 1 << (WORD + finer))
    loss += 2 * ((1 + total / 2) * last + lost * S_g)
    shift, above = q + WORD + finer, limits.GATE_BITS
    most_skip = math.ceil((size_of(S_a) + size_of(S_b) + total * (S_g + 1) + 2) * (1 << shift))

    def packs(x: Matrix, size: int) -> list[int]:
        return [packed(row, size) for row in to_bits(x, q)]

    def every_layer(size: int) -> Iterator[tuple[list[int], int]]:
        A, B = ([x << above for x in packs(U, pre_bytes)] for U in (U_a, U_b))
        SA, SB = ([x << above for x in packs(S, size)] for S in (S_a, S_b))
        places = [t for t, _, _ in gated]
        U, S = (
            [packs(U_g, pre_bytes) for _, U_g, _ in gated],
            [packs(S_g, size) for _, _, S_g in gated],
        )
        for a in range(p):
            for b in range(p):
                pre, skip, tokens = A[a] + B[b], SA[a] + SB[b], (a, b, 0)
                if gates is not None:
                    for gate, t, u, s in zip(gates.of(a, b), places, U, S, strict=True):
                        pre, skip = pre + gate * u[tokens[t]], skip + gate * s[tokens[t]]
                words = (
                    [x >> above for x in unpacked(pre, d_mlp, pre_bytes)]
                    if wide
                    else upper_words(pre, d_mlp)
                )
                yield sigma.apply(words), skip << finer

    return Layers(
        p=p, d_mlp=d_mlp, activation=config.activation, rows=every_layer,
        most=sigma.largest << q, most_skip=most_skip, W_L=to_bits(transposed(out), WORD + finer),
        shift=shift, shift_w=WORD + finer, loss=math.ceil(loss * (1 << shift)), float32_error=None,
    )  # fmt: skip


def upper_words(fields: int, count: int) -> list[int]:
    """⌊v / 2^64⌋ for each field v of 16 bytes."""
    half = 1 << (PRE_BYTES * 8 - 1)
    words = array("Q", (fields + halves(count, PRE_BYTES)).to_bytes(PRE_BYTES * count, "little"))
    if sys.byteorder == "big":
        words.byteswap()
    return [x - (half >> WORD) for x in words[1::2]]


def by_brute_force(layers: Layers, hints: Any, clock: Clock) -> ScoreBounds:
    """Every score by its definition."""
    keys(hints, (), "hints")
    size = field_size(layers.most, largest(layers.W_L), layers.d_mlp, plus=layers.most_skip)
    columns = [packed(column, size) for column in zip(*layers.W_L, strict=True)]
    sums = (
        sum(map(mul, layer, columns)) + skip for layer, skip in ticking(layers.rows(size), clock)
    )
    bounds = ((unpacked(fields, layers.p, size), layers.loss) for fields in sums)
    return ScoreBounds(bounds, layers.shift)


def by_moments(layers: Layers, hints: Any, clock: Clock) -> ScoreBounds:
    """Return the scores Σ_f B[f,c] h_f + skip of a low-rank form of W_L (`LowRank`).

    h_f = Σ_i M[f,i] σ̄_i.
    """
    check_keys(hints)
    p, d_mlp = layers.p, layers.d_mlp
    B, M, finer, spread, exact = read_low_rank(hints, layers.W_L, layers.shift_w, clock)
    rank, of_h = len(B), (layers.most, largest(M), d_mlp)
    size_h, size = (
        field_size(*of_h),
        field_size(*of_h, largest(B), rank, plus=layers.most_skip << finer),
    )
    of_neuron = list(zip(*M, strict=True)) or [()] * d_mlp
    neurons, functions = [packed(m, size_h) for m in of_neuron], [packed(row, size) for row in B]

    def bounds() -> Iterator[tuple[list[int], int]]:
        for n, (layer, skip) in enumerate(ticking(layers.rows(size), clock)):
            if n in exact:
                past = unpacked(skip, p, size)
                row = [sum(map(mul, w, layer)) + s for w, s in zip(layers.W_L, past, strict=True)]
                yield [x << finer for x in row], layers.loss << finer
                continue
            h = unpacked(sum(map(mul, layer, neurons)), rank, size_h)
            lead = unpacked(sum(map(mul, h, functions)) + (skip << finer), p, size)
            yield lead, sum(map(mul, spread, map(abs, layer))) + (layers.loss << finer)

    return ScoreBounds(bounds(), layers.shift + finer)
