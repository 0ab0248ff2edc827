"""`arcs`: predicted activation arcs, the linear part by running sums, mispredicted neurons exactly.

Theorem (`math.md` §5, Arcs). Put the neurons in any order and let A(a,b) be any set of positions, given as arcs
[start, stop). With P_a[c,a,j] = Σ_{i<j} W_L[c,i] U_a[a,i], P_b alike, and pre_i = U_a[a,i] + U_b[b,i],

    Σ_i W_L[c,i] ReLU(pre_i) = Σ_{arcs} (P_a[c,a,·] + P_b[c,b,·]) between start and stop  +  Σ_{i∈M} ± W_L[c,i] pre_i

where M(a,b) holds the neurons that are active outside A (sign +) or not active inside A (sign -).

Proof. ReLU(pre_i) = pre_i when pre_i > 0 and 0 otherwise. The first sum is Σ_{i∈A} W_L[c,i] pre_i. Add the i outside A
with pre_i > 0, take away the i inside A with pre_i ≤ 0: every i now contributes W_L[c,i] ReLU(pre_i). ∎

All of it is done in integers, so every margin is exact whatever the arcs are: good arcs only make it cheap.

Cost, with F arc ends that are not 0 and Q mispredicted neurons, both summed over all p² inputs: `arcs_operations`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from quadlens.certify.integers import IntegerModel, integer_model, is_piecewise_linear
from quadlens.certify.margins import ExactAnswers, MarginTally
from quadlens.certify.operations import Operations
from quadlens.certify.order import Group, group_by_frequency
from quadlens.certify.proof import Proof, nothing_proved
from quadlens.model.exact import collapse_exactly
from quadlens.model.params import Model

# An arc end and a mispredicted neuron cost the same (two operations an answer), so a run of one neuron is cheaper as a
# misprediction (1) than as an arc (2 ends); a run of two costs the same either way and is left an arc.
SHORTEST_RUN = 2
# Certificates stay readable: past this many arc ends an input on average, short runs become mispredictions.
MAX_ENDS_PER_INPUT = 30


def arcs_operations(p: int, d_mlp: int, ends: int, mispredicted: int) -> int:
    """6 p² d_mlp + 3 p³ + 2 p F + (2 p + 1) Q: what `arcs` counts, F and Q over all inputs.

    Tables: 4 p² d_mlp. Signs: p² d_mlp comparisons of U_b[b,i] with -U_a[a,i]; arcs from signs: p² d_mlp comparisons of
    neighbours. Look-ups: 2 additions an end and answer. Mispredicted: pre_i once, then a product and a sum an answer.
    Skip terms 2 p³, margins p³.
    """
    return 6 * p**2 * d_mlp + 3 * p**3 + 2 * p * ends + (2 * p + 1) * mispredicted


@dataclass(frozen=True, eq=False)
class Arcs:
    """Predicted active sets of all inputs, as arc ends over positions in the order of the neurons.

    Attributes:
        row: Input of each end, a p + b, ascending.
        position: Where the arc starts or stops, 0 … d_mlp, ascending within an input; ends alternate start, stop.
        sign: -1 at a start, +1 at a stop: the sum over an arc is P[stop] - P[start].
    """

    row: Int[np.ndarray, " ends"]
    position: Int[np.ndarray, " ends"]
    sign: Int[np.ndarray, " ends"]

    def predicted(self, inputs: int, d_mlp: int) -> Bool[np.ndarray, "inputs d_mlp"]:
        """Whether each position lies in an arc."""
        flips = np.zeros((inputs, d_mlp + 1), dtype=bool)
        flips[self.row, self.position] = True
        return np.logical_xor.accumulate(flips, axis=1)[:, :-1]


@dataclass(frozen=True, eq=False)
class ArcHints:
    """The order of the neurons and the arcs.

    Attributes:
        groups: Frequency and neurons, in order around the circle.
        arcs: Predicted arcs of every input.
        inputs: p².
    """

    groups: tuple[Group, ...]
    arcs: Arcs
    inputs: int

    def to_json(self) -> dict[str, Any]:
        """Groups as {k, neurons}; arcs as one list of ends an input, row-major."""
        splits = np.searchsorted(self.arcs.row, np.arange(1, self.inputs))
        return {
            "clusters": [{"k": group.k, "neurons": group.neurons.tolist()} for group in self.groups],
            "arcs": [ends.tolist() for ends in np.split(self.arcs.position, splits)],
        }


@dataclass(frozen=True)
class ArcsStrategy:
    """Exact, for every piecewise linear model, at a fraction of brute force's cost when neurons form clusters."""

    name: str = "arcs"

    def prove(self, model: Model) -> Proof:
        """Certify exactly the inputs the model answers right, with the true smallest margin."""
        if not is_piecewise_linear(model.config.activation):
            return nothing_proved(
                self.name,
                model.config.p,
                f"arcs need a piecewise linear activation (relu, abs); this model has {model.config.activation}: "
                "use --strategy brute",
            )
        ops = Operations()
        exact = integer_model(collapse_exactly(model))
        groups = group_by_frequency(model.collapse())
        answers, arcs = arc_answers(exact, np.concatenate([group.neurons for group in groups]), ops)
        return Proof(
            strategy=self.name,
            certified=answers.right,
            margin=answers.smallest_margin,
            exact=True,
            witnesses=answers.witnesses,
            hints=ArcHints(groups, arcs, exact.p**2),
            operations=ops,
            reason=answers.reason,
        )


def arc_answers(model: IntegerModel, order: Int[np.ndarray, " d_mlp"], ops: Operations) -> tuple[ExactAnswers, Arcs]:
    """Exact margins of all inputs by the theorem above, with arcs that fit the true signs."""
    p = model.p
    U_a, U_b, W_L = model.U_a[:, order], model.U_b[:, order], model.W_L[:, order]
    active = ops.greater(U_b[None, :, :], -U_a[:, None, :]).reshape(p * p, model.d_mlp)
    arcs = arcs_from_signs(active, ops)
    wrong = active ^ arcs.predicted(p * p, model.d_mlp)
    row, neuron = np.nonzero(wrong)
    # + where an active neuron was left out, - where an inactive one was taken in.
    pre = ops.add(U_a[row // p, neuron], U_b[row % p, neuron]) * np.where(active[row, neuron], 1, -1)
    inner = np.flatnonzero(arcs.position > 0)
    end_row, end_at, end_sign = arcs.row[inner], arcs.position[inner], arcs.sign[inner]
    tally = MarginTally(p, ops)
    for c in range(p):
        P_a = ops.running_sum(ops.multiply(U_a, W_L[c][None, :]))
        P_b = ops.running_sum(ops.multiply(U_b, W_L[c][None, :]))
        linear = ops.add(P_a[end_row // p, end_at], P_b[end_row % p, end_at]) * end_sign
        hidden = ops.sum_groups(linear, end_row, p * p)
        correction = ops.sum_groups(ops.multiply(pre, W_L[c, neuron]), row, p * p)
        # Where an input has mispredictions the two sums join at no extra count: `sum_groups` counted every entry once.
        hidden = (hidden + correction).reshape(p, p)
        tally.take(c, ops.add(ops.add(hidden, model.S_a[:, c][:, None]), model.S_b[:, c][None, :]))
    return tally.answers(model.shift), arcs


def arcs_from_signs(active: Bool[np.ndarray, "inputs d_mlp"], ops: Operations) -> Arcs:
    """Arcs that follow the runs of active neurons, runs shorter than `SHORTEST_RUN` left out or swallowed."""
    inputs, d_mlp = active.shape
    padded = np.zeros((inputs, d_mlp + 2), dtype=bool)
    padded[:, 1:-1] = active
    flips = padded[:, 1:] ^ padded[:, :-1]
    ops.comparisons += active.size
    row, position = np.nonzero(flips)
    splits = np.searchsorted(row, np.arange(inputs + 1))
    ends_of = [position[splits[n] : splits[n + 1]].tolist() for n in range(inputs)]
    shortest = SHORTEST_RUN
    kept = [_without_short_runs(ends, shortest) for ends in ends_of]
    while sum(map(len, kept)) > MAX_ENDS_PER_INPUT * inputs:
        shortest += 1
        kept = [_without_short_runs(ends, shortest) for ends in ends_of]
    counts = np.array([len(ends) for ends in kept], dtype=np.int64)
    flat = np.array([end for ends in kept for end in ends], dtype=np.int64)
    sign = np.array([1 if n % 2 else -1 for ends in kept for n in range(len(ends))], dtype=np.int64)
    return Arcs(np.repeat(np.arange(inputs), counts), flat, sign)


def _without_short_runs(ends: list[int], shortest: int) -> list[int]:
    """Drop neighbouring ends closer than `shortest`: both vanish together, so ends stay alternating."""
    kept: list[int] = []
    for end in ends:
        if kept and end - kept[-1] < shortest:
            kept.pop()
        else:
            kept.append(end)
    return kept
