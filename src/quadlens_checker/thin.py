"""The proof without the collapse (`thin`).

The residual stream is cut down to a few directions, which are hints, and all that they leave out is
bounded. Every number is an integer or a rational, bounds are rounded to their safe side, and
pre-activations to 2^-48, which is added to what is left out.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from quadlens_checker import limits
from quadlens_checker.arcs import ScoreBounds, in_order, low_rank_scores, read_plan
from quadlens_checker.collapse import (
    Model,
    Weights,
    float32_error,
    residual_streams,
    skip_terms,
    used_weights,
)
from quadlens_checker.matrices import (
    Matrix,
    Rows,
    at_shift,
    minus,
    plus,
    rows,
    times,
    to_bits,
    transposed,
)
from quadlens_checker.model_file import Config, Tensors
from quadlens_checker.reading import Clock, Rejected, integers, keys, require

# Bits after the point: of Ũ, of norms and bounds, of the hints.
INPUT_BITS, NORM_BITS, HINT_BITS = 48, 64, 24


@dataclass(frozen=True)
class ThinModel(Model):
    """The model along a few directions: U_a, U_b are Ũ, and W_L holds B by rows and, last, r.

    basis: H, by direction. loss: Σ_i s_i (e_a[i] + e_b[i]) for each a and b.
    """

    basis: Rows
    loss: list[list[Fraction]]


def rounded_up(x: Fraction) -> Fraction:
    """The next multiple of 2^-NORM_BITS."""
    return Fraction(math.ceil(x * (1 << NORM_BITS)), 1 << NORM_BITS)


def lengths(x: Matrix) -> list[Fraction]:
    """Euclidean norms of the rows, rounded up to multiples of 2^-NORM_BITS: n < (isqrt(n) + 1)²."""
    up = 2 * (NORM_BITS - x[1])
    squares = [sum(n * n for n in row) for row in x[0]]
    return [
        Fraction(math.isqrt(n << up if up >= 0 else n >> -up) + 1, 1 << NORM_BITS) for n in squares
    ]


def along(
    X: Matrix, W: Matrix, P: Matrix, clock: Clock
) -> tuple[Matrix, Matrix, list[list[Fraction]]]:
    """Return A, F with X W ≈ A F, and four lists that bound the difference.

    The lists y, g, n, f have |X W - A F|[j,i] ≤ y[j] n[i] + g[j] f[i]. Any P will do.

    A = X P and F = PᵀW. With N = W - P F and Y = X - A Pᵀ, X W - A F = X N = (A Pᵀ + Y) N = A D F +
    Y N, D = 1 - PᵀP.
    """
    Pt, identity = (
        transposed(P),
        [[int(i == j) for j in range(len(P[0][0]))] for i in range(len(P[0][0]))],
    )
    A, F = times(X, P, clock), times(Pt, W, clock)
    N, Y = minus(W, times(P, F, clock)), minus(X, times(A, Pt, clock))
    D = minus((identity, 0), times(Pt, P, clock))
    (size,) = lengths(
        ([[n for row in D[0] for n in row]], D[1])
    )  # all entries together bound the operator
    return (
        A,
        F,
        [
            lengths(Y),
            [size * x for x in lengths(A)],
            lengths(transposed(N)),
            lengths(transposed(F)),
        ],
    )


def read_directions(value: Any, what: str, d: int) -> Matrix:
    """A matrix of d rows, integers over 2^HINT_BITS."""
    require(
        isinstance(value, list) and len(value) == d and isinstance(value[0], list),
        f"{what} is not {d} rows",
    )
    largest, r = 10**limits.MAX_INTEGER_DIGITS, len(value[0])
    require(1 <= r <= d, f"{what} has {r} columns, expected 1…{d}")
    return [integers(row, what, r, -largest, largest) for row in value], HINT_BITS


def read(
    weights: Weights,
    streams: list[Matrix],
    means: list[Matrix],
    P: Matrix,
    clock: Clock,
) -> tuple[Rows, Rows, list[list[Fraction]]]:
    """Return Ũ_a and Ũ_b over 2^INPUT_BITS, and lists that bound |U - Ũ|.

    The lists are those of `along`, before that rounding, a before b.
    """
    off = [minus(X, mean) for X, mean in zip(streams, means, strict=True)]
    finest, p = max(x[1] for x in off), len(streams[0][0])
    both = at_shift(off[0], finest) + at_shift(off[1], finest)
    A, F, bounds = along((both, finest), weights["W_in"], P, clock)
    waves = times(A, F, clock)
    of_a, of_b = (times(mean, weights["W_in"], clock) for mean in means)
    U_a = plus(rows(waves, 0, p), of_a)
    U_b = plus(rows(waves, p, 2 * p), plus(of_b, weights["b_in"]))
    return to_bits(U_a, INPUT_BITS), to_bits(U_b, INPUT_BITS), bounds


def write(
    weights: Weights, P: Matrix, clock: Clock
) -> tuple[Matrix, Matrix, list[Fraction], list[Fraction]]:
    """Return B by neuron and H with W_L = HᵀB + R, and lists r and s.

    r_i ≥ the range over c of R[·,i], and s_i ≥ that of W_L[·,i].
    """
    B, H, (y, g, n, f) = along(weights["W_out"], weights["W_U"], P, clock)
    most_n, most_f = max(n), max(f)
    residual = [rounded_up(2 * (x * most_n + z * most_f)) for x, z in zip(y, g, strict=True)]
    table, shift = times(B, H, clock)
    return (
        B,
        H,
        residual,
        [
            Fraction(max(row) - min(row), 1 << shift) + x
            for row, x in zip(table, residual, strict=True)
        ],
    )


def cut_down(config: Config, tensors: Tensors, hints: Any, clock: Clock) -> ThinModel:
    """Ũ ≈ U and HᵀB ≈ W_L along the directions of the hints, with bounds on all they leave out.

    A margin of the logits is at least that of the scores (`by_moments` with Ũ, H, B, r) less Σ_i
    s_i (e_a[i] + e_b[i]), e the bound on |U - Ũ|. Of logit - score, Σ_i R[c,i] ReLU(p̃re_i) is what
    r bounds there; what is left, Σ_i W_L[c,i] (ReLU(pre_i) - ReLU(p̃re_i)), differs between two c
    by at most that sum, as the ReLU is 1-Lipschitz.
    """
    relu = (
        config.architecture == "transformer"
        and config.activation == "relu"
        and config.softmax is None
    )
    require(relu, "thin is for relu transformers with constant attention")
    # What only a cheaper proof needs, the tokens' plane and how P' turns, may be there and is not
    # looked at.
    more = [
        key for key in ("directions_tokens", "turns") if isinstance(hints, dict) and key in hints
    ]
    keys(hints, ("clusters", "arcs", "directions", "directions_out", "means", *more), "hints")
    p, d = config.p, config.d_model
    P, P_out = (read_directions(hints[key], key, d) for key in ("directions", "directions_out"))
    means = [
        transposed(read_directions([[x] for x in mean], "means", d)) for mean in hints["means"]
    ]
    require(len(means) == 2, "means are not two rows")
    clock(4 * (p + d) * (len(P[0][0]) + len(P_out[0][0])) * config.d_mlp)
    weights = used_weights(config, tensors)
    streams = residual_streams(config, weights, clock)
    U_a, U_b, (y, g, n, f) = read(weights, streams, means, P, clock)
    B, H, residual, spread = write(weights, P_out, clock)
    by_n, by_f = (
        sum((s * x for s, x in zip(spread, part, strict=True)), Fraction(0)) for part in (n, f)
    )
    rounding = sum(spread, Fraction(0)) / (
        1 << INPUT_BITS
    )  # Ũ_a and Ũ_b were moved by half of 2^-INPUT_BITS each
    lost = [x * by_n + z * by_f for x, z in zip(y, g, strict=True)]
    S_a, S_b = skip_terms(weights, streams[0], streams[1], clock)
    shift = max(INPUT_BITS + B[1] + H[1], INPUT_BITS + NORM_BITS, S_a[1], S_b[1])
    W_L = at_shift(transposed(B), shift - INPUT_BITS - H[1])
    W_L.append(
        [int(x * (1 << (shift - INPUT_BITS))) for x in residual]
    )  # last, to be put in order with them
    return ThinModel(
        p=p, d_mlp=config.d_mlp, activation="relu", U_a=U_a, U_b=U_b, W_L=W_L,
        S_a=at_shift(S_a, shift), S_b=at_shift(S_b, shift), shift=shift, shift_w=shift - INPUT_BITS,
        float32_error=float32_error(config, tensors, weights, clock), basis=H[0],
        loss=[[rounded_up(x + z + rounding) for z in lost[p:]] for x in lost[:p]],
    )  # fmt: skip


def by_thin(model: Model, hints: Any, clock: Clock) -> ScoreBounds:
    """Return the scores of `by_moments` with Ũ and HᵀB, and what they leave out.

    That is ρ and all that the directions leave out.
    """
    model = in_order(model, hints["clusters"])
    if not isinstance(model, ThinModel):
        raise Rejected("the model was not cut down")
    plan, (*weights, residual) = read_plan(model, hints["arcs"], clock), model.W_L
    scores = low_rank_scores(model, model.basis, weights, residual, plan, clock)
    lost = (int(x * (1 << model.shift)) for row in model.loss for x in row)
    bounds = ((lead, rho + x) for (lead, rho), x in zip(scores, lost, strict=True))
    return ScoreBounds(bounds, model.shift)
