"""Logits up to what a low-rank form of W_L leaves out (`moments`)."""

from dataclasses import replace
from operator import mul
from typing import Any, NamedTuple

from quadlens_checker import limits
from quadlens_checker.arcs import ScoreBounds, in_order, low_rank_scores, read_plan
from quadlens_checker.collapse import Model, with_relu
from quadlens_checker.matrices import Rows
from quadlens_checker.reading import Clock, integers, keys, require, ticking


class LowRank(NamedTuple):
    """A low-rank form of W_L: W_L[c,i] = Σ_f B[f,c] M[f,i] + R[c,i].

    M and R are over 2^finer times W_L's denominator.

    With r_i, the `spread`, the largest less the smallest R[·,i], what R adds to the logits differs
    between two answers by at most ρ = Σ_i r_i |σ_i|. Inputs a p + b that are `exact` have every
    logit by its definition, and lose no ρ.
    """

    B: Rows
    M: Rows
    finer: int
    spread: list[int]
    exact: set[int]


def check_keys(hints: Any, *more: str) -> None:
    """Hints are a low-rank form with or without `exact`, and what else there must be."""
    some = ("exact",) if isinstance(hints, dict) and "exact" in hints else ()
    keys(hints, (*more, "basis", "coefficients", "shift", *some), "hints")


def read_low_rank(hints: Any, W_L: Rows, shift_w: int, clock: Clock) -> LowRank:
    """Return the form of W_L, over 2^shift_w, by the hints B and M over 2^shift.

    It has what they leave out.
    """
    p, d_mlp, rank = len(W_L), len(W_L[0]), len(hints["basis"])
    (shift,), most = (
        integers([hints["shift"]], "shift", 1, 0, limits.MAX_SHIFT),
        10**limits.MAX_INTEGER_DIGITS,
    )
    B = [integers(row, "basis", p, -most, most) for row in hints["basis"]]
    M = [integers(row, "coefficients", d_mlp, -most, most) for row in hints["coefficients"]]
    require(len(M) == rank <= p, "basis and coefficients do not fit")
    finer = max(0, shift - shift_w)
    M = [[x << (shift_w + finer - shift) for x in row] for row in M]
    of_neuron, of_answer = (
        list(zip(*M, strict=True)) or [()] * d_mlp,
        list(zip(*B, strict=True)) or [()] * p,
    )
    R = [
        [(w << finer) - sum(map(mul, b, m)) for w, m in zip(row, of_neuron, strict=True)]
        for row, b in ticking(zip(W_L, of_answer, strict=True), clock)
    ]
    spread = [max(column) - min(column) for column in zip(*R, strict=True)]
    exact = {
        a * p + b
        for a, b in (integers(pair, "exact", 2, 0, p - 1) for pair in hints.get("exact", ()))
    }
    return LowRank(B, M, finer, spread, exact)


def by_moments(model: Model, hints: Any, clock: Clock) -> ScoreBounds:
    """Return every logit, up to what does not depend on c.

    Σ_i M[f,i] ReLU(pre_i) comes by running sums over arcs.
    """
    check_keys(hints, "clusters", "arcs")
    p, model = model.p, in_order(with_relu(model), hints["clusters"])
    form = read_low_rank(hints, model.W_L, model.shift_w, clock)
    require(form.B, "a basis of nothing")
    require(len(form.exact) <= p, "more than p inputs are to be settled exactly")
    model, plan = finer_by(model, form.finer), read_plan(model, hints["arcs"], clock)
    bounds = (
        (every_logit(model, *divmod(n, p)), 0) if n in form.exact else bound
        for n, bound in enumerate(low_rank_scores(model, form.B, form.M, form.spread, plan, clock))
    )
    return ScoreBounds(bounds, model.shift)


def every_logit(model: Model, a: int, b: int) -> list[int]:
    """The logits of one input, by their definition."""
    hidden = [max(0, x + y) for x, y in zip(model.U_a[a], model.U_b[b], strict=True)]
    rows = zip(model.W_L, model.S_a[a], model.S_b[b], strict=True)
    return [sum(map(mul, row, hidden)) + s + t for row, s, t in rows]


def finer_by(model: Model, bits: int) -> Model:
    """Return the model with W_L and the logits over a denominator of more bits."""
    W_L, S_a, S_b = (
        [[x << bits for x in row] for row in M] for M in (model.W_L, model.S_a, model.S_b)
    )
    return replace(
        model, W_L=W_L, S_a=S_a, S_b=S_b, shift=model.shift + bits, shift_w=model.shift_w + bits
    )
