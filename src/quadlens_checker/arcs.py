"""Every logit exactly: by its definition (`brute`), and by running sums over arcs of active neurons (`arcs`)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import Any

from quadlens_checker.collapse import Model
from quadlens_checker.matrices import Rows
from quadlens_checker.reading import Clock, integers, keys, require, ticking


@dataclass
class Plan:
    """For each input: where arcs start (unless at 0) and stop, and the mispredicted neurons with |pre-activation|."""

    starts: Rows
    stops: Rows
    wrong: list[list[tuple[int, int]]]

    def count(self, per_end: int, per_wrong: int) -> int:
        """Operations when an end and a mispredicted neuron take this many."""
        return sum(map(len, self.starts + self.stops)) * per_end + sum(map(len, self.wrong)) * per_wrong


def read_plan(model: Model, hints: Any, clock: Clock) -> Plan:
    """Put the neurons in the order of the hints; compare predicted arcs with the true sign of each pre-activation."""
    p, d_mlp, order = model.p, model.d_mlp, []
    for cluster in hints["clusters"]:
        integers([keys(cluster, ("k", "neurons"), "a cluster")["k"]], "k", 1, 1, p // 2)
        order += integers(cluster["neurons"], "neurons", None, 0, d_mlp - 1)
    require(sorted(order) == list(range(d_mlp)), "the clusters do not hold every neuron exactly once")
    for M in (model.U_a, model.U_b, model.W_L):
        M[:] = [[row[i] for i in order] for row in M]
    require(len(hints["arcs"]) == p * p, "there is not one list of arcs an input")
    plan = Plan([], [], [])
    for n, ends in enumerate(hints["arcs"]):
        clock(0)
        integers(ends, "arcs", None, 0, d_mlp)
        require(len(ends) % 2 == 0 and ends == sorted(set(ends)), "arcs are not in ascending order")
        predicted = [False] * d_mlp
        for start, stop in zip(ends[::2], ends[1::2], strict=True):
            predicted[start:stop] = [True] * (stop - start)
        pre = map(int.__add__, model.U_a[n // p], model.U_b[n % p])
        plan.wrong.append(
            [(i, abs(x)) for i, (x, yes) in enumerate(zip(pre, predicted, strict=True)) if (x > 0) != yes]
        )
        plan.starts.append([end for end in ends[::2] if end])
        plan.stops.append(ends[1::2])
    return plan


def hidden_sums(weights: list[int], model: Model, plan: Plan, clock: Clock) -> list[int]:
    """Σ_i weights[i] ReLU(pre_i(a,b)) for every input, exactly, by running sums over the arcs.

    A neuron left out although active adds its pre-activation, |pre|; one taken in although pre ≤ 0 must lose pre, which
    adds |pre| too. So every mispredicted neuron contributes + weight · |pre|.
    """
    P_a = [list(accumulate(map(mul, weights, row), initial=0)) for row in model.U_a]
    P_b = [list(accumulate(map(mul, weights, row), initial=0)) for row in model.U_b]
    sums = []
    for n, (starts, stops, wrong) in enumerate(ticking(zip(plan.starts, plan.stops, plan.wrong, strict=True), clock)):
        x, y = P_a[n // model.p], P_b[n % model.p]
        linear = sum([x[j] + y[j] for j in stops]) - sum([x[j] + y[j] for j in starts])
        sums.append(linear + sum([weights[i] * size for i, size in wrong]))
    return sums


def by_arcs(model: Model, hints: Any, clock: Clock) -> tuple[Rows, Rows, int]:
    """Every logit exactly, from the arcs."""
    keys(hints, ("clusters", "arcs"), "hints")
    p, plan, columns = model.p, read_plan(model, hints, clock), []
    for c in range(p):
        columns.append(hidden_sums(model.W_L[c], model, plan, clock))
    logits = with_skip(model, zip(*columns, strict=True))
    return logits, logits, 6 * p * p * model.d_mlp + 3 * p**3 + plan.count(2 * p, 2 * p + 1)


def by_brute_force(model: Model, hints: Any, clock: Clock) -> tuple[Rows, Rows, int]:
    """Every logit by its definition."""
    keys(hints, (), "hints")
    p, hidden = model.p, []
    for n in range(p * p):
        clock(0)
        pre = map(int.__add__, model.U_a[n // p], model.U_b[n % p])
        layer = [x * x for x in pre] if model.activation == "square" else [max(x, 0) for x in pre]
        hidden.append([sum(map(mul, layer, row)) for row in model.W_L])
    logits = with_skip(model, hidden)
    return logits, logits, brute_force_flops(model)


def with_skip(model: Model, hidden: Iterable[Sequence[int]]) -> Rows:
    """Add S_a and S_b to what the neurons write."""
    p, S_a, S_b = model.p, model.S_a, model.S_b
    return [[h + s + t for h, s, t in zip(row, S_a[n // p], S_b[n % p], strict=True)] for n, row in enumerate(hidden)]


def brute_force_flops(model: Model) -> int:
    """2 p³ d_mlp + 2 p² d_mlp + 3 p³."""
    return 2 * model.p**3 * model.d_mlp + 2 * model.p**2 * model.d_mlp + 3 * model.p**3
