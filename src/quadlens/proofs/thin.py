"""`thin`: `moments` without the collapse. The residual stream is cut down to the few directions that matter.

A transformer reads and writes its residual stream along some 4|K| of d_model directions; along the others the weights
are the remains of their random start. Neither U = X W_in nor W_L = (W_out W_U)ᵀ need be formed in full.

Theorem. Let X_a, X_b be what the tokens bring to the MLP's input, for each a and b, so that
pre_i = (X_a[a] + X_b[b]) W_in[:,i] + b_in[i]. For any matrix P with r columns, and any rows m_a, m_b, let

    A = (X - m) P,   Y = (X - m) - A Pᵀ,   F = Pᵀ W_in,   N = W_in - P F,   D = 1 - PᵀP,   Ũ = m W_in + A F

for a and for b. Then |X[a] W_in[:,i] - Ũ[a,i]| ≤ |Y[a]| |N[:,i]| + |A[a]| |D| |F[:,i]|  (Euclidean norms).

Proof. X W_in - Ũ = (X - m) N, and (X - m) N = (A Pᵀ + Y) N = A (Pᵀ N) + Y N with PᵀN = F - PᵀP F = D F. ∎

The same with W_out for X and W_U for W_in, any P' with r' columns: W_L = HᵀB + R, H = P'ᵀ W_U, B = (W_out P')ᵀ and
|R[c,i]| ≤ |Y'[i]| |T[:,c]| + |B[:,i]| |D'| |H[:,c]|, T = W_U - P' H. Let r_i be twice a bound of that for all c, and
s_i = max_c (HᵀB)[c,i] - min_c (HᵀB)[c,i] + r_i. Then, with the scores and ρ of `moments.py` for Ũ, H, B and r,

    logit(c) - logit(c') ≥ score(c) - score(c') - ρ(a,b) - Σ_i s_i (e_a[a,i] + e_b[b,i]),     e the bound on |U - Ũ|.

Proof. logit - score = Σ_i R[c,i] ReLU(p̃re_i) + Σ_i W_L[c,i] (ReLU(pre_i) - ReLU(p̃re_i)); the first sum is that of
`moments.py`, in the second |W_L[c,i] - W_L[c',i]| ≤ s_i and the ReLU is 1-Lipschitz. ∎

e is a sum of products of a number of a (or b) and one of i, so the last sum is two numbers per input. N, Y, T and Y'
are never formed: for F = Pᵀ W, |W - P F|² = |W|² - |F|² - Fᵀ D F ≤ |W|² - (1 - |D|) |F|², and so on.

Frugally, skip terms are cut down along P' as well, S̃ = (X - m) P' H + m W_U, off by |Y"| |T[:,c]| + |A"| |D'| |H[:,c]|
with A" = (X - m) P'. That is tried first. Everything is in integers and rationals; P, P' and m are hints. Ũ is rounded
to 2^-48, and what that moves is added. Norms, r_i and the last sum are rounded up to multiples of 2^-64. A checker that
forms N and S finds no less than what is claimed.

Cost: `thin_operations`. Its own small collapse is in it, and no other is needed: p d d_mlp and d d_mlp p of the full
one become (p + d) r d_mlp and d r' d_mlp. Signs are sorted (`Signs`), not compared one by one.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int, Shaped

from quadlens.model.collapse import attended_streams
from quadlens.model.config import Config
from quadlens.model.dyadic import DYADICS, Dyadic
from quadlens.model.integers import integers
from quadlens.model.task import Task
from quadlens.model.weights import Weights
from quadlens.numbers import bound, significant
from quadlens.proofs.arcs import ArcHints, neuron_groups
from quadlens.proofs.low_rank import DIRECTION_BITS, Streams, arcs_spectrum, directions, floats, stacked, token_mean
from quadlens.proofs.moments import scores_and_residual
from quadlens.proofs.operations import mixing_operations, product
from quadlens.proofs.plan import ArcPlan, Group, Signs, correction_sizes
from quadlens.proofs.proof import Mark, Proof, StrategyFacts, Term, nothing_proved
from quadlens.spectrum.anatomy import Anatomy, anatomy_of

# Ũ is rounded to this many bits after the point, so that all sums over neurons are of short integers.
INPUT_BITS = 48
# Norms and bounds are rounded up to this many bits after the point.
NORM_BITS = 64
# (r, r') as multiples of the natural rank m of W_L and something more, r = f m + g, r' = m + h; and whether frugally.
ATTEMPTS = ((2, 0, 0, True), (2, 2, 0, True), (2, 2, 0, False), (2, 6, 2, False), (3, 6, 4, False))
# Sets of tokens are counted in words of so many bits.
WORD = 64


def thin_items(config: Config, r: int, r_out: int, frugal: bool, ends: int, mispredicted: int) -> dict[str, int]:
    """What a proof with ranks r and r' counts, item by item; F ends and Q mispredicted neurons as for `moments`.

    Streams go by heads or by OV, whichever is cheaper.
    """
    p, d, n = config.p, config.d_model, config.d_mlp
    positions = len(config.attention)
    # a's tokens, b's where they are others, and one row for what each position adds; the heads' value biases.
    rows = [p] * (1 if config.b_token_offset == 0 else 2) + [1] * positions
    streams = sum(mixing_operations(config, n) for n in rows) + product(1, config.n_heads * config.d_head, d)
    # Rows added, scaled by attention and joined: both tokens, and '=' where there is one; then less their means.
    streams += (6 + positions - 1) * p * d + (positions - 2) * 2 * d + 2 * positions * d
    streams += (p if config.read_position < 2 else 1) * d + 2 * p * d
    # b_out and b_U join; both sides times W_U, or along P' with their norms and back.
    skips = p * d + p * p + (4 * p * d * r_out + 4 * p * r_out * p + 4 * d * p + 10 * p if frugal else 4 * p * d * p)
    # F, the norms of W_in and of F, |N|; D; A and its norms, |Y|.
    reading = 2 * d * r * n + 2 * d * n + 2 * r * n + 5 * n + 2 * d * r * r + 3 * r * r
    reading += 2 * (2 * p * d * r + 2 * p * d + 2 * p * r + 5 * p)
    # A F and m W_in with the bias, added and rounded.
    inputs = 2 * 2 * p * r * n + 4 * d * n + n + 4 * p * n
    # The same for W_out and W_U; r_i and s_i.
    writing = 2 * n * d * r_out + 2 * d * r_out * p + 2 * d * r_out**2 + 3 * r_out**2
    writing += 2 * (n * d + n * r_out + d * p + r_out * p) + 5 * (n + p) + 6 * n
    writing += 2 * n * r_out * p + 2 * p * n
    # Each neuron's U_b sorted, each U_a searched for among them; unions and flips as sets, each flip found and removed.
    depth, words = math.ceil(math.log2(p)) + 1, math.ceil(p / WORD)
    signs = 2 * p * depth * n + words * (2 * n + 1) * p + 2 * (ends + p * p + 2 * mispredicted)
    sums = (r_out + 1) * (4 * p * n + 2 * ends + 2 * mispredicted) + mispredicted
    scores = (2 * r_out + 2) * p**3 + 5 * n + 6 * p + 5 * p**2
    return {
        "attention: streams": streams,
        "skip terms": skips,
        "W_in along directions": reading,
        "inputs of neurons": inputs,
        "W_out, W_U along directions": writing,
        "signs": signs,
        "sums over neurons": sums,
        "scores and margins": scores,
    }


def thin_operations(config: Config, r: int, r_out: int, frugal: bool, ends: int, mispredicted: int) -> int:
    """All items."""
    return sum(thin_items(config, r, r_out, frugal, ends, mispredicted).values())


@dataclass(frozen=True, eq=False)
class Reading:
    """Ũ_a and Ũ_b in integers over 2^INPUT_BITS, each within Y[a] N[i] + A[a] F[i] + 2^-INPUT_BITS / 2 of U.

    Attributes:
        U_a: Ũ_a.
        U_b: Ũ_b, with b_in.
        Y_a: |Y[a]|, rounded up, as are all norms.
        Y_b: The same for b.
        A_a: |A[a]| |D|.
        A_b: The same for b.
        N: |N[:,i]|.
        F: |F[:,i]|.
    """

    U_a: Shaped[np.ndarray, "p d_mlp"]
    U_b: Shaped[np.ndarray, "p d_mlp"]
    Y_a: list[Fraction]
    Y_b: list[Fraction]
    A_a: list[Fraction]
    A_b: list[Fraction]
    N: list[Fraction]
    F: list[Fraction]


@dataclass(frozen=True, eq=False)
class Writing:
    """W_L ≈ Hᵀ B: functions and weights in integers, and bounds on what they leave out.

    Attributes:
        H: Functions of c, over 2^shift_h.
        B: Weights of the neurons, over 2^shift_b.
        shift_h: Exponent of the denominator of H.
        shift_b: Exponent of the denominator of B.
        residual: r_i.
        spread: s_i.
        off: Twice the largest |T[:,c]|, and twice |D'| times the largest |H[:,c]|.
    """

    H: Shaped[np.ndarray, "r p"]
    B: Shaped[np.ndarray, "r d_mlp"]
    shift_h: int
    shift_b: int
    residual: list[Fraction]
    spread: list[Fraction]
    off: tuple[Fraction, Fraction]


@dataclass(frozen=True, eq=False)
class ThinHints:
    """Arcs, and the directions and means that were tried, as integers over 2^DIRECTION_BITS.

    Attributes:
        arcs: Of Ũ.
        P: Directions of the reading side.
        P_out: Directions of the writing side, P'.
        means: m_a and m_b.
    """

    arcs: ArcHints
    P: Shaped[np.ndarray, "d r"]
    P_out: Shaped[np.ndarray, "d r_out"]
    means: Shaped[np.ndarray, "2 d"]

    def to_json(self) -> dict[str, Any]:
        """The arcs' hints, and the integers."""
        return {
            **self.arcs.to_json(),
            "directions": self.P.tolist(),
            "directions_out": self.P_out.tolist(),
            "means": self.means.tolist(),
        }


@dataclass(frozen=True)
class Thin:
    """Cheaper than the collapse alone of the other strategies, for some of the margin."""

    facts: ClassVar = StrategyFacts(
        name="thin",
        description="Moments without the collapse: the residual stream is cut down to the few directions that matter.",
        activations=("relu",),
        mark=Mark("v", "bound"),
        in_integers=True,
        own_collapse=True,
    )

    def prove(self, subject: Weights | Anatomy) -> Proof:
        """Certify every input whose score leads by more than all that was left out; ranks grow until all are."""
        anatomy = anatomy_of(subject)
        model = anatomy.model
        config = model.config
        if not config.has_stream or config.no_collapse is not None or config.activation not in self.facts.activations:
            return nothing_proved(
                self.facts.name,
                model.config.p,
                "thin cuts down the residual stream of a relu transformer with constant attention; this model is none: "
                "use the strategy auto",
            )
        groups = neuron_groups(anatomy)
        rank, most = max(1, arcs_spectrum(anatomy.layer).natural_rank), model.config.d_model
        best: Proof | None = None
        for factor, more, more_out, frugal in ATTEMPTS:
            proof = self._attempt(model, groups, min(most, factor * rank + more), min(most, rank + more_out), frugal)
            if best is None or proof.certified.sum() > best.certified.sum():
                best = proof
            if best.certified.all():
                break
        if best is None:
            raise RuntimeError("no rank was tried")
        return best

    def _attempt(self, model: Weights, groups: tuple[Group, ...], r: int, r_out: int, frugal: bool) -> Proof:
        p, streams = model.config.p, attended_streams(model, DYADICS, thrifty=True)
        means = token_mean(streams[0]), token_mean(streams[1])
        P = directions(stacked(streams), floats(model.W_in), r)
        P_out = directions(floats(model.W_out), floats(model.W_U[:, :p]), r_out)
        read, write = reading(model, streams, P, means), writing(model, P_out)
        skips = cut_skip_terms(model, streams, means, P_out, write) if frugal else skip_terms(model, streams)
        order = np.concatenate([group.neurons for group in groups])
        margins, rho, loss, plan = thin_margins(model.config.task, read, write, skips, order)
        left = np.array([[margins[a, b] - rho[a, b] - loss[a, b] for b in range(p)] for a in range(p)], dtype=object)
        certified = np.asarray(left > 0, dtype=bool)
        reason = None
        if not certified.all():
            a, b = (int(n) for n in np.unravel_index(int(np.argmin(left)), (p, p)))
            reason = (
                f"{int((~certified).sum())} of {p * p} inputs are not proved; the worst is "
                f"{model.config.task.question(a, b)}, where the score leads by "
                f"{significant(margins[a, b], 'down', 4)}, and the terms 'output residual' and 'input residual' may "
                f"take {bound(rho[a, b])} and {bound(loss[a, b])} along {r} and {r_out} directions"
            )
        return Proof(
            strategy=self.facts.name,
            certified=certified,
            margin=min(left[certified]) if certified.any() else None,
            exact=False,
            witnesses=(),
            hints=ThinHints(
                ArcHints(groups, plan),
                integers(P, DIRECTION_BITS),
                integers(P_out, DIRECTION_BITS),
                np.concatenate([integers(mean, DIRECTION_BITS) for mean in means]),
            ),
            operations=thin_operations(model.config, r, r_out, frugal, plan.counted_ends, plan.mispredicted),
            own_collapse=self.facts.own_collapse,
            terms={"output residual": _worst(rho), "input residual": _worst(loss)},
            reason=reason,
        )


@dataclass(frozen=True, eq=False)
class Skips:
    """S_a and S_b, or what stands for them, with bounds on how much the difference between two answers is off."""

    S_a: Dyadic
    S_b: Dyadic
    off_a: list[Fraction]
    off_b: list[Fraction]


def skip_terms(model: Weights, streams: Streams) -> Skips:
    """Both exactly."""
    p, W_U, exact = model.config.p, _unembedding(model), [Fraction(0)] * model.config.p
    X_a, X_b = streams
    after = X_b + Dyadic.from_floats(model.b_out[None]).repeated(p)
    S_b = after @ W_U + Dyadic.from_floats(model.b_U[None, :p]).repeated(p)
    return Skips(X_a @ W_U, S_b, exact, exact)


def cut_skip_terms(model: Weights, streams: Streams, means: tuple[Dyadic, Dyadic], P: Dyadic, write: Writing) -> Skips:
    """Both along the directions that W_out writes to, by the theorem; constants exactly."""
    p, W_U = model.config.p, _unembedding(model)
    H, D, found = P.transposed() @ W_U, _norm(_defect(P)), []
    constants = means[0] @ W_U, (means[1] + Dyadic.from_floats(model.b_out[None])) @ W_U
    constants = constants[0], constants[1] + Dyadic.from_floats(model.b_U[None, :p])
    for X, mean, constant in zip(streams, means, constants, strict=True):
        off = _minus(X, mean.repeated(p))
        A = off @ P
        left = _left(_squares(off), _squares(A), D)
        sizes = [y * write.off[0] + _up_root(a) * write.off[1] for y, a in zip(left, _squares(A), strict=True)]
        found.append((A @ H + constant.repeated(p), sizes))
    (S_a, off_a), (S_b, off_b) = found
    return Skips(S_a, S_b, off_a, off_b)


def _unembedding(model: Weights) -> Dyadic:
    return Dyadic.from_floats(model.W_U[:, : model.config.p])


def reading(model: Weights, streams: Streams, P: Dyadic, means: tuple[Dyadic, Dyadic]) -> Reading:
    """Ũ and the norms that bound its error, by the theorem."""
    p = model.config.p
    W_in = Dyadic.from_floats(model.W_in)
    F, D = P.transposed() @ W_in, _norm(_defect(P))
    sides = []
    biases = None, Dyadic.from_floats(model.b_in[None])
    for X, mean, bias in zip(streams, means, biases, strict=True):
        off = _minus(X, mean.repeated(p))
        A = off @ P
        U = A @ F + (mean @ W_in if bias is None else mean @ W_in + bias).repeated(p)
        squares = _squares(A)
        sides.append((_rounded(U), _left(_squares(off), squares, D), [D * _up_root(x) for x in squares]))
    (U_a, Y_a, A_a), (U_b, Y_b, A_b) = sides
    squares = _squares(F.transposed())
    N = _left(_squares(W_in.transposed()), squares, D)
    return Reading(U_a, U_b, Y_a, Y_b, A_a, A_b, N, [_up_root(x) for x in squares])


def writing(model: Weights, P: Dyadic) -> Writing:
    """H, B and the bounds r_i and s_i, by the theorem."""
    W_out, W_U = Dyadic.from_floats(model.W_out), _unembedding(model)
    B, H, D = W_out @ P, P.transposed() @ W_U, _norm(_defect(P))
    of_B, of_H = _squares(B), _squares(H.transposed())
    Y, T = _left(_squares(W_out), of_B, D), _left(_squares(W_U.transposed()), of_H, D)
    off = 2 * max(T), 2 * D * _up_root(max(of_H))
    residual = [_up(y * off[0] + _up_root(b) * off[1]) for y, b in zip(Y, of_B, strict=True)]
    waves = B @ H
    table, unit = integers(waves, waves.shift), 1 << waves.shift
    spread = [Fraction(int(max(row) - min(row)), unit) + left for row, left in zip(table, residual, strict=True)]
    return Writing(integers(H, H.shift), integers(B, B.shift).T, H.shift, B.shift, residual, spread, off)


def thin_margins(
    task: Task, read: Reading, write: Writing, skips: Skips, order: Int[np.ndarray, " d_mlp"]
) -> tuple[Shaped[np.ndarray, "p p"], Shaped[np.ndarray, "p p"], Shaped[np.ndarray, "p p"], ArcPlan]:
    """Margins of the scores, ρ, and Σ_i s_i e_i for every input, as rationals; and the plan."""
    S_a, S_b = skips.S_a, skips.S_b
    shift = max(INPUT_BITS + max(write.shift_b + write.shift_h, NORM_BITS), S_a.shift, S_b.shift)
    finer = shift - INPUT_BITS - write.shift_b - write.shift_h
    weights = write.B[:, order] * (1 << finer)
    unit_w = 1 << (shift - INPUT_BITS)
    residual = np.array([int(write.residual[i] * unit_w) for i in order], dtype=object)
    U_a, U_b = read.U_a[:, order], read.U_b[:, order]
    plan = Signs.of(U_a, U_b).plan_by_sets()
    sizes = correction_sizes(U_a, U_b, plan)
    tables = integers(S_a, shift), integers(S_b, shift)
    scores, rho = scores_and_residual(task, U_a, U_b, tables, write.H, weights, residual, plan, sizes, shift)
    by_N = sum((s * x for s, x in zip(write.spread, read.N, strict=True)), Fraction(0))
    by_F = sum((s * x for s, x in zip(write.spread, read.F, strict=True)), Fraction(0))
    # Ũ_a and Ũ_b are each rounded by at most half of 2^-INPUT_BITS.
    rounding = sum(write.spread, Fraction(0)) / (1 << INPUT_BITS)
    of_a, of_b = (
        [y * by_N + a * by_F + off for y, a, off in zip(Y, A, passed, strict=True)]
        for Y, A, passed in ((read.Y_a, read.A_a, skips.off_a), (read.Y_b, read.A_b, skips.off_b))
    )
    loss = np.array([[_up(x + y + rounding) for y in of_b] for x in of_a], dtype=object)
    unit = 1 << shift
    exact = np.vectorize(lambda n: Fraction(int(n), unit), otypes=[object])
    return exact(scores.margins), exact(rho), loss, plan


def _rounded(x: Dyadic) -> Shaped[np.ndarray, "rows columns"]:
    """Integers over 2^INPUT_BITS, each within half of one."""
    fine = x if x.shift > INPUT_BITS else x.at_shift(INPUT_BITS + 1)
    extra = fine.shift - INPUT_BITS
    return (integers(fine, fine.shift) + (1 << (extra - 1))) >> extra


def _defect(P: Dyadic) -> Dyadic:
    """D = 1 - PᵀP, which is small because P is nearly orthonormal."""
    _, r = P.shape
    return _minus(Dyadic.from_floats(np.eye(r)), P.transposed() @ P)


def _minus(x: Dyadic, y: Dyadic) -> Dyadic:
    return x + y.scaled(-1.0)


def _squares(x: Dyadic) -> list[Fraction]:
    """Squared Euclidean norms of the rows: a product and an addition per entry."""
    unit = 1 << 2 * x.shift
    return [Fraction(int(sum(n * n for n in row)), unit) for row in integers(x, x.shift)]


def _left(whole: list[Fraction], along: list[Fraction], D: Fraction) -> list[Fraction]:
    """At least the norms of what directions leave out of rows, from the squares of both and |D| (the theorem)."""
    return [_up_root(max(x - (1 - D) * y, Fraction(0))) for x, y in zip(whole, along, strict=True)]


def _norm(x: Dyadic) -> Fraction:
    """Norm of all entries together (Frobenius), rounded up; it bounds what x does to the length of a vector."""
    return _root(sum(int(n) ** 2 for n in x.numerators.entries()), x.shift)


def _root(squares: int, shift: int) -> Fraction:
    """The root of squares / 4^shift, rounded up to a multiple of 2^-NORM_BITS.

    With x = squares 4^(NORM_BITS - shift) and n its whole part, x < n + 1 ≤ (isqrt(n) + 1)².
    """
    scaled = squares << 2 * (NORM_BITS - shift) if shift <= NORM_BITS else squares >> 2 * (shift - NORM_BITS)
    return Fraction(math.isqrt(scaled) + 1, 1 << NORM_BITS)


def _up_root(x: Fraction) -> Fraction:
    """The root, rounded up to a multiple of 2^-NORM_BITS: with n the whole part of 4^NORM_BITS x, as for `_root`."""
    return Fraction(math.isqrt((x.numerator << 2 * NORM_BITS) // x.denominator) + 1, 1 << NORM_BITS)


def _up(x: Fraction) -> Fraction:
    """Rounded up to a multiple of 2^-NORM_BITS."""
    return Fraction(math.ceil(x * (1 << NORM_BITS)), 1 << NORM_BITS)


def _worst(table: Shaped[np.ndarray, "p p"]) -> Term:
    a, b = (int(n) for n in np.unravel_index(int(np.argmax(table)), table.shape))
    return Term(table[a, b], (a, b))
