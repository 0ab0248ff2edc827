"""The exact collapse, and what float32 execution can change of it.

The model file, read as real numbers, is logit(a,b,c) = Σ_i W_L[c,i] ReLU(U_a[a,i] + U_b[b,i]) +
S_a[a,c] + S_b[b,c].
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from operator import mul
from typing import Any

from quadlens_checker.matrices import (
    Matrix,
    Rows,
    absolute,
    at_shift,
    column_maxima,
    matrix,
    plus,
    rows,
    scaled,
    times,
    transposed,
)
from quadlens_checker.model_file import Config, Tensors
from quadlens_checker.reading import Clock, require

DEGREES = {
    "relu": 1,
    "abs": 1,
    "square": 2,
    "quartic": 4,
}  # of the activations that are exact in integers
Weights = dict[str, Matrix]  # by their last names: W_E, W_pos, …


@dataclass(frozen=True)
class Model:
    """The collapsed model in integers: logits over 2^shift, W_L over 2^shift_w.

    It also has what float32 can change.
    """

    p: int
    d_mlp: int
    activation: str
    U_a: Rows
    U_b: Rows
    W_L: Rows
    S_a: Rows
    S_b: Rows
    shift: int
    shift_w: int
    float32_error: Fraction | None


def collapse_work(config: Config) -> int:
    """About how many operations make the tables: to refuse at once what cannot be done in time."""
    if config.architecture == "mlp":
        return 0
    p, d_mlp, h, d, dh = config.p, config.d_mlp, config.n_heads, config.d_model, config.d_head
    streamed, out = 2 * p + len(config.attention) - 2, d_mlp + p
    plain = h * (d + 1) * dh * d + streamed * d * d + 2 * p * d * out + d_mlp * d * p
    gated = 0 if config.softmax is None else h * streamed * d * (4 * dh + out)
    return 2 * (plain + gated)


def used_weights(config: Config, tensors: Tensors) -> Weights:
    """Return the weights by their last names.

    Of W_E, W_pos, W_U and b_U it has only what the tokens and the p answers use.
    """
    if config.architecture == "mlp":
        return {name.split(".")[-1]: matrix(*tensor) for name, tensor in tensors.items()}
    heights = {"W_E": config.tokens[-1][1], "W_pos": len(config.tokens)}
    widths = {"W_U": config.p, "b_U": config.p}
    short = {name.split(".")[-1]: tensor for name, tensor in tensors.items()}
    return {
        name: matrix(*tensor, heights.get(name), widths.get(name)) for name, tensor in short.items()
    }


def token_streams(config: Config, weights: Weights) -> list[Matrix]:
    """Return the stream before attention: per position one row per token there."""
    return [
        plus(rows(weights["W_E"], *t), rows(weights["W_pos"], n, n + 1))
        for n, t in enumerate(config.tokens)
    ]


def residual_streams(config: Config, weights: Weights, clock: Clock) -> list[Matrix]:
    """Return what the tokens a and b bring to the MLP's input except by softmax.

    All that is constant comes with b.
    """
    d, dh, alphas = config.d_model, config.d_head, config.attention
    OV: Matrix = [[0] * d] * d, 0
    bias: Matrix = [[0] * d], 0
    for h in range(config.n_heads):
        out = rows(weights["W_O"], h * dh, h * dh + dh)
        OV = plus(OV, times(rows(weights["W_V"], h * d, h * d + d), out, clock))
        bias = plus(bias, times(rows(weights["b_V"], h, h + 1), out, clock))
    streams = token_streams(config, weights)
    parts = [scaled(times(x, OV, clock), alpha) for x, alpha in zip(streams, alphas, strict=True)]
    parts[config.read_position] = plus(parts[config.read_position], streams[config.read_position])
    from_b = plus(parts[1], weights["b_O"])
    for extra in [*(scaled(bias, alpha) for alpha in alphas), *parts[2:]]:
        from_b = plus(from_b, extra)
    return [parts[0], from_b]


def skip_terms(weights: Weights, from_a: Matrix, from_b: Matrix, clock: Clock) -> list[Matrix]:
    """S_a and S_b: what the streams add to the logits past the MLP."""
    after = times(plus(from_b, weights["b_out"]), weights["W_U"], clock)
    return [times(from_a, weights["W_U"], clock), plus(after, weights["b_U"])]


def collapse_transformer(config: Config, weights: Weights, clock: Clock) -> list[Matrix]:
    """U_a, U_b, W_out W_U, S_a, S_b for the token rows of the config."""
    from_a, from_b = residual_streams(config, weights, clock)
    U_a, U_b = (
        times(from_a, weights["W_in"], clock),
        plus(times(from_b, weights["W_in"], clock), weights["b_in"]),
    )
    return [
        U_a,
        U_b,
        times(weights["W_out"], weights["W_U"], clock),
        *skip_terms(weights, from_a, from_b, clock),
    ]


def float32_error(
    config: Config, tensors: Tensors, weights: Weights, clock: Clock
) -> Fraction | None:
    """Bound |float32 logit - real logit| for any order of evaluation; None without a bound.

    γ (M + N G / 2^102): N roundings on the longest path, γ = N / (2^24 - N); M is the collapse on
    absolute values at the largest tokens; G, the product of 1 + n max|w| over all weights (n terms
    in a sum), bounds over- and underflow.
    """
    d, mixed, d_mlp = config.d_model, config.n_heads * config.d_head, config.d_mlp
    mlp, alphas = config.architecture == "mlp", tuple(map(abs, config.attention))
    terms = {"W_V": d, "W_O": mixed, "W_in": d, "W_out": d_mlp, "W_U": d}
    roundings = d_mlp + 3 + 2 * config.bias if mlp else 3 * d + mixed * len(alphas) + d_mlp + 18
    gain = 4 * (1 + sum(map(Fraction, alphas)))
    for name, (_, values) in tensors.items():
        gain *= 1 + terms.get(name.split(".")[-1], 1) * Fraction(max(map(abs, values)))
    if roundings >= 1 << 24 or gain >= 1 << 100 or config.activation not in ("relu", "abs"):
        return None
    size = {name: absolute(x) for name, x in weights.items()}
    if mlp:
        U_a, U_b = (
            ([column_maxima(size[name], 0, config.p)], size[name][1]) for name in ("W_a", "W_b")
        )
        U_b = plus(U_b, size["b_in"]) if config.bias else U_b
        logits = times(plus(U_a, U_b), size["W_out"], clock)
        logits = plus(logits, size["b_out"]) if config.bias else logits
    else:
        largest = [column_maxima(size["W_E"], *token) for token in config.tokens]
        size["W_E"] = largest, size["W_E"][1]
        one_each = replace(
            config, attention=alphas, tokens=tuple((n, n + 1) for n in range(len(largest)))
        )
        U_a, U_b, out, S_a, S_b = collapse_transformer(one_each, size, clock)
        logits = plus(plus(times(plus(U_a, U_b), out, clock), S_a), S_b)
    M = Fraction(max(logits[0][0]), 1 << logits[1])
    return Fraction(roundings, (1 << 24) - roundings) * (M + gain * Fraction(roundings, 1 << 102))


def tables(config: Config, weights: Weights, clock: Clock) -> list[Matrix]:
    """Return U_a, U_b, W_out W_U, S_a, S_b of a transformer or of a two-layer MLP.

    What softmax adds is left out.
    """
    if config.architecture == "transformer":
        return collapse_transformer(config, weights, clock)
    nothing: Matrix = [[0] * config.p] * config.p, 0
    U_a, U_b, out, S_b = weights["W_a"], weights["W_b"], weights["W_out"], nothing
    if config.bias:
        U_b, S_b = plus(U_b, weights["b_in"]), plus(nothing, weights["b_out"])
    return [U_a, U_b, out, nothing, S_b]


def collapse(config: Config, tensors: Tensors, hints: Any, clock: Clock) -> Model:
    """Return the exact collapse of a transformer with constant attention or two-layer MLP.

    It takes no hints.
    """
    p, activation = config.p, config.activation
    clock(collapse_work(config) + 2 * p * p * config.d_mlp)
    weights = used_weights(config, tensors)
    U_a, U_b, out, S_a, S_b = tables(config, weights, clock)
    shift_u, degree = max(U_a[1], U_b[1]), DEGREES[activation]
    shift = max(degree * shift_u + out[1], S_a[1], S_b[1])
    shift_w = shift - degree * shift_u
    A, B, SA, SB = (
        at_shift(U_a, shift_u),
        at_shift(U_b, shift_u),
        at_shift(S_a, shift),
        at_shift(S_b, shift),
    )
    error = float32_error(config, tensors, weights, clock)
    W = at_shift(transposed(out), shift_w)
    return Model(p, config.d_mlp, activation, A, B, W, SA, SB, shift, shift_w, error)


def with_relu(model: Model) -> Model:
    """Return a model with |x| as one with ReLU.

    |x| = 2 ReLU(x) - x doubles W_L; what -x adds is a skip term.
    """
    if model.activation == "relu":
        return model
    require(model.activation == "abs", "arcs are for relu and |x|")
    W = model.W_L
    SA, SB = (
        [
            [s - sum(map(mul, u, w)) for s, w in zip(row, W, strict=True)]
            for row, u in zip(S, U, strict=True)
        ]
        for S, U in ((model.S_a, model.U_a), (model.S_b, model.U_b))
    )
    return replace(model, W_L=[[2 * w for w in row] for row in W], S_a=SA, S_b=SB)
