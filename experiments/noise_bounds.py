"""What can be proved of the terms of `noise_terms.py`, and at which cost, row by row.

| row | cost | each term |
|---|---|---|
| norms | weights | products of Frobenius norms (`noise_norms.py`, as are the next three) |
| operator norms | weights · r | parameterised matrices by operator norms, r columns in all planes |
| planes | weights · r | noise along planes and noise orthogonal to them apart |
| multiplied | weights · r + p² r | planes multiplied out, a and b added before norms are taken |
| tables | p d_mlp | Σ_i |U^s[i]| spread_c(W_L^r[i]), or Euclidean norms, whichever is less |
| inputs | p² d_mlp | the same with (|x + ε| - |x|)(a,b) itself; what is no absolute value exactly |
| coordinates | p² d_mlp r | the neurons' sum in the answers' planes exactly, the rest as before |
| exact | p³ d_mlp | `expand` |

`together` is a bound on the whole difference of logits, with all noises that a row can add up
before it bounds them; an input is proved where the parameterised network leads every other answer
by more. Costs of `tables` and below are beyond the tables themselves, which take one collapse for
each network (one per term for the terms).

Rounding. Tables are within η of the truth: each is a signed sum of at most 32 collapses, a collapse
within γ M, with M the collapse of the larger of both networks' |weights|, which all sums on the way
are below, and γ = (terms of all its products) 2^-53. What is made of them adds up numbers that are
not negative, enlarged by SLACK, or is off by the same relative to norms. `exact` alone is evaluated
in float64, as `expand` is.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from noise_norms import SLACK, Chain, Matrix, Multiplied, Names, Way, basis
from noise_terms import ByNoise, Logits, Parts, all_logits, check_pair, expand, parts_of
from quadlens.base.display import Displayed
from quadlens.base.errors import BadConfig
from quadlens.network.activation import apply_activation
from quadlens.network.margins import leads
from quadlens.network.weights import Weights

UNIT = 2.0**-53
Term = tuple[str, Names]
Inputs = Float[np.ndarray, "p p"]
Hidden = Float[np.ndarray, "p p d_mlp"]
LINEAR: tuple[tuple[str, Way | None], ...] = (
    ("norms", "norms"),
    ("operator norms", "operator norms"),
    ("planes", "planes"),
    ("multiplied", None),
)
SLOPES = {"relu": (0.5, 0.5), "abs": (0.0, 1.0)}


@dataclass(frozen=True, eq=False, repr=False)
class Row(Displayed):
    """One complexity.

    Attributes:
        name: As in the module's table.
        terms: An upper bound on the worst case of every term, by part and noise.
        together: An upper bound on the worst case of the whole difference.
        proved: Inputs at which the parameterised network's lead is above what the difference can
            take.
        operations: Of `together`, tables included where there are any.
        seconds: It took for terms, and for `together`; the tables of both networks are in the
            latter.
    """

    name: str
    terms: dict[Term, float]
    together: float
    proved: int
    operations: int
    seconds: tuple[float, float]

    @property
    def added(self) -> float:
        """All terms, added up."""
        return float(sum(self.terms.values()))

    def _facts(self) -> dict[str, object]:
        return {
            "": self.name,
            "added": f"{self.added:.4g}",
            "together": f"{self.together:.4g}",
            "proved": self.proved,
        }


class Bounded:
    """The tables of two networks and of their difference, every number within η of the truth."""

    def __init__(self, network: Weights, simple: Weights) -> None:
        check_pair(network, simple)
        if network.config.activation not in SLOPES:
            raise BadConfig(
                "bounds need a slope of at most 1, relu or abs; this is "
                f"{network.config.activation}"
            )
        self.network, self.simple, self.config = network, simple, network.config
        self.linear, self.bent = SLOPES[network.config.activation]
        self.right = network.config.task.answers
        began = time.perf_counter()
        self.ours, self.theirs = simple.collapse(), network.collapse()
        self.collapse_seconds = time.perf_counter() - began
        most = {
            name: np.maximum(np.abs(x), np.abs(simple.tensors[name]))
            for name, x in network.tensors.items()
        }
        positive = replace(network.config, attention=tuple(map(abs, network.config.attention)))
        M = network.replace(positive, **most).collapse()
        config = self.config
        gamma = (2 * config.d_model + config.n_heads * config.d_head + 32) * UNIT
        self.eta = {
            name: 2**6 * gamma * float(getattr(M, name).max())
            for name in ("U_a", "U_b", "W_L", "S_a", "S_b")
        }
        self.eta_U = 2**8 * (self.eta["U_a"] + self.eta["U_b"])
        self.eta_S = 2**2 * (self.eta["S_a"] + self.eta["S_b"])
        ours, theirs = self.ours, self.theirs
        W, R, x = theirs.W_L, theirs.W_L - ours.W_L, np.stack([ours.U_a, ours.U_b])
        skip = np.stack([theirs.S_a - ours.S_a, theirs.S_b - ours.S_b])
        # Parameterised U, all noise in it, W_L and all noise in it (means over c left out), noise
        # of skip terms.
        self.whole = (
            x,
            np.stack([theirs.U_a, theirs.U_b]) - x,
            W - W.mean(axis=0),
            R - R.mean(axis=0),
            skip,
        )
        self.H = basis((ours.W_L - ours.W_L.mean(axis=0)).T)
        p, d, n, v = config.p, config.d_model, config.d_mlp, config.n_heads * config.d_head
        # Two collapses: OV, two streams through it and through W_in and W_U, W_out W_U.
        self.collapses = 2 * (2 * d * v * d + 4 * p * d * d + 4 * p * d * (n + p) + 2 * n * d * p)
        self.logits = all_logits(self.ours)
        # Sums over neurons lose at most (d_mlp + 8) 2^-53 of Σ|hidden||W_L|, skip terms and their
        # sum as little.
        hidden = self.ours.U_a[:, None] + self.ours.U_b
        self.logit_loss = (
            2 * self.sum_loss(np.abs(hidden).reshape(-1, config.d_mlp), self.ours.W_L)
            + 2 * self.eta_S
        )

    def sum_loss(self, hidden: Matrix, W: Matrix) -> float:
        """Bound the float64 error of Σ_i hidden[i] W[c,i], hidden within η_U and W within its η."""
        n = self.config.d_mlp
        size, reach = (float(np.linalg.norm(x, axis=1).max()) for x in (hidden, W))
        rounding = (n + 8) * UNIT * size * reach
        tables = (
            n**0.5 * (self.eta_U * reach + self.eta["W_L"] * size)
            + n * self.eta_U * self.eta["W_L"]
        )
        return 2 * (rounding + tables)

    def parts(self) -> Parts:
        """U^s, W_L^r (its mean over c left out) and S^t."""
        U, W_L, S = parts_of(self.network, self.simple)
        return U, [(r, W - W.mean(axis=0)) for r, W in W_L], S

    def spread(self, W: Matrix) -> Float[np.ndarray, " d_mlp"]:
        """Over the answers, of each neuron."""
        return np.ptp(W, axis=0) + 4 * self.eta["W_L"]

    def reach(self, W: Matrix) -> float:
        """At least |W[c] - W[c']|, for W whose mean over c is 0 or nearly so."""
        return (
            2 * float(np.linalg.norm(W, axis=1).max()) * (1 + SLACK)
            + 4 * np.sqrt(self.config.d_mlp) * self.eta["W_L"]
        )

    def weighed(
        self, hidden: Float[np.ndarray, "*rows d_mlp"], W: Matrix
    ) -> Float[np.ndarray, "*rows"]:
        """At least |Σ_i hidden[i] (W[c,i] - W[c',i])|: by neurons, or by Euclidean norms."""
        size = np.abs(hidden) + self.eta_U
        return np.minimum(size @ self.spread(W), np.linalg.norm(size, axis=-1) * self.reach(W)) * (
            1 + SLACK
        )

    def sides(self, U: np.ndarray, W: Matrix) -> Inputs:
        """The same of U_a[a] + U_b[b], each by itself."""
        of_a, of_b = self.weighed(U[0], W), self.weighed(U[1], W)
        return np.add.outer(of_a, of_b) * (1 + SLACK)

    def beside(self, values: Logits) -> Logits:
        """Of every answer, less the right one."""
        return values - np.take_along_axis(values, self.right[:, :, None], axis=2)

    def straight(self, U: np.ndarray, W: Matrix) -> tuple[Logits, float]:
        """Compute what the identity half makes of U beside the right answer, with its error."""
        values = self.linear * ((U[0] @ W.T)[:, None] + U[1] @ W.T)
        loss = 4 * self.linear * self.sum_loss(np.concatenate(list(np.abs(U))), W)
        return self.beside(values), loss

    def halves(self, noise: Names, bound: float) -> dict[Term, float]:
        """The shares of identity and absolute value of a bound on both."""
        shares = {"absolute value": self.bent, "identity": self.linear}
        return {
            (part, noise): share * bound * (1 + SLACK) for part, share in shares.items() if share
        }

    def changes(self, U: ByNoise) -> Iterator[tuple[Names, Hidden]]:
        """Compute |x + ε| - |x|, times its share, for each noise after those before it."""
        x = np.zeros((self.config.p, self.config.p, self.config.d_mlp))
        before = np.zeros_like(x)
        for s, (U_a, U_b) in U:
            x += U_a[:, None] + U_b
            now = self.bent * np.abs(x)
            yield s, now - before
            before = now

    def split(self, W: Matrix) -> tuple[Matrix, Matrix]:
        """Coordinates of W in the answers' planes, as they are rounded, and the rest."""
        Z = self.H.T @ W
        return Z, W - self.H @ Z

    def coordinates(self, hidden: Hidden, Z: Matrix) -> tuple[Logits, float]:
        """Compute Σ_i hidden[i] (H Z)[c,i] beside the right answer, with its error.

        H and Z are exact.
        """
        size, reach = float(np.linalg.norm(hidden, axis=2).max()), float(np.linalg.norm(Z))
        n = self.config.d_mlp
        loss = 8 * reach * ((n + len(Z) + 8) * UNIT * size + np.sqrt(n) * self.eta_U)
        return self.beside(hidden @ Z.T @ self.H.T), loss

    def proved(self, bound: Inputs, shift: Logits | float = 0.0) -> int:
        """Find inputs whose every other answer stays behind: lead - shift(c) > bound.

        The shift is what the right answer loses.
        """
        ahead = -self.beside(self.logits) - shift - np.expand_dims(bound, 2) > self.logit_loss
        np.put_along_axis(ahead, self.right[:, :, None], True, axis=2)
        return int(ahead.all(axis=2).sum())


def bounds(network: Weights, simple: Weights) -> tuple[Row, ...]:
    """All rows, cheapest first.

    Raises:
        BadConfig: as for `expand`, and for an activation that is neither ReLU nor |x|.
    """
    tables = Bounded(network, simple)
    parts = tables.parts()
    linear = (norm_row(name, tables, way) for name, way in LINEAR)
    return (*linear, *(row(name, tables, parts) for name in ROWS), exact_row(tables))


def linear_rows(network: Weights, simple: Weights) -> tuple[Row, ...]:
    """Those that take no product of two of the network's matrices."""
    tables = Bounded(network, simple)
    return tuple(norm_row(name, tables, way) for name, way in LINEAR)


def norm_row(name: str, tables: Bounded, way: Way | None) -> Row:
    """Of `noise_norms.py`."""
    began = time.perf_counter()
    chain = (
        Multiplied(tables.network, tables.simple)
        if way is None
        else Chain(tables.network, tables.simple, way)
    )
    found, p = chain.norms(), tables.config.p
    terms: dict[Term, float] = {("skip", t): value for t, value in found.skip.items() if t}
    total = np.full((p, p), sum(terms.values()))
    for s, size in found.pre.items():
        for r, reach in found.W_L.items():
            if s or r:
                total += size * reach
                terms |= tables.halves(s + r, float(np.max(size)) * reach)
    total *= 1 + SLACK
    seconds = time.perf_counter() - began
    return Row(
        name, terms, float(total.max()), tables.proved(total), chain.operations, (seconds, seconds)
    )


def row(name: str, tables: Bounded, parts: Parts) -> Row:
    """One of `ROWS`, with the time that its terms and the whole took."""
    of_terms, of_whole, operations = ROWS[name]
    moments = [time.perf_counter()]
    terms = dict(of_terms(tables, parts))
    moments.append(time.perf_counter())
    shift, bound = of_whole(tables)
    moments.append(time.perf_counter())
    worst = float((np.abs(shift) + np.expand_dims(bound, 2)).max()) * (1 + SLACK)
    took = (moments[1] - moments[0], moments[2] - moments[1] + tables.collapse_seconds)
    return Row(name, terms, worst, tables.proved(bound, shift), operations(tables), took)


def exact_row(tables: Bounded) -> Row:
    """Worst cases evaluated in float64."""
    began = time.perf_counter()
    found = expand(tables.network, tables.simple)
    middle = time.perf_counter()
    margins, _ = leads(all_logits(tables.theirs), tables.right)
    terms = {(one.part, one.noise): one.worst for one in found.terms}
    took = (middle - began, time.perf_counter() - middle + tables.collapse_seconds)
    p, n = tables.config.p, tables.config.d_mlp
    return Row(
        "exact",
        terms,
        found.worst,
        int((margins > 0).sum()),
        tables.collapses + 4 * p**3 * n + 3 * p**3,
        took,
    )


Terms = Iterator[tuple[Term, float]]


def table_terms(tables: Bounded, parts: Parts) -> Terms:
    """By neurons or Euclidean norms, a and b apart."""
    U, W_L, S = parts
    for s, of_s in U:
        for r, W in W_L:
            if s or r:
                yield from tables.halves(s + r, float(tables.sides(of_s, W).max())).items()
    yield from ((("skip", t), float(_spreads(tables, of_t).max())) for t, of_t in S if t)


def table_whole(tables: Bounded) -> tuple[Logits, Inputs]:
    """ReLU(U_a + U_b) ≤ ReLU(U_a) + ReLU(U_b), and |x| likewise."""
    x, noise, W, R, skip = tables.whole
    hidden = np.abs(x) if tables.linear == 0 else np.maximum(x, 0.0)
    return np.zeros_like(tables.logits), tables.sides(noise, W) + tables.sides(
        hidden, R
    ) + _spreads(tables, skip)


def input_terms(tables: Bounded, parts: Parts) -> Terms:
    """Absolute values input by input, by neurons or Euclidean norms; all else exactly."""
    yield from _straight_terms(tables, parts)
    for s, change in tables.changes(parts[0]):
        for r, W in parts[1]:
            if s or r:
                yield ("absolute value", s + r), float(tables.weighed(change, W).max())


def input_whole(tables: Bounded) -> tuple[Logits, Inputs]:
    """The identity half and skip terms exactly, all noise together."""
    x, noise, W, R, skip = tables.whole
    shift, loss = np.zeros_like(tables.logits), 0.0
    for U, out in ((noise, W), (x, R)):
        value, off = tables.straight(U, out)
        shift, loss = shift + value, loss + off
    shift = shift + tables.beside(skip[0][:, None] + skip[1])
    before = np.abs(x[0][:, None] + x[1])
    change = tables.bent * (np.abs(x[0][:, None] + x[1] + (noise[0][:, None] + noise[1])) - before)
    return shift, tables.weighed(change, W) + tables.weighed(
        tables.bent * before, R
    ) + loss + tables.eta_S


def coordinate_terms(tables: Bounded, parts: Parts) -> Terms:
    """Absolute values in the answers' planes exactly, the rest input by input."""
    yield from _straight_terms(tables, parts)
    split = [(r, *tables.split(W)) for r, W in parts[1]]
    for s, change in tables.changes(parts[0]):
        for r, Z, rest in split:
            if s or r:
                value, off = tables.coordinates(change, Z)
                worst = (np.abs(value).max(axis=2) + tables.weighed(change, rest)).max() * (
                    1 + SLACK
                ) + off
                yield ("absolute value", s + r), float(worst)


def coordinate_whole(tables: Bounded) -> tuple[Logits, Inputs]:
    """Bound both halves at once: W_L in the planes exactly, the rest by neurons or norms."""
    x, noise, W, R, skip = tables.whole
    before = x[0][:, None] + x[1]
    hidden = [
        apply_activation(tables.config.activation, y)
        for y in (before, before + (noise[0][:, None] + noise[1]))
    ]
    # W_L σ(pre) - W_L^0 σ(x) = W_L (σ(pre) - σ(x)) + R σ(x).
    (Z, rest), (Z_R, rest_R) = tables.split(W), tables.split(R)
    shift, loss = tables.coordinates(hidden[1] - hidden[0], Z)
    more, off = tables.coordinates(hidden[0], Z_R)
    bound = tables.weighed(hidden[1] - hidden[0], rest) + tables.weighed(hidden[0], rest_R)
    return shift + more + tables.beside(
        skip[0][:, None] + skip[1]
    ), bound + loss + off + tables.eta_S


def _straight_terms(tables: Bounded, parts: Parts) -> Terms:
    """The identity half and skip terms, exactly but for rounding."""
    U, W_L, S = parts
    for s, of_s in U:
        for r, W in W_L:
            if tables.linear and (s or r):
                value, loss = tables.straight(of_s, W)
                yield ("identity", s + r), float(np.abs(value).max() + loss)
    for t, of_t in S:
        if t:
            yield (
                ("skip", t),
                float(np.abs(tables.beside(of_t[0][:, None] + of_t[1])).max()) + tables.eta_S,
            )


def _spreads(tables: Bounded, S: np.ndarray) -> Inputs:
    of_a, of_b = (np.ptp(side, axis=1) for side in S)
    return np.add.outer(of_a, of_b) * (1 + SLACK) + tables.eta_S


def _table_operations(tables: Bounded) -> int:
    """Count differences, means and spreads of tables, 6 per entry of U, and sums of inputs."""
    p, n = tables.config.p, tables.config.d_mlp
    return tables.collapses + 11 * p * n + 4 * 6 * p * n + 4 * p**2 + 4 * p**2


def _input_operations(tables: Bounded) -> int:
    """Count the tables' part, 4 products for the identity, weighted sums of x, and answers."""
    p, n = tables.config.p, tables.config.d_mlp
    return tables.collapses + 11 * p * n + 8 * p**2 * n + 15 * p**2 * n + 8 * p**3


def _coordinate_operations(tables: Bounded) -> int:
    """Count the tables' part, W_L in coordinates, 4 r per hidden layer, sums, and answers."""
    p, n, r = tables.config.p, tables.config.d_mlp, tables.H.shape[1]
    return (
        tables.collapses + 11 * p * n + 8 * p * n * r + (17 + 4 * r) * p**2 * n + (4 * r + 6) * p**3
    )


ROWS: dict[
    str,
    tuple[
        Callable[[Bounded, Parts], Terms],
        Callable[[Bounded], tuple[Logits, Inputs]],
        Callable[[Bounded], int],
    ],
]
ROWS = {
    "tables": (table_terms, table_whole, _table_operations),
    "inputs": (input_terms, input_whole, _input_operations),
    "coordinates": (coordinate_terms, coordinate_whole, _coordinate_operations),
}
