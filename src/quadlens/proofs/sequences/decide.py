"""Prove each cell of a step right or wrong, by boxes that are merged, bisected and refined.

Leaves come top down: all cells of one own token and answer in one box; where the margin over it is
not proved the cells are split in two, down to single cells, whose box is bisected. What is left is
attacked, counted on both sides of a plane where that may show every word to be right, and then
refined by one more letter. What is claimed is proved of the leaf alone: every cell is in its box
(`reach.holds`), and the margin holds on it (`tail`), or beyond its plane (`counting`).
"""

from collections.abc import Callable, Iterable, Iterator
from math import prod
from operator import itemgetter
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from quadlens.proofs.long_work import is_over, tell
from quadlens.proofs.sequences.attack import FoundWord, attack, point_margins
from quadlens.proofs.sequences.cells import Cells, all_cells, places_of
from quadlens.proofs.sequences.interval import Interval
from quadlens.proofs.sequences.leaves import (
    GRAIN,
    OPEN,
    RIGHT,
    WRONG,
    CellGroup,
    Leaf,
    Proposal,
    bisect,
    halves,
)
from quadlens.proofs.sequences.reach import holds, search
from quadlens.proofs.sequences.tables import Network, StepTables, check_finite
from quadlens.proofs.sequences.tail import Tail
from quadlens.proofs.sequences.union import Fixed

# Pieces that one box may be bisected into, and cells that a step may be refined into.
MOST_PIECES, MOST_PIECES_AT_ONCE = 256, 50_000
MOST_CELLS, CROWDED = 200_000, 0.2
# Cells that a step may be refined into where an input is wrong: the rest is counted.
ROOM_WHERE_WRONG = 30_000
# Cells of each step that are attacked, and hard ones of a group that planes are tried on.
ATTACKED, TILTED = 6, 24
# Share of the smallest margin found that proofs aim at, and what they aim at where an input is
# wrong.
AIM, LEAST_AIM = 0.96, 2.0**-10
# What is claimed, and proofs aim at, where every token is right.
NOTHING_WRONG = 1.0
# A margin that is rounded to 0 would let ties pass.
SMALLEST = 5e-324


class Aim:
    """The margin that the proofs of all steps aim at.

    It changes when a word with a smaller margin is found.

    Attributes:
        worst: The word with the smallest margin so far.
    """

    def __init__(self, words: Iterable[FoundWord]) -> None:
        self.worst = min(words, key=lambda word: word.margin)

    def meet(self, words: Iterable[FoundWord]) -> None:
        """Take account of more words."""
        self.worst = min((self.worst, *words), key=lambda word: word.margin)

    @property
    def is_wrong(self) -> bool:
        """Whether a word is answered wrong, or tied."""
        return self.worst.margin <= 0

    @property
    def target(self) -> float:
        """The margin to be proved."""
        if self.is_wrong:
            return LEAST_AIM
        return (
            max(SMALLEST, AIM * self.worst.margin) if self.worst.margin < np.inf else NOTHING_WRONG
        )

    @property
    def room(self) -> int:
        """Cells that a step may be refined into."""
        return ROOM_WHERE_WRONG if self.is_wrong else MOST_CELLS


# Gives leaves to cells of a group that it can prove right with a margin, and gives back the others.
ByPlanes = Callable[["StepProof", CellGroup, list[int], float], list[int]]


class StepProof:
    """One step of one network."""

    def __init__(self, network: Network, tail: Tail, number: int) -> None:
        """Build the step's tables and the boxes of its cells."""
        self.network, self.tail, self.number = network, tail, number
        self.tables: StepTables = network.step(number)
        tables = self.tables
        parts = (*tables.N, *tables.E, tables.N_constant, tables.E_constant, tables.stream)
        check_finite(network.task.name, number, parts)
        self.leaves: list[Leaf] = []
        groups, places = all_cells(network.task, self.tables, number)
        self.groups = [
            self.group(cells, place) for cells, place in zip(groups, places, strict=True)
        ]
        self.size = sum(len(group.cells) for group in self.groups)
        self.places = prod(places_of(network.task, number))

    def group(self, cells: Cells, place: Any = None) -> CellGroup:
        """Return cells with their boxes and without leaves."""
        low, high = search(self.network.task, self.tables, cells, self.network.heads)
        pad = 1e-10 * (np.abs(low) + np.abs(high) + (high - low)) + 2 * GRAIN
        boxes = Interval(
            np.floor((low - pad) / GRAIN) * GRAIN, np.ceil((high + pad) / GRAIN) * GRAIN
        )
        return CellGroup(cells, boxes, np.full(len(cells), -1), place=place)

    def attacks(self) -> Iterator[FoundWord]:
        """Yield words of the cells whose centres have the smallest margins."""
        ranked = []
        for group in self.groups:
            stream, centre = self.tables.stream.middle[group.cells.own], group.boxes.middle
            margins = point_margins(self.network, stream, centre, group.cells.answer)
            ranked += [(float(margins[i]), group, int(i)) for i in np.argsort(margins)[:ATTACKED]]
        ranked.sort(key=itemgetter(0))
        for _, group, i in ranked[:ATTACKED]:
            yield attack(
                self.network, self.tables, self.number, group.cells, i, group.boxes.middle[i]
            )

    def by_boxes(self, group: CellGroup, target: float) -> list[int]:
        """Give leaves to the cells that boxes decide; return the cells that are left.

        Cells are decided together first, then each by itself.
        """
        ((proposals, hard),) = self._merge([group], target)
        left = self._make_leaves(group, proposals, hard)
        return self._make_leaves(group, *self._bisect(group, left, target))

    def decide(self, aim: Aim, by_planes: ByPlanes, groups: list[CellGroup] | None = None) -> None:
        """Give every cell a leaf, with the margin aimed at where that can be proved.

        Merge, bisect, attack, try planes, refine; and all again for the children.
        """
        tell(f"step {self.number + 1}: {self.size:,} cells")
        groups, children = self.groups if groups is None else groups, []
        for group, (proposals, hard) in zip(groups, self._merge(groups, aim.target), strict=True):
            left = self._make_leaves(group, proposals, hard)
            left = self._make_leaves(group, *self._bisect(group, left, aim.target))
            if left and not aim.is_wrong and not is_over():
                aim.meet(self._attacks_on(group, left))
                left = self._make_leaves(group, *self._bisect(group, left, aim.target))
            if 0 < len(left) <= TILTED and not aim.is_wrong and not is_over():
                left = by_planes(self, group, left, aim.target)
            if left:
                children += self._refine_hard(group, left, aim)
        if children:
            self.decide(aim, by_planes, children)

    def _attacks_on(self, group: CellGroup, hard: list[int]) -> Iterator[FoundWord]:
        """Yield words of the given cells, from the boxes where the margin may be smallest."""
        at, own = np.array(hard), group.cells.own
        answers, boxes = group.cells.answer[at], group.boxes[at]
        slope = self.tail.margins(self.tables.stream[np.full(len(at), own)], boxes, answers).slope
        low, _ = self._corners(own, boxes, slope, answers)
        for i in at[np.argsort(low, kind="stable")[:ATTACKED]].tolist():
            yield attack(
                self.network, self.tables, self.number, group.cells, i, group.boxes.middle[i]
            )

    def _refine_hard(self, group: CellGroup, hard: list[int], aim: Aim) -> list[CellGroup]:
        """Return the children of these cells as one group, or give the cells open leaves.

        The list is empty where no letter is free, no room is left, or the time is over.
        """
        side, target = self.side(group, np.array(hard)), aim.target
        grown = self._size(group, side) * len(hard) if side else 0
        # Where an input is wrong, and most cells are hard, they are better counted than refined.
        crowded = aim.is_wrong and len(hard) > CROWDED * len(group.cells)
        if not side or crowded or self.size + grown > aim.room or is_over():
            for lower in (0.9 * target, 0.75 * target, target / 2, target / 8, target * 2.0**-20):
                if is_over():
                    break
                hard = self._make_leaves(group, *self._bisect(group, hard, max(lower, SMALLEST)))
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

    def _make_leaves(
        self, group: CellGroup, proposals: list[Proposal], hard: list[int]
    ) -> list[int]:
        """Make leaves of the proposals whose cells are proved to be in their box.

        The result is the cells that are still undecided.
        """
        if not proposals:
            return hard
        members = np.concatenate([proposal.members for proposal in proposals])
        leaf = np.repeat(
            np.arange(len(proposals)), [len(proposal.members) for proposal in proposals]
        )
        boxes = Interval.stack([proposal.box for proposal in proposals])
        task, heads = self.network.task, self.network.heads
        proved = holds(task, self.tables, group.cells.of(members), heads, leaf, boxes)
        refused = set(leaf[~proved].tolist())
        own = self.tables.own[group.cells.own]
        for number, proposal in enumerate(proposals):
            if number in refused:
                hard = hard + proposal.members.tolist()
                continue
            group.leaf[proposal.members] = len(self.leaves)
            ends = np.stack([proposal.box.lo, proposal.box.hi], axis=1)
            answer = int(group.cells.answer[proposal.members[0]])
            self.leaves.append(Leaf(proposal.kind, own, answer, ends, proposal.margin))
        return sorted(hard)

    def _merge(
        self, groups: list[CellGroup], target: float
    ) -> list[tuple[list[Proposal], list[int]]]:
        """Find in each group the sets of cells that one box decides, and the cells without one."""
        by_group: list[tuple[list[Proposal], list[int]]] = [([], []) for _ in groups]
        queue = [
            (number, np.flatnonzero(group.cells.answer == answer))
            for number, group in enumerate(groups)
            for answer in np.unique(group.cells.answer)
        ]
        while queue:
            if is_over():
                for number, members in queue:
                    by_group[number][1].extend(members.tolist())
                break
            hulls = Interval.stack(
                [groups[number].boxes.hull(members) for number, members in queue]
            )
            cells = [groups[number].cells for number, _ in queue]
            answers = np.array(
                [of.answer[members[0]] for of, (_, members) in zip(cells, queue, strict=True)]
            )
            margins = self.tail.margins(
                self.tables.stream[[of.own for of in cells]], hulls, answers
            )
            again = []
            for i, (number, members) in enumerate(queue):
                proposals, hard = by_group[number]
                if margins.low[i] >= target or margins.high[i] < 0:
                    kind = RIGHT if margins.low[i] >= target else WRONG
                    proposals.append(Proposal(members, kind, hulls[i], float(margins.low[i])))
                elif len(members) == 1:
                    hard.append(int(members[0]))
                else:
                    parts = halves(groups[number].boxes, members, margins.influence[i])
                    again += [(number, half) for half in parts]
            queue = again
        return by_group

    def _bisect(
        self, group: CellGroup, hard: list[int], target: float
    ) -> tuple[list[Proposal], list[int]]:
        """Find single cells whose box bisects into all right or all wrong; the rest too."""
        n, cells = len(hard), group.cells
        if not hard or not len(self.network.heads):
            return [], hard
        owner, pieces = np.arange(n), group.boxes[np.array(hard, dtype=np.int64)]
        alive, least = np.ones(n, dtype=bool), np.full(n, np.inf)
        kinds = {RIGHT: np.zeros(n, dtype=bool), WRONG: np.zeros(n, dtype=bool)}
        while len(owner):
            if is_over():
                alive[owner] = False
                break
            answers = cells.answer[np.array(hard)[owner]]
            margins = self.tail.margins(
                self.tables.stream[np.full(len(owner), cells.own)], pieces, answers
            )
            right, wrong = margins.low >= target, margins.high < 0
            kinds[RIGHT][owner[right]], kinds[WRONG][owner[wrong]] = True, True
            np.minimum.at(least, owner[right], margins.low[right])
            alive &= ~(kinds[RIGHT] & kinds[WRONG])
            left = ~(right | wrong)
            low, high = self._corners(cells.own, pieces, margins.slope, answers)
            against = (low < target) & ~kinds[WRONG][owner] | (high >= 0) & kinds[WRONG][owner]
            alive[owner[left & against]] = False
            alive &= np.bincount(owner[left], minlength=n) * 2 <= MOST_PIECES
            left &= alive[owner]
            if 2 * left.sum() > MOST_PIECES_AT_ONCE:
                alive[owner[left]] = False
                break
            pieces, owner = bisect(pieces[left], margins.influence[left]), np.tile(owner[left], 2)
        proposals = [
            Proposal(
                np.array([hard[i]]),
                RIGHT if kinds[RIGHT][i] else WRONG,
                group.boxes[hard[i]],
                float(least[i]),
            )
            for i in np.flatnonzero(alive)
        ]
        return proposals, [hard[i] for i in np.flatnonzero(~alive)]

    def _corners(
        self,
        own: int,
        pieces: Interval,
        slope: Float[np.ndarray, "n k"],
        answers: Int[np.ndarray, " n"],
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Estimate the margins at the corners where they are smallest and largest.

        No bisection overcomes a margin of the wrong sign there.
        """
        stream = self.tables.stream.middle[own]
        ends = ((pieces.lo, pieces.hi), (pieces.hi, pieces.lo))
        low, high = (
            point_margins(self.network, stream, np.where(slope > 0, up_to, down_to), answers)
            for up_to, down_to in ends
        )
        return low, high

    def _size(self, group: CellGroup, side: str) -> int:
        """Estimate how many children a cell has."""
        task, cells = self.network.task, group.cells
        if side == "+":
            return task.alphabets[cells.last]
        table = task.next[cells.first - 1]
        return max(1, table.size // task.states[cells.first])

    def side(self, group: CellGroup, hard: Int[np.ndarray, " n"]) -> str:
        """Say on which side of the window a letter moves attention more.

        The result is "-" for below, "+" for above, and empty where no letter is free.
        """
        cells, task, heads = group.cells, self.network.task, self.network.heads
        centre = group.boxes.middle[hard].mean(axis=0)
        width = (group.boxes.hi - group.boxes.lo)[hard].mean(axis=0)

        def spread(letter: int) -> float:
            N, E = self.tables.N[letter].middle[cells.own], self.tables.E[letter].middle[cells.own]
            terms = (N - centre * E[..., heads]) * (width > 0)
            return float(np.nan_to_num(terms.max(axis=(0, 1)) - terms.min(axis=(0, 1))).sum())

        below = [spread(letter) for letter in range(cells.first)]
        above = [spread(letter) for letter in range(cells.last, task.letters)]
        if not below and not above:
            return ""
        low = below[-1] + 0.1 * sum(below) if below else -1.0
        high = above[0] + 0.1 * sum(above) if above else -1.0
        return "-" if below and (low >= high or not above) else "+"

    def drop_unused(self) -> None:
        """Remove the leaves that contain no cell."""
        groups = list(self.all_groups())
        used = np.unique(np.concatenate([group.leaf for group in groups]))
        used = used[used >= 0]
        number = np.full(len(self.leaves) + 1, -1)
        number[used] = np.arange(len(used))
        for group in groups:
            group.leaf = number[group.leaf]
        self.leaves = [self.leaves[i] for i in used.tolist()]

    def words_by_leaf(self) -> dict[int, int]:
        """Count the words in the cells of each leaf, exactly."""
        words, task = dict.fromkeys(range(len(self.leaves)), 0), self.network.task
        for group in self.all_groups():
            cells, settled = group.cells, np.flatnonzero(group.leaf >= 0)
            pairs, counts = np.unique(
                np.stack([group.leaf[settled], cells.state[settled]], axis=1),
                axis=0,
                return_counts=True,
            )
            for (leaf, state), n in zip(pairs.tolist(), counts.tolist(), strict=True):
                words[leaf] += n * task.words_to[cells.first][state] * task.words_from[cells.last]
        return words

    def counted(self) -> tuple[int, int]:
        """Return bounds (at least, at most) of the number of words wrong at this step."""
        least = most = 0
        for leaf, words in self.words_by_leaf().items():
            kind, plane = self.leaves[leaf].kind, self.leaves[leaf].plane
            wrong_least, wrong_most = (
                plane.words if plane else (words * (kind == WRONG), words * (kind != RIGHT))
            )
            least, most = least + wrong_least, most + wrong_most
        return least, most

    def wrong_cells(self) -> Iterator[Fixed]:
        """Yield the cells of wrong leaves."""
        wrong = np.array([leaf.kind == WRONG for leaf in self.leaves] + [False])
        for group in self.all_groups():
            cells = group.cells
            for i in np.flatnonzero(wrong[group.leaf]).tolist():
                letters, states = cells.letters[i].tolist(), [int(cells.state[i])]
                for letter, a in enumerate(letters, cells.first):
                    states.append(int(self.network.task.next[letter][states[-1], a]))
                yield Fixed(cells.first, tuple(states), tuple(letters))

    def all_groups(self) -> Iterator[CellGroup]:
        """Yield the groups of the whole step and of refined cells."""
        stack = list(self.groups)
        while stack:
            group = stack.pop()
            stack += {id(child): child for _, child, _, _ in group.children.values()}.values()
            yield group
