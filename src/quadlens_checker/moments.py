"""Every logit up to what a low-rank form of W_L leaves out (`moments`)."""

from dataclasses import replace
from operator import mul
from typing import Any

from quadlens_checker import limits
from quadlens_checker.arcs import Bounds, hidden_sums, in_order, read_plan, with_skip
from quadlens_checker.collapse import Model, with_relu
from quadlens_checker.reading import Clock, integers, keys, require, ticking


def by_moments(model: Model, hints: Any, clock: Clock) -> Bounds:
    """Every logit, up to what does not depend on c, from a low-rank form of W_L and the spread of what it leaves out.

    With W_L[c,i] = Σ_f B[f,c] M[f,i] + R[c,i] and r_i the largest less the smallest R[·,i], what R adds to the
    logits differs between answers by at most ρ = Σ_i r_i ReLU(pre_i).
    """
    keys(hints, ("clusters", "arcs", "basis", "coefficients", "shift"), "hints")
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
    h = zip(*[hidden_sums(weights, model, plan, clock) for weights in M], strict=True)
    lower = with_skip(model, ([sum(map(mul, b, x)) for b in answers] for x in h), clock)
    left = hidden_sums(spread, model, plan, clock)
    bounds = zip(lower, left, strict=True)
    flops = 2 * p * p * d_mlp + (2 * rank + 2) * p * d_mlp + d_mlp + (rank + 1) * 4 * p * d_mlp + (2 * rank + 2) * p**3
    return Bounds(bounds, model.shift, flops + p * p + plan.count(2 * rank + 2, 2 * rank + 3))


def at_least(model: Model, shift: int) -> Model:
    """The same model with W_L over 2^shift or finer."""
    finer = max(0, shift - model.shift_w)
    W_L, S_a, S_b = ([[x << finer for x in row] for row in M] for M in (model.W_L, model.S_a, model.S_b))
    return replace(model, W_L=W_L, S_a=S_a, S_b=S_b, shift=model.shift + finer, shift_w=model.shift_w + finer)
