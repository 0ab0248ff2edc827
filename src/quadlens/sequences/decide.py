"""Every cell of a step is right, wrong or open: boxes found, proved, merged into leaves, refined where need be.

Leaves come top down: all cells of one own token and answer in one box; where the margin over it is not proved the cells
are split in two, down to single cells, whose box is bisected and which are then refined by one more letter. What is
claimed is proved of the leaf's box alone: every cell is in it (`reach.holds`), and the margin holds on it (`tail`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from quadlens.sequences.attack import Found, attack, point_margins
from quadlens.sequences.cells import Cells, all_cells, window
from quadlens.sequences.interval import Interval
from quadlens.sequences.reach import holds, search
from quadlens.sequences.tables import HINT_BITS, Network, StepTables
from quadlens.sequences.tail import Tail
from quadlens.sequences.union import Fixed

RIGHT, WRONG, OPEN, COUNTED = "right", "wrong", "open", "counted"
# Boxes are multiples of this, and so exact as integers in a certificate.
GRAIN = 2.0**-HINT_BITS
# Pieces that one box may be bisected into, and cells that a step may be refined into.
MOST_PIECES, MOST_PIECES_AT_ONCE = 256, 50_000
MOST_CELLS, CROWDED = 200_000, 0.2
# Cells of each step that are attacked.
ATTACKED = 6


@dataclass(eq=False)
class Group:
    """Cells with the same window and own token, and what is known of them.

    Attributes:
        cells: The cells.
        boxes: Where attention's coordinates are, proved for the leaf that a cell is in.
        leaf: The leaf of each; -1 while there is none.
        children: Of a refined cell: the side, the group of its children, and the first and the number after the last.
        place: Of the cells of a whole step, their places in canonical order.
    """

    cells: Cells
    boxes: Interval
    leaf: Int[np.ndarray, " n"]
    children: dict[int, tuple[str, "Group", int, int]] = field(default_factory=dict)
    place: Int[np.ndarray, " n"] | None = None


class Plane(NamedTuple):
    """φ = Σ_k g_k r_k over a box, and what it says of the words in it (`counting`); numbers are multiples of GRAIN.

    Attributes:
        slope: g, one number per coordinate.
        at: ρ, one number per head.
        right: Points with φ at least this are right.
        wrong: Points with φ at most this are wrong.
        bin: By what sums are counted.
        words: At least so many words of the cells are wrong, and at most so many not proved right.
    """

    slope: tuple[float, ...]
    at: tuple[float, ...]
    right: float
    wrong: float
    bin: float
    words: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Leaf:
    """Cells with one box.

    Attributes:
        kind: right, wrong, open or counted.
        own: Their own token.
        answer: Their right answer.
        box: [coordinate, end]; empty where open.
        margin: A lower bound of the margin over the box, where right; of the words that are, where counted.
        plane: What divides right words from wrong ones, where counted.
    """

    kind: str
    own: int
    answer: int
    box: Float[np.ndarray, "k 2"]
    margin: float
    plane: Plane | None = None


class Proposal(NamedTuple):
    """A leaf whose cells are still to be proved to be in its box."""

    members: Int[np.ndarray, " n"]
    kind: str
    box: Interval
    margin: float


class StepProof:
    """One step of one network."""

    def __init__(self, network: Network, tail: Tail, number: int) -> None:
        """Find where the cells' boxes are."""
        self.network, self.tail, self.number = network, tail, number
        self.tables: StepTables = network.step(number)
        self.leaves: list[Leaf] = []
        self.room = MOST_CELLS
        groups, places = all_cells(network.task, self.tables, number)
        self.groups = [self.group(cells, place) for cells, place in zip(groups, places, strict=True)]
        self.size = sum(len(group.cells) for group in self.groups)
        first, last = window(network.task, number)
        self.places = network.task.states[first] * prod(network.task.alphabets[first:last])

    def group(self, cells: Cells, place: Any = None) -> Group:
        """Cells with their boxes, and no leaf yet."""
        low, high = search(self.network.task, self.tables, cells, self.network.heads)
        pad = 1e-10 * (np.abs(low) + np.abs(high) + (high - low)) + 2 * GRAIN
        boxes = Interval(np.floor((low - pad) / GRAIN) * GRAIN, np.ceil((high + pad) / GRAIN) * GRAIN)
        return Group(cells, boxes, np.full(len(cells), -1), place=place)

    def _start(self, own: int, n: int) -> Interval:
        stream = self.tables.stream[own]
        return Interval(*(np.broadcast_to(end, (n, len(end))) for end in (stream.lo, stream.hi)))

    def attacks(self) -> Iterator[Found]:
        """Words of the cells whose centres have the smallest margins."""
        ranked = []
        for group in self.groups:
            stream, centre = self.tables.stream.middle[group.cells.own], group.boxes.middle
            margins = point_margins(self.network, stream, centre, group.cells.answer)
            ranked += [(float(margins[i]), group, int(i)) for i in np.argsort(margins)[:ATTACKED]]
        ranked.sort(key=lambda one: one[0])
        for _, group, i in ranked[:ATTACKED]:
            yield attack(self.network, self.tables, self.number, group.cells, i, group.boxes.middle[i])

    def decide(self, target: float) -> None:
        """Give every cell a leaf, right ones with a margin of `target` where that can be had."""
        self._decide(self.groups, target)

    def by_boxes(self, group: Group, target: float) -> list[int]:
        """Give leaves to the cells that boxes decide, together or each by itself; the others."""
        ((proposals, hard),) = self._merged([group], target)
        left = self._settled(group, proposals, hard)
        return self._settled(group, *self._bisected(group, left, target))

    def _decide(self, groups: list[Group], target: float) -> None:
        """Merge, bisect, refine; and all again for the children."""
        children = []
        for group, (proposals, hard) in zip(groups, self._merged(groups, target), strict=True):
            left = self._settled(group, proposals, hard)
            left = self._settled(group, *self._bisected(group, left, target))
            if left:
                children += self._refined(group, left, target)
        if children:
            self._decide(children, target)

    def _refined(self, group: Group, hard: list[int], target: float) -> list[Group]:
        """The children of these cells, in one group; none, but leaves, where nothing is free or no room is left."""
        side = self.side(group, np.array(hard))
        grown = self._size(group, side) * len(hard) if side else 0
        # Where there is little room, and most cells are hard, they are better counted than refined.
        crowded = self.room < MOST_CELLS and len(hard) > CROWDED * len(group.cells)
        if not side or crowded or self.size + grown > self.room:
            for lower in (0.9 * target, 0.75 * target, target / 2, target / 8, target * 2.0**-20):
                hard = self._settled(group, *self._bisected(group, hard, lower))
            own, nothing = self.tables.own[group.cells.own], np.zeros((0, 2))
            for answer in np.unique(group.cells.answer[hard]).tolist():
                group.leaf[[i for i in hard if group.cells.answer[i] == answer]] = len(self.leaves)
                self.leaves.append(Leaf(OPEN, own, answer, nothing, np.inf))
            return []
        self.size += grown
        cells, parent = group.cells.of(np.array(hard)).refined(self.network.task, self.tables, side)
        child = self.group(cells)
        for k, i in enumerate(hard):
            first, last = np.searchsorted(parent, [k, k + 1])
            group.children[i] = (side, child, int(first), int(last))
        return [child]

    def _settled(self, group: Group, proposals: list[Proposal], hard: list[int]) -> list[int]:
        """Leaves of the proposals whose cells are all proved to be in their box; the cells that are still open."""
        if not proposals:
            return hard
        members = np.concatenate([one.members for one in proposals])
        leaf = np.repeat(np.arange(len(proposals)), [len(one.members) for one in proposals])
        boxes = Interval(np.stack([one.box.lo for one in proposals]), np.stack([one.box.hi for one in proposals]))
        task, heads = self.network.task, self.network.heads
        proved = holds(task, self.tables, group.cells.of(members), heads, leaf, boxes)
        refused = set(leaf[~proved].tolist())
        own = self.tables.own[group.cells.own]
        for number, one in enumerate(proposals):
            if number in refused:
                hard = hard + one.members.tolist()
                continue
            group.leaf[one.members] = len(self.leaves)
            ends = np.stack([one.box.lo, one.box.hi], axis=1)
            self.leaves.append(Leaf(one.kind, own, int(group.cells.answer[one.members[0]]), ends, one.margin))
        return sorted(hard)

    def _merged(self, groups: list[Group], target: float) -> list[tuple[list[Proposal], list[int]]]:
        """Of each group: cells whose boxes' hull is decided, together; and those that are not even by themselves."""
        found: list[tuple[list[Proposal], list[int]]] = [([], []) for _ in groups]
        queue = [
            (number, np.flatnonzero(group.cells.answer == answer))
            for number, group in enumerate(groups)
            for answer in np.unique(group.cells.answer)
        ]
        while queue:
            low = np.stack([groups[number].boxes.lo[one].min(axis=0) for number, one in queue])
            high = np.stack([groups[number].boxes.hi[one].max(axis=0) for number, one in queue])
            hulls, cells = Interval(low, high), [groups[number].cells for number, _ in queue]
            answers = np.array([of.answer[one[0]] for of, (_, one) in zip(cells, queue, strict=True)])
            margins = self.tail.margins(self.tables.stream[[of.own for of in cells]], hulls, answers)
            again = []
            for i, (number, members) in enumerate(queue):
                proposals, hard = found[number]
                if margins.low[i] >= target or margins.high[i] < 0:
                    kind = RIGHT if margins.low[i] >= target else WRONG
                    proposals.append(Proposal(members, kind, hulls[i], float(margins.low[i])))
                elif len(members) == 1:
                    hard.append(int(members[0]))
                else:
                    parts = halves(groups[number].boxes, members, margins.influence[i])
                    again += [(number, half) for half in parts]
            queue = again
        return found

    def _bisected(self, group: Group, hard: list[int], target: float) -> tuple[list[Proposal], list[int]]:
        """The single cells whose box is decided in pieces, all right or all wrong; and the others."""
        n, cells = len(hard), group.cells
        if not hard or not len(self.network.heads):
            return [], hard
        owner, pieces = np.arange(n), group.boxes[np.array(hard, dtype=np.int64)]
        alive, least = np.ones(n, dtype=bool), np.full(n, np.inf)
        kinds = {RIGHT: np.zeros(n, dtype=bool), WRONG: np.zeros(n, dtype=bool)}
        while len(owner):
            answers = cells.answer[np.array(hard)[owner]]
            found = self.tail.margins(self.tables.stream[np.full(len(owner), cells.own)], pieces, answers)
            right, wrong = found.low >= target, found.high < 0
            kinds[RIGHT][owner[right]], kinds[WRONG][owner[wrong]] = True, True
            np.minimum.at(least, owner[right], found.low[right])
            alive &= ~(kinds[RIGHT] & kinds[WRONG])
            left = ~(right | wrong)
            low, high = self._corners(cells.own, pieces, found.slope, answers)
            against = (low < target) & ~kinds[WRONG][owner] | (high >= 0) & kinds[WRONG][owner]
            alive[owner[left & against]] = False
            alive &= np.bincount(owner[left], minlength=n) * 2 <= MOST_PIECES
            left &= alive[owner]
            if 2 * left.sum() > MOST_PIECES_AT_ONCE:
                alive[owner[left]] = False
                break
            pieces, owner = bisect(pieces[left], found.influence[left]), np.tile(owner[left], 2)
        proposals = [
            Proposal(np.array([hard[i]]), RIGHT if kinds[RIGHT][i] else WRONG, group.boxes[hard[i]], float(least[i]))
            for i in np.flatnonzero(alive)
        ]
        return proposals, [hard[i] for i in np.flatnonzero(~alive)]

    def _corners(
        self, own: int, pieces: Interval, slope: Float[np.ndarray, "n k"], answers: Int[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """About the margins at the corners where they are smallest and largest: what no bisection would overcome."""
        stream = self.tables.stream.middle[own]
        ends = ((pieces.lo, pieces.hi), (pieces.hi, pieces.lo))
        low, high = (
            point_margins(self.network, stream, np.where(slope > 0, one, other), answers) for one, other in ends
        )
        return low, high

    def _size(self, group: Group, side: str) -> int:
        """About how many children a cell has."""
        task, cells = self.network.task, group.cells
        if side == "+":
            return task.alphabets[cells.last]
        table = task.next[cells.first - 1]
        return max(1, table.size // task.states[cells.first])

    def side(self, group: Group, hard: Int[np.ndarray, " n"]) -> str:
        """Below or above: where letters move attention more; empty where nothing is free."""
        cells, task, heads = group.cells, self.network.task, self.network.heads
        centre = group.boxes.middle[hard].mean(axis=0)
        width = (group.boxes.hi - group.boxes.lo)[hard].mean(axis=0)

        def spread(letter: int) -> float:
            N, E = self.tables.N[letter].middle[cells.own], self.tables.E[letter].middle[cells.own]
            terms = (N - centre * E[..., heads]) * (width > 0)
            return float((terms.max(axis=(0, 1)) - terms.min(axis=(0, 1))).sum())

        below = [spread(letter) for letter in range(cells.first)]
        above = [spread(letter) for letter in range(cells.last, task.letters)]
        if not below and not above:
            return ""
        low = below[-1] + 0.1 * sum(below) if below else -1.0
        high = above[0] + 0.1 * sum(above) if above else -1.0
        return "-" if low >= high else "+"

    def drop_unused(self) -> None:
        """Forget the leaves that no cell is in any more."""
        groups = list(self.all_groups())
        used = np.unique(np.concatenate([group.leaf for group in groups]))
        used = used[used >= 0]
        number = np.full(len(self.leaves) + 1, -1)
        number[used] = np.arange(len(used))
        for group in groups:
            group.leaf = number[group.leaf]
        self.leaves = [self.leaves[i] for i in used.tolist()]

    def words_by_leaf(self) -> dict[int, int]:
        """How many words are in the cells of each leaf, exactly."""
        found, task = dict.fromkeys(range(len(self.leaves)), 0), self.network.task
        for group in self.all_groups():
            cells, settled = group.cells, np.flatnonzero(group.leaf >= 0)
            pairs, many = np.unique(
                np.stack([group.leaf[settled], cells.state[settled]], axis=1), axis=0, return_counts=True
            )
            for (leaf, state), n in zip(pairs.tolist(), many.tolist(), strict=True):
                found[leaf] += n * task.words_to[cells.first][state] * task.words_from[cells.last]
        return found

    def counted(self) -> tuple[int, int]:
        """At least and at most so many words are wrong at this step."""
        least = most = 0
        for leaf, words in self.words_by_leaf().items():
            kind, plane = self.leaves[leaf].kind, self.leaves[leaf].plane
            few, many = plane.words if plane else (words * (kind == WRONG), words * (kind != RIGHT))
            least, most = least + few, most + many
        return least, most

    def wrong_cells(self) -> Iterator[Fixed]:
        """The cells of wrong leaves."""
        wrong = np.array([leaf.kind == WRONG for leaf in self.leaves] + [False])
        for group in self.all_groups():
            cells = group.cells
            for i in np.flatnonzero(wrong[group.leaf]).tolist():
                letters, states = cells.letters[i].tolist(), [int(cells.state[i])]
                for letter, a in enumerate(letters, cells.first):
                    states.append(int(self.network.task.next[letter][states[-1], a]))
                yield Fixed(cells.first, tuple(states), tuple(letters))

    def all_groups(self) -> Iterator[Group]:
        """The groups of the whole step, and of refined cells."""
        stack = list(self.groups)
        while stack:
            group = stack.pop()
            stack += {id(child): child for _, child, _, _ in group.children.values()}.values()
            yield group


def halves(boxes: Interval, members: Int[np.ndarray, " n"], influence: Float[np.ndarray, " k"]) -> list[Any]:
    """Cells split in two where their boxes leave the widest gap, along the coordinate that matters most."""
    if not len(influence):
        return [members[: len(members) // 2], members[len(members) // 2 :]]
    k = int(np.argmax(np.nan_to_num(influence, posinf=1e300)))
    middle = boxes.middle[members, k]
    order = members[np.argsort(middle, kind="stable")]
    reach = np.maximum.accumulate(boxes.hi[order, k])[:-1]
    gap = boxes.lo[order[1:], k] - reach
    cut = int(gap.argmax()) + 1 if gap.max() > 0 else len(order) // 2
    return [order[:cut], order[cut:]]


def bisect(boxes: Interval, influence: Float[np.ndarray, "n k"]) -> Interval:
    """Every box in two, across the coordinate that matters most."""
    rows = np.arange(len(boxes.lo))
    k = np.nan_to_num(influence, posinf=1e300).argmax(axis=1)
    low, high = boxes.lo.copy(), boxes.hi.copy()
    middle = boxes.middle[rows, k]
    high[rows, k], low[rows, k] = middle, middle
    return Interval(np.concatenate([boxes.lo, low]), np.concatenate([high, boxes.hi]))
