"""Count the right and the wrong words of cells that no box decides, by hyperplanes.

On the box of some cells of one own token and answer let φ(r) = Σ_k g_k r_k, g being about the
margin's gradient where the margin is 0. Bounds of margin - φ over the box, in pieces, give two
numbers: where φ ≥ `right` the margin is at least what is claimed, and where φ ≤ `wrong` it is
negative. Head h of a word has r_h = N_h / E_h; with any ρ_h, c_h > 0 and S_h = g_h · N_h - ρ_h E_h,

    φ - Σ_h ρ_h = Σ_h S_h / E_h = T + Σ_h (S_h / E_h) (1 - c_h E_h),     T = Σ_h c_h S_h,

where T has one term per letter. Let |1 - c_h E_h| ≤ δ_h on all words of the cells. Then φ ≥ right
if T ≥ right - ρ + e, with ρ = Σ_h ρ_h and e = Σ_h δ_h max |g_h · r_h - ρ_h| over the box; or e = δ
|right - ρ| where there is one head, since then φ - ρ ≥ θ is T ≥ θ c E. Terms of free letters are
rounded down to whole bins, and words are counted by the sum of bins, exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import count as numbers
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from quadlens.network.sequence_task import SequenceTask
from quadlens.proofs.long_work import is_over
from quadlens.proofs.sequences.attack import margin_gradient, point_margins
from quadlens.proofs.sequences.cells import Cells
from quadlens.proofs.sequences.decide import StepProof
from quadlens.proofs.sequences.interval import Interval
from quadlens.proofs.sequences.leaves import (
    COUNTED,
    GRAIN,
    OPEN,
    WRONG,
    CellGroup,
    Hyperplane,
    Leaf,
    bisect,
    halves,
)
from quadlens.proofs.sequences.reach import holds, shortest_paths
from quadlens_checker.limits import MAX_BINS

BINS = 6000
# Sums of whole bins beyond this are no longer exact as floats.
FARTHEST = 2.0**52
# Of a bin: what roundings of terms, here and in a checker, may be off by, and far more.
SLACK = 1e-6
# Denominators below this are as good as none: their inverses would be no numbers.
TINY = 2.0**-900
# Sets of cells that are counted at once while looking for where to cut, and in all; what may stay
# undecided.
AT_ONCE, MOST_COUNTED, ENOUGH = 32, 1000, 0.02
# Points on each side along a gradient; rounds of bisection of a box, pieces of one, the share of
# φ's range that they are for, and the share that is left to a checker.
ALONG, ROUNDS, MOST_PIECES, SHARP, ROOM = 32, 12, 192, 0.002, 0.001


@dataclass(eq=False)
class CellSet:
    """Cells of one group with one right answer, to be decided together.

    `slope` is the hyperplane's slope of a larger set that these cells are part of. It is None where
    counting by that slope was of no use.
    """

    step: StepProof
    group: CellGroup
    members: Int[np.ndarray, " n"]
    slope: tuple[float, ...] | None = None

    @cached_property
    def box(self) -> Interval:
        """Return the smallest box that holds the boxes of all cells."""
        return self.group.boxes.hull(self.members)

    @property
    def cells(self) -> Cells:
        return self.group.cells.of(self.members)

    @property
    def answer(self) -> int:
        """Return the right answer of the cells."""
        return int(self.group.cells.answer[self.members[0]])

    @cached_property
    def words(self) -> int:
        """Count the words of the cells."""
        task, cells = self.step.network.task, self.cells
        begun = np.bincount(cells.state, minlength=task.states[cells.first]).tolist()
        ways = zip(begun, task.words_to[cells.first], strict=True)
        return sum(n * words for n, words in ways) * task.words_from[cells.last]


class WordCounter:
    """Counts the right and the wrong words of one step by hyperplanes."""

    def __init__(self, step: StepProof) -> None:
        self.step, self.task = step, step.network.task
        self.bits = -(-(self.task.inputs.bit_length() + 1) // 8) * 8
        self._ranges: dict[tuple[int, int, int], Any] = {}

    def denominators(self, cell_set: CellSet) -> Float[np.ndarray, "2 h"]:
        """Return bounds of each head's denominator Σ_j w_j over all words of the cells."""
        cells, step = cell_set.cells, self.step
        key = (cells.own, cells.first, cells.last)
        if key not in self._ranges:
            sides = []
            for head in range(step.network.config.n_heads):
                E = [
                    table[cells.own, ..., head]
                    for table in (*step.tables.E, step.tables.E_constant)
                ]
                none = [Interval.zeros(*part.shape) for part in E]
                ends = (E, [-part for part in E])
                sides.append([shortest_paths(self.task, N, none, np.zeros(1), cells) for N in ends])
            self._ranges[key] = sides
        least_sums = np.empty((2, len(self._ranges[key])))
        for head, sides in enumerate(self._ranges[key]):
            window = cells.E[:, head]
            for place, (paths, own) in enumerate(zip(sides, (window.lo, -window.hi), strict=True)):
                sums = paths.low[cells.state, 0] + own + paths.up[cells.after, 0]
                least_sums[place, head] = (sums - 2.0**-40 * np.abs(sums)).min()
        return np.stack([least_sums[0], -least_sums[1]])

    def words(self, cell_set: CellSet, plane: Hyperplane) -> tuple[int, int]:
        """Count words by a hyperplane: (wrong at least, not proved right at most)."""
        step, cells, heads = self.step, cell_set.cells, self.step.network.heads
        slope, at = np.array(plane.slope), np.array(plane.at)
        E = self.denominators(cell_set)
        if not (E[0] > TINY).all():
            return 0, cell_set.words
        scale = 2.0 / (E[0] + E[1])
        delta = (
            np.maximum(np.abs(1 - scale * E[0]), np.abs(1 - scale * E[1])) * (1 + 2.0**-40)
            + 2.0**-40
        )
        if len(at) == 1:
            errors = [float(delta[0]) * abs(theta - at[0]) for theta in (plane.right, plane.wrong)]
        else:
            errors = [float((delta * self._reach(cell_set, slope, at)).sum())] * 2
        slack = 2.0**-30 * (
            np.abs(slope).sum() * np.abs(cell_set.box.lo + cell_set.box.hi).max(initial=0)
            + np.abs(at).sum()
        )
        rho = float(at.sum())
        right, wrong = plane.right - rho + errors[0] + slack, plane.wrong - rho - errors[1] - slack

        def summed_terms(N: Interval, E: Interval) -> Interval:
            total = Interval.exactly(np.zeros(N.shape[:-1]))
            for head in range(len(at)):
                S = -(Interval.exactly(at[head : head + 1]) * E[..., head])
                for k in np.flatnonzero(heads == head):
                    S = S + Interval.exactly(slope[k : k + 1]) * N[..., k]
                total = total + S.scaled(float(scale[head]))
            return total

        tables, own = step.tables, cells.own
        free = [*range(cells.first), *range(cells.last, self.task.letters)]
        terms = {n: summed_terms(tables.N[n][own], tables.E[n][own]) for n in free}
        seen = sum(bool(tables.E[n].hi[own].any()) for n in free)
        window = summed_terms(cells.N, cells.E) + summed_terms(
            tables.N_constant[own], tables.E_constant[own]
        )
        low = {
            n: np.floor(np.where(term.hi == 0, term.lo, term.lo - SLACK * plane.bin) / plane.bin)
            for n, term in terms.items()
        }
        high = {n: np.floor((term.hi + SLACK * plane.bin) / plane.bin) for n, term in terms.items()}
        same = all((low[n] == high[n]).all() for n in free)
        at_least, at_most = (
            (right - window.lo) / plane.bin + SLACK,
            (wrong - window.hi) / plane.bin - SLACK,
        )
        near = all(
            (np.abs(bins) < FARTHEST).all()
            for bins in (*low.values(), *high.values(), at_least, at_most)
        )
        # Where letters move sums far, and against each other, a checker has no room.
        if not near or any(
            sum(np.ptp(bins) for bins in side.values()) >= MAX_BINS - 1 for side in (low, high)
        ):
            return 0, cell_set.words
        spread_low = BinHistogram(self.task, low, cells.first, cells.last, self.bits)
        spread_high = (
            spread_low
            if same
            else BinHistogram(self.task, high, cells.first, cells.last, self.bits)
        )
        good, bad, ways = 0, 0, self.task.words_from[cells.last]
        ends = (
            np.ceil(at_least).astype(np.int64).tolist(),
            np.floor(at_most).astype(np.int64).tolist(),
        )
        for state, after, least, most in zip(
            cells.state.tolist(), cells.after.tolist(), *ends, strict=True
        ):
            good += spread_low.from_on(state, after, least)
            words = self.task.words_to[cells.first][state] * ways
            bad += words - spread_high.from_on(state, after, most - seen + 1)
        return bad, cell_set.words - good

    def _reach(
        self, cell_set: CellSet, slope: Float[np.ndarray, " k"], at: Float[np.ndarray, " h"]
    ) -> Float[np.ndarray, " h"]:
        """Bound |g_h · r_h - ρ_h| from above over the box, for each head h."""
        ends = np.stack([slope * cell_set.box.lo, slope * cell_set.box.hi])
        heads = self.step.network.heads
        low, high = (
            np.bincount(heads, end, len(at)) - at for end in (ends.min(axis=0), ends.max(axis=0))
        )
        return np.maximum(np.abs(low), np.abs(high)) * (1 + 2.0**-40)


class BinHistogram:
    """A histogram of words by the sum of their free letters' bins.

    It keeps one integer per state, with `bits` bits per bin.
    """

    def __init__(
        self,
        task: SequenceTask,
        bins: dict[int, Float[np.ndarray, "s a"]],
        first: int,
        last: int,
        bits: int,
    ) -> None:
        """Add up the letters before `first` and those from `last` on."""
        self.bits, self.offset, self.bins, self._sums = (
            bits,
            0,
            1,
            dict[tuple[int, int], list[int]](),
        )
        low, up = {0: 1}, dict.fromkeys(range(task.states[-1]), 1)
        for letter in range(first):
            after: dict[int, int] = {}
            for state, to, shift, many in self._edges(task, letter, bins[letter]):
                if state in low:
                    after[to] = after.get(to, 0) + (many * low[state] << bits * shift)
            low = after
        for letter in range(task.letters - 1, last - 1, -1):
            before: dict[int, int] = {}
            for state, to, shift, many in self._edges(task, letter, bins[letter]):
                before[state] = before.get(state, 0) + (many * up[to] << bits * shift)
            up = before
        self.low, self.up = low, up

    def _edges(
        self, task: SequenceTask, letter: int, bins: Float[np.ndarray, "s a"]
    ) -> list[list[int]]:
        """List (state before, state after, bins above the smallest, number of letters)."""
        smallest = int(bins.min())
        self.offset, self.bins = self.offset + smallest, self.bins + int(bins.max()) - smallest
        states = np.broadcast_to(np.arange(len(bins))[:, None], bins.shape)
        rows = np.stack(
            [states, task.next[letter], bins.astype(np.int64) - smallest], axis=2
        ).reshape(-1, 3)
        edges, many = np.unique(rows, axis=0, return_counts=True)
        return np.concatenate([edges, many[:, None]], axis=1).tolist()

    def from_on(self, state: int, after: int, least: int) -> int:
        """Count the words between two states whose sum is at least so many bins."""
        if (state, after) not in self._sums:
            size = self.bits // 8
            together = (self.low[state] * self.up[after]).to_bytes(size * self.bins, "little")
            totals, total = [0], 0
            for i in range(self.bins - 1, -1, -1):
                total += int.from_bytes(together[size * i : size * (i + 1)], "little")
                totals.append(total)
            self._sums[state, after] = totals[::-1]
        sums = self._sums[state, after]
        return sums[min(max(least - self.offset, 0), self.bins)]


def fit_planes(sets: list[CellSet], target: float) -> list[Hyperplane]:
    """Fit one hyperplane to each set of cells of one step, without counting words."""
    step = sets[0].step
    network = step.network
    boxes = Interval.stack([subset.box for subset in sets])
    own, answers = (
        np.array([subset.group.cells.own for subset in sets]),
        np.array([subset.answer for subset in sets]),
    )
    slope, points = np.empty(boxes.shape), np.empty(boxes.shape)
    for i, subset in enumerate(sets):
        points[i], slope[i] = _zero_of_margin(subset)
        slope[i] = slope[i] if subset.slope is None else subset.slope
    slope = np.rint(slope / GRAIN) * GRAIN
    right, wrong = _thresholds(step, boxes, own, answers, slope, target)
    fitted = []
    for i in range(len(sets)):
        at = (
            np.rint(
                np.bincount(network.heads, slope[i] * points[i], network.config.n_heads) / GRAIN
            )
            * GRAIN
        )
        ends = np.ceil(right[i] / GRAIN) * GRAIN + GRAIN, np.floor(wrong[i] / GRAIN) * GRAIN - GRAIN
        fitted.append(
            Hyperplane(
                tuple(slope[i].tolist()),
                tuple(at.tolist()),
                float(ends[0]),
                float(ends[1]),
                0.0,
                (0, 0),
            )
        )
    return fitted


def _zero_of_margin(cell_set: CellSet) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Find a point of the box near which the margin is 0, and the margin's gradient there.

    The search goes along the gradient from the box's centre.
    """
    step, box, answer = cell_set.step, cell_set.box, cell_set.answer
    network, stream = step.network, step.tables.stream.middle[cell_set.group.cells.own]
    point, width = box.middle, box.hi - box.lo
    share = np.linspace(-1.0, 1.0, 2 * ALONG + 1)[:, None]
    for _ in range(3):
        way = margin_gradient(network, stream, point, answer) * width**2
        with np.errstate(divide="ignore", invalid="ignore"):
            way = np.nan_to_num(way / np.max(np.abs(way) / width, initial=0.0, where=width > 0))
        line = np.clip(point + share * way, box.lo, box.hi)
        margins = np.nan_to_num(point_margins(network, stream, line, np.full(len(line), answer)))
        turns = np.flatnonzero(np.diff(np.sign(margins)))
        at = turns[np.abs(turns - ALONG).argmin()] if len(turns) else int(np.abs(margins).argmin())
        point = line[at]
        if len(turns):
            part = margins[at] / (margins[at] - margins[at + 1])
            point = line[at] + part * (line[at + 1] - line[at])
    return point, margin_gradient(network, stream, point, answer)


def _thresholds(
    step: StepProof,
    boxes: Interval,
    own: Int[np.ndarray, " n"],
    answers: Int[np.ndarray, " n"],
    slope: Float[np.ndarray, "n k"],
    target: float,
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Bound φ for each box: at least the first number is right, at most the second wrong."""
    n, tail = len(own), step.tail
    right, wrong = np.full(n, -np.inf), np.full(n, np.inf)
    owner, pieces = np.arange(n), boxes
    whole = _phi(boxes, slope)
    sharp = SHARP * (whole.hi - whole.lo)
    aim_right, aim_wrong = np.full(n, -np.inf), np.full(n, np.inf)
    for turn in range(ROUNDS + 1):
        start = step.tables.stream[own[owner]]
        plain = tail.margins(start, pieces, answers[owner])
        tilted = tail.margins(start, pieces, answers[owner], slope[owner])
        phi, middle = _phi(pieces, slope[owner]), (pieces.middle * slope[owner]).sum(axis=1)
        # Where the margin at the middle is not right, `right` cannot be less than φ there.
        at = _at_points(step, own[owner], pieces.middle, answers[owner])
        np.maximum.at(aim_right, owner[at < target], middle[at < target])
        np.minimum.at(aim_wrong, owner[at >= 0], middle[at >= 0])
        needs = np.where(
            plain.low >= target, -np.inf, np.minimum(target - tilted.low, phi.hi + GRAIN)
        )
        allows = np.where(plain.high < 0, np.inf, np.maximum(-tilted.high, phi.lo) - GRAIN)
        left = (needs > aim_right[owner] + sharp[owner]) | (
            allows < aim_wrong[owner] - sharp[owner]
        )
        left &= np.bincount(owner, minlength=n)[owner] * 2 <= MOST_PIECES
        left &= turn < ROUNDS
        np.maximum.at(right, owner[~left], needs[~left])
        np.minimum.at(wrong, owner[~left], allows[~left])
        if not left.any():
            break
        pieces, owner = bisect(pieces[left], tilted.influence[left]), np.tile(owner[left], 2)
    # A right piece asks for nothing, a wrong one allows everything: what is beyond the whole box is
    # as good. A checker that bounds a little worse is left some room.
    room = ROOM * (whole.hi - whole.lo)
    return np.clip(right + room, whole.lo, whole.hi + GRAIN), np.clip(
        wrong - room, whole.lo - GRAIN, whole.hi
    )


def _phi(boxes: Interval, slope: Float[np.ndarray, "n k"]) -> Interval:
    total = (Interval.exactly(slope) * boxes).sum(1)
    return total[:, 0]


def _at_points(
    step: StepProof,
    own: Int[np.ndarray, " n"],
    points: Float[np.ndarray, "n k"],
    answers: Int[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    margins = np.empty(len(own))
    for token in np.unique(own).tolist():
        at = own == token
        margins[at] = point_margins(
            step.network, step.tables.stream.middle[token], points[at], answers[at]
        )
    return margins


def count_open(steps: Sequence[StepProof], target: float) -> None:
    """Count the words of all open cells, refining where most words are undecided.

    Every open cell gets a leaf with a hyperplane and its counts, or stays open.
    """
    counters = {id(step): WordCounter(step) for step in steps}
    tie, heap = numbers(), list[tuple[int, int, CellSet, Hyperplane | None]]()
    todo = [subset for step in steps for subset in _open_sets(step)]
    tried, gap, least = 0, 0, sum(step.counted()[0] for step in steps)
    while todo:
        if is_over():
            heap += [(0, next(tie), subset, None) for subset in todo]
            break
        for step in steps:
            of_step = [subset for subset in todo if subset.step is step]
            for subset, plane in _count_sets(counters[id(step)], of_step, target):
                words = (0, subset.words) if plane is None else plane.words
                heappush(heap, (words[0] - words[1], next(tie), subset, plane))
                gap, least = gap + words[1] - words[0], least + words[0]
        tried += len(todo)
        todo = []
        while (
            heap
            and heap[0][0] < 0
            and len(todo) < 2 * AT_ONCE
            and tried < MOST_COUNTED
            and gap > ENOUGH * least
        ):
            if is_over():
                break
            minus, _, subset, plane = heappop(heap)
            parts, wrong = _split_or_refine(subset, target, plane and plane.slope)
            if parts is None:
                heappush(heap, (0, next(tie), subset, plane))
                continue
            gap, least = gap + minus, least + wrong - (plane.words[0] if plane else 0)
            todo += parts
    for _, _, subset, plane in heap:
        _give_leaf(subset, plane, target)
    for step in steps:
        step.drop_unused()


def all_right(step: StepProof, group: CellGroup, hard: list[int], target: float) -> list[int]:
    """Give leaves to the cells whose words a hyperplane proves right; return the others."""
    if not len(step.network.heads):  # no coordinate, no plane
        return hard
    counter, left = WordCounter(step), list[int]()
    answers = group.cells.answer[hard]
    queue = [
        CellSet(step, group, np.array(hard)[answers == answer]) for answer in np.unique(answers)
    ]
    while queue:
        cell_set = queue.pop()
        if is_over():
            left += cell_set.members.tolist()
            continue
        (plane,) = fit_planes([cell_set], target)
        counted = _try_hyperplane(counter, cell_set, plane)
        if counted is not None and counted.words == (0, 0):
            _give_leaf(cell_set, counted, target)
        elif len(cell_set.members) > 1:
            queue += _halves(cell_set, None)
        else:
            left += cell_set.members.tolist()
    return sorted(left)


def _open_sets(step: StepProof) -> list[CellSet]:
    sets = []
    for group in step.all_groups():
        kinds = np.array([leaf.kind == OPEN for leaf in step.leaves] + [False])
        members = np.flatnonzero(kinds[group.leaf])
        for answer in np.unique(group.cells.answer[members]).tolist():
            sets.append(CellSet(step, group, members[group.cells.answer[members] == answer]))
    return sets


def _give_leaf(cell_set: CellSet, plane: Hyperplane | None, target: float) -> None:
    """Put the cells in a leaf of their own: counted by a hyperplane, or open."""
    step, group, box = cell_set.step, cell_set.group, cell_set.box
    kind, ends = (
        (OPEN, np.zeros((0, 2))) if plane is None else (COUNTED, np.stack([box.lo, box.hi], axis=1))
    )
    group.leaf[cell_set.members] = len(step.leaves)
    step.leaves.append(
        Leaf(kind, step.tables.own[group.cells.own], cell_set.answer, ends, target, plane)
    )


def _halves(cell_set: CellSet, slope: tuple[float, ...] | None) -> list[CellSet]:
    """Split a set of cells along the coordinate that moves the margin most."""
    step, group = cell_set.step, cell_set.group
    margins = step.tail.margins(
        step.tables.stream[[group.cells.own]], cell_set.box[None], np.array([cell_set.answer])
    )
    return [
        CellSet(step, group, half, slope)
        for half in halves(group.boxes, cell_set.members, margins.influence[0])
    ]


def _split_or_refine(
    cell_set: CellSet, target: float, slope: tuple[float, ...] | None
) -> tuple[list[CellSet] | None, int]:
    """Split a set of cells, or refine a single cell; count its children's wrong words.

    The result is the sets that are still undecided, and how many words of the other children are
    wrong. The sets are None where no letter is free.
    """
    step, group = cell_set.step, cell_set.group
    if len(cell_set.members) > 1:
        return _halves(cell_set, slope), 0
    i = int(cell_set.members[0])
    side = step.side(group, cell_set.members)
    if not side:
        return None, 0
    cells, _ = group.cells.of(cell_set.members).refined(step.network.task, step.tables, side)
    child = step.group(cells)
    group.children[i] = (side, child, 0, len(cells))
    group.leaf[i] = -1
    hard = np.array(step.by_boxes(child, target), dtype=np.int64)
    wrong = np.array([leaf.kind == WRONG for leaf in step.leaves] + [False])[child.leaf]
    return [CellSet(step, child, hard, slope)] if len(hard) else [], CellSet(
        step, child, np.flatnonzero(wrong)
    ).words


def _count_sets(
    counter: WordCounter, todo: list[CellSet], target: float
) -> list[tuple[CellSet, Hyperplane | None]]:
    if not len(counter.step.network.heads):  # no coordinate, no plane
        return [(subset, None) for subset in todo]
    counted: list[tuple[CellSet, Hyperplane | None]] = []
    for i in range(0, len(todo), AT_ONCE):
        chunk = todo[i : i + AT_ONCE]
        again = [
            CellSet(subset.step, subset.group, subset.members)
            for subset in chunk
            if subset.slope is not None
        ]
        fitted = zip([*chunk, *again], fit_planes([*chunk, *again], target), strict=True)
        tried = [_try_hyperplane(counter, cell_set, plane) for cell_set, plane in fitted]
        fresh = iter(tried[len(chunk) :])
        for subset, plane in zip(chunk, tried, strict=False):
            other = next(fresh) if subset.slope is not None else None
            counted.append((subset, min((plane, other), key=_undecided)))
    return counted


def _undecided(plane: Hyperplane | None) -> float:
    return np.inf if plane is None else float(plane.words[1] - plane.words[0])


def _try_hyperplane(
    counter: WordCounter, cell_set: CellSet, plane: Hyperplane
) -> Hyperplane | None:
    """Count the words of the cells by a hyperplane.

    The result is None where the count decides no word, or where the cells are not proved to be in
    their box.
    """
    step = counter.step
    phi = _phi(cell_set.box[None], np.array([plane.slope]))
    width = float(phi.hi[0] - phi.lo[0])
    if not np.isfinite([plane.right, plane.wrong, width]).all():
        return None
    size = max(1.0, np.ceil(width / BINS / GRAIN)) * GRAIN
    words = counter.words(cell_set, plane._replace(bin=float(size)))
    if words == (0, cell_set.words):
        return None
    leaf = np.zeros(len(cell_set.members), dtype=np.int64)
    if not holds(
        step.network.task, step.tables, cell_set.cells, step.network.heads, leaf, cell_set.box[None]
    ).all():
        return None
    return plane._replace(bin=float(size), words=words)
