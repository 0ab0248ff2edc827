"""What attention sees of a sequence, as tables by position and token.

Before attention a position is a function of its place and token alone.

A `Vector` here is over 2^P: no entry is further than its one error from the truth.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import mul

from quadlens_checker.exponential import exponential
from quadlens_checker.limits import SCORE_BITS, TABLE_BITS, WEIGHT_BITS, WEIGHT_RANGE
from quadlens_checker.matrices import Matrix, Rows, rows, transposed
from quadlens_checker.norms import Norm, Vector, normalised
from quadlens_checker.reading import Clock, require, ticking
from quadlens_checker.sequence_file import Network

P = TABLE_BITS


@dataclass(frozen=True)
class LinearMap:
    """The map x ↦ x W + b.

    Columns of W and entries of b are over powers of two; `size` bounds every Σ_i |W[i,j]|.
    """

    columns: Rows
    shift: int
    bias: list[int]
    bias_shift: int
    size: int

    @classmethod
    def of(cls, W: Matrix, b: Matrix | None = None) -> "LinearMap":
        """W and one row b, or none."""
        columns = transposed(W)[0]
        (bias, *_), shift = b or ([[0] * len(columns)], 0)
        return cls(columns, W[1], bias, shift, max(sum(map(abs, column)) for column in columns))

    def __call__(self, x: Vector) -> Vector:
        """Apply the map.

        The error is multiplied by `size`, and products and bias are rounded down, each by less than
        1.
        """
        bias = at_bits(self.bias, self.bias_shift, P)
        y = [
            (sum(map(mul, x[0], w)) >> self.shift) + b
            for w, b in zip(self.columns, bias, strict=True)
        ]
        return y, (x[1] * self.size >> self.shift) + 3


def at_bits(row: Sequence[int], shift: int, bits: int) -> list[int]:
    """Integers over 2^shift as integers over 2^bits, rounded down."""
    return (
        [n << (bits - shift) for n in row] if bits >= shift else [n >> (shift - bits) for n in row]
    )


def normed(norm: Norm | None, x: Vector, w: Matrix | None, b: Matrix | None) -> Vector:
    """Normalise a row, multiply it by the row w and add the row b.

    Products and bias are rounded down, each by less than 1.
    """
    if norm is None or w is None:
        return x
    scaled, error = normalised(norm, x, P)
    (weight, *_), shift = w
    bias = [0] * len(scaled) if b is None else at_bits(b[0][0], b[1], P)
    y = [(n * v >> shift) + c for n, v, c in zip(scaled, weight, bias, strict=True)]
    return y, (error * max(map(abs, weight)) >> shift) + 3


@dataclass(frozen=True)
class SequenceTables:
    """Keys, queries and coordinates of values, by token, for each position.

    Positions go up to the last one asked.

    basis: for each head K rows of d_model integers over 2^basis_bits. A value writes v = (n W_V +
    b_V) W_O; its coordinates are u_k = v · B_k, and v - Σ_k u_k B_k, whatever it is, is enclosed by
    `rest`, over 2^P.
    """

    network: Network
    basis: list[Rows]
    basis_bits: int
    clock: Clock

    @cached_property
    def tokens(self) -> list[list[int]]:
        """The tokens that each position may be fed."""
        task = self.network.task
        last = max(query for query, _, _ in task.steps)
        fed = task.fed[: last + 1]
        return [
            [x] if isinstance(x, int) else sorted({v for row in x[1] for v in row}) for x in fed
        ]

    @cached_property
    def streams(self) -> list[dict[int, list[int]]]:
        """Token and position embedded, over 2^P, rounded down twice."""
        E, pos = self.network.tensors["W_E"], self.network.tensors["W_pos"]

        def stream(j: int, v: int) -> list[int]:
            return list(map(int.__add__, at_bits(E[0][v], E[1], P), at_bits(pos[0][j], pos[1], P)))

        return [{v: stream(j, v) for v in here} for j, here in enumerate(self.tokens)]

    @cached_property
    def normed(self) -> list[dict[int, Vector]]:
        """The stream as attention reads it."""
        norm, of = self.network.norms["attention"], self.network.tensors.get
        w, b = of("ln1_w"), of("ln1_b")
        return [
            {v: normed(norm, (x, 2), w, b) for v, x in here.items()}
            for here in ticking(self.streams, self.clock)
        ]

    def projected(self, kind: str, head: int) -> list[dict[int, Vector]]:
        """Queries (Q) or keys (K) of a head, normalised and rotated."""
        network, d = self.network, self.network["d_model"]
        linear = LinearMap.of(
            rows(network.tensors[f"W_{kind}"], head * d, head * d + d),
            rows(network.tensors[f"b_{kind}"], head, head + 1),
        )
        norm, w = network.norms["query_key"], network.tensors.get(f"{kind.lower()}_norm_w")
        return [
            {v: self.turned(j, normed(norm, linear(x), w, None)) for v, x in here.items()}
            for j, here in enumerate(ticking(self.normed, self.clock))
        ]

    def turned(self, j: int, x: Vector) -> Vector:
        """Rotate each pair: (u cos - v sin, u sin + v cos).

        The error is at most 2 max(|cos|, |sin|) times, and it is rounded down.
        """
        network = self.network
        if network.rope is None:
            return x
        (cos, shift), (sin, shift_sin) = network.tensors["rope_cos"], network.tensors["rope_sin"]
        bits = max(shift, shift_sin)
        C, S = at_bits(cos[j], shift, bits), at_bits(sin[j], shift_sin, bits)
        half = len(C)
        first = slice(0, half) if network.rope == "halves" else slice(0, None, 2)
        second = slice(half, None) if network.rope == "halves" else slice(1, None, 2)
        rotated = [0] * (2 * half)
        U, V = x[0][first], x[0][second]
        rotated[first] = [u * c - v * s >> bits for u, v, c, s in zip(U, V, C, S, strict=True)]
        rotated[second] = [u * s + v * c >> bits for u, v, c, s in zip(U, V, C, S, strict=True)]
        return rotated, (2 * x[1] * max(map(abs, C + S)) >> bits) + 2

    @cached_property
    def keys(self) -> list[list[dict[int, Vector]]]:
        return [self.projected("K", h) for h in range(self.network["n_heads"])]

    @cached_property
    def queries(self) -> list[list[dict[int, Vector]]]:
        return [self.projected("Q", h) for h in range(self.network["n_heads"])]

    @cached_property
    def written(self) -> list[list[dict[int, Vector]]]:
        """Return what the value of each head, position and token writes to the stream."""
        network, d, v = self.network, self.network["d_model"], self.network["d_value"]
        by_head = []
        for h in range(network["n_heads"]):
            V = LinearMap.of(
                rows(network.tensors["W_V"], h * d, h * d + d),
                rows(network.tensors["b_V"], h, h + 1),
            )
            out = LinearMap.of(rows(network.tensors["W_O"], h * v, h * v + v))
            by_head.append(
                [
                    {t: out(V(x)) for t, x in here.items()}
                    for here in ticking(self.normed, self.clock)
                ]
            )
        return by_head

    @cached_property
    def coordinates(self) -> list[list[dict[int, Vector]]]:
        """The coordinates of each head, position and token."""
        by_head = []
        for basis, here in zip(self.basis, self.written, strict=True):
            linear = LinearMap.of(transposed((basis, self.basis_bits))) if basis else None
            by_head.append(
                [{v: linear(x) if linear else ([], 0) for v, x in at.items()} for at in here]
            )
        return by_head

    @cached_property
    def rest(self) -> tuple[list[int], list[int]]:
        """Return middle and radius of Σ over heads of v - Σ_k u_k B_k, per stream entry.

        Softmax averages it.
        """
        d = self.network["d_model"]
        middle, radius = [0] * d, [0] * d
        for basis, values, coordinates in zip(
            self.basis, self.written, self.coordinates, strict=True
        ):
            back = LinearMap.of((basis, self.basis_bits)) if basis else None
            low, high = [], []
            for here, there in zip(values, coordinates, strict=True):
                for v, (m, e) in here.items():
                    again, error = back(there[v]) if back else ([0] * d, 0)
                    low.append([a - b - e - error for a, b in zip(m, again, strict=True)])
                    high.append([a - b + e + error for a, b in zip(m, again, strict=True)])
            for i, (least, most) in enumerate(
                zip(zip(*low, strict=True), zip(*high, strict=True), strict=True)
            ):
                centre = (min(least) + max(most)) // 2
                middle[i] += centre
                radius[i] += max(most) - centre
        return middle, radius

    def weights(self, head: int, query: int, own: int) -> dict[int, dict[int, int]]:
        """Return w̃ of every position seen and every token there, in proportion to e^score.

        Each is known to `weight_error`.
        """
        return self.scaled_weights(head, query, own)[0]

    def scaled_weights(
        self, head: int, query: int, own: int
    ) -> tuple[dict[int, dict[int, int]], int]:
        """Return `weights`, and the power of two by which they exceed e^score, about.

        A score is within error = e_q Σ|k| + e_k Σ|q| + d e_q e_k, rounded; with ε = error/2^P ≤
        2^-80 its exponential is within a factor e^±ε, and `exponential` within 1 ± 2^-110. m is cut
        to WEIGHT_BITS, and all are put over the power of two of the largest, WEIGHT_RANGE bits and
        no more further down: what is smaller is rounded down too.
        """
        network, (q, e_q) = self.network, self.queries[head][query][own]
        top, bottom = network.divisor.as_integer_ratio()
        bias, shift = network.tensors["score_bias"]
        row, size_q, powers = bias[head * network["n_ctx"] + query], sum(map(abs, q)), {}
        for j in network.seen(head, query):
            extra, powers[j] = at_bits([row[j]], shift, P)[0], dict[int, tuple[int, int]]()
            for v, (k, e_k) in self.keys[head][j].items():
                score = sum(map(mul, q, k)) * bottom // (top << P) + extra
                error = (e_q * sum(map(abs, k)) + e_k * size_q + len(q) * e_q * e_k) * bottom // (
                    top << P
                ) + 3
                require(abs(score) >> P < 1 << SCORE_BITS, "an attention score beyond 2^60")
                require(error < 1 << (P - 80), "attention scores too large to know well enough")
                powers[j][v] = exponential(score, 1 << P)
        places = [k for here in powers.values() for _, k in here.values()]
        highest, depth = max(places), min(max(places) - min(places), WEIGHT_RANGE)
        cut = 128 - WEIGHT_BITS
        weights = {
            j: {v: (m >> cut << depth) >> min(highest - k, 10**6) for v, (m, k) in here.items()}
            for j, here in powers.items()
        }
        return weights, WEIGHT_BITS + depth - highest


def weight_error(w: int) -> int:
    """Bound |w - w̃| for a w̃ of `SequenceTables.weights`.

    Its relative errors are below 2^-78, and it is rounded down once.
    """
    return (w >> 77) + 2
