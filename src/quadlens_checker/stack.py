"""Networks of several layers, or with norms: every logit by the forward pass.

Numbers are integers with a bound on their error.

A vector is a list of integers X_i over 2^F with one bound e, over 2^F too: the true numbers x_i
have |x_i - X_i/2^F| ≤ e/2^F. Each function below says what it adds to e. Integer division rounds
down, so that a quotient that bounds an error has 1 added.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from operator import mul
from typing import Any

from quadlens_checker import limits
from quadlens_checker.activations import enclosed
from quadlens_checker.arcs import ScoreBounds
from quadlens_checker.exponential import LARGEST, exponential
from quadlens_checker.gates import share_error, shares
from quadlens_checker.matrices import Matrix, Rows, field_size, matrix, packed, to_bits, unpacked
from quadlens_checker.model_file import Config, Softmax, Tensors
from quadlens_checker.norms import Norm, Vector, normalised
from quadlens_checker.reading import Clock, keys, require, ticking

F = limits.STACK_BITS


def biggest(x: Sequence[int]) -> int:
    """Return the largest size of an entry."""
    return max(map(abs, x))


@dataclass(frozen=True)
class LinearLayer:
    """The map x W + b: W over 2^F and b over 2^(2F), each the nearest.

    `column` is no less than any Σ_i |W_ij|, over 2^F.
    """

    W: Rows
    b: list[int]
    column: int
    largest: int
    packs: dict[int, list[int]] = field(default_factory=dict)

    def lines(self, size: int) -> list[int]:
        """The rows, and then b, as fields of so many bytes."""
        if size not in self.packs:
            self.packs[size] = [packed(row, size) for row in (*self.W, self.b)]
        return self.packs[size]

    def __call__(self, x: Vector) -> Vector:
        """Apply the map and bound its error.

        |Σ x'W' + b' - Σ xW - b| ≤ e Σ|W'| + Σ|x| 2^-(F+1) + 2^-(2F+1): quotients rounded down and
        the last rounding take less than 4.
        """
        values, error = x
        need = field_size(biggest(values), self.largest, len(values), plus=biggest(self.b))
        size = -(-need // 4) * 4  # a few sizes only: the fields are packed once for each
        *lines, bias = self.lines(size)
        fields = sum(map(mul, values, lines)) + bias
        lost = (error * self.column >> F) + (sum(map(abs, values)) >> (F + 1)) + 4
        return [v >> F for v in unpacked(fields, len(self.b), size)], lost


def linear(W: Matrix, b: Matrix | None) -> LinearLayer:
    """A linear layer; without a bias b is 0."""
    rows = to_bits(W, F)
    bias = [0] * len(rows[0]) if b is None else to_bits(b, 2 * F)[0]
    column = max(sum(map(abs, column)) for column in zip(*rows, strict=True)) + len(rows)
    return LinearLayer(rows, bias, column, max(map(biggest, rows)))


def plus(x: Vector, y: Vector) -> Vector:
    """Add; errors add up."""
    return list(map(int.__add__, x[0], y[0])), x[1] + y[1]


def activated(name: str, x: Vector) -> Vector:
    """Apply σ.

    The error is its slope times the error of x, and what its enclosure adds; both are for |x| up to
    `most`, errors included.
    """
    values, error = x
    sigma = enclosed(name, F, (biggest(values) + error >> F) + 1)
    y = APPLIED.setdefault(name, sigma.apply)(values)
    return y, sigma.slope * error + math.ceil(sigma.error * (1 << F))


APPLIED: dict[
    str, Any
] = {}  # σ̄ does not depend on `most`, and remembers the places that it was expanded at


@dataclass(frozen=True)
class NormLayer:
    """A norm with its weight and bias, over 2^F, each the nearest."""

    norm: Norm
    w: list[int]
    b: list[int]

    def __call__(self, x: Vector) -> Vector:
        """Multiply by w, add b, and bound the error.

        It is the error that came times |w|, what came times w's rounding (1/2), b's, and rounding.
        """
        unit, lost = normalised(self.norm, x, F)
        y = [(v * w >> F) + b for v, w, b in zip(unit, self.w, self.b, strict=True)]
        return y, (lost * (biggest(self.w) + 1) >> F) + (biggest(unit) >> (F + 1)) + 4


@dataclass(frozen=True)
class Block:
    """One layer: norms (None without), W_Q, W_K (None without softmax), W_V, W_O, its MLP.

    W_V is of all heads at once.
    """

    before_attention: NormLayer | None
    Q: LinearLayer | None
    K: LinearLayer | None
    V: LinearLayer
    out: LinearLayer
    before_mlp: NormLayer | None
    into: LinearLayer
    write: LinearLayer


@dataclass(frozen=True)
class Stack:
    """A network: its input streams, its layers or hidden layers, and its unembedding.

    tokens: of a transformer by position, of an MLP by operand, one vector for each token. hidden:
    of an MLP after its first hidden layer: (the σ before it, its norm, its linear layer).
    """

    config: Config
    tokens: list[list[Vector]]
    blocks: list[Block]
    hidden: list[tuple[str | None, NormLayer | None, LinearLayer]]
    before_last: NormLayer | None
    last: LinearLayer
    float32_error: Fraction | None = None

    @property
    def p(self) -> int:
        return self.config.p

    def logits(self, a: int, b: int) -> Vector:
        """Return the logits by the forward pass."""
        config = self.config
        if config.architecture == "mlp":
            x = plus(self.tokens[0][a], self.tokens[1][b])
            for sigma, norm, layer in self.hidden:
                x = x if sigma is None else activated(sigma, x)
                x = layer(x if norm is None else norm(x))
            x = activated(config.activation, x)
        else:
            streams = [of[t] for of, t in zip(self.tokens, (a, b, 0), strict=False)]
            for number, block in enumerate(self.blocks):
                last = number + 1 == len(self.blocks)
                streams = [
                    mlp(config, block, stream) if q == config.read_position or not last else stream
                    for q, stream in enumerate(attended(config, block, streams, last))
                ]
            x = streams[config.read_position]
        return self.last(x if self.before_last is None else self.before_last(x))


def mlp(config: Config, block: Block, x: Vector) -> Vector:
    """The stream with what the MLP writes."""
    read = x if block.before_mlp is None else block.before_mlp(x)
    return plus(x, block.write(activated(config.activation, block.into(read))))


def attended(config: Config, block: Block, x: list[Vector], last: bool) -> list[Vector]:
    """Return the streams with attention's output.

    They are of every position, or in the last layer of the one that is read.
    """
    read = x if block.before_attention is None else list(map(block.before_attention, x))
    values, dh = [block.V(n) for n in read], config.d_head
    keys_ = [] if block.K is None else [block.K(n) for n in read]
    streams = list(x)
    for q in [config.read_position] if last else range(len(x)):
        query = None if block.Q is None else block.Q(read[q])
        mixed, lost = list[int](), 0
        for h in range(config.n_heads):
            head = slice(h * dh, h * dh + dh)
            weights, off = constant_weights(config), 1
            if query is not None and config.softmax is not None:
                weights, off = with_softmax(config.softmax, weights, query, keys_, q, head)
            parts = [v[0][head] for v in values]
            mixed += [sum(map(mul, weights, column)) >> F for column in zip(*parts, strict=True)]
            each = zip(weights, values, parts, strict=True)
            lost = max(
                lost, sum((abs(g) + off) * v[1] + off * biggest(part) for g, v, part in each)
            )
        streams[q] = plus(x[q], block.out((mixed, (lost >> F) + 2)))
    return streams


def constant_weights(config: Config) -> list[int]:
    """The constant part of each position's weight, over 2^F, within 1/2."""
    return to_bits(matrix([len(config.attention)], config.attention), F)[0]


def with_softmax(
    softmax: Softmax, weights: list[int], query: Vector, keys_: list[Vector], q: int, head: slice
) -> tuple[list[int], int]:
    """Add scale · softmax to the weights of the positions seen from q; bound the errors.

    A score Σ q k / divisor is off by s = (e_q Σ|k| + e_k Σ|q| + d_head e_q e_k) / divisor. Softmax
    p_t moves by at most s/2: dp_t = p_t Σ_u p_u (ds_t - ds_u), whose size is at most 2 s p_t (1 -
    p_t). To that come the errors of `shares` and the rounding of the constant part.
    """
    top, bottom = softmax.divisor.as_integer_ratio()
    n, d = softmax.scale.as_integer_ratio()
    Q, most, powers = query[0][head], 0, []
    for key in keys_[: q + 1] if softmax.causal else keys_:
        K = key[0][head]
        score = sum(map(mul, Q, K)) * bottom
        off = query[1] * sum(map(abs, K)) + key[1] * sum(map(abs, Q)) + len(K) * query[1] * key[1]
        require(abs(score) < top * LARGEST << (2 * F), "an attention score beyond 2^60")
        powers.append(exponential(score, top << (2 * F)))
        most = max(most, off * bottom // (top << F) + 1)
    gates = list(weights)
    for t, share in enumerate(shares(powers, n, d, F)):
        gates[t] += share
    error = -(-abs(n) // d) * (most // 2 + 1) + math.ceil(share_error(softmax.scale, F) * (1 << F))
    return gates, error + 1


def read_stack(config: Config, tensors: Tensors, hints: Any, clock: Clock) -> Stack:
    """The network as it is in the file."""
    clock(stack_work(config))
    p, d, h = config.p, config.d_model, config.n_heads

    def of(name: str, width: int | None = None) -> Matrix:
        return matrix(*tensors[name], None, width)

    def layer(W: str, b: str, width: int | None = None) -> LinearLayer:
        return linear(of(W, width), of(b, width))

    def heads(name: str) -> LinearLayer:
        W, b = of(name.replace("?", "W")), of(name.replace("?", "b"))
        rows = [[x for i in range(h) for x in W[0][i * d + row]] for row in range(d)]
        return linear((rows, W[1]), ([[x for row in b[0] for x in row]], b[1]))

    def norm(kind: Norm | None, name: str, dot: str) -> NormLayer | None:
        if kind is None:
            return None
        return NormLayer(kind, *(to_bits(of(f"{name}{dot}{part}"), F)[0] for part in "wb"))

    def vectors(x: Matrix, bias: Matrix | None = None) -> list[Vector]:
        more = [0] * len(x[0][0]) if bias is None else to_bits(bias, F)[0]
        return [(list(map(int.__add__, row, more)), 1) for row in to_bits(x, F)]

    if config.architecture == "mlp":
        hidden: list[tuple[str | None, NormLayer | None, LinearLayer]] = []
        norms = [*(wide.norm for wide in config.hidden[1:]), config.norms["mlp"]]
        for number, (before, kind) in enumerate(zip(config.hidden, norms, strict=False), 1):
            at = f"mlp.{number}."
            hidden.append(
                (before.activation, norm(kind, f"{at}ln2", "_"), layer(f"{at}W_in", f"{at}b_in"))
            )
        bias = of("mlp.b_in") if config.bias else None
        last = linear(of("mlp.W_out"), of("mlp.b_out") if config.bias else None)
        tokens = [vectors(of("mlp.W_a")), vectors(of("mlp.W_b"), bias)]
        return Stack(
            config, tokens, [], hidden, norm(config.norms["final"], "mlp.ln_final", "_"), last
        )
    places, W_E = to_bits(of("pos_embed.W_pos"), F), to_bits(of("embed.W_E"), F)
    tokens = [
        [(list(map(int.__add__, row, place)), 1) for row in W_E[start:stop]]
        for (start, stop), place in zip(config.tokens, places, strict=False)
    ]
    blocks = []
    for at in (f"blocks.{number}." for number in range(config.n_layers)):
        Q, K = (
            heads(f"{at}attn.?_{name}") if config.softmax is not None else None for name in "QK"
        )
        out, into = layer(f"{at}attn.W_O", f"{at}attn.b_O"), layer(f"{at}mlp.W_in", f"{at}mlp.b_in")
        write, ln1 = (
            layer(f"{at}mlp.W_out", f"{at}mlp.b_out"),
            norm(config.norms["attention"], f"{at}ln1", "."),
        )
        ln2 = norm(config.norms["mlp"], f"{at}ln2", ".")
        blocks.append(Block(ln1, Q, K, heads(f"{at}attn.?_V"), out, ln2, into, write))
    last = layer("unembed.W_U", "unembed.b_U", p)
    return Stack(config, tokens, blocks, [], norm(config.norms["final"], "ln_final", "."), last)


def stack_work(config: Config) -> int:
    """Estimate how many operations it takes, in the measure of the clock.

    Products of fields are many at once.
    """
    d, m, inner = config.d_model, config.d_mlp, config.n_heads * config.d_head
    layer = len(config.attention) * (4 * d * inner + 2 * d * m)
    widths = [*(wide.width for wide in config.hidden), m]
    between = sum(x * y for x, y in pairwise(widths))
    return config.p**2 * (config.n_layers * layer + between + max(d, m) * config.p) // 10


def by_stack(stack: Stack, hints: Any, clock: Clock) -> ScoreBounds:
    """Every score of every input; two of them are off by at most twice the error."""
    keys(hints, (), "hints")

    def every_score() -> Iterator[tuple[list[int], int]]:
        for n in ticking(range(stack.p**2), clock):
            scores, error = stack.logits(*divmod(n, stack.p))
            yield scores, 2 * error

    return ScoreBounds(every_score(), F)
