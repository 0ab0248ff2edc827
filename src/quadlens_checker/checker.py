"""Check a quadlens certificate against a model file, from scratch.

    python checker.py CERTIFICATE MODEL [SECONDS]

Standard library only; shares no code with the program that wrote the certificate. Every number is an integer or a
rational; nothing is rounded except a bound to its safe side. The certificate's hints (an order of the neurons, arcs, a
basis) are tried, never trusted: what is verified is true whatever they say. (thin_checker.py, beside this file, knows
one more strategy.) The model file, read as real numbers, is

    logit(a,b,c) = Σ_i W_L[c,i] ReLU(U_a[a,i] + U_b[b,i]) + S_a[a,c] + S_b[b,c]        (the collapsed model)

and for all a, b but those listed, logit(a, b, a+b mod p) exceeds logit(a, b, c) for every other c in 0 … p-1 by at
least the margin claimed.
The proofs behind each step are in docs/certificates.md; short versions are in the docstrings.
"""

import hashlib
import json
import os
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate
from operator import mul
from typing import Any, TypeVar

MAX_CERTIFICATE_BYTES, MAX_MODEL_BYTES = 64_000_000, 64_000_000
MAX_INTEGER_DIGITS, MAX_RATIONAL_LENGTH, MAX_MODULUS = 18, 4000, 257  # p³ exact logits are held in memory
DEFAULT_SECONDS = 600.0
OPERATIONS_PER_SECOND = 10_000_000  # of this checker: to refuse at once what cannot be done in time

Item = TypeVar("Item")
Rows = list[list[int]]
Matrix = tuple[Rows, int]  # (rows, shift): the value is rows / 2^shift
Tensors = Mapping[str, tuple[list[int], Sequence[float]]]
Clock = Callable[[int], None]  # rejects when the time is up, or this many more operations cannot be done in time


class Rejected(Exception):
    """The certificate does not prove what it claims; the message says why."""


@dataclass
class Report:
    """The outcome: VERIFIED or REJECTED, why, and the claims that were proved again."""

    verdict: str
    reason: str
    seconds: float
    model_sha256: str | None = None
    statement: str | None = None
    claims: dict[str, Any] = field(default_factory=dict)


def require(condition: object, reason: str) -> None:
    """Reject with `reason` unless `condition` holds."""
    if not condition:
        raise Rejected(reason)


# Reading: everything that comes from outside is measured before it is used.


def parse_json(text: str, floats: bool) -> Any:
    """JSON with unique keys, short integers and, unless `floats`, no fractions; anything else is rejected."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        require(len(dict(pairs)) == len(pairs), "a key appears twice in one JSON object")
        return dict(pairs)

    def integer(digits: str) -> int:
        require(len(digits) <= MAX_INTEGER_DIGITS, f"an integer with {len(digits)} digits")
        return int(digits)

    def fraction(digits: str) -> float:
        require(floats and len(digits) < 40, f"the number {digits[:20]}, where exact integers are expected")
        return float(digits)

    try:
        return json.loads(
            text, object_pairs_hook=unique, parse_int=integer, parse_float=fraction, parse_constant=fraction
        )
    except (ValueError, RecursionError) as error:
        raise Rejected(f"not well-formed JSON: {error}") from None


def read_limited(path: str, limit: int) -> bytes:
    """The bytes of a file of at most `limit` bytes."""
    with open(path, "rb") as stream:
        content = stream.read(limit + 1)
    require(len(content) <= limit, f"{path} is larger than {limit} bytes")
    return content


def keys(value: Any, expected: Iterable[str], what: str) -> Any:
    """`value`, which must be a JSON object with exactly these keys."""
    require(isinstance(value, dict), f"{what} is not an object")
    require(set(value) == set(expected), f"{what} has keys {sorted(value)}, expected {sorted(expected)}")
    return value


def integers(value: Any, what: str, length: int | None, low: int, high: int) -> list[int]:
    """`value`, which must be a list of integers of this length, each in low … high."""
    require(isinstance(value, list) and all(type(x) is int for x in value), f"{what} is not a list of integers")
    require(length is None or len(value) == length, f"{what} has {len(value)} entries, expected {length}")
    require(all(low <= x <= high for x in value), f"{what} has an entry outside {low}…{high}")
    return list(value)


def rational(text: Any, what: str) -> Fraction:
    """A number written as "numerator/denominator", both positive."""
    require(isinstance(text, str) and len(text) <= MAX_RATIONAL_LENGTH, f"{what} is not a rational of sensible length")
    parts = text.split("/")
    require(len(parts) == 2 and all(x.isascii() and x.isdigit() for x in parts), f"{what} is not a positive rational")
    require(int(parts[0]) > 0 and int(parts[1]) > 0, f"{what} is not a positive rational")
    return Fraction(int(parts[0]), int(parts[1]))


def read_model(content: bytes) -> tuple[Any, Tensors]:
    """Config and tensors of a safetensors file that quadlens wrote."""
    require(len(content) >= 8, "the model file is cut")
    (size,) = struct.unpack("<Q", content[:8])
    require(size <= len(content) - 8, "the model file is cut")
    header, end = parse_json(content[8 : 8 + size].decode(), floats=False), 8 + size
    tensors: dict[str, tuple[list[int], Sequence[float]]] = {}
    about = parse_json(header.pop("__metadata__")["quadlens"], floats=True)
    keys(about, ("format", "config", "checksum"), "the model's metadata")
    require(repr(about["format"]) == "1", "unknown version of the model file")
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        keys(entry, ("dtype", "shape", "data_offsets"), name)
        shape, count = integers(entry["shape"], name, None, 1, MAX_MODEL_BYTES), 1
        for n in shape:
            count *= n
        kind = {"F32": "f", "F64": "d"}[entry["dtype"]]
        stop = end + count * struct.calcsize(kind)
        require(entry["data_offsets"] == [end - 8 - size, stop - 8 - size], f"{name} has wrong offsets")
        require(stop <= len(content), "the model file is cut")
        values = struct.unpack(f"<{count}{kind}", content[end:stop])
        require(all(x - x == 0 for x in values), f"{name} has a weight that is not finite")
        tensors[name], end = (shape, values), stop
    require(end == len(content), "the model file has bytes that belong to no tensor")
    return about["config"], tensors


def ticking(items: Iterable[Item], clock: Clock) -> Iterator[Item]:
    """The items, with a look at the clock before each."""
    for item in items:
        clock(0)
        yield item


# The collapse, in exact linear algebra.


def matrix(shape: list[int], values: Sequence[float]) -> Matrix:
    """Floats as integers over their common power of two."""
    ratios = [x.as_integer_ratio() for x in values]
    shift = max(d.bit_length() for _, d in ratios)
    flat = [n << (shift - d.bit_length()) for n, d in ratios]
    return [flat[n : n + shape[-1]] for n in range(0, len(flat), shape[-1])], shift - 1


def at_shift(x: Matrix, shift: int) -> Rows:
    """The rows of `x` over the larger denominator 2^shift."""
    return [[n << (shift - x[1]) for n in row] for row in x[0]]


def plus(x: Matrix, y: Matrix) -> Matrix:
    """Add: x + y, where y may be one row that is added to every row of x."""
    shift = max(x[1], y[1])
    X, Y = at_shift(x, shift), at_shift(y, shift)
    Y = Y * len(X) if len(Y) == 1 else Y
    return [[m + n for m, n in zip(r, s, strict=True)] for r, s in zip(X, Y, strict=True)], shift


def times(x: Matrix, y: Matrix, clock: Clock) -> Matrix:
    """The matrix product x y."""
    require(len(x[0][0]) == len(y[0]), "shapes of weights do not fit")
    columns = list(zip(*y[0], strict=True))
    return [[sum(map(mul, row, column)) for column in columns] for row in ticking(x[0], clock)], x[1] + y[1]


def scaled(x: Matrix, factor: float) -> Matrix:
    """Scale: x times a float."""
    n, d = factor.as_integer_ratio()
    return [[n * m for m in row] for row in x[0]], x[1] + d.bit_length() - 1


def rows(x: Matrix, start: int, stop: int) -> Matrix:
    """Some rows of a matrix."""
    require(0 <= start < stop <= len(x[0]), "the config names weights that do not exist")
    return x[0][start:stop], x[1]


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
    p, m = integers([config["p"], config["d_mlp"]], "config", 2, 1, MAX_MODEL_BYTES)
    require(3 <= p <= MAX_MODULUS and p % 2 == 1, f"p is not an odd number in 3…{MAX_MODULUS}")
    require(config["activation"] in ("relu", "abs", "square"), "unknown activation")
    if config["architecture"] == "mlp":
        return {"mlp.W_a": [p, m], "mlp.W_b": [p, m], "mlp.W_out": [m, p]}
    names = "d_model", "n_heads", "d_head", "d_vocab", "d_vocab_out", "n_ctx"
    d, h, dh, v, v_out, n = integers([config[name] for name in names], "config", 6, 1, MAX_MODEL_BYTES)
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


# The proofs: each strategy gives a lower and an upper bound of every logit (equal when it is exact), over 2^shift.


@dataclass
class Plan:
    """For each input: where arcs start (unless at 0) and stop, and the mispredicted neurons with |pre-activation|."""

    starts: Rows
    stops: Rows
    wrong: list[list[tuple[int, int]]]

    def count(self, per_end: int, per_wrong: int) -> int:
        """Operations when an end and a mispredicted neuron take this many."""
        return sum(map(len, self.starts + self.stops)) * per_end + sum(map(len, self.wrong)) * per_wrong


def read_plan(model: Model, hints: Any, clock: Clock) -> Plan:
    """Put the neurons in the order of the hints; compare predicted arcs with the true sign of each pre-activation."""
    p, d_mlp, order = model.p, model.d_mlp, []
    for cluster in hints["clusters"]:
        integers([keys(cluster, ("k", "neurons"), "a cluster")["k"]], "k", 1, 1, p // 2)
        order += integers(cluster["neurons"], "neurons", None, 0, d_mlp - 1)
    require(sorted(order) == list(range(d_mlp)), "the clusters do not hold every neuron exactly once")
    for M in (model.U_a, model.U_b, model.W_L):
        M[:] = [[row[i] for i in order] for row in M]
    require(len(hints["arcs"]) == p * p, "there is not one list of arcs an input")
    plan = Plan([], [], [])
    for n, ends in enumerate(hints["arcs"]):
        clock(0)
        integers(ends, "arcs", None, 0, d_mlp)
        require(len(ends) % 2 == 0 and ends == sorted(set(ends)), "arcs are not in ascending order")
        predicted = [False] * d_mlp
        for start, stop in zip(ends[::2], ends[1::2], strict=True):
            predicted[start:stop] = [True] * (stop - start)
        pre = map(int.__add__, model.U_a[n // p], model.U_b[n % p])
        plan.wrong.append(
            [(i, abs(x)) for i, (x, yes) in enumerate(zip(pre, predicted, strict=True)) if (x > 0) != yes]
        )
        plan.starts.append([end for end in ends[::2] if end])
        plan.stops.append(ends[1::2])
    return plan


def hidden_sums(weights: list[int], model: Model, plan: Plan, clock: Clock) -> list[int]:
    """Σ_i weights[i] ReLU(pre_i(a,b)) for every input, exactly, by running sums over the arcs.

    A neuron left out although active adds its pre-activation, |pre|; one taken in although pre ≤ 0 must lose pre, which
    adds |pre| too. So every mispredicted neuron contributes + weight · |pre|.
    """
    P_a = [list(accumulate(map(mul, weights, row), initial=0)) for row in model.U_a]
    P_b = [list(accumulate(map(mul, weights, row), initial=0)) for row in model.U_b]
    sums = []
    for n, (starts, stops, wrong) in enumerate(ticking(zip(plan.starts, plan.stops, plan.wrong, strict=True), clock)):
        x, y = P_a[n // model.p], P_b[n % model.p]
        linear = sum([x[j] + y[j] for j in stops]) - sum([x[j] + y[j] for j in starts])
        sums.append(linear + sum([weights[i] * size for i, size in wrong]))
    return sums


def by_arcs(model: Model, hints: Any, clock: Clock) -> tuple[Rows, Rows, int]:
    """Every logit exactly, from the arcs."""
    keys(hints, ("clusters", "arcs"), "hints")
    p, plan, columns = model.p, read_plan(model, hints, clock), []
    for c in range(p):
        columns.append(hidden_sums(model.W_L[c], model, plan, clock))
    logits = with_skip(model, zip(*columns, strict=True))
    return logits, logits, 6 * p * p * model.d_mlp + 3 * p**3 + plan.count(2 * p, 2 * p + 1)


def by_brute_force(model: Model, hints: Any, clock: Clock) -> tuple[Rows, Rows, int]:
    """Every logit by its definition."""
    keys(hints, (), "hints")
    p, hidden = model.p, []
    for n in range(p * p):
        clock(0)
        pre = map(int.__add__, model.U_a[n // p], model.U_b[n % p])
        layer = [x * x for x in pre] if model.activation == "square" else [max(x, 0) for x in pre]
        hidden.append([sum(map(mul, layer, row)) for row in model.W_L])
    logits = with_skip(model, hidden)
    return logits, logits, brute_force_flops(model)


def by_moments(model: Model, hints: Any, clock: Clock) -> tuple[Rows, Rows, int]:
    """Every logit, up to what does not depend on c, from a low-rank form of W_L and the spread of what it leaves out.

    With W_L[c,i] = Σ_f B[f,c] M[f,i] + R[c,i] and r_i the largest less the smallest R[·,i], what R adds to the
    logits differs between answers by at most ρ = Σ_i r_i ReLU(pre_i).
    """
    keys(hints, ("clusters", "arcs", "basis", "coefficients", "shift"), "hints")
    p, d_mlp, rank = model.p, model.d_mlp, len(hints["basis"])
    (shift,), largest = integers([hints["shift"]], "shift", 1, 0, 1000), 10**MAX_INTEGER_DIGITS
    B = [integers(row, "basis", p, -largest, largest) for row in hints["basis"]]
    M = [integers(row, "coefficients", d_mlp, -largest, largest) for row in hints["coefficients"]]
    require(len(M) == rank <= p, "basis and coefficients do not fit")
    finer = max(0, shift - model.shift_w)  # bring W_L to at least the denominator of B M
    for X in (model.W_L, model.S_a, model.S_b):
        X[:] = [[x << finer for x in row] for row in X]
    model.shift, scale = model.shift + finer, 1 << (model.shift_w + finer - shift)
    plan = read_plan(model, hints, clock)
    M = [[scale * x for x in row] for row in M]
    columns, answers = list(zip(*M, strict=True)), list(zip(*B, strict=True))
    rows_of_w = zip(model.W_L, answers, strict=True)
    R = [[w - sum(map(mul, b, m)) for w, m in zip(row, columns, strict=True)] for row, b in ticking(rows_of_w, clock)]
    spread = [max(column) - min(column) for column in zip(*R, strict=True)]
    h = list(zip(*(hidden_sums(weights, model, plan, clock) for weights in M), strict=True))
    lower = with_skip(model, ([sum(map(mul, b, x)) for b in answers] for x in ticking(h, clock)))
    left = hidden_sums(spread, model, plan, clock)
    upper = [[s + rho for s in row] for row, rho in zip(lower, left, strict=True)]
    flops = 2 * p * p * d_mlp + (2 * rank + 2) * p * d_mlp + d_mlp + (rank + 1) * 4 * p * d_mlp + (2 * rank + 2) * p**3
    return lower, upper, flops + p * p + plan.count(2 * rank + 2, 2 * rank + 3)


def with_skip(model: Model, hidden: Iterable[Sequence[int]]) -> Rows:
    """Add S_a and S_b to what the neurons write."""
    p, S_a, S_b = model.p, model.S_a, model.S_b
    return [[h + s + t for h, s, t in zip(row, S_a[n // p], S_b[n % p], strict=True)] for n, row in enumerate(hidden)]


def brute_force_flops(model: Model) -> int:
    """2 p³ d_mlp + 2 p² d_mlp + 3 p³."""
    return 2 * model.p**3 * model.d_mlp + 2 * model.p**2 * model.d_mlp + 3 * model.p**3


Reader = Callable[[Any, Tensors, Any, Clock], Model]  # config, tensors and hints → the model a proof is about
Prover = Callable[[Model, Any, Clock], tuple[Rows, Rows, int]]  # → lower and upper bounds of the logits, and the cost
Strategies = Mapping[str, tuple[Reader, Prover]]
STRATEGIES: Strategies = {
    "arcs": (collapse, by_arcs),
    "brute": (collapse, by_brute_force),
    "moments": (collapse, by_moments),
}


# The verdict.


def statement(p: int, certified: int, margin: Fraction, error: Fraction | None) -> str:
    """The claims in words, decimals rounded to the safe side; a certificate must say exactly this."""

    def decimals(billionths: int) -> str:
        return f"{billionths // 10**9}.{billionths % 10**9:09d}"

    some = f"For {certified} of the {p * p} pairs a, b in 0…{p - 1} (all but those listed as uncertified)"
    which = some if certified < p * p else f"For all a, b in 0…{p - 1}"
    text = f"{which}, in real arithmetic on the stored weights, the logit of a + b mod {p} "
    text += f"exceeds that of every other answer, by at least {decimals(margin * 10**9 // 1)} (exactly: claims.margin)."
    if error is None or margin <= 2 * error:
        return text
    change = f"Float32 execution in any order changes no logit by more than {decimals(-(-error * 10**9 // 1))}"
    return f"{text} {change}, so {'the' if certified == p * p else 'their'} answers are the same."


def verify(certificate: Any, content: bytes, clock: Clock, strategies: Strategies) -> dict[str, Any]:
    """Raise `Rejected` unless every claim of the certificate is proved; return the claims."""
    top = "format", "version", "statement", "verdict", "strategy", "model", "claims", "uncertified", "witnesses"
    keys(certificate, (*top, "hints", "cost"), "the certificate")
    require(
        certificate["format"] == "quadlens-certificate" and repr(certificate["version"]) == "1",
        "unknown format or version",
    )
    about = keys(certificate["model"], ("sha256", "p", "d_mlp", "activation"), "model")
    require(about["sha256"] == hashlib.sha256(content).hexdigest(), "the certificate is about another model file")
    names = "inputs", "certified_inputs", "margin", "float32_error", "float32_certified"
    claims: dict[str, Any] = keys(certificate["claims"], names, "claims")
    require(claims["margin"] is not None, "the certificate claims nothing")
    config, tensors = read_model(content)
    expected = shapes(config)
    require({name: shape for name, (shape, _) in tensors.items()} == expected, "the tensors do not fit the config")
    strategy = certificate["strategy"]
    require(
        isinstance(strategy, str) and strategy in strategies, f"unknown strategy; known here: {', '.join(strategies)}"
    )
    require(strategy == "brute" or config["activation"] != "square", "unknown strategy for an activation of x²")
    reader, prover = strategies[strategy]
    model = reader(config, tensors, certificate["hints"], clock)
    for key in ("p", "d_mlp", "activation"):
        require(about[key] == getattr(model, key), f"the certificate's {key} is not the model's")
    require(all(isinstance(certificate[key], list) for key in ("uncertified", "witnesses")), "a list is missing")
    margin, left_out = check_claims(model, certificate)
    lower, upper, flops = prover(model, certificate["hints"], clock)
    check_margins(model, lower, upper, margin, left_out)
    for a, b, c in (integers(witness, "witness", 3, 0, model.p - 1) for witness in certificate["witnesses"]):
        n, right = a * model.p + b, (a + b) % model.p
        require(c != right and lower[n][c] >= max(upper[n]), f"it is not shown that {a} + {b} is answered {c}")
    costs = {"flops": flops, "collapse_flops": model.collapse_flops, "brute_force_flops": brute_force_flops(model)}
    integers(list(keys(certificate["cost"], costs, "cost").values()), "cost", 3, 0, 10**MAX_INTEGER_DIGITS)
    require(certificate["cost"] == costs, f"the cost claimed is not the cost found: {costs}")
    return claims


def check_claims(model: Model, certificate: Any) -> tuple[Fraction, set[tuple[int, ...]]]:
    """The claims fit each other, the words, and what float32 can change; the margin and the inputs left out."""
    p, claims, listed = model.p, certificate["claims"], certificate["uncertified"]
    left_out = {tuple(integers(pair, "uncertified", 2, 0, p - 1)) for pair in listed}
    certified = p * p - len(left_out)
    require(len(left_out) == len(listed) and certified > 0, "the uncertified inputs are not a list of distinct pairs")
    require([claims["inputs"], claims["certified_inputs"]] == [p * p, certified], "the inputs are counted wrongly")
    require(certificate["verdict"] == ("PARTLY" if left_out else "CERTIFIED"), "the verdict does not fit the claims")
    margin, error = rational(claims["margin"], "margin"), None
    if claims["float32_error"] is not None:
        error, proved = rational(claims["float32_error"], "float32_error"), model.float32_error
        require(proved is not None and error >= proved, "the float32 error claimed is smaller than what can be proved")
    holds = error is not None and margin > 2 * error
    require(claims["float32_certified"] is holds, "float32_certified does not follow from the claims")
    words = statement(p, certified, margin, error)
    require(certificate["statement"] == words, f"the statement does not fit the claims; it should read: {words}")
    return margin, left_out


def check_margins(model: Model, lower: Rows, upper: Rows, claimed: Fraction, left_out: set[tuple[int, ...]]) -> None:
    """Right answer's lower bound minus the largest other upper bound is at least the margin claimed."""
    floor = claimed * (1 << model.shift)
    for n, (low, high) in enumerate(zip(lower, upper, strict=True)):
        a, b = divmod(n, model.p)
        right = (a + b) % model.p
        margin = low[right] - max(high[:right] + high[right + 1 :])
        require((a, b) in left_out or margin >= floor, f"the margin claimed is not proved for {a} + {b}")


def check(
    certificate_path: str, model_path: str, max_seconds: float = DEFAULT_SECONDS, strategies: Strategies = STRATEGIES
) -> Report:
    """Check the certificate in one file against the model in another; a missing file raises OSError."""
    began, sha256 = time.monotonic(), None

    def clock(operations: int) -> None:
        needed = time.monotonic() - began + operations / OPERATIONS_PER_SECOND
        require(needed <= max_seconds, f"not verified within {max_seconds} seconds")

    try:
        certificate = parse_json(read_limited(certificate_path, MAX_CERTIFICATE_BYTES).decode(), floats=False)
        content = read_limited(model_path, MAX_MODEL_BYTES)
        sha256 = hashlib.sha256(content).hexdigest()
        claims = verify(certificate, content, clock, strategies)
    except Rejected as rejection:
        reason = str(rejection).encode("utf-8", "replace").decode()
        return Report("REJECTED", reason, time.monotonic() - began, sha256)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError, struct.error) as error:
        reason = f"malformed certificate or model: {type(error).__name__}: {error}"
        return Report("REJECTED", ascii(reason)[1:-1], time.monotonic() - began, sha256)
    proved, seconds = "every claim was proved again from the model", time.monotonic() - began
    return Report("VERIFIED", proved, seconds, sha256, certificate["statement"], claims)


def main(arguments: list[str], strategies: Strategies = STRATEGIES) -> int:
    """Print the verdict; exit 0 verified, 1 rejected, 2 usage or missing files."""
    usage = f"usage: python {os.path.basename(sys.argv[0])} CERTIFICATE MODEL [SECONDS]\n"
    if not 2 <= len(arguments) <= 3:
        (sys.stdout if (asked := arguments in (["-h"], ["--help"])) else sys.stderr).write(usage)
        return 0 if asked else 2
    try:
        certificate, model, *rest = arguments
        report = check(certificate, model, float(rest[0]) if rest else DEFAULT_SECONDS, strategies)
    except (OSError, ValueError, TypeError) as error:
        sys.stderr.write(f"error: {error}\n{usage}")
        return 2
    text = f"{report.verdict}: {report.reason} ({report.seconds:.1f} s)\n"
    text += f"{report.statement}\n" if report.statement else ""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))  # a verdict never fails to print
    return 0 if report.verdict == "VERIFIED" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
