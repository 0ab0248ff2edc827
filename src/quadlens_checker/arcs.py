"""Every logit exactly, by running sums over arcs of active neurons (`arcs`)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul
from typing import Any

from quadlens_checker.collapse import Model, with_relu
from quadlens_checker.matrices import Rows
from quadlens_checker.reading import Clock, integers, keys, require, ticking


@dataclass(frozen=True)
class Bounds:
    """What a strategy proves of the logits, and what it costs beyond the collapse.

    rows: for each input, a = 0 … p-1 and for each a all b, a score of each answer and a loss, all over 2^shift: for any
    two answers the difference of their logits is that of their scores, but for the loss at most.
    """

    rows: Iterator[tuple[Sequence[int], int]]
    shift: int
    flops: int


@dataclass(frozen=True)
class Plan:
    """For each input: where arcs start (unless at 0) and stop, and the mispredicted neurons with |pre-activation|."""

    starts: Rows
    stops: Rows
    wrong: list[list[tuple[int, int]]]

    def count(self, per_end: int, per_wrong: int) -> int:
        """Operations when an end and a mispredicted neuron take this many."""
        return sum(map(len, self.starts + self.stops)) * per_end + sum(map(len, self.wrong)) * per_wrong


def in_order(model: Model, clusters: Any) -> Model:
    """The model with its neurons in the order of the hints."""
    order: list[int] = []
    for cluster in clusters:
        integers([keys(cluster, ("k", "neurons"), "a cluster")["k"]], "k", 1, 1, model.p // 2)
        order += integers(cluster["neurons"], "neurons", None, 0, model.d_mlp - 1)
    require(sorted(order) == list(range(model.d_mlp)), "the clusters do not hold every neuron exactly once")
    U_a, U_b, W_L = ([[row[i] for i in order] for row in M] for M in (model.U_a, model.U_b, model.W_L))
    return replace(model, U_a=U_a, U_b=U_b, W_L=W_L)


def read_plan(model: Model, arcs: Any, clock: Clock) -> Plan:
    """Compare the arcs of the hints with the true sign of each pre-activation; the neurons are in order."""
    p, d_mlp, plan = model.p, model.d_mlp, Plan([], [], [])
    require(len(arcs) == p * p, "there is not one list of arcs per input")
    for n, ends in enumerate(ticking(arcs, clock)):
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


def with_skip(model: Model, hidden: Iterable[Sequence[int]], clock: Clock) -> Iterator[list[int]]:
    """Add S_a and S_b to what the neurons write, input by input."""
    for n, row in enumerate(ticking(hidden, clock)):
        skip = zip(row, model.S_a[n // model.p], model.S_b[n % model.p], strict=True)
        yield [h + s + t for h, s, t in skip]


def by_arcs(model: Model, hints: Any, clock: Clock) -> Bounds:
    """Every logit exactly, from the arcs."""
    keys(hints, ("clusters", "arcs"), "hints")
    p, model = model.p, in_order(with_relu(model), hints["clusters"])
    plan = read_plan(model, hints["arcs"], clock)
    columns = [hidden_sums(weights, model, plan, clock) for weights in model.W_L]
    logits = with_skip(model, zip(*columns, strict=True), clock)
    flops = 6 * p * p * model.d_mlp + 3 * p**3 + plan.count(2 * p, 2 * p + 1)
    return Bounds(((row, 0) for row in logits), model.shift, flops)


def brute_force_flops(p: int, d_mlp: int) -> int:
    """2 p³ d_mlp + 2 p² d_mlp + 3 p³."""
    return 2 * p**3 * d_mlp + 2 * p**2 * d_mlp + 3 * p**3
