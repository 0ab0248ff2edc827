"""`moments`: a few sums per arc stand for all p answers, and one more bounds the rest.

Theorem. Let W_L[c,i] = Σ_f B[f,c] M[f,i] + R[c,i] for any m functions B and weights M. Let r_i be
the largest less the smallest of R[·,i], and

    h_f(a,b)     = Σ_i M[f,i] ReLU(pre_i)
    ρ(a,b)       = Σ_i r_i ReLU(pre_i)
    score(a,b,c) = Σ_f B[f,c] h_f(a,b) + S_a[a,c] + S_b[b,c]

Then logit(a,b,c) - logit(a,b,c') ≥ score(a,b,c) - score(a,b,c') - ρ(a,b) for all a, b, c, c'.

Proof. logit - score = Σ_i R[c,i] ReLU(pre_i), and R[c,i] - R[c',i] ≥ -r_i while ReLU ≥ 0. ∎

Both h and ρ are sums over active neurons: m + 1 uses of the arcs of `plan.py` instead of p. Nothing
is lost on the input side: U enters exactly, and so do all signs. Everything is in integers; B and M
are hints, and any B and M give a true bound.

A few inputs that this leaves out (at most p) are settled by every logit of theirs, exactly: they
are listed in the hints, and each costs one p² of brute force. So one wrong input, which no low rank
can show, is found and named.

Cost: `moments_operations`. No step costs p³ d_mlp, and only signs and arcs cost p² d_mlp.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from jaxtyping import Int, Shaped

from quadlens.analysis.spectrum.anatomy import Anatomy, anatomy_of
from quadlens.base.numbers import bound
from quadlens.network.activation import ACTIVATIONS
from quadlens.network.exact import IntegerModel, finer
from quadlens.network.margins import leads
from quadlens.network.weights import Weights
from quadlens.proofs.long_work import begin
from quadlens.proofs.pairs.arcs import has_arcs, neuron_groups
from quadlens.proofs.pairs.direct import MomentHints, prove_moments
from quadlens.proofs.pairs.low_rank import LowRank, arcs_spectrum, low_rank
from quadlens.proofs.pairs.margins import (
    ExactAnswers,
    MarginTally,
    lead_in_words,
    least_at,
    not_proved,
    not_right,
)
from quadlens.proofs.pairs.moments_large import prove_large
from quadlens.proofs.pairs.plan import (
    ArcHints,
    ArcPlan,
    NeuronGroup,
    correction_sizes,
    hidden_sums,
    order_of,
    plan_arcs,
)
from quadlens.proofs.pairs.proof import MAX_WITNESSES, Mark, Proof, StrategyFacts, Term
from quadlens_checker import limits

# When the natural rank does not prove everything, twice and four times as many functions are tried.
ATTEMPTS = 3
# Rank p/4 at most, or this for small p: beyond it arcs are cheaper, and certificates larger than
# half a megabyte.
SMALLEST_CAP = 16
# Past this p, integers take minutes and certificates many megabytes: float64 with a proved error
# takes over.
LARGEST_INTEGER_P = 211


def moments_operations(
    p: int, d_mlp: int, rank: int, ends: int, mispredicted: int, settled: int = 0
) -> int:
    """Count the operations of `moments`.

    2 p² d_mlp + (2 m + 2) p d_mlp + d_mlp + (m + 1)(4 p d_mlp + 2 F + 2 Q) + Q + (2 m + 2) p³ + p².

    F and Q as for arcs. Signs and arcs 2 p² d_mlp; remainder 2 m p d_mlp, its spread 2 p d_mlp +
    d_mlp; m + 1 sums over active neurons; scores 2 m p³, skip terms p³, margins p³, and ρ taken
    off. Each input settled exactly adds `settling_operations`.
    """
    sums = (rank + 1) * (4 * p * d_mlp + 2 * ends + 2 * mispredicted) + mispredicted
    rest = settled * settling_operations(p, d_mlp)
    return (
        2 * p**2 * d_mlp
        + (2 * rank + 2) * p * d_mlp
        + d_mlp
        + sums
        + (2 * rank + 2) * p**3
        + p**2
        + rest
    )


def settling_operations(p: int, d_mlp: int) -> int:
    """Count the operations that resolve one input by all its logits.

    ReLU of its pre-activations 2 d_mlp, logits 2 p d_mlp, skip terms 2 p, margin p.
    """
    return 2 * p * d_mlp + 2 * d_mlp + 3 * p


@dataclass(frozen=True)
class MomentsStrategy:
    """The strategy `moments`: its margin is within ρ of the true one.

    Its cost beyond signs does not grow with p · d_mlp · p.
    """

    facts: ClassVar = StrategyFacts(
        name="moments",
        description="Replaces the output map by a few functions of the answer and "
        "bounds what they leave out.",
        activations=ACTIVATIONS,
        mark=Mark("s", "bound"),
    )
    largest_integer_p: int = LARGEST_INTEGER_P

    def prove(self, subject: Weights | Anatomy) -> Proof:
        """Certify every input whose low-rank score leads by more than ρ."""
        anatomy = anatomy_of(subject)
        config = anatomy.config
        if not has_arcs(config):
            return prove_moments(self.facts.name, anatomy)
        if config.p > self.largest_integer_p and _suits_float64(anatomy.model):
            return prove_large(self.facts.name, anatomy.collapsed, anatomy.spectra)
        if config.p > limits.MAX_MODULUS:
            return replace(prove_moments(self.facts.name, anatomy), hints=None)
        exact, groups = anatomy.integers, neuron_groups(anatomy)
        spectrum = arcs_spectrum(anatomy.layer)
        most = min(spectrum.vectors.shape[1], max(SMALLEST_CAP, exact.p // 4))
        rank = max(1, min(spectrum.natural_rank, most))
        best = self._attempt(exact, groups, low_rank(spectrum, rank))
        for doubled in range(1, ATTEMPTS):
            if (~best.certified).sum() <= exact.p or rank << (doubled - 1) >= most:
                break
            proof = self._attempt(exact, groups, low_rank(spectrum, min(rank << doubled, most)))
            best = proof if proof.certified.sum() > best.certified.sum() else best
        return settle(best, exact) if 0 < (~best.certified).sum() <= exact.p else best

    def _attempt(
        self, exact: IntegerModel, groups: tuple[NeuronGroup, ...], form: LowRank
    ) -> Proof:
        """The theorem with one low-rank form."""
        begin(f"moments of rank {form.rank}")
        p = exact.p
        order = order_of(groups)
        scores, rho, plan, spread = score_margins(exact, order, form)
        margins = scores.margins - rho
        certified = np.asarray(margins > 0, dtype=bool)
        unit = 1 << scores.shift
        reason = None
        if not certified.all():
            a, b = least_at(margins)
            lead = lead_in_words(
                int(exact.task.answers[a, b]), int(scores.rival[a, b]), scores.margins[a, b] / unit
            )
            reason = (
                f"{not_proved(exact.task, certified, (a, b))} {lead} by the "
                f"score of rank {form.rank} "
                f"and the term 'output residual' may take {bound(Fraction(int(rho[a, b]), unit))} "
                f"(most of it by neurons {_largest(exact, order, spread, a, b)})"
            )
        return Proof(
            strategy=self.facts.name,
            certified=certified,
            margin=Fraction(int(margins[certified].min()), unit) if certified.any() else None,
            exact=False,
            witnesses=(),
            hints=MomentHints(form, arcs=ArcHints(groups, plan)),
            operations=moments_operations(
                p, exact.d_mlp, form.rank, plan.counted_ends, plan.mispredicted
            ),
            terms={"output residual": Term(Fraction(int(rho.max()), unit), least_at(-rho))},
            reason=reason,
        )


def settle(proof: Proof, exact: IntegerModel) -> Proof:
    """The proof with every input that it left out decided by all its logits, exactly."""
    if not isinstance(proof.hints, MomentHints):
        raise TypeError("only moments in integers are settled exactly")
    pairs, certified = proof.uncertified, proof.certified.copy()
    a, b = np.array(pairs).T
    margins, rival = leads(exact.logits(a, b), exact.task.answers[a, b])
    certified[a, b] = margins > 0
    known = [] if proof.margin is None else [proof.margin]
    margin = min(
        [*known, *(Fraction(lead, 1 << exact.shift) for lead in margins[margins > 0])], default=None
    )
    answered = [(*pair, int(c)) for pair, c in zip(pairs, rival, strict=True)]
    tied = tuple(answer for answer, lead in zip(answered, margins, strict=True) if lead == 0)
    witnesses = tuple(answer for answer, lead in zip(answered, margins, strict=True) if lead < 0)
    return replace(
        proof,
        certified=certified,
        margin=margin,
        witnesses=witnesses[:MAX_WITNESSES],
        tied=tied[:MAX_WITNESSES],
        hints=replace(proof.hints, exact=pairs),
        operations=proof.operations + len(pairs) * settling_operations(exact.p, exact.d_mlp),
        reason=not_right(exact.task, len(witnesses), len(tied), (*witnesses, *tied)),
        complete=True,
    )


def score_margins(
    exact: IntegerModel, order: Int[np.ndarray, " d_mlp"], form: LowRank
) -> tuple[ExactAnswers, Shaped[np.ndarray, "p p"], ArcPlan, Shaped[np.ndarray, " d_mlp"]]:
    """Return the scores' margins, ρ, the plan, and the ranges r_i, all over 2^shift.

    The r_i are in the given order of the neurons.
    """
    exact = finer(exact, form.shift)
    U_a, U_b, W_L = exact.U_a[:, order], exact.U_b[:, order], exact.W_L[:, order]
    scale = 1 << (exact.shift_w - form.shift)
    basis = form.basis.astype(object)
    weights = form.coefficients[:, order].astype(object) * scale
    remainder = W_L
    for f in range(form.rank):
        remainder = remainder - basis[f][:, None] * weights[f][None, :]
    spread = remainder.max(axis=0) - remainder.min(axis=0)
    plan = plan_arcs(U_a, U_b)
    sizes = correction_sizes(U_a, U_b, plan)
    p = exact.p
    h = []
    for f, row in enumerate(weights):
        begin(f"functions {f + 1}/{form.rank}")
        h.append(hidden_sums(row, U_a, U_b, plan, sizes).reshape(p, p))
    rho = hidden_sums(spread, U_a, U_b, plan, sizes).reshape(p, p)
    tally = MarginTally(exact.task)
    for c in range(p):
        begin(f"answers {c + 1}/{p}")
        score = exact.S_a[:, c][:, None] + exact.S_b[:, c][None, :]
        for f, sums in enumerate(h):
            score = score + sums * basis[f, c]
        tally.take(c, score)
    return tally.answers(exact.shift), rho, plan, spread


def _suits_float64(model: Weights) -> bool:
    """Say whether float64 holds the collapsed model exactly.

    It does where the weights are U and W_L themselves, in float32.
    """
    return (
        model.config.is_collapsed
        and model.config.activation == "relu"
        and model.config.task.is_addition
        and model.config.p % 2 == 1
        and all(array.dtype == np.float32 for array in model.tensors.values())
    )


def _largest(
    exact: IntegerModel,
    order: Int[np.ndarray, " d_mlp"],
    spread: Shaped[np.ndarray, " d_mlp"],
    a: int,
    b: int,
) -> str:
    """The three neurons whose remainder weighs most on input (a, b)."""
    share = spread * np.maximum(exact.U_a[a] + exact.U_b[b], 0)[order]
    return ", ".join(str(int(order[i])) for i in np.argsort(share)[::-1][:3])
