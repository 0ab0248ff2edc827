"""Every logit exactly, by running sums over arcs of active neurons (`arcs`)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul
from typing import Any

from quadlens_checker.collapse import Model, with_relu
from quadlens_checker.matrices import Rows, field_size, halves, largest, packed, unpacked
from quadlens_checker.reading import Clock, integers, keys, require, ticking

HIGHEST_BIT = bytes(n >> 7 for n in range(256))
AT_ONCE = 16  # functions of which running sums are kept at a time


@dataclass(frozen=True)
class ScoreBounds:
    """What a strategy proves of the logits of every input.

    rows: for each input, a = 0 … p-1 and for each a all b, a score of each answer and a loss, all
    over 2^shift: for any two answers the difference of their logits is that of their scores, but
    for the loss at most.
    """

    rows: Iterator[tuple[Sequence[int], int]]
    shift: int


@dataclass(frozen=True)
class Plan:
    """The arcs of each input, and its mispredicted neurons with |pre-activation|.

    An arc's start is listed unless it is 0; its stop always.
    """

    starts: Rows
    stops: Rows
    wrong: list[list[tuple[int, int]]]


def in_order(model: Model, clusters: Any) -> Model:
    """The model with its neurons in the order of the hints."""
    order: list[int] = []
    for cluster in clusters:
        integers([keys(cluster, ("k", "neurons"), "a cluster")["k"]], "k", 1, 1, model.p // 2)
        order += integers(cluster["neurons"], "neurons", None, 0, model.d_mlp - 1)
    require(
        sorted(order) == list(range(model.d_mlp)),
        "the clusters do not hold every neuron exactly once",
    )
    U_a, U_b, W_L = (
        [[row[i] for i in order] for row in M] for M in (model.U_a, model.U_b, model.W_L)
    )
    return replace(model, U_a=U_a, U_b=U_b, W_L=W_L)


def read_plan(model: Model, arcs: Any, clock: Clock) -> Plan:
    """Compare the arcs of the hints with the true sign of each pre-activation.

    The neurons are in order.

    All pre-activations x of an input are fields of one integer; x - 1 plus half a field has its
    highest bit exactly when x > 0.
    """
    p, d_mlp, plan = model.p, model.d_mlp, Plan([], [], [])
    require(len(arcs) == p * p, "there is not one list of arcs per input")
    size = field_size(largest(model.U_a) + largest(model.U_b))
    top, ones = halves(d_mlp, size), packed([1] * d_mlp, size)
    A, B = (
        [packed(row, size) + top - ones for row in model.U_a],
        [packed(row, size) for row in model.U_b],
    )
    for n, ends in enumerate(ticking(arcs, clock)):
        integers(ends, "arcs", None, 0, d_mlp)
        require(len(ends) % 2 == 0 and ends == sorted(set(ends)), "arcs are not in ascending order")
        predicted, (a, b) = bytearray(d_mlp), divmod(n, p)
        for start, stop in zip(ends[::2], ends[1::2], strict=True):
            predicted[start:stop] = b"\1" * (stop - start)
        active = (
            (A[a] + B[b]).to_bytes(size * d_mlp, "little")[size - 1 :: size].translate(HIGHEST_BIT)
        )
        wrong = (
            [i for i, (x, y) in enumerate(zip(active, predicted, strict=True)) if x != y]
            if active != predicted
            else []
        )
        plan.wrong.append([(i, abs(model.U_a[a][i] + model.U_b[b][i])) for i in wrong])
        plan.starts.append([end for end in ends[::2] if end])
        plan.stops.append(ends[1::2])
    return plan


def hidden_sums(functions: Rows, model: Model, plan: Plan, clock: Clock) -> Iterator[list[int]]:
    """Return Σ_i w[i] ReLU(pre_i(a,b)) for every input and each row w of `functions`.

    The sums are exact, by running sums over the arcs.

    A neuron left out although active adds its pre-activation, |pre|; one taken in although pre ≤ 0
    must lose pre, which adds |pre| too. So every mispredicted neuron contributes + weight · |pre|.
    Functions are fields of one integer.
    """
    size = field_size(largest(model.U_a) + largest(model.U_b), largest(functions), model.d_mlp)
    parts = [functions[n : n + AT_ONCE] for n in range(0, len(functions), AT_ONCE)]
    sums = [
        packed_sums([packed(w, size) for w in zip(*part, strict=True)], model, plan, clock)
        for part in parts
    ]
    for n in range(len(plan.wrong)):
        yield [
            x
            for part, fields in zip(parts, sums, strict=True)
            for x in unpacked(fields[n], len(part), size)
        ]


def packed_sums(weights: list[int], model: Model, plan: Plan, clock: Clock) -> list[int]:
    """Σ_i weights[i] ReLU(pre_i(a,b)) for every input."""
    P_a, P_b = (
        [list(accumulate(map(mul, weights, row), initial=0)) for row in ticking(U, clock)]
        for U in (model.U_a, model.U_b)
    )
    sums = []
    for n, (starts, stops, wrong) in enumerate(
        ticking(zip(plan.starts, plan.stops, plan.wrong, strict=True), clock)
    ):
        x, y = P_a[n // model.p], P_b[n % model.p]
        linear = sum([x[j] + y[j] for j in stops]) - sum([x[j] + y[j] for j in starts])
        sums.append(linear + sum([weights[i] * size for i, size in wrong]))
    return sums


def low_rank_scores(
    model: Model, basis: Rows, weights: Rows, residual: list[int], plan: Plan, clock: Clock
) -> Iterator[tuple[list[int], int]]:
    """For each input Σ_f basis[f][c] h_f + S_a + S_b for every c, and ρ.

    h_f = Σ_i weights[f][i] ReLU(pre_i), and ρ is the same sum with `residual`.
    """
    p, of_h = model.p, (largest(model.U_a) + largest(model.U_b), largest(weights), model.d_mlp)
    size = field_size(
        *of_h, largest(basis), len(basis), plus=largest(model.S_a) + largest(model.S_b)
    )
    S_a, S_b, functions = ([packed(row, size) for row in M] for M in (model.S_a, model.S_b, basis))
    for n, (*h, rho) in enumerate(
        ticking(hidden_sums([*weights, residual], model, plan, clock), clock)
    ):
        yield unpacked(sum(map(mul, h, functions), S_a[n // p] + S_b[n % p]), p, size), rho


def by_arcs(model: Model, hints: Any, clock: Clock) -> ScoreBounds:
    """Every logit exactly, from the arcs."""
    keys(hints, ("clusters", "arcs"), "hints")
    p, model = model.p, in_order(with_relu(model), hints["clusters"])
    plan = read_plan(model, hints["arcs"], clock)
    hidden = enumerate(ticking(hidden_sums(model.W_L, model, plan, clock), clock))
    logits = (
        [x + s + t for x, s, t in zip(row, model.S_a[n // p], model.S_b[n % p], strict=True)]
        for n, row in hidden
    )
    return ScoreBounds(((row, 0) for row in logits), model.shift)
