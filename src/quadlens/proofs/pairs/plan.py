"""Which neurons are active on which input, as arcs with corrections, and sums by them.

For any set A(a,b) of positions, given as arcs [start, stop) over the neurons in some order, and any
weights v_i,

    Σ_i v_i ReLU(pre_i) = Σ_arcs (P[stop] - P[start])  +  Σ_{i mispredicted} v_i |pre_i|,
    P[j] = Σ_{i<j} v_i pre_i.

Proof. The first sum is Σ_{i∈A} v_i pre_i. An i outside A with pre_i > 0 is missing pre_i = |pre_i|;
an i inside A with pre_i ≤ 0 must lose pre_i = -|pre_i|. These are the mispredicted ones; with them
every i contributes v_i ReLU(pre_i). ∎

P splits into a table for a and a table for b, because pre_i(a,b) = U_a[a,i] + U_b[b,i].
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from quadlens.analysis.spectrum.amplitude_phase import AmplitudePhase
from quadlens.base.display import short

# An arc end and a mispredicted neuron cost the same (two operations a sum), so a run of one neuron
# is cheaper as a misprediction (1) than as an arc (2 ends); a run of two costs the same either way
# and is left an arc.
SHORTEST_RUN = 2
# Certificates stay readable: past this many arc ends an input on average, short runs become
# mispredictions.
MAX_ENDS_PER_INPUT = 30
BLOCK_BYTES = 1 << 25


@short
@dataclass(frozen=True, eq=False)
class ArcPlan:
    """Predicted arcs and mispredicted neurons of all inputs (a, b).

    a is among some rows of U_a and b among all of U_b.

    Attributes:
        p: Number of tokens b; input n is a = n // p, b = n % p.
        inputs: Number of inputs.
        end_row: Input of each arc end, ascending.
        end: Position of each arc end, 0 … d_mlp, ascending within an input; ends alternate start,
            stop.
        wrong_row: Input of each mispredicted neuron, ascending.
        wrong: Position of each mispredicted neuron.
    """

    p: int
    inputs: int
    end_row: Int[np.ndarray, " ends"]
    end: Int[np.ndarray, " ends"]
    wrong_row: Int[np.ndarray, " wrong"]
    wrong: Int[np.ndarray, " wrong"]

    @property
    def counted_ends(self) -> int:
        """Ends that cost a look-up: P[0] = 0 does not."""
        return int(np.count_nonzero(self.end))

    def signed_ends(
        self,
    ) -> tuple[Int[np.ndarray, " inner"], Int[np.ndarray, " inner"], Int[np.ndarray, " inner"]]:
        """Return input, position and sign of each end not at 0: -1 at a start, 1 at a stop."""
        inner = np.flatnonzero(self.end)
        row = self.end_row[inner]
        first = np.searchsorted(self.end_row, np.arange(self.inputs))
        return row, self.end[inner], np.where((inner - first[row]) % 2 == 0, -1, 1)

    @property
    def mispredicted(self) -> int:
        """Corrections, over all inputs."""
        return len(self.wrong)


@dataclass(frozen=True, eq=False)
class Signs:
    """The sign of every pre-activation, exactly, as an order of small integers.

    pre_i > 0 exactly when U_b[b,i] > -U_a[a,i], so only the order of the numbers matters: each
    U_b[:,i] is replaced by its rank and each -U_a[a,i] by how many U_b[:,i] it is at least. Then p²
    d_mlp small integers are compared.

    Attributes:
        rank: Of U_b[b,i] among all b.
        threshold: pre_i(a,b) > 0 exactly when rank[b,i] ≥ threshold[a,i].
    """

    rank: Int[np.ndarray, "p d_mlp"]
    threshold: Int[np.ndarray, "tokens d_mlp"]

    @classmethod
    def of(
        cls, U_a: Shaped[np.ndarray, "tokens d_mlp"], U_b: Shaped[np.ndarray, "p d_mlp"]
    ) -> "Signs":
        """Sort each column of U_b once; Python integers and floats are compared exactly."""
        order = np.argsort(U_b, axis=0, kind="stable")
        rank = np.empty(U_b.shape, dtype=np.int16 if len(U_b) < 1 << 15 else np.int64)
        np.put_along_axis(rank, order, np.arange(len(U_b), dtype=rank.dtype)[:, None], axis=0)
        ascending = np.take_along_axis(U_b, order, axis=0).T.copy()
        threshold = np.empty(U_a.shape, dtype=rank.dtype)
        for i, column in enumerate(ascending):
            threshold[:, i] = np.searchsorted(column, -U_a[:, i], side="right")
        return cls(rank, threshold)

    def comparisons(self) -> int:
        """Count the comparisons that ranks and thresholds take, neuron after neuron.

        Neighbours have nearly the same order of tokens: each is sorted by insertion from the one
        before it, p - 1 comparisons and one for each pair that changes places, or anew, p ⌈log₂ p⌉;
        each threshold is looked for from the one before, 2 comparisons and one for each step, or by
        halves.
        """
        (p, d_mlp), half = self.rank.shape, math.ceil(math.log2(len(self.rank))) + 1
        later, total = np.triu(np.ones((p, p), dtype=bool), 1), 0
        for i in range(d_mlp):
            swaps, steps = p * p, np.full(len(self.threshold), p)
            if i:
                now = self.rank[np.argsort(self.rank[:, i - 1]), i]
                swaps = int(np.count_nonzero((now[:, None] > now) & later))
                steps = np.abs(self.threshold[:, i].astype(np.int64) - self.threshold[:, i - 1])
            total += min(p - 1 + swaps, p * (half - 1)) + int(np.minimum(steps + 2, half).sum())
        return total

    def plan(self, start: int, stop: int) -> ArcPlan:
        """Follow the runs of active neurons for the tokens a = start … stop - 1 and all b."""
        p, d_mlp = self.rank.shape
        block = max(1, BLOCK_BYTES // (p * d_mlp))
        rows, positions = [], []
        for first in range(start, stop, block):
            threshold = self.threshold[first : min(first + block, stop), None, :]
            active = np.asarray(self.rank[None, :, :] > threshold - 1, dtype=bool).reshape(
                -1, d_mlp
            )
            row, position = _flips(active)
            rows.append(row + (first - start) * p)
            positions.append(position)
        return _compressed(
            p, (stop - start) * p, d_mlp, np.concatenate(rows), np.concatenate(positions)
        )

    def plan_by_sets(self) -> ArcPlan:
        """Make the plan of all inputs by sets, without a comparison for each sign.

        The b for which neuron i is active with a are those of the largest ranks, a set that is one
        integer of p bits; p unions make all such sets of a neuron, and one exclusive or per a and
        neuron says which b flip.
        """
        (p, d_mlp), tokens = self.rank.shape, len(self.threshold)
        rows, positions, before = [], [], [0] * tokens
        for i in range(d_mlp + 1):
            now = [0] * tokens
            if i < d_mlp:
                sets = [0] * (p + 1)
                for t, b in reversed(list(enumerate(np.argsort(self.rank[:, i]).tolist()))):
                    sets[t] = sets[t + 1] | 1 << b
                now = [sets[t] for t in self.threshold[:, i].tolist()]
            for a, (old, new) in enumerate(zip(before, now, strict=True)):
                flips = old ^ new
                while flips:
                    rows.append(a * p + (flips & -flips).bit_length() - 1)
                    positions.append(i)
                    flips &= flips - 1
            before = now
        row, position = np.array(rows, dtype=np.int64), np.array(positions, dtype=np.int64)
        order = np.lexsort((position, row))
        return _compressed(p, tokens * p, d_mlp, row[order], position[order])


def plan_arcs(
    U_a: Shaped[np.ndarray, "tokens d_mlp"], U_b: Shaped[np.ndarray, "p d_mlp"]
) -> ArcPlan:
    """Arcs and corrections for all inputs at once."""
    return Signs.of(U_a, U_b).plan(0, len(U_a))


def _flips(
    active: Bool[np.ndarray, "rows d_mlp"],
) -> tuple[Int[np.ndarray, " flips"], Int[np.ndarray, " flips"]]:
    """Return row and position where a run of active neurons starts or stops.

    The position is d_mlp where the last neuron is active.
    """
    rows, d_mlp = active.shape
    flips = np.empty((rows, d_mlp + 1), dtype=bool)
    flips[:, 0] = active[:, 0]
    flips[:, -1] = active[:, -1]
    np.not_equal(active[:, 1:], active[:, :-1], out=flips[:, 1:-1])
    return np.divmod(np.flatnonzero(flips), d_mlp + 1)


def _compressed(
    p: int,
    inputs: int,
    d_mlp: int,
    row: Int[np.ndarray, " flips"],
    position: Int[np.ndarray, " flips"],
) -> ArcPlan:
    """Turn short runs into mispredictions, the shortest first, until few enough arc ends are left.

    Taking away two neighbouring ends mispredicts exactly the positions between them, and a position
    is mispredicted when an odd number of removed ends is at or before it: between the 1st and 2nd,
    the 3rd and 4th, … removed.
    """
    kept = np.ones(len(row), dtype=bool)
    shortest = SHORTEST_RUN
    while True:
        left = np.flatnonzero(kept)
        key = row[left] * (d_mlp + 1 + shortest) + position[left]
        kept[left] = _without_short_runs(key, shortest)
        if np.count_nonzero(kept) <= MAX_ENDS_PER_INPUT * inputs:
            break
        shortest += 1
    removed = np.flatnonzero(~kept).reshape(-1, 2)
    first, lengths = position[removed[:, 0]], position[removed[:, 1]] - position[removed[:, 0]]
    offsets = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return ArcPlan(
        p=p,
        inputs=inputs,
        end_row=row[kept],
        end=position[kept],
        wrong_row=np.repeat(row[removed[:, 0]], lengths),
        wrong=np.repeat(first, lengths) + offsets,
    )


def _without_short_runs(key: Int[np.ndarray, " ends"], shortest: int) -> Bool[np.ndarray, " ends"]:
    """Say which ends to keep: pairs closer than `shortest` vanish from the left.

    An odd one of a chain stays.
    """
    if not len(key):
        return np.zeros(0, dtype=bool)
    index = np.arange(len(key))
    close = np.concatenate([[False], np.diff(key) < shortest])
    chain_start = np.maximum.accumulate(np.where(close, 0, index))
    last = np.concatenate([~close[1:], [True]])
    return last & ((index - chain_start) % 2 == 0)


def hidden_sums(
    weights: Shaped[np.ndarray, " d_mlp"],
    U_a: Shaped[np.ndarray, "tokens d_mlp"],
    U_b: Shaped[np.ndarray, "p d_mlp"],
    plan: ArcPlan,
    sizes: Shaped[np.ndarray, " wrong"],
) -> Shaped[np.ndarray, " inputs"]:
    """Return Σ_i weights[i] ReLU(pre_i) of every input, by the formula above.

    Args:
        weights: v_i, in the order of the plan.
        U_a: What a adds to the pre-activations, for the tokens of the plan.
        U_b: What b adds.
        plan: Arcs and mispredicted neurons.
        sizes: |pre_i| of the mispredicted neurons, from `correction_sizes`.
    """
    P_a = running_sum(U_a * weights[None, :])
    P_b = running_sum(U_b * weights[None, :])
    row, at, sign = plan.signed_ends()
    linear = (P_a[row // plan.p, at] + P_b[row % plan.p, at]) * sign
    corrections = weights[plan.wrong] * sizes
    return sum_groups(linear, row, plan.inputs) + sum_groups(
        corrections, plan.wrong_row, plan.inputs
    )


def running_sum(x: Shaped[np.ndarray, "rows n"]) -> Shaped[np.ndarray, "rows n_plus_1"]:
    """Sums of the first 0, 1, …, n entries of each row."""
    sums = np.zeros((x.shape[0], x.shape[1] + 1), dtype=x.dtype)
    np.add.accumulate(x, axis=1, out=sums[:, 1:])
    return sums


def sum_groups(
    x: Shaped[np.ndarray, " n"], group: Shaped[np.ndarray, " n"], groups: int
) -> Shaped[np.ndarray, " groups"]:
    """Sums of the entries of each group, for group numbers in ascending order."""
    sums = np.zeros(groups, dtype=x.dtype)
    if len(x):
        starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
        sums[group[starts]] = np.add.reduceat(x, starts)
    return sums


def correction_sizes(
    U_a: Shaped[np.ndarray, "tokens d_mlp"], U_b: Shaped[np.ndarray, "p d_mlp"], plan: ArcPlan
) -> Shaped[np.ndarray, " wrong"]:
    """|pre_i| of every mispredicted neuron: one addition each."""
    pre = U_a[plan.wrong_row // plan.p, plan.wrong] + U_b[plan.wrong_row % plan.p, plan.wrong]
    return np.abs(pre)


@short
@dataclass(frozen=True, eq=False)
class NeuronGroup:
    """Neurons that read the same frequency, in order of their input phase φ.

    Attributes:
        k: The frequency.
        neurons: Their indices.
    """

    k: int
    neurons: Int[np.ndarray, " n"]


def group_by_signs(pre: Float[np.ndarray, "inputs d_mlp"]) -> tuple[NeuronGroup, ...]:
    """Chain all neurons by the likeness of their signs, as one group.

    It is for a model without frequencies.
    """
    signs = np.where(pre > 0, 1.0, -1.0)
    alike, left = signs.T @ signs, np.ones(pre.shape[1], dtype=bool)
    chain = [0]
    for _ in range(1, len(left)):
        left[chain[-1]] = False
        chain.append(int(np.argmax(np.where(left, alike[chain[-1]], -np.inf))))
    return (NeuronGroup(1, np.array(chain)),)


def group_by_frequency(spectrum: AmplitudePhase) -> tuple[NeuronGroup, ...]:
    """Put every neuron in one group, by the frequency of its input.

    That alone decides when it is active.

    Neurons of one group are close to copies of one function of the angle k w (a + b)/2 + φ
    (`math.md` §5), so in this order the active ones form few arcs.
    """
    k_in = spectrum.primary
    _, phi = spectrum.at(k_in)
    groups = []
    for k in np.unique(k_in):
        members = np.flatnonzero(k_in == k)
        groups.append(NeuronGroup(int(k), members[np.argsort(phi[members], kind="stable")]))
    return tuple(groups)


def order_of(groups: tuple[NeuronGroup, ...]) -> Int[np.ndarray, " d_mlp"]:
    """The neurons of all groups, one group after the other."""
    return np.concatenate([group.neurons for group in groups])


@short
@dataclass(frozen=True, eq=False)
class ArcHints:
    """The order of the neurons and the arcs.

    Attributes:
        groups: Frequency and neurons, in order around the circle.
        plan: Predicted arcs of every input; the checker finds the mispredicted neurons itself.
    """

    groups: tuple[NeuronGroup, ...]
    plan: ArcPlan

    @property
    def order(self) -> Int[np.ndarray, " d_mlp"]:
        """All neurons, in the order of the arcs."""
        return order_of(self.groups)

    def to_json(self) -> dict[str, Any]:
        """Groups as {k, neurons}; arcs as one list of ends an input, row-major."""
        splits = np.searchsorted(self.plan.end_row, np.arange(1, self.plan.inputs))
        return {
            "clusters": [
                {"k": group.k, "neurons": group.neurons.tolist()} for group in self.groups
            ],
            "arcs": [ends.tolist() for ends in np.split(self.plan.end, splits)],
        }
