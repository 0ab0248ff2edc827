"""The hidden layer in float64 with a proved error, for any one-layer attention.

    pre_i(a,b) = U_a[a,i] + U_b[b,i] + Σ_g γ_g(a,b) U_g[x_g, i],
    skip_c(a,b) the same with S for U,

over the gated tables g: a head and a position. Softmax adds up to 1, so that where '=' is seen its
gate is the scale less the others, and U_g - U_= stands for U_g (`_without_equals`). What a head
brings is computed as w (X[a] + Y[b]) with one weight w(a,b), in three operations for each neuron,
in two cases: where two positions are seen, w = γ_a, X = U_a, Y = -U_b and scale · U_b goes to the
rest; and where every score depends on one token (read at '='), w = scale / (e_a + e_b + e_=), X[a]
= e_a U_a[a] and Y[b] = e_b U_b[b] with e the exponentials, the largest being 1. Elsewhere each
position has its own weight.

Theorem. Write u = 2^-53, γ_n = n u / (1 - n u). Let every table be the exact one rounded to the
nearest double, every gate within ε of the true one, and K the number of tables, gated or not. Let 2
u |scale| ≤ ε < 2^-30, or exponentials be in the tables (`_gated` refuses all else). With V_i = Σ_g
max_x |U_g[x,i]| and B_i = max_a |U_a[a,i]| + max_b |U_b[b,i]| + (|scale| + ε) V_i, the sum computed
in any order, with or without fused multiply-add, is within δ_i = ε V_i + γ_(K+12) (B_i + 2^-1000) +
ω of pre_i, and both are at most 1.01 (B_i + 2^-1000).

Proof. |γ̄ t̄ - γ t| ≤ ε |t̄| + |γ| |t̄ - t|, and |γ| ≤ |scale|; each term meets at most K + 2
roundings on its way into the sum (Higham, Lemma 3.1), one of its table. Underflow takes at most
2^-1075 of each of K products and of each entry of a table, however small (below 2^-1075 it is
rounded to 0), and there it is multiplied by a gate: as |scale| < 2^22, which the guard ε < 2^-30
implies, all of it is at most (K + 12) 2^22 2^-1075 = (K + 12) u 2^-1000. (With a scale of 2^60 that
would be false, and the guard is needed for nothing else.) Where w has exponentials in it, e and w
are within 2.01 u of the true ones, relatively, and e U is rounded once: with the sum X + Y and the
product at most nine roundings, and ε = 0. There |w X| + |w Y| ≤ |scale| (|U_a| + |U_b|), and as
2^-400 ≤ e ≤ 1 and 2^-100 ≤ |scale| ≤ 2^100, w is no denormal number and is below 2^501, so that
underflow in U and e U takes less than ω = 2^-500. ∎ What is assumed of the machine: see
`enclosed.py`.

σ. A homogeneous σ of degree d has a slope of at most d B^(d-1) on |x| ≤ B and is computed with at
most d - 1 roundings. Any other σ is read from a table: σ at the multiples of h = 2^-11, by Arb,
joined by straight lines, so that the error is at most h²/8 max|σ''| ≤ 0.1 h² and the rounding of a
number below 41; beyond |x| = 40 it is `Nonlinearity.far`. So |σ̄(pre̅_i) - σ(pre_i)| ≤ η_i =
slope_i δ_i + τ_i, and both are at most A_i.

The gates: e^x of exact scores and the quotients are enclosed by Arb. Every bound here is a sum and
product of numbers that are not negative, inflated by 1 + 2^-20, which is more than their own
rounding.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.base.errors import BadWeights
from quadlens.base.numbers import precision
from quadlens.network.activation import NONLINEARITIES, Activation
from quadlens.network.dyadic import Dyadic
from quadlens.network.forward import sum_of
from quadlens.network.ring import Heads
from quadlens.network.tables import FloatTables, Gated, Tables
from quadlens.network.task import Task
from quadlens.proofs.pairs.enclosed import UNIT

# More than the rounding of any bound below: sums of fewer than 2^30 numbers that are not negative.
UPWARD = 1 + 2.0**-20
UNDERFLOW = 2.0**-1000
# Activations that are not rational are tabulated at multiples of 2^-STEP_BITS up to NEAR, or to
# FAR.
STEP_BITS, NEAR, FAR = 11, 8, 40
STEEPEST, CURVATURE = 1.13, 0.8
EXPONENTIAL_BITS = 80
# What an exponential, and an activation that is not rational, counts.
EXPONENTIAL_PRICE = 20
# e^-277 > 2^-400: the least exponential where weights are shared.
LARGEST_SHARED_RANGE = 277.0
LARGEST_EPSILON = 2.0**-30


def rounding(n: int) -> float:
    """Return γ_n, rounded up."""
    return 1.01 * n * UNIT


Pair = tuple[Float[np.ndarray, "heads p _"] | None, Float[np.ndarray, "heads p _"] | None]


@dataclass(frozen=True, eq=False)
class Weighed:
    """Tables that one weight per head and input multiplies: w(a,b) (X[a] + Y[b]).

    Attributes:
        weights: w, [head, a, b].
        U: X and Y for pre-activations, [head, token, neuron]; None for one that is not there.
        S: X and Y for the logits past the MLP, [head, token, c].
    """

    weights: Float[np.ndarray, "heads p p"]
    U: Pair
    S: Pair


@dataclass(frozen=True, eq=False)
class FloatLayer:
    """The model in float64, and how far it can be from the real one; see the theorem.

    Attributes:
        task: What the model is asked.
        activation: σ.
        U_a: What a adds without a gate.
        U_b: What b adds without a gate.
        W_L: Neuron-to-logit map, each entry within u of the true one.
        S_a: What a adds to the logits past the MLP, without a gate.
        S_b: The same for b.
        gated: The gated tables.
        sigma: σ̄.
        error: η_i.
        size: A_i.
        skip_error: How far a computed skip term can be from the true one.
        skip_size: No skip term is larger.
        shared: Whether exponentials are in the tables, so that a head has one weight per input.
    """

    task: Task
    activation: Activation
    U_a: Float[np.ndarray, "p d_mlp"]
    U_b: Float[np.ndarray, "p d_mlp"]
    W_L: Float[np.ndarray, "p d_mlp"]
    S_a: Float[np.ndarray, "p p"]
    S_b: Float[np.ndarray, "p p"]
    gated: tuple[Weighed, ...]
    sigma: Callable[[Any], Any]
    error: Float[np.ndarray, " d_mlp"]
    size: Float[np.ndarray, " d_mlp"]
    skip_error: float
    skip_size: float
    shared: bool

    @property
    def d_mlp(self) -> int:
        return int(self.U_a.shape[1])

    def hidden(self, a: int) -> Float[np.ndarray, "p d_mlp"]:
        """σ̄(pre̅) for one a and all b."""
        return np.asarray(self.sigma(self._through(a, "U")))

    def skip(self, a: int) -> Float[np.ndarray, "p p"]:
        """Return the skip terms for one a and all b, [b, c]."""
        return self._through(a, "S")

    def _through(self, a: int, name: str) -> Float[np.ndarray, "p _"]:
        total = getattr(self, f"{name}_a")[a] + getattr(self, f"{name}_b")
        for weighed in self.gated:
            X, Y = getattr(weighed, name)
            for h, weights in enumerate(weighed.weights[:, a]):
                of_a, of_b = None if X is None else X[h, a][None], None if Y is None else Y[h]
                term = of_b if of_a is None else of_a if of_b is None else of_a + of_b
                total = total + weights[:, None] * term
        return total


def activation_price(activation: Activation) -> int:
    """Return what one σ costs: 1 per rounding or comparison, 20 where it is not rational."""
    degree = NONLINEARITIES[activation].degree
    return EXPONENTIAL_PRICE if degree is None else max(1, degree // 2)


def float_layer(exact: Tables[Dyadic]) -> FloatLayer:
    """Tables rounded once, gates enclosed, and the bounds of the theorem.

    Raises:
        OverflowError: for tables beyond float64.
        BadWeights: for scores so far apart that no gate can be enclosed.
    """
    gates = _gated(exact)
    U_a, U_b, W_L, S_a, S_b = (
        x.to_floats() for x in (exact.U_a, gates.U_b, exact.W_L, exact.S_a, gates.S_b)
    )
    return _bounded(exact, U_a, U_b, W_L, S_a, S_b, gates)


def layer_of_floats(exact: FloatTables) -> FloatLayer:
    """Return the layer of exact float64 tables without gates: the weights of an MLP."""
    nothing = _Gates((), exact.U_b, exact.S_b, 0.0, 0.0, 0.0, 0.0)
    return _bounded(exact, exact.U_a, exact.U_b, exact.W_L, exact.S_a, exact.S_b, nothing)


def _bounded(
    exact: Tables[Any],
    U_a: Float[np.ndarray, "p d_mlp"],
    U_b: Float[np.ndarray, "p d_mlp"],
    W_L: Float[np.ndarray, "p d_mlp"],
    S_a: Float[np.ndarray, "p p"],
    S_b: Float[np.ndarray, "p p"],
    gates: "_Gates",
) -> FloatLayer:
    """The tables with the bounds of the theorem."""
    scale = (abs(exact.scale) + gates.epsilon) * UPWARD
    roundings = rounding(2 + sum(len(weighed.weights) for weighed in gates.gated) * 2 + 12)

    def bounds(of_a: Any, of_b: Any, weighed: Any) -> tuple[Any, Any]:
        """B and δ of the theorem, one number per column."""
        largest = (
            np.abs(of_a).max(axis=0) + np.abs(of_b).max(axis=0) + scale * weighed
        ) * UPWARD + UNDERFLOW
        return 1.01 * largest, (
            gates.epsilon * weighed + roundings * largest + gates.omega
        ) * UPWARD

    B, delta = bounds(U_a, U_b, gates.V_U)
    skip_B, skip_delta = bounds(S_a, S_b, gates.V_S)
    sigma, error, size = enclosed_activation(exact.activation, B, delta)
    return FloatLayer(
        task=exact.task,
        activation=exact.activation,
        U_a=U_a,
        U_b=U_b,
        W_L=W_L,
        S_a=S_a,
        S_b=S_b,
        gated=gates.gated,
        sigma=sigma,
        error=error,
        size=size,
        skip_error=float(skip_delta.max()),
        skip_size=float(skip_B.max()),
        shared=gates.omega > 0,
    )


@dataclass(frozen=True, eq=False)
class _Gates:
    """Gated tables and what else comes from b, with ε, ω and V of the theorem.

    V is for pre-activations and skip terms.
    """

    gated: tuple[Weighed, ...]
    U_b: Any
    S_b: Any
    epsilon: float
    omega: float
    V_U: Any
    V_S: Any


def _gated(exact: Tables[Dyadic]) -> _Gates:
    if not exact.gated:
        return _Gates((), exact.U_b, exact.S_b, 0.0, 0.0, 0.0, 0.0)
    p, seen = exact.p, len(exact.gated)
    tables, constant = _without_equals(exact)
    if constant is None and seen == 2:
        constant = _summed(exact.gated[1].U, exact.scale), _summed(exact.gated[1].S, exact.scale)
    U_b, S_b = exact.U_b, exact.S_b
    if constant is not None:
        U_b, S_b = (
            x + (y if y.shape[0] == p else y.repeated(p))
            for x, y in zip((U_b, S_b), constant, strict=True)
        )
    U, S = (
        [np.stack([x.to_floats() for x in heads]) for heads in each]
        for each in zip(*((t.U, t.S) for t in tables), strict=True)
    )
    V_U, V_S = (sum(np.abs(x).max(axis=1).sum(axis=0) for x in each) for each in (U, S))
    if (shared := _shared_weights(exact)) is not None:
        w, powers = shared
        (X, Y), (X_S, Y_S) = (
            [e[:, :, None] * x for e, x in zip(powers, each, strict=True)] for each in (U, S)
        )
        return _Gates((Weighed(w, (X, Y), (X_S, Y_S)),), U_b, S_b, 0.0, 2.0**-500, V_U, V_S)
    gates, epsilon = enclosed_gates(exact, 1 if seen == 2 else len(tables))
    if not epsilon < LARGEST_EPSILON:
        raise BadWeights("attention scores are too large for a tight enclosure of the softmax")
    if seen == 2:
        pairs: tuple[Weighed, ...] = (Weighed(gates[0], (U[0], -U[1]), (S[0], -S[1])),)
    else:
        pairs = tuple(
            Weighed(gate, (u, None), (s, None))
            if table.position == 0
            else Weighed(gate, (None, u), (None, s))
            for table, gate, u, s in zip(tables, gates, U, S, strict=True)
        )
    return _Gates(pairs, U_b, S_b, epsilon, 0.0, V_U, V_S)


def _summed(tables: Heads[Dyadic], scale: float) -> Dyadic:
    """The tables of all heads added up, times the scale."""
    total: Dyadic = sum_of(tables)
    return total.scaled(scale)


def _shared_weights(exact: Tables[Dyadic]) -> tuple[Any, list[Any]] | None:
    """Return w, [head, a, b], and the exponentials of a and of b, [head, token].

    It is None where the theorem has none.
    """
    from flint import arb, fmpq

    p = exact.p
    shapes = [table.scores[0].shape for table in exact.gated]
    if shapes != [(p, 1), (1, p), (1, 1)] or not 2.0**-100 <= abs(exact.scale) <= 2.0**100:
        return None
    over, under = exact.divisor.as_integer_ratio()
    w, powers = [], []
    with precision(EXPONENTIAL_BITS):
        for scores in zip(*(table.scores for table in exact.gated), strict=True):
            exact_scores = [
                [fmpq(int(n) * under, over << x.shift) for n in x.numerators.entries()]
                for x in scores
            ]
            top = max(max(x) for x in exact_scores)
            if float(arb(top - min(min(x) for x in exact_scores)).upper()) > LARGEST_SHARED_RANGE:
                return None
            of_a, of_b, (of_equals,) = ([arb(x - top).exp() for x in each] for each in exact_scores)
            w.append(
                [[_double(arb(exact.scale) / (x + y + of_equals)) for y in of_b] for x in of_a]
            )
            powers.append([[_double(x) for x in each] for each in (of_a, of_b)])
    e = np.array(powers)
    return np.array(w), [e[:, 0], e[:, 1]]


def _double(ball: Any) -> float:
    """The middle of a ball as a double, within 2.01 u of every number in it, relatively."""
    if not ball.rel_accuracy_bits() >= 62:
        raise BadWeights("attention scores are too large for a tight enclosure of the softmax")
    return float(ball.mid())


def _without_equals(
    exact: Tables[Dyadic],
) -> tuple[tuple[Gated[Dyadic], ...], tuple[Dyadic, Dyadic] | None]:
    """Take '=' off each table; also return what '=' adds to U and S on every input.

    The second part is None where '=' is not seen.
    """
    last = exact.gated[-1]
    if last.position != 2:
        return exact.gated, None

    def less(tables: Heads[Dyadic], equals: Heads[Dyadic]) -> tuple[Dyadic, ...]:
        return tuple(x - y.repeated(x.shape[0]) for x, y in zip(tables, equals, strict=True))

    others = tuple(
        Gated[Dyadic](table.position, table.scores, less(table.U, last.U), less(table.S, last.S))
        for table in exact.gated[:-1]
    )
    return others, (_summed(last.U, exact.scale), _summed(last.S, exact.scale))


def enclosed_gates(
    exact: Tables[Dyadic], positions: int
) -> tuple[list[Float[np.ndarray, "heads p p"]], float]:
    """Return the gates of the first positions, [head, a, b], and their error ε."""
    from flint import arb

    p, heads = exact.p, len(exact.gated[0].scores)
    gates = [np.empty((heads, p, p)) for _ in range(positions)]
    largest_radius = 0.0
    with precision(EXPONENTIAL_BITS):
        scale = arb(exact.scale)
        for h in range(heads):
            powers = [_exponentials(table.scores[h], exact.divisor, p) for table in exact.gated]
            for a in range(p):
                for b in range(p):
                    here = [table[a][b] for table in powers]
                    share = scale / sum(here[1:], here[0])
                    for gate, power in zip(gates, here, strict=False):
                        ball = power * share
                        gate[h, a, b] = ball.mid()
                        # Said this way round, a radius that is no number counts as infinite.
                        radius = float(ball.rad())
                        largest_radius = max(largest_radius, radius if radius >= 0 else math.inf)
    # Arb's radius, its own rounding, and that of a middle of at most |scale| to a double.
    return gates, (largest_radius + 2 * UNIT * abs(exact.scale)) * UPWARD + UNDERFLOW


def _exponentials(scores: Dyadic, divisor: float, p: int) -> list[list[Any]]:
    """Return e^(score / divisor) as balls, [a][b].

    A score that does not depend on a or b is computed once.
    """
    from flint import arb, fmpq

    over, under = divisor.as_integer_ratio()
    (rows, columns), entries = scores.shape, scores.numerators.entries()
    balls = [arb(fmpq(int(n) * under, over << scores.shift)).exp() for n in entries]
    table = [balls[a * columns : (a + 1) * columns] * (p // columns) for a in range(rows)]
    return table * (p // rows)


def enclosed_activation(
    activation: Activation, B: Float[np.ndarray, " d_mlp"], delta: Float[np.ndarray, " d_mlp"]
) -> tuple[Callable[[Any], Any], Float[np.ndarray, " d_mlp"], Float[np.ndarray, " d_mlp"]]:
    """σ̄, η_i and A_i for arguments within δ_i of the true ones, all at most B_i."""
    nonlinearity = NONLINEARITIES[activation]
    if nonlinearity.degree is not None:
        d = nonlinearity.degree
        error = (d * B ** (d - 1) * delta + rounding(d) * B**d) * UPWARD + UNDERFLOW
        return nonlinearity.apply, error, B**d * UPWARD + error
    reach = NEAR if B.max() < NEAR else FAR
    error = (STEEPEST * delta + CURVATURE / 8 * 4.0**-STEP_BITS + 2.0**-44) * UPWARD
    return tabulated(activation, reach), error, B + 1 + error


@lru_cache(maxsize=8)
def tabulated(activation: Activation, reach: int) -> Callable[[Any], Any]:
    """σ̄ by straight lines between multiples of 2^-STEP_BITS up to `reach`, and `far` beyond 40.

    Raises:
        ValueError: from the function, for an argument that is not in the table though |x| < 40.
    """
    from flint import arb, fmpq

    nonlinearity, unit = NONLINEARITIES[activation], 1 << STEP_BITS
    if nonlinearity.far is None:
        raise ValueError(f"{activation} is exact, and needs no table")
    with precision(EXPONENTIAL_BITS):
        balls = [
            nonlinearity.enclose(arb(fmpq(j, unit))) for j in range(-reach * unit, reach * unit + 1)
        ]
        if not all(float(x.rad()) < 2.0**-50 for x in balls):
            raise ValueError(f"Arb's enclosure of {activation} is wider than 2^-50")
        values, far = np.array([float(x.mid()) for x in balls]), nonlinearity.far
    steps = np.diff(values)

    def sigma(x: Any) -> Any:
        # Said this way round, what is no number is outside, and stays none.
        outside = ~(np.abs(x) < reach)
        if outside.any() and reach < FAR:
            raise ValueError(f"the table of {activation} ends at {reach}")
        # Times a power of two, less its whole part: both exact.
        scaled = np.where(outside, 0.0, x) * unit
        cell = np.floor(scaled)
        at = cell.astype(np.int64) + reach * unit
        inside = values[at] + (scaled - cell) * steps[at]
        return np.where(outside, far(x), inside)

    return sigma
