"""Bounds on the terms of `noise_terms.py` from norms of the weights alone.

No two of the network's matrices are multiplied.

A row x of the stream and a matrix M of full size are split by a basis P of the plane that
parameterised matrices read or write, a hint with 1 - PᵀP small: x = y Pᵀ + x', y = x P, and M = P F
+ N', F = Pᵀ M. Then, |·| the Euclidean norm,

    |x M Q| ≤ |y| ‖F Q‖ + |x'| ‖N' Q‖_F,
    |x M - x M Q Qᵀ| ≤ |y| ‖F - F Q Qᵀ‖_F + |x'| ‖N' - N' Q Qᵀ‖_F

up to SLACK: a matrix is a 2 × 2 table of norms (plane, rest), and a path through the network the
product of these. A parameterised matrix has its plane alone, so that noise which is orthogonal to a
plane meets noise alone. ‖·‖ is the operator norm, by λ ≤ (tr Gⁿ)^(1/n) for the Gram matrix G. With
an empty basis all is Frobenius norms.

The ReLU and |x| are 1-Lipschitz, so what noise in s makes of the hidden layer is at most |pre^s|
long, and a term of the logits between two answers at most half (ReLU) of |pre^s(a,b)| |W_L^r[c] -
W_L^r[c']|.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from jaxtyping import Float

from noise_terms import PASSING, READ, WRITTEN
from quadlens.network.weights import Weights

# More, relative to the norms of the factors, than float64 loses in sums of up to 2^20 terms and
# bases are off by.
SLACK = 2.0**-30
# Bases further from orthonormal than this are refused.
DEFECT = 2.0**-40
# Singular values below this share of the largest belong to no plane.
NOTHING = 1e-6
# (tr Gⁿ)^(1/n) with n = 2^SQUARINGS.
SQUARINGS = 6

Matrix = Float[np.ndarray, "_ _"]
Sizes = Float[np.ndarray, "2"]
Bound = float | Float[np.ndarray, "p p"]
Names = tuple[str, ...]
Way = Literal["norms", "operator norms", "planes"]


def subsets(names: Names) -> list[Names]:
    """All of them, fewest first, in the order of the names."""
    return [one for size in range(len(names) + 1) for one in combinations(names, size)]


def bound_operator(M: Matrix) -> float:
    """Not below the largest singular value, for a matrix with few rows or few columns."""
    scale = float(np.abs(M).max(initial=0.0))
    if scale == 0:
        return 0.0
    M = M / scale
    G, power = (M @ M.T if len(M) <= M.shape[1] else M.T @ M), 0.0
    for step in range(SQUARINGS + 1):
        size = float(np.trace(G))
        # log of (tr G^(2^step))^(1/2^step), what was divided out so far included.
        power += np.log(size) / 2**step
        G = (G / size) @ (G / size)
    return scale * float(np.exp(power / 2)) * (1 + SLACK)


def basis(rows: Matrix) -> Matrix:
    """An orthonormal basis of the rows' span, nearly, as columns."""
    _, sizes, vectors = np.linalg.svd(rows, full_matrices=False)
    found: Matrix = vectors[: int((sizes > NOTHING * sizes.max(initial=0.0)).sum())].T
    if np.linalg.norm(np.eye(found.shape[1]) - found.T @ found) > DEFECT:
        raise RuntimeError("a basis is not orthonormal")
    return found


@dataclass(frozen=True, eq=False)
class Matrices:
    """One network's, or their difference's, with heads side by side.

    Attributes:
        x: Streams before attention, of the tokens of each position.
        V: Values of all heads.
        O: What they write.
        W_in: As stored.
        W_out: As stored.
        W_U: For the answers, less their mean.
        b_V, b_O, b_in, b_out, b_U: One row each.
    """

    x: Sequence[Matrix]
    V: Matrix
    O: Matrix  # noqa: E741
    W_in: Matrix
    W_out: Matrix
    W_U: Matrix
    b_V: Matrix
    b_O: Matrix
    b_in: Matrix
    b_out: Matrix
    b_U: Matrix


def matrices(tensors: dict[str, np.ndarray], like: Weights) -> Matrices:
    """In float64, of a network with the config of `like`."""
    p, t = like.config.p, {name: np.asarray(x, dtype=float) for name, x in tensors.items()}
    W_U = t["W_U"][:, :p]
    x = [
        t["W_E"][start:stop] + t["W_pos"][at]
        for at, (start, stop) in enumerate(like.config.token_rows)
    ]
    V, O_ = np.concatenate(list(t["W_V"]), axis=1), np.concatenate(list(t["W_O"]))
    rows = (
        t["b_V"].reshape(1, -1),
        *(t[name][None] for name in ("b_O", "b_in", "b_out")),
        t["b_U"][None, :p],
    )
    return Matrices(x, V, O_, t["W_in"], t["W_out"], W_U - W_U.mean(axis=1, keepdims=True), *rows)


@dataclass(frozen=True, eq=False)
class Planes:
    """The bases of planes where two matrices meet.

    `x` is before attention, `v` in values, `y` after attention, and `u` is for W_U.
    """

    x: Matrix
    v: Matrix
    y: Matrix
    u: Matrix

    @classmethod
    def of(cls, simple: Matrices, read: int) -> "Planes":
        """The planes that a parameterised network uses."""
        x = np.concatenate(list(simple.x))
        y = x @ simple.V @ simple.O
        return cls(
            *map(basis, (x, x @ simple.V, np.concatenate([y, simple.x[read]]), simple.W_U.T))
        )

    @classmethod
    def none(cls, like: Matrices) -> "Planes":
        """No plane anywhere."""
        d, v = like.V.shape
        return cls(*(np.zeros((n, 0)) for n in (d, v, d, d)))


def sizes(rows: Matrix, P: Matrix) -> Sizes:
    """Largest norms of rows along P, and of what that leaves."""
    y = rows @ P
    norms = [np.linalg.norm(part, axis=1).max(initial=0.0) for part in (y, rows - y @ P.T)]
    return np.array(norms) + SLACK * np.linalg.norm(rows, axis=1).max(initial=0.0)


def blocks(M: Matrix, P: Matrix, Q: Matrix) -> Float[np.ndarray, "2 2"]:
    """The table of a matrix."""
    F = P.T @ M
    N = M - P @ F
    rest = [np.linalg.norm(part - (part @ Q) @ Q.T) for part in (F, N)]
    table = np.array([[bound_operator(F @ Q), rest[0]], [np.linalg.norm(N @ Q), rest[1]]])
    return table + SLACK * np.linalg.norm(M)


def into(M: Matrix, P: Matrix) -> Sizes:
    """Bound |x M| ≤ |y| first + |x'| second where the other side is neurons, without a plane."""
    F = P.T @ M
    return np.array([bound_operator(F), np.linalg.norm(M - P @ F)]) + SLACK * np.linalg.norm(M)


@dataclass(frozen=True, eq=False)
class Norms:
    """What a term is at most: half (ReLU) of `pre` times `W_L`, and `skip`.

    Attributes:
        pre: At least |pre^s(a,b)|, by s: one number, or one per input.
        W_L: At least |W_L^r[c] - W_L^r[c']|, by r.
        skip: At least |S^t(a,b,c) - S^t(a,b,c')|, by t.
    """

    pre: dict[Names, Bound]
    W_L: dict[Names, float]
    skip: dict[Names, float]


class Chain:
    """A network and its noise as norms, by one of three ways.

    A pair is of the parameterised network and of the noise.
    """

    def __init__(self, network: Weights, simple: Weights, way: Way) -> None:
        self.config = simple.config
        noise = {
            name: x.astype(float) - simple.tensors[name] for name, x in network.tensors.items()
        }
        self.pair = pair = matrices(dict(simple.tensors), simple), matrices(noise, simple)
        known = Planes.of(pair[0], self.config.read_position)
        self.way, self.known = way, known
        self.P = P = known if way == "planes" else Planes.none(pair[0])

        def ending(M: Matrix, full: Matrix, cut: Matrix, noisy: bool) -> Sizes:
            if noisy or way != "operator norms":
                return into(M, cut)
            return np.array([0.0, into(M, full).sum() * (1 + SLACK)])

        def table(
            M: Matrix, full: Matrix, cut: Matrix, out: Matrix, noisy: bool
        ) -> Float[np.ndarray, "2 2"]:
            if noisy or way != "operator norms":
                return blocks(M, cut, out)
            return np.diag(ending(M, full, cut, noisy))

        kinds = tuple(enumerate(pair))
        self.V = [table(one.V, known.x, P.x, P.v, bool(i)) for i, one in kinds]
        self.O = [table(one.O, known.v, P.v, P.y, bool(i)) for i, one in kinds]
        self.W_in = [ending(one.W_in, known.y, P.y, bool(i)) for i, one in kinds]
        self.W_out = [ending(one.W_out.T, known.u, P.u, bool(i)) for i, one in kinds]
        self.passes = (
            blocks(np.eye(self.config.d_model), P.x, P.y)
            if way == "planes"
            else np.diag([0.0, 1.0])
        )
        self.x = [[sizes(x, P.x) for x in one.x] for one in pair]
        self.answers, self.after = ([2 * sizes(one.W_U.T, Q) for one in pair] for Q in (P.u, P.y))

    def stream(self, s: Iterable[str]) -> Sizes:
        """Of the stream after attention, at the position read."""
        E, v, o = (name in s for name in "EVO")
        alpha = np.abs(self.config.attention)
        total = sum((a * x for a, x in zip(alpha, self.x[E], strict=True)), np.zeros(2)) @ self.V[v]
        if not E:
            total = total + alpha.sum() * sizes(self.pair[v].b_V, self.P.v)
        total = total @ self.O[o]
        if not (v or o):
            total = total + self.x[E][self.config.read_position] @ self.passes
        return np.asarray(total if E or v else total + sizes(self.pair[o].b_O, self.P.y))

    def constant(self, s: Names) -> float:
        """Of b_in, which no noise but its own meets."""
        return 0.0 if {*s} & {*"EVO"} else float(np.linalg.norm(self.pair["in" in s].b_in))

    def pre(self, s: Names) -> float:
        """At least |pre^s|."""
        return float(self.stream(s) @ self.W_in["in" in s] + self.constant(s)) * (1 + SLACK)

    def written(self, r: Names) -> float:
        """At least |W_L^r[c] - W_L^r[c']|."""
        return float(self.answers["U" in r] @ self.W_out["out" in r]) * (1 + SLACK)

    def biases(self, t: Names) -> float:
        """What b_out and b_U do to logits past the neurons."""
        own = 0.0 if {*t} - {"U"} else 2 * float(np.abs(self.pair["U" in t].b_U).max())
        through = (
            0.0
            if {*t} & {*"EVO"}
            else float(sizes(self.pair["out" in t].b_out, self.P.y) @ self.after["U" in t])
        )
        return (own + through) * (1 + SLACK)

    def skip(self, t: Names) -> float:
        """At least |S^t(c) - S^t(c')|."""
        stream = 0.0 if "out" in t else float(self.stream(t) @ self.after["U" in t])
        return stream * (1 + SLACK) + self.biases(t)

    @property
    def operations(self) -> int:
        """Count operations of all norms: 5 per weight, and those of each split and Gram matrix."""
        one, planes, kinds = self.pair[0], self.known, 1 if self.way == "operator norms" else 2
        x, v, y, u = (
            0 if self.way == "norms" else P.shape[1]
            for P in (planes.x, planes.v, planes.y, planes.u)
        )
        (d, values), n, p = one.V.shape, one.W_in.shape[1], one.W_U.shape[1]
        rows = sum(map(len, one.x)) if self.way == "planes" else 0
        split = kinds * sum(
            4 * d * n * r + 2 * r * r * n for r in (y, u)
        ) + kinds * 4 * d * values * (x + v)
        if self.way == "planes":
            split += 2 * (
                4 * (x + d) * values * v
                + 4 * (v + values) * d * y
                + 4 * rows * d * x
                + 4 * p * d * (u + y)
            )
        return (
            5 * (one.V.size + one.O.size + one.W_in.size + one.W_out.size + one.W_U.size + rows * d)
            + split
        )

    def norms(self) -> Norms:
        """Every factor."""
        return Norms(
            {s: self.pre(s) for s in subsets(READ)},
            {r: self.written(r) for r in subsets(WRITTEN)},
            {t: self.skip(t) for t in subsets(PASSING)},
        )


class Multiplied(Chain):
    """Norms with planes, in which small matrices are multiplied out.

    Parts of a and b are added before norms are taken.

    What stays in the planes is a table of few columns per token, exactly; only what leaves them is
    bounded by norms.
    """

    def __init__(self, network: Weights, simple: Weights) -> None:
        super().__init__(network, simple, "planes")
        P, pair = self.P, self.pair
        self.small_V = [P.x.T @ one.V @ P.v for one in pair]
        self.small_O = [P.v.T @ one.O @ P.y for one in pair]
        self.small_in = [P.y.T @ one.W_in for one in pair]
        self.small_out = [(one.W_out @ P.u).T for one in pair]

    @property
    def operations(self) -> int:
        """Those of the planes; coordinates of every token for every s, and of every two."""
        (x, v, y, u), p = (
            (P.shape[1] for P in (self.P.x, self.P.v, self.P.y, self.P.u)),
            self.config.p,
        )
        rows, n = sum(map(len, self.pair[0].x)), self.config.d_mlp
        streams = 2 ** len(READ[:3]) * rows * 2 * (x * v + v * y + x * y)
        pairs = 2 ** len(READ) * (2 * p * y * y + 2 * p * p * y) + 4 * (
            2 * p * u * u + 2 * p * p * u
        )
        skips = 2 ** len(PASSING[:-2]) * 8 * p * p * y
        return super().operations + streams + pairs + skips + 4 * self.config.d_model * n * (y + u)

    def small_stream(self, s: Iterable[str]) -> tuple[Matrix, Matrix, Sizes]:
        """Compute coordinates of a's and b's parts in the plane, and sizes of what left it."""
        E, v, o = (name in s for name in "EVO")
        P, config, V, O_ = self.P, self.config, self.V[v], self.O[o]
        parts, rest = [], np.zeros(2)
        for at, (a, x) in enumerate(zip(config.attention, self.pair[E].x, strict=True)):
            values = a * (x @ P.x) @ self.small_V[v]
            part = values @ self.small_O[o]
            most = float(np.linalg.norm(values, axis=1).max())
            left = abs(a) * (
                np.array([0.0, self.x[E][at][1]]) @ V + self.x[E][at][0] * np.array([0.0, V[0, 1]])
            )
            rest = rest + left @ O_ + np.array([0.0, most * O_[0, 1]])
            if at == config.read_position and not (v or o):
                part = part + x @ P.x @ (P.x.T @ P.y)
                rest = rest + np.array([0.0, self.x[E][at][1]]) @ self.passes
                rest = rest + np.array([0.0, self.x[E][at][0] * self.passes[0, 1]])
            parts.append(part)
        constant = np.zeros((1, P.y.shape[1]))
        if not E:
            b_V, times = self.pair[v].b_V, sum(config.attention)
            constant = constant + times * (b_V @ P.v) @ self.small_O[o]
            plane, off = abs(times) * sizes(b_V, P.v)
            rest = rest + np.array([0.0, off]) @ O_ + np.array([0.0, plane * O_[0, 1]])
        if not (E or v):
            constant = constant + self.pair[o].b_O @ P.y
            rest = rest + np.array([0.0, sizes(self.pair[o].b_O, P.y)[1]])
        return parts[0], sum(parts[2:], parts[1] + constant), rest + 2 * SLACK * self.stream(s)

    def norms(self) -> Norms:
        """Every factor, `pre` for each input."""
        grams = [F @ F.T for F in self.small_in]
        pre: dict[Names, Bound] = {}
        skip: dict[Names, float] = {}
        for s in subsets(READ):
            noisy = "in" in s
            a, b, rest = self.small_stream(s)
            left = float(rest @ self.W_in[noisy]) + self.constant(s) + SLACK * self.pre(s)
            pre[s] = _sums(a, b, grams[noisy]) + left
        for t in subsets(PASSING):
            skip[t] = self.biases(t)
            if "out" not in t:
                a, b, rest = self.small_stream(t)
                table = self.P.y.T @ self.pair["U" in t].W_U
                spread = sum(float(np.ptp(x @ table, axis=1).max()) for x in (a, b))
                skip[t] += (
                    spread * (1 + SLACK) + float(rest @ self.after["U" in t]) + SLACK * self.skip(t)
                )
        return Norms(pre, {r: self._written(r) for r in subsets(WRITTEN)}, skip)

    def _written(self, r: Names) -> float:
        u, F = self.pair["U" in r].W_U.T @ self.P.u, self.small_out["out" in r]
        left = float(self.answers["U" in r][1] * self.W_out["out" in r][1]) + SLACK * self.written(
            r
        )
        return float(_sums(u, -u, F @ F.T).max()) + left


def _sums(x: Matrix, y: Matrix, gram: Matrix) -> Matrix:
    """At least |(x + y) F| for every two rows, from the Gram matrix of F."""
    of_x, of_y = (((z @ gram) * z).sum(axis=1) for z in (x, y))
    square = of_x[:, None] + of_y + 2 * x @ gram @ y.T
    # Squares that cancel lose what is small beside them.
    most = (np.linalg.norm(x, axis=1).max() + np.linalg.norm(y, axis=1).max()) ** 2 * float(
        np.trace(gram)
    )
    return np.asarray(np.sqrt(np.maximum(square, 0.0) + DEFECT * most) * (1 + SLACK))
