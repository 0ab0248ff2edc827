"""Every logit up to what a low-rank form of W_L leaves out (`moments`)."""

from dataclasses import replace
from operator import mul
from typing import Any

from quadlens_checker import limits
from quadlens_checker.arcs import Bounds, in_order, low_rank_scores, read_plan
from quadlens_checker.collapse import Model, with_relu
from quadlens_checker.reading import Clock, integers, keys, require, ticking


def by_moments(model: Model, hints: Any, clock: Clock) -> Bounds:
    """Every logit, up to what does not depend on c, from a low-rank form of W_L and the spread of what it leaves out.

    With W_L[c,i] = Σ_f B[f,c] M[f,i] + R[c,i] and r_i the largest less the smallest R[·,i], what R adds to the
    logits differs between answers by at most ρ = Σ_i r_i ReLU(pre_i). Inputs that the hints list as `exact` have
    every logit by its definition, and nothing is lost.
    """
    some = ("exact",) if isinstance(hints, dict) and "exact" in hints else ()
    keys(hints, ("clusters", "arcs", "basis", "coefficients", "shift", *some), "hints")
    p, d_mlp, rank = model.p, model.d_mlp, len(hints["basis"])
    (shift,), largest = integers([hints["shift"]], "shift", 1, 0, limits.MAX_SHIFT), 10**limits.MAX_INTEGER_DIGITS
    B = [integers(row, "basis", p, -largest, largest) for row in hints["basis"]]
    M = [integers(row, "coefficients", d_mlp, -largest, largest) for row in hints["coefficients"]]
    require(len(M) == rank <= p, "basis and coefficients do not fit")
    model = in_order(at_least(with_relu(model), shift), hints["clusters"])
    plan = read_plan(model, hints["arcs"], clock)
    M = [[x << (model.shift_w - shift) for x in row] for row in M]  # B M over W_L's denominator
    columns, answers = list(zip(*M, strict=True)), list(zip(*B, strict=True))
    rows_of_w = zip(model.W_L, answers, strict=True)
    R = [[w - sum(map(mul, b, m)) for w, m in zip(row, columns, strict=True)] for row, b in ticking(rows_of_w, clock)]
    spread = [max(column) - min(column) for column in zip(*R, strict=True)]
    exact = {tuple(integers(pair, "exact", 2, 0, p - 1)) for pair in hints.get("exact", ())}
    require(len(exact) <= p, "more than p inputs are to be settled exactly")
    bounds = (
        (every_logit(model, *divmod(n, p)), 0) if divmod(n, p) in exact else bound
        for n, bound in enumerate(low_rank_scores(model, B, M, spread, plan, clock))
    )
    return Bounds(bounds, model.shift)


def every_logit(model: Model, a: int, b: int) -> list[int]:
    """The logits of one input, by their definition."""
    hidden = [max(0, x + y) for x, y in zip(model.U_a[a], model.U_b[b], strict=True)]
    rows = zip(model.W_L, model.S_a[a], model.S_b[b], strict=True)
    return [sum(map(mul, row, hidden)) + s + t for row, s, t in rows]


def at_least(model: Model, shift: int) -> Model:
    """The same model with W_L over 2^shift or finer."""
    finer = max(0, shift - model.shift_w)
    W_L, S_a, S_b = ([[x << finer for x in row] for row in M] for M in (model.W_L, model.S_a, model.S_b))
    return replace(model, W_L=W_L, S_a=S_a, S_b=S_b, shift=model.shift + finer, shift_w=model.shift_w + finer)
