"""`thin`: `moments` without the collapse, along a few directions of the residual stream.

A transformer reads and writes its residual stream along some 4|K| of d_model directions; along the
others the weights are the remains of their random start. Neither U = X W_in nor W_L = (W_out W_U)ᵀ
need be formed in full, nor X itself (`thin_streams.py`, which has A = (X - m) P exactly and bounds
Y = (X - m)(1 - PPᵀ), for a and for b).

Theorem. Let X_a, X_b be what the tokens bring to the MLP's input, for each a and b, so that
pre_i = (X_a[a] + X_b[b]) W_in[:,i] + b_in[i]. For any matrix P, of whose r columns the first r₀ are
P₀, and any rows m_a, m_b, let

    F = Pᵀ W_in,   N = W_in - P F,   D = 1 - PᵀP,
    Ũ = m W_in + A₀ F₀,   A₀ = (X - m) P₀,   F₀ = P₀ᵀ W_in

for a and for b. Then |X[a] W_in[:,i] - Ũ[a,i]| ≤ e := |Y[a]| |N[:,i]| + |A[a]| |D| |F[:,i]| +
Σ_g≥r₀ |A[a,g]| |F[g,i]|.

Proof. X W_in - m W_in - A F = (X - m) N = (A Pᵀ + Y) N = A (Pᵀ N) + Y N with PᵀN = F - PᵀP F = D F;
and A F - A₀ F₀ is the sum over g ≥ r₀. ∎

The same with W_out for X and W_U for W_in, any P' with r' columns: W_L = HᵀB + R, H = P'ᵀ W_U, B =
(W_out P')ᵀ and |R[c,i]| ≤ |Y'[i]| |T[:,c]| + |B[:,i]| |D'| |H[:,c]|, T = W_U - P' H. Let r_i be
twice a bound of that for all c, and s_i = Σ_j 2 |B_j[:,i]| max_c |H_j[:,c]| + r_i, j the planes of
P' (pairs of columns, or single ones). Skip terms are cut down along P', too. Then, with g(a,b) =
Σ_i B[:,i] ReLU(p̃re_i) + what the skip connection brings along P',

    score(c) = g · H[:,c] + κ[c],      κ what is constant, (m_a + m_b + b_out) W_U + b_U,
    logit(c) - logit(c') ≥ score(c) - score(c') - ρ(a,b) - Σ_i s_i (e_a[a,i] + e_b[b,i]) - what skip
    terms leave out, ρ(a,b) = Σ_i r_i ½ (p̃re_i + Σ_g<r₀ (|A_a[a,g]| + |A_b[b,g]|) |F[g,i]| +
    |constant_i|) ≥ Σ_i r_i ReLU(p̃re_i).

Proof. logit - score is Σ_i R[c,i] ReLU(p̃re_i) + Σ_i W_L[c,i] (ReLU(pre_i) - ReLU(p̃re_i)) and what
skip terms leave out; the first sum is that of `moments.py`, and ReLU(x) = ½ (x + |x|); in the
second |W_L[c,i] - W_L[c',i]| ≤ s_i and the ReLU is 1-Lipschitz. ∎

All that is subtracted is a number of a and one of b. N, Y, T and Y' are never formed
(`dyadic_norms.py`). Everything is in integers and rationals, norms and bounds rounded up to
multiples of 2^-64; P, P', m are hints, as are the tokens' plane, which only what attention leaves
out depends on, and the frequencies with which P' turns, which only the cost does. A checker that
forms N, Y and S finds no less than what is claimed: what was bounded here it adds up. For its
rounding of Ũ to 2^-48 room is left.

Cost: `thin_items`. Its own small collapse is in it, and no other is needed.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int, Shaped

from quadlens.analysis.spectrum.anatomy import Anatomy, anatomy_of
from quadlens.base.numbers import bound, significant
from quadlens.network.dyadic import Dyadic
from quadlens.network.evaluate import margins
from quadlens.network.task import Task
from quadlens.network.weights import Weights
from quadlens.proofs.long_work import begin
from quadlens.proofs.pairs.arcs import neuron_groups
from quadlens.proofs.pairs.dyadic_norms import defect, left_out, lengths, norm, squares, up, up_root
from quadlens.proofs.pairs.low_rank import DIRECTION_BITS, arcs_spectrum, directions, hint
from quadlens.proofs.pairs.margins import MarginTally, least_at, not_proved
from quadlens.proofs.pairs.plan import (
    ArcHints,
    ArcPlan,
    NeuronGroup,
    Signs,
    correction_sizes,
    hidden_sums,
    order_of,
)
from quadlens.proofs.pairs.proof import Mark, Proof, StrategyFacts, Term, nothing_proved
from quadlens.proofs.pairs.thin_cost import (
    Counted,
    planes,
    saved_by_words,
    settled_bounds,
    thin_items,
)
from quadlens.proofs.pairs.thin_streams import Side, Streams, sides, streams_of

# A checker rounds Ũ to this many bits after the point; room is left for that.
INPUT_BITS = 48
# (r, r') as multiples of the natural rank m of W_L and something more, r = f m + g, r' = m + h;
# cheapest first.
ATTEMPTS = (
    *(
        (2, -1, 0),
        (2, 0, 0),
        (2, 1, 0),
        (2, 2, 0),
        (2, 1, 1),
        (2, 4, 0),
        (2, 2, 2),
        (2, 4, 2),
        (2, 6, 2),
        (2, 6, 4),
    ),
    *((3, 6, 4), (4, 8, 8), (5, 8, 14), (7, 8, 24)),
)
# An attempt that leaves an input this many logits short of being proved, by the logits in float64,
# is not carried out.
SHORT = 1.0
# Directions whose part of every neuron's input is at most so many logits, all together, are bounded
# and not added up.
NOT_ADDED = 0.3


@dataclass(frozen=True, eq=False)
class Reading:
    """Ũ_a and Ũ_b, and what the bound on |U - Ũ| is made of.

    Attributes:
        U_a: Ũ_a in integers over 2^shift.
        U_b: The same for b, with all that is constant.
        shift: Exponent of their denominator.
        F: Pᵀ W_in.
        D: |D|.
        N: |N[:,i]|, rounded up, as are all norms.
        lengths: |F[:,i]|.
        constant: The part of Ũ_b that no token brings.
        added: r₀.
    """

    U_a: Shaped[np.ndarray, "p d_mlp"]
    U_b: Shaped[np.ndarray, "p d_mlp"]
    shift: int
    F: Dyadic
    D: Fraction
    N: list[Fraction]
    lengths: list[Fraction]
    constant: list[Fraction]
    added: int


@dataclass(frozen=True, eq=False)
class Writing:
    """W_L ≈ Hᵀ B, and bounds on what that leaves out.

    Attributes:
        H: Functions of c.
        B: Weights of the neurons, by neuron.
        D: |D'|.
        kappa: κ, in one row.
        residual: r_i.
        spread: s_i.
        H_length: The largest |H[:,c]|.
        T_length: The largest |T[:,c]|.
    """

    H: Dyadic
    B: Dyadic
    D: Fraction
    kappa: Dyadic
    residual: list[Fraction]
    spread: list[Fraction]
    H_length: Fraction
    T_length: Fraction

    def unread(self, side: Side, D: Fraction) -> list[Fraction]:
        """Bound how much skip terms differ between two answers beside H, for each token.

        D is the reading side's |D|.

        (X - m) W_U = (X - m) P' H + (X - m) T, and (X - m) T = (X - m) P' D' H + (X - m)(1 - P'P'ᵀ)
        T.
        """
        at_T = 2 * max(Fraction(1), self.D) * self.T_length
        at_H = 2 * (1 + self.D) * self.H_length
        return [
            (length * (1 + D) + y) * (at_T + self.D * at_H) + rest * at_H
            for length, y, rest in zip(side.lengths, side.Y, side.rest, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class ThinHints:
    """Arcs, and what was tried: integers over 2^DIRECTION_BITS.

    Attributes:
        arcs: Of Ũ.
        P: Directions of the reading side.
        P_out: Directions of the writing side, P'.
        Q: The tokens' plane.
        means: m_a and m_b.
        turns: Frequencies with which pairs of columns of P' turn.
        counted: What the cost depends on.
    """

    arcs: ArcHints
    P: Shaped[np.ndarray, "d r"]
    P_out: Shaped[np.ndarray, "d r_out"]
    Q: Shaped[np.ndarray, "d q"]
    means: Shaped[np.ndarray, "2 d"]
    turns: tuple[int, ...]
    counted: Counted

    def to_json(self) -> dict[str, Any]:
        """The arcs' hints, and the integers."""
        return {
            **self.arcs.to_json(),
            "directions": self.P.tolist(),
            "directions_out": self.P_out.tolist(),
            "directions_tokens": self.Q.tolist(),
            "means": self.means.tolist(),
            "turns": list(self.turns),
        }


@dataclass(frozen=True)
class Thin:
    """Cheaper than the collapse alone of the other strategies, for some of the margin."""

    facts: ClassVar = StrategyFacts(
        name="thin",
        description="Moments without the collapse: the residual stream is cut down to the "
        "few directions that matter.",
        activations=("relu",),
        mark=Mark("v", "bound"),
        in_integers=True,
        own_collapse=True,
    )

    def prove(self, subject: Weights | Anatomy) -> Proof:
        """Certify every input whose score leads by more than all that was left out.

        Ranks grow until all inputs are certified.
        """
        anatomy = anatomy_of(subject)
        model = anatomy.model
        config = model.config
        suits = config.attends == "constant" and config.no_collapse is None
        if not suits or config.activation not in self.facts.activations:
            return nothing_proved(
                self.facts.name,
                model.config.p,
                "thin cuts down the residual stream of a relu transformer with constant "
                "attention; this model is none: "
                "use the strategy auto",
            )
        groups, streams = neuron_groups(anatomy), streams_of(model)
        rank, most = max(1, arcs_spectrum(anatomy.layer).natural_rank), model.config.d_model
        leads, best = margins(anatomy.layer), None
        ranks = [(max(1, min(most, f * rank + g)), min(most, rank + h)) for f, g, h in ATTEMPTS]
        for last, (r, r_out) in enumerate(dict.fromkeys(ranks), 1 - len(set(ranks))):
            proof = self._attempt(
                model, streams, groups, r, r_out, None if best is None and last == 0 else leads
            )
            if proof is not None and (best is None or proof.certified.sum() > best.certified.sum()):
                best = proof
            if best is not None and best.certified.all():
                break
        if best is None:
            raise RuntimeError("no rank was tried")
        return best

    def _attempt(
        self,
        model: Weights,
        streams: Streams,
        groups: tuple[NeuronGroup, ...],
        r: int,
        r_out: int,
        leads: Float[np.ndarray, "p p"] | None,
    ) -> Proof | None:
        """Try the theorem along so many directions.

        It is None where what is left out clearly exceeds the true leads, if any are given.
        """
        task = model.config.task
        P_out, turns = writing_directions(model, groups, r_out)
        write = writing(model, streams, P_out, turns)
        P, added = reading_directions(model, streams, write, r)
        Q = streams.token_plane()
        both = sides(streams, P, P_out, Q)
        read = reading(model, streams, P, both, added)
        rho, loss = (
            sum_of_sides(x) for x in (rho_of(read, write, both), loss_of(read, write, both))
        )
        if (
            leads is not None
            and (leads - np.asarray(rho + loss, dtype=float))[leads > 0].min(initial=0.0) < -SHORT
        ):
            return None
        order = order_of(groups)
        lead, g, signs, plan = thin_margins(task, read, write, both, order)
        left = lead - rho - loss
        certified = np.asarray(left > 0, dtype=bool)
        reason = None
        if not certified.all():
            a, b = least_at(left)
            reason = (
                f"{not_proved(task, certified, (a, b))} the score leads by "
                f"{significant(lead[a, b], 'down', 4)}, and "
                f"the terms 'output residual' and 'input residual' may take {bound(rho[a, b])} and "
                f"{bound(loss[a, b])} along {r} and {r_out} directions"
            )
        margin = min(left[certified]) if certified.any() else None
        needed = np.asarray(rho + loss, dtype=float) + float(margin or 0)
        counted = Counted(
            r=r,
            added=added,
            r_out=r_out,
            q=Q.shape[1],
            turned=len(turns),
            ends=plan.counted_ends,
            mispredicted=plan.mispredicted,
            comparisons=signs.comparisons(),
            answers=looked_at(task, g, write, turns, needed),
        )
        operations = sum(thin_items(model.config, counted).values())
        return Proof(
            strategy=self.facts.name,
            certified=certified,
            margin=margin,
            exact=False,
            witnesses=(),
            hints=ThinHints(
                ArcHints(groups, plan),
                P.integers(DIRECTION_BITS),
                P_out.integers(DIRECTION_BITS),
                Q.integers(DIRECTION_BITS),
                np.concatenate([mean.integers(DIRECTION_BITS) for mean in streams.means]),
                turns,
                counted,
            ),
            operations=operations,
            filed_operations=operations - saved_by_words(model.config.p, model.config.d_mlp),
            own_collapse=self.facts.own_collapse,
            terms={"output residual": _worst(rho), "input residual": _worst(loss)},
            reason=reason,
        )


def writing_directions(
    model: Weights, groups: tuple[NeuronGroup, ...], r_out: int
) -> tuple[Dyadic, tuple[int, ...]]:
    """Return P', turned into planes of H's largest frequencies, and these; hints."""
    W_U, cyclic = model.W_U[:, : model.config.p].astype(np.float64), model.config.task.cyclic
    P = directions(model.W_out.astype(np.float64), W_U, r_out)
    if cyclic is None:
        return P, ()
    columns = P.to_floats()
    n = model.config.p
    waves = (
        columns.T
        @ W_U
        @ np.exp(2j * np.pi / n * np.outer(cyclic.of_c, [group.k for group in groups]))
    )
    largest = np.argsort(-np.linalg.norm(waves, axis=0), kind="stable")[: r_out // 2]
    if not len(largest):  # a plane has two directions
        return P, ()
    turned = np.hstack([waves[:, j, None].view(float).reshape(r_out, 2) for j in largest])
    Q, R = np.linalg.qr(np.hstack([turned, np.eye(r_out)]))
    return hint(columns @ (Q * np.where(np.diag(R) < 0, -1.0, 1.0))), tuple(
        int(groups[j].k) for j in largest
    )


def reading_directions(
    model: Weights, streams: Streams, write: Writing, r: int
) -> tuple[Dyadic, int]:
    """P, columns that matter most first, and how many inputs are added up along; hints."""
    P = directions(streams.centred, model.W_in.astype(np.float64), r).to_floats()
    weights = np.abs(P.T @ model.W_in.astype(np.float64)) @ np.array(
        [float(s) for s in write.spread]
    )
    sizes = np.abs(streams.centred @ P).max(axis=0) * weights
    order = np.argsort(-sizes, kind="stable")
    without = np.cumsum(sizes[order][::-1])[::-1]
    return hint(P[:, order]), max(1, int(np.count_nonzero(without > NOT_ADDED)))


def reading(
    model: Weights, streams: Streams, P: Dyadic, both: tuple[Side, Side], added: int
) -> Reading:
    """Ũ and the norms that bound its error, by the theorem."""
    p, W_in = model.config.p, Dyadic.from_floats(model.W_in)
    F, D = P.transposed() @ W_in, norm(defect(P))
    constant = (streams.means[0] + streams.means[1]) @ W_in + Dyadic.from_floats(model.b_in[None])
    U_a, U_b = (side.A[:, :added] @ F[:added] for side in both)
    U_b = U_b + constant.repeated(p)
    shift, of_F = max(U_a.shift, U_b.shift), squares(F.transposed())
    N = left_out(squares(W_in.transposed()), of_F, D)
    constants = [Fraction(int(x), 1 << constant.shift) for x in constant.numerators.entries()]
    U = U_a.integers(shift), U_b.integers(shift)
    return Reading(*U, shift, F, D, N, [up_root(x) for x in of_F], constants, added)


def writing(model: Weights, streams: Streams, P: Dyadic, turns: tuple[int, ...]) -> Writing:
    """H, B and the bounds r_i and s_i, by the theorem."""
    W_out, W_U = Dyadic.from_floats(model.W_out), Dyadic.from_floats(model.W_U[:, : model.config.p])
    B, H, D = W_out @ P, P.transposed() @ W_U, norm(defect(P))
    of_B, of_H = squares(B), squares(H.transposed())
    Y, T = left_out(squares(W_out), of_B, D), left_out(squares(W_U.transposed()), of_H, D)
    T_length, H_length = max(T), up_root(max(of_H))
    residual = [
        up(2 * (y * T_length + up_root(b) * D * H_length)) for y, b in zip(Y, of_B, strict=True)
    ]
    spread = residual
    for together in planes(turns, P.shape[1]):
        widest = 2 * max(lengths(H.transposed()[:, together]))
        spread = [s + widest * b for s, b in zip(spread, lengths(B[:, together]), strict=True)]
    constant = streams.means[0] + streams.means[1] + Dyadic.from_floats(model.b_out[None])
    kappa = constant @ W_U + Dyadic.from_floats(model.b_U[None, : model.config.p])
    return Writing(H, B, D, kappa, residual, [up(s) for s in spread], H_length, T_length)


def thin_margins(
    task: Task,
    read: Reading,
    write: Writing,
    both: tuple[Side, Side],
    order: Int[np.ndarray, " d_mlp"],
) -> tuple[Shaped[np.ndarray, "p p"], Float[np.ndarray, "p p m"], Signs, ArcPlan]:
    """Margins of the scores as rationals, g in float64, the signs, and the plan."""
    p, skips = task.n, [side.skip for side in both]
    shift = max(read.shift + write.B.shift, *(skip.shift for skip in skips))
    weights = write.B.integers(shift - read.shift).T[:, order]
    U_a, U_b = read.U_a[:, order], read.U_b[:, order]
    signs = Signs.of(U_a, U_b)
    plan = signs.plan_by_sets()
    sizes = correction_sizes(U_a, U_b, plan)
    of_a, of_b = (skip.integers(shift).T for skip in skips)
    g = [
        hidden_sums(row, U_a, U_b, plan, sizes).reshape(p, p) + x[:, None] + y[None, :]
        for row, x, y in zip(weights, of_a, of_b, strict=True)
    ]
    whole = max(shift + write.H.shift, write.kappa.shift)
    H, kappa = write.H.integers(whole - shift), write.kappa.integers(whole)[0]
    tally = MarginTally(task)
    for c in range(p):
        begin(f"answers {c + 1}/{p}")
        score = np.full((p, p), kappa[c], dtype=object)
        for f, coordinate in enumerate(g):
            score = score + coordinate * H[f, c]
        tally.take(c, score)
    exact = np.vectorize(lambda n: Fraction(int(n), 1 << whole), otypes=[object])
    coordinates = np.stack(
        [
            np.array([[int(x) / (1 << shift) for x in row] for row in coordinate])
            for coordinate in g
        ],
        axis=-1,
    )
    return exact(tally.answers(whole).margins), coordinates, signs, plan


def rho_of(
    read: Reading, write: Writing, both: tuple[Side, Side]
) -> tuple[list[Fraction], list[Fraction]]:
    """ρ, as a number for each a and one for each b; halves of both sums are rounded up."""
    residual, F = np.array(write.residual, dtype=object), read.F.integers()[: read.added]
    unit = 1 << read.F.shift
    linear, largest = F @ residual / unit, abs(F) @ residual / unit
    constant = sum(
        (r * (x + abs(x)) for r, x in zip(write.residual, read.constant, strict=True)), Fraction(0)
    )
    halves = []
    for side, more in zip(both, (Fraction(0), constant), strict=True):
        A = side.A.integers()[:, : read.added]
        sums = (A @ linear + abs(A) @ largest) / (1 << side.A.shift)
        halves.append([up((x + more) / 2) for x in sums])
    return halves[0], halves[1]


def loss_of(
    read: Reading, write: Writing, both: tuple[Side, Side]
) -> tuple[list[Fraction], list[Fraction]]:
    """Σ_i s_i e_i and what skip terms leave out, as a number for each a and one for each b."""
    spread = np.array(write.spread, dtype=object)
    by_N, by_F = (spread @ np.array(sizes, dtype=object) for sizes in (read.N, read.lengths))
    by_g = abs(read.F.integers()[read.added :]) @ spread / (1 << read.F.shift)
    # A checker moves Ũ_a and Ũ_b by at most half of 2^-INPUT_BITS each, and takes that off once
    # more.
    room = 2 * sum(write.spread, Fraction(0)) / (1 << INPUT_BITS)
    losses = []
    for side in both:
        others = abs(side.A.integers()[:, read.added :]) @ by_g / Fraction(1 << side.A.shift)
        parts = zip(side.Y, side.lengths, others, write.unread(side, read.D), strict=True)
        losses.append(
            [
                up(y * by_N + length * read.D * by_F + other + room + skip)
                for y, length, other, skip in parts
            ]
        )
    return losses[0], losses[1]


def looked_at(
    task: Task,
    g: Float[np.ndarray, "p p m"],
    write: Writing,
    turns: tuple[int, ...],
    needed: Float[np.ndarray, "p p"],
) -> int:
    """Count inputs and answers to compare one by one: those `thin_cost` does not resolve."""
    p = task.n
    if not turns:
        return p * p * (p - 1)
    bounds = settled_bounds(task, g, write.H.to_floats(), write.kappa.to_floats()[0], turns)
    return int(np.count_nonzero(bounds <= needed[..., None]))


def sum_of_sides(both: tuple[list[Fraction], list[Fraction]]) -> Shaped[np.ndarray, "p p"]:
    """Return x_a[a] + x_b[b]."""
    return np.array([[x + y for y in both[1]] for x in both[0]], dtype=object)


def _worst(table: Shaped[np.ndarray, "p p"]) -> Term:
    worst = least_at(-table)
    return Term(table[worst], worst)
