"""The theorem about networks on sequences: every cell is in a leaf that is proved.

If at every step, the tokens before it being right, a right token's logit is the largest, then
greedy decoding is right. Words are counted by cells: those of wrong and of open leaves are not
certified, and those of wrong leaves at one step are wrong.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from quadlens_checker import counting, limits
from quadlens_checker.cells import Attention, Cell, HeadView, Ratio, cells_of, leaves_of
from quadlens_checker.curves import Q
from quadlens_checker.linear import Leads, Logits, linear, rivals
from quadlens_checker.reading import Clock, integers, keys, require, ticking
from quadlens_checker.sequence_file import Network
from quadlens_checker.sequence_tables import P, SequenceTables
from quadlens_checker.tail import Box, HalfSpace, ReadDirections, Tail, proved, undecided
from quadlens_checker.union import in_some

U = limits.COORDINATE_BITS


@dataclass(frozen=True)
class Counts:
    """How many words a step goes wrong on at least, and how many one may at most."""

    inputs: int
    least: int
    most: int


@dataclass(eq=False)
class Seen:
    """A position with its own token: its tail, and its heads' ratios.

    Each head and coordinate has a ratio in both directions.
    """

    prover: "CellProver"
    query: int
    own: int
    views: list[HeadView]
    attentions: dict[int, Attention] = field(default_factory=dict)
    ratios: dict[tuple[int, int, int], Ratio] = field(default_factory=dict)

    @cached_property
    def tail(self) -> Tail:
        return self.prover.parts.at(self.query, self.own)

    @cached_property
    def leads(self) -> Leads:
        """Return the leads where nothing follows attention."""
        margin = max(1, math.ceil(self.prover.margin * (1 << P)))
        return Leads(self.prover.logits, self.views[0], self.query, self.own, margin)

    def attention(self, head: int) -> Attention:
        """Return the attention of one head."""
        if head not in self.attentions:
            self.attentions[head] = Attention(
                self.views[head], self.prover.tables.weights(head, self.query, self.own)
            )
        return self.attentions[head]

    def ratio(self, head: int, k: int, sign: int) -> Ratio:
        """Return the ratio of coordinate k of a head, or of its negative."""
        if (head, k, sign) not in self.ratios:
            attention, coordinates = self.attention(head), self.prover.tables.coordinates[head]
            values = {
                j: {v: (row[k], e) for v, (row, e) in coordinates[j].items()}
                for j in attention.weights
            }
            self.ratios[head, k, sign] = attention.ratio(values, sign)
        return self.ratios[head, k, sign]

    @cached_property
    def heads(self) -> list[counting.Head]:
        """Return the heads by which words are counted."""
        tables = self.prover.tables
        bases = zip(tables.basis, tables.coordinates, strict=True)
        return [
            counting.Head(self.attention(h), len(basis), at) for h, (basis, at) in enumerate(bases)
        ]

    @cached_property
    def coordinates(self) -> list[tuple[int, int]]:
        """(head, number within the head) of each coordinate."""
        return [
            (head, k)
            for head, basis in enumerate(self.prover.tables.basis)
            for k in range(len(basis))
        ]


@dataclass(frozen=True, eq=False)
class CellProver:
    """Proves leaves of a network, by a basis of its heads' outputs, with the margin claimed.

    The margin is 0 where none is claimed.
    """

    parts: ReadDirections
    margin: Fraction
    bits: int
    clock: Clock

    @property
    def tables(self) -> SequenceTables:
        return self.parts.tables

    @cached_property
    def logits(self) -> Logits:
        """Return what values write into the logits, where nothing follows attention."""
        return Logits(self.tables)

    @property
    def network(self) -> Network:
        return self.parts.network

    def views(self, query: int) -> list[HeadView]:
        """Return what each head sees from a position."""
        network = self.network
        return [
            HeadView.of(network.task, network.seen(h, query)) for h in range(network["n_heads"])
        ]

    def step(self, number: int, hints: Any) -> tuple[int, int, list[Cell]]:
        """Prove all leaves of a step; return its wrong words' bounds and its wrong cells.

        The bounds are (at least, at most).
        """
        task = self.network.task
        query, letter, right = task.steps[number]
        fed = task.fed[query]
        low, high = (
            (letter, letter) if isinstance(fed, int) else (min(letter, fed[0]), max(letter, fed[0]))
        )
        keys(hints, ("leaves", "cells"), "a step")
        leaves, entries, cells = (
            hints["leaves"],
            hints["cells"],
            list(cells_of(task, low, high + 1)),
        )
        require(
            isinstance(leaves, list) and isinstance(entries, list),
            "a step without leaves and cells",
        )
        require(
            len(entries) == len(cells),
            f"step {number} has {len(entries)} cells, expected {len(cells)}",
        )
        members: dict[int, list[Cell]] = {}
        words: dict[int, int] = {}
        for cell, entry in zip(cells, entries, strict=True):
            for part, leaf in leaves_of(task, cell, entry):
                count = part.words(task)
                if leaf is None or count == 0:
                    require(count == 0, f"a cell of step {number} is in no leaf")
                    continue
                require(
                    0 <= leaf < len(leaves),
                    f"a cell of step {number} is in a leaf that does not exist",
                )
                leaf_hints = leaves[leaf]
                own = fed if isinstance(fed, int) else part.look_up(task, fed[0], fed[1])
                same = leaf_hints["own"] == own and leaf_hints["answer"] == part.look_up(
                    task, letter, right
                )
                require(same, f"a cell of step {number} is in a leaf of another token or answer")
                members.setdefault(leaf, []).append(part)
                words[leaf] = words.get(leaf, 0) + count
        views, seen, least, most = self.views(query), None, 0, 0
        for leaf in ticking(sorted(members, key=lambda n: leaves[n]["own"]), self.clock):
            own = leaves[leaf]["own"]
            if seen is None or seen.own != own:
                seen = Seen(self, query, own, views)
            wrong_words = self.leaf(seen, leaves[leaf], members[leaf], words[leaf])
            require(wrong_words is not None, f"leaf {leaf} of step {number} is not proved")
            leaf_least, leaf_most = wrong_words or (0, 0)
            least, most = least + leaf_least, most + leaf_most
        return (
            least,
            most,
            [
                cell
                for n, cells in members.items()
                if leaves[n]["kind"] == "wrong"
                for cell in cells
            ],
        )

    def leaf(self, seen: Seen, leaf: Any, cells: list[Cell], words: int) -> tuple[int, int] | None:
        """Prove a leaf: (at least wrong, at most not right) of its words, or None."""
        kind, answers = leaf["kind"], self.network.task.answers
        require(kind in ("right", "wrong", "open", "linear", "counted"), "unknown kind of leaf")
        right = answers[leaf["answer"]]
        if kind == "linear":
            return linear(seen.leads, leaf, right, cells, words)
        boxed = ("kind", "own", "answer", *(("box",) if kind != "open" else ()))
        keys(leaf, counting.KEYS if kind == "counted" else boxed, "a leaf")
        if kind == "open":
            return 0, words
        box = self.box_of(seen, leaf, cells)
        if box is None or kind == "counted":
            return self.counted(seen, leaf, box, cells) if box else None
        if not self.decided(seen, box, right, kind == "right", None):
            return None
        return (words, words) if kind == "wrong" else (0, 0)

    def box_of(self, seen: Seen, leaf: Any, cells: list[Cell]) -> Box | None:
        """The box of a leaf over 2^bits, where every word of its cells is in it."""
        placed = [[view.placed(self.network.task, cell) for cell in cells] for view in seen.views]
        coordinates = seen.coordinates
        require(
            isinstance(leaf["box"], list) and len(leaf["box"]) == len(coordinates),
            "a box of another dimension",
        )
        box: Box = []
        for (head, k), ends in zip(coordinates, leaf["box"], strict=True):
            low, high = integers(ends, "box", 2, -limits.LARGEST_HINT, limits.LARGEST_HINT)
            for sign, end in ((1, low), (-1, -high)):
                if not seen.ratio(head, k, sign).holds(end << (U - self.bits), placed[head]):
                    return None
            box.append((low, high))
        return None if any(low > high for low, high in box) else box

    def decided(
        self, seen: Seen, box: Box, right: frozenset[int], good: bool, side: HalfSpace | None
    ) -> bool:
        """Say whether all points of a box are right by the margin, or wrong.

        With `side`, only those on one side of a hyperplane.
        """
        least = max(1, math.ceil(self.margin * (1 << Q))) if good else None
        return proved(seen.tail, self.at_tail(box, self.bits), right, least, self.clock, side)

    def counted(self, seen: Seen, leaf: Any, box: Box, cells: list[Cell]) -> tuple[int, int] | None:
        """Return a leaf's claimed counts where they are proved, or None.

        The counts are words wrong at least, and words not proved right at most.
        """
        task, right = self.network.task, self.network.task.answers[leaf["answer"]]
        plane = counting.Hyperplane.of(leaf, len(box), len(seen.views), task.inputs)
        ends = ((True, plane.right, 1), (False, plane.wrong, -1))
        if not all(
            self.decided(seen, box, right, good, HalfSpace(plane.slope, end, self.bits, sign))
            for good, end, sign in ends
        ):
            return None
        proved_words = counting.counted(task, seen.heads, plane, box, cells, self.bits)
        (least, most), known = plane.words, proved_words or (0, -1)
        return plane.words if proved_words and least <= known[0] and known[1] <= most else None

    def at_tail(self, box: list[tuple[int, int]], bits: int) -> Box:
        """A box over 2^bits as centres and radii over 2^Q, cut to what coordinates can be."""
        centred = []
        for (low, high), most in zip(box, self.parts.reach, strict=True):
            ends = (low << Q) >> bits, -((-high << Q) >> bits)
            least, largest = (max(-most, min(most, x)) for x in ends)
            middle = (least + largest) // 2
            centred.append((middle, largest - middle))
        return centred

    def goes_wrong(self, example: Any) -> None:
        """Prove a counterexample: at its step, a wrong token leads every right one.

        The tokens before that step are right.
        """
        task = self.network.task
        keys(example, ("input", "step", "answered"), "counter_example")
        (number,) = integers([example["step"]], "step", 1, 0, len(task.steps) - 1)
        (token,) = integers(
            [example["answered"]], "answered", 1, 0, self.network["d_vocab_out"] - 1
        )
        word = integers(example["input"], "input", len(task.next), 0, limits.MAX_TABLE_ENTRIES)
        require(
            all(a < len(table[0]) for a, table in zip(word, task.next, strict=True)),
            "an input of other letters",
        )
        query, letter, table = task.steps[number]
        tokens, states = task.tokens(word), task.states(word)
        seen = Seen(self, query, tokens[query], self.views(query))
        box = [
            (
                seen.ratio(head, k, 1).of_word(task, word),
                -seen.ratio(head, k, -1).of_word(task, word),
            )
            for head, k in seen.coordinates
        ]
        right = task.answers[table[states[letter]][word[letter]]]
        leads = undecided(seen.tail, self.at_tail(box, U), [token], sorted(right), 1) is None
        require(
            token not in right and leads, "the counter-example is not shown to be answered wrongly"
        )


def shape(network: Network, margin: Fraction, hints: Any, clock: Clock) -> CellProver:
    """Return the prover of a certificate's leaves.

    Its hints and the network's weights are within every limit.
    """
    keys(hints, ("bits", "basis", "steps"), "hints")
    (bits,) = integers([hints["bits"]], "bits", 1, 1, U)
    most, d = limits.LARGEST_HINT, network["d_model"]
    heads = hints["basis"]
    require(isinstance(heads, list) and len(heads) == network["n_heads"], "not one basis per head")
    basis = [[integers(row, "basis", d, -most, most) for row in head] for head in heads]
    require(
        sum(map(len, basis)) <= limits.MAX_COORDINATES,
        f"more than {limits.MAX_COORDINATES} coordinates",
    )
    task, steps = network.task, hints["steps"]
    require(
        isinstance(steps, list) and len(steps) == len(task.steps), "not one list of leaves per step"
    )
    for query, head in ((query, h) for query, _, _ in task.steps for h in range(len(heads))):
        network.seen(head, query)
    prover = CellProver(
        ReadDirections(SequenceTables(network, basis, bits, clock)), margin, bits, clock
    )
    for number, step in enumerate(steps):
        check_shape(prover, number, step)
    return prover


def check_shape(prover: CellProver, number: int, hints: Any) -> None:
    """Require that a step's leaves, and what proves them, are within their limits."""
    network, query = prover.network, prover.network.task.steps[number][0]
    heads, size = range(network["n_heads"]), network["d_vocab_out"]
    coordinates = sum(map(len, prover.tables.basis))
    keys(hints, ("leaves", "cells"), "a step")
    require(isinstance(hints["leaves"], list), "a step without leaves and cells")
    known = set[int]()
    for leaf in ticking(hints["leaves"], prover.clock):
        require(isinstance(leaf, dict) and "kind" in leaf, "a leaf of no kind")
        if leaf["kind"] == "open":
            continue
        (answer,) = integers([leaf.get("answer")], "answer", 1, 0, len(network.task.answers) - 1)
        (own,) = integers([leaf.get("own")], "own", 1, 0, network["d_vocab"] - 1)
        require(own in prover.tables.streams[query], "a leaf of a token that is not fed")
        if own not in known:
            known.add(own)
            for head in heads:
                prover.tables.weights(head, query, own)
        if leaf["kind"] == "linear":
            right = min(network.task.answers[answer])
            for group in (
                *leaf["groups"],
                *([[leaf["wrong"]]] if leaf["wrong"] is not None else []),
            ):
                rivals(group, size, right)
            continue
        prover.parts.check()
        prover.parts.at(query, own)
        if leaf["kind"] == "counted":
            counting.Hyperplane.of(leaf, coordinates, len(heads), network.task.inputs)
        require(
            isinstance(leaf["box"], list) and len(leaf["box"]) == coordinates,
            "a box of another dimension",
        )
        for ends in leaf["box"]:
            integers(ends, "box", 2, -limits.LARGEST_HINT, limits.LARGEST_HINT)


def by_cells(prover: CellProver, hints: Any, is_wrong: bool) -> Counts:
    """Prove every leaf of every step, and count the words.

    An input is known to be wrong where there is a counterexample.
    """
    task = prover.network.task
    counts = [prover.step(number, step) for number, step in enumerate(hints["steps"])]
    joined = in_some(task, [wrong_cells for _, _, wrong_cells in counts])
    least = max([int(is_wrong), joined, *(leaf_least for leaf_least, _, _ in counts)])
    return Counts(
        task.inputs, least, min(task.inputs, sum(leaf_most for _, leaf_most, _ in counts))
    )
