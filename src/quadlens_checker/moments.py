"""Every logit up to what a low-rank form of W_L leaves out (`moments`)."""

from operator import mul
from typing import Any

from quadlens_checker import limits
from quadlens_checker.arcs import hidden_sums, read_plan, with_skip
from quadlens_checker.collapse import Model
from quadlens_checker.matrices import Rows
from quadlens_checker.reading import Clock, integers, keys, require, ticking


def by_moments(model: Model, hints: Any, clock: Clock) -> tuple[Rows, Rows, int]:
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
    finer = max(0, shift - model.shift_w)  # bring W_L to at least the denominator of B M
    for X in (model.W_L, model.S_a, model.S_b):
        X[:] = [[x << finer for x in row] for row in X]
    model.shift, scale = model.shift + finer, 1 << (model.shift_w + finer - shift)
    plan = read_plan(model, hints, clock)
    M = [[scale * x for x in row] for row in M]
    columns, answers = list(zip(*M, strict=True)), list(zip(*B, strict=True))
    rows_of_w = zip(model.W_L, answers, strict=True)
    R = [[w - sum(map(mul, b, m)) for w, m in zip(row, columns, strict=True)] for row, b in ticking(rows_of_w, clock)]
    spread = [max(column) - min(column) for column in zip(*R, strict=True)]
    h = list(zip(*(hidden_sums(weights, model, plan, clock) for weights in M), strict=True))
    lower = with_skip(model, ([sum(map(mul, b, x)) for b in answers] for x in ticking(h, clock)))
    left = hidden_sums(spread, model, plan, clock)
    upper = [[s + rho for s in row] for row, rho in zip(lower, left, strict=True)]
    flops = 2 * p * p * d_mlp + (2 * rank + 2) * p * d_mlp + d_mlp + (rank + 1) * 4 * p * d_mlp + (2 * rank + 2) * p**3
    return lower, upper, flops + p * p + plan.count(2 * rank + 2, 2 * rank + 3)
