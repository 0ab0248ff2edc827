"""The exact collapse, and what float32 execution can change of it.

The model file, read as real numbers, is logit(a,b,c) = Σ_i W_L[c,i] ReLU(U_a[a,i] + U_b[b,i]) + S_a[a,c] + S_b[b,c].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import mul
from typing import Any

from quadlens_checker import limits
from quadlens_checker.matrices import Matrix, Rows, at_shift, matrix, plus, rows, scaled, times
from quadlens_checker.reading import Clock, Tensors, integers, require


@dataclass
class Model:
    """The collapsed model in integers: logits over 2^shift, W_L over 2^shift_w, and what float32 can change."""

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
    collapse_flops: int
    float32_error: Fraction | None


CONFIG_KEYS = {
    "mlp": {"architecture", "p", "d_mlp", "activation"},
    "transformer": {"architecture", "p", "d_model", "d_mlp", "n_heads", "d_head", "d_vocab", "d_vocab_out", "n_ctx"}
    | {"attention", "read_position", "activation", "b_token_offset"},
}


def shapes(config: Any) -> dict[str, list[int]]:
    """The tensors a config asks for; the config is checked on the way."""
    require(set(config) == CONFIG_KEYS.get(config["architecture"]), "the config has unknown or missing keys")
    p, m = integers([config["p"], config["d_mlp"]], "config", 2, 1, limits.MAX_MODEL_BYTES)
    require(3 <= p <= limits.MAX_MODULUS and p % 2 == 1, f"p is not an odd number in 3…{limits.MAX_MODULUS}")
    require(config["activation"] in ("relu", "abs", "square"), "unknown activation")
    if config["architecture"] == "mlp":
        return {"mlp.W_a": [p, m], "mlp.W_b": [p, m], "mlp.W_out": [m, p]}
    names = "d_model", "n_heads", "d_head", "d_vocab", "d_vocab_out", "n_ctx"
    d, h, dh, v, v_out, n = integers([config[name] for name in names], "config", 6, 1, limits.MAX_MODEL_BYTES)
    alphas = config["attention"]
    require(isinstance(alphas, list) and all(type(x) in (int, float) for x in alphas), "attention is not numbers")
    require(len(alphas) in (2, 3) and config["b_token_offset"] in (0, p) and v_out >= p, "unknown config")
    require(
        config["read_position"] in range(len(config["attention"])) and n >= len(config["attention"]), "unknown config"
    )
    attention = {"W_V": [h, d, dh], "b_V": [h, dh], "W_O": [h, dh, d], "b_O": [d]}
    mlp = {"W_in": [d, m], "b_in": [m], "W_out": [m, d], "b_out": [d]}
    ends = {"embed.W_E": [v, d], "pos_embed.W_pos": [n, d], "unembed.W_U": [d, v_out], "unembed.b_U": [v_out]}
    inside = {f"blocks.0.{k}.{name}": x for k, part in (("attn", attention), ("mlp", mlp)) for name, x in part.items()}
    return {**ends, **inside}


def token_rows(config: Any) -> list[tuple[int, int]]:
    """Which rows of W_E each position may hold; an MLP has none."""
    if config["architecture"] == "mlp":
        return []
    p, after_b = config["p"], config["b_token_offset"] + config["p"]
    return [(0, p), (after_b - p, after_b), (after_b, after_b + 1)][: len(config["attention"])]


def collapse_flops(config: Any) -> int:
    """Multiplications and additions of the products in `collapse_transformer`."""
    p, d_mlp, h, d, dh = (config[key] for key in ("p", "d_mlp", "n_heads", "d_model", "d_head"))
    streamed = 2 * p + len(config["attention"]) - 2
    return int(2 * (h * (d + 1) * dh * d + streamed * d * d + 2 * p * d * (d_mlp + p) + d_mlp * d * p))


def weights_by_name(tensors: Tensors, p: int) -> dict[str, Matrix]:
    """The weights of a transformer by their last names; W_U and b_U for the p answers only."""
    short = {name.split(".")[-1]: matrix(*tensor) for name, tensor in tensors.items()}
    return short | {name: ([row[:p] for row in short[name][0]], short[name][1]) for name in ("W_U", "b_U")}


def residual_streams(
    config: Any, short: dict[str, Matrix], tokens: list[tuple[int, int]], clock: Clock
) -> list[Matrix]:
    """What the tokens a and b bring to the MLP's input, for these token rows; all that is constant comes with b."""
    heads, d, dh, alphas = (config[key] for key in ("n_heads", "d_model", "d_head", "attention"))
    V = [rows(short["W_V"], h * d, h * d + d) for h in range(heads)]
    out_rows = [rows(short["W_O"], h * dh, h * dh + dh) for h in range(heads)]
    OV, bias = times(V[0], out_rows[0], clock), times(rows(short["b_V"], 0, 1), out_rows[0], clock)
    for h in range(1, heads):
        OV, bias = (
            plus(OV, times(V[h], out_rows[h], clock)),
            plus(bias, times(rows(short["b_V"], h, h + 1), out_rows[h], clock)),
        )
    streams = [plus(rows(short["W_E"], *t), rows(short["W_pos"], n, n + 1)) for n, t in enumerate(tokens)]
    parts = [scaled(times(x, OV, clock), float(alpha)) for x, alpha in zip(streams, alphas, strict=True)]
    parts[config["read_position"]] = plus(parts[config["read_position"]], streams[config["read_position"]])
    from_b = plus(parts[1], short["b_O"])
    for extra in [*(scaled(bias, float(alpha)) for alpha in alphas), *parts[2:]]:
        from_b = plus(from_b, extra)
    return [parts[0], from_b]


def skip_terms(short: dict[str, Matrix], from_a: Matrix, from_b: Matrix, clock: Clock) -> list[Matrix]:
    """S_a and S_b: what the streams add to the logits past the MLP."""
    after = times(plus(from_b, short["b_out"]), short["W_U"], clock)
    return [times(from_a, short["W_U"], clock), plus(after, short["b_U"])]


def collapse_transformer(config: Any, tensors: Tensors, tokens: list[tuple[int, int]], clock: Clock) -> list[Matrix]:
    """U_a, U_b, W_out W_U, S_a, S_b for these token rows of each position."""
    short = weights_by_name(tensors, config["p"])
    from_a, from_b = residual_streams(config, short, tokens, clock)
    U_a, U_b = times(from_a, short["W_in"], clock), plus(times(from_b, short["W_in"], clock), short["b_in"])
    return [U_a, U_b, times(short["W_out"], short["W_U"], clock), *skip_terms(short, from_a, from_b, clock)]


def float32_error(config: Any, tensors: Tensors, tokens: list[tuple[int, int]], clock: Clock) -> Fraction | None:
    """An upper bound of |float32 logit - real logit| for any order of evaluation; None when there is none.

    γ (M + N G / 2^102): N roundings on the longest path, γ = N / (2^24 - N); M is the collapse on absolute values at
    the largest tokens; G, the product of 1 + n max|w| over all weights (n terms in a sum), bounds over- and underflow.
    """
    mlp, d_mlp = config["architecture"] == "mlp", config["d_mlp"]
    d, mixed, alphas = (
        (0, 0, []) if mlp else (config["d_model"], config["n_heads"] * config["d_head"], config["attention"])
    )
    terms = {"W_V": d, "W_O": mixed, "W_in": d, "W_out": d_mlp, "W_U": d}
    roundings = d_mlp + 3 if mlp else 3 * d + mixed * len(alphas) + d_mlp + 18
    gain = 4 * (1 + sum(abs(Fraction(alpha)) for alpha in alphas))
    size: dict[str, tuple[list[int], Sequence[float]]] = {
        name: (shape, [abs(x) for x in values]) for name, (shape, values) in tensors.items()
    }
    for name, (_, values) in size.items():
        gain *= 1 + terms.get(name.split(".")[-1], 1) * Fraction(max(values))
    if roundings >= 1 << 24 or gain >= 1 << 100 or config["activation"] == "square":
        return None

    def largest(name: str, start: int, stop: int) -> list[float]:
        width = size[name][0][1]
        return [max(size[name][1][start * width + n : stop * width : width]) for n in range(width)]

    if mlp:
        p = config["p"]
        U_a, U_b = (matrix([1, d_mlp], largest(name, 0, p)) for name in ("mlp.W_a", "mlp.W_b"))
        logits = times(plus(U_a, U_b), matrix(*size["mlp.W_out"]), clock)
    else:
        flat = [x for token in tokens for x in largest("embed.W_E", *token)]
        size["embed.W_E"] = ([len(tokens), d], flat)
        config = {**config, "attention": [abs(alpha) for alpha in alphas]}
        U_a, U_b, out, S_a, S_b = collapse_transformer(config, size, [(n, n + 1) for n in range(len(tokens))], clock)
        logits = plus(plus(times(plus(U_a, U_b), out, clock), S_a), S_b)
    M = Fraction(max(logits[0][0]), 1 << logits[1])
    return Fraction(roundings, (1 << 24) - roundings) * (M + gain * Fraction(roundings, 1 << 102))


def collapse(config: Any, tensors: Tensors, hints: Any, clock: Clock) -> Model:
    """The collapsed model of a transformer with constant attention, or of a two-layer MLP, exactly; without hints."""
    p, activation, tokens = config["p"], config["activation"], token_rows(config)
    flops = 0 if config["architecture"] == "mlp" else collapse_flops(config)
    clock(flops + 2 * p * p * config["d_mlp"])
    if config["architecture"] == "mlp":
        U_a, U_b, out = (matrix(*tensors[name]) for name in ("mlp.W_a", "mlp.W_b", "mlp.W_out"))
        S_a, S_b = ([[0] * p] * p, 0), ([[0] * p] * p, 0)
    else:
        U_a, U_b, out, S_a, S_b = collapse_transformer(config, tensors, tokens, clock)
    shift_u, degree = max(U_a[1], U_b[1]), 2 if activation == "square" else 1
    shift = max(degree * shift_u + out[1], S_a[1], S_b[1])
    shift_w = shift - degree * shift_u
    A, B, SA, SB = at_shift(U_a, shift_u), at_shift(U_b, shift_u), at_shift(S_a, shift), at_shift(S_b, shift)
    W = [list(column) for column in zip(*at_shift(out, shift_w), strict=True)]
    if activation == "abs":  # |x| = 2 ReLU(x) - x: double W_L; what -x adds belongs to the skip terms
        for S, U in ((SA, A), (SB, B)):
            S[:] = [[s - sum(map(mul, u, w)) for s, w in zip(row, W, strict=True)] for row, u in zip(S, U, strict=True)]
        W = [[2 * w for w in row] for row in W]
    error = float32_error(config, tensors, tokens, clock)
    return Model(p, config["d_mlp"], activation, A, B, W, SA, SB, shift, shift_w, flops, error)
