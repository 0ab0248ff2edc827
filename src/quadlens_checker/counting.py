"""Count the words of a `counted` leaf, on both sides of a hyperplane.

On the box of a leaf φ(r) = Σ_k g_k r_k. Points with φ ≥ `right` are proved right and points with φ
≤ `wrong` wrong (`tail.proved`). For a word r_h = N_h / E_h, so that with S_h = g_h · N_h - ρ_h E_h
and any Ē_h > 0

    φ - Σ_h ρ_h = Σ_h S_h / E_h = T + Σ_h (S_h / E_h) (Ē_h - E_h) / Ē_h,     T = Σ_h S_h / Ē_h,

and S_h / E_h = g_h · r_h - ρ_h. With d_h ≥ |Ē_h - E_h| on all words of the cells, T is within e =
Σ_h d_h/Ē_h max |g_h · r_h - ρ_h| of φ - Σ_h ρ_h, the maximum over the box. Of one head φ - ρ ≥ θ is
S ≥ θ E, and so T ≥ θ + |θ| d/Ē is enough. T is a sum of one term per letter, which is rounded down
to whole bins: words are counted by their sum of bins, in one integer with as many bits for each bin
as hold the number of all words.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from quadlens_checker import limits
from quadlens_checker.automata import Automaton, Table
from quadlens_checker.cells import Attention, Cell, HeadView, LeastPaths, Placed, Ratio
from quadlens_checker.norms import Vector
from quadlens_checker.reading import integers, require
from quadlens_checker.sequence_tables import P, weight_error

U = limits.COORDINATE_BITS
KEYS = "kind", "own", "answer", "box", "slope", "at", "right", "wrong", "bin", "words"


def at_units(x: int, bits: int) -> int:
    """A number over 2^bits as an integer over 2^U, rounded up."""
    return x << (U - bits) if bits <= U else -(-x >> (bits - U))


class Hyperplane(NamedTuple):
    """A leaf's hints: slope g, ρ, two thresholds, the bin, and the words claimed.

    All but the words are over 2^bits.
    """

    slope: list[int]
    at: list[int]
    right: int
    wrong: int
    bin: int
    words: tuple[int, int]

    @classmethod
    def of(cls, leaf: Any, coordinates: int, heads: int, inputs: int) -> "Hyperplane":
        """Read the hyperplane of a leaf, every number within its limit."""
        most = limits.LARGEST_HINT
        slope = integers(leaf["slope"], "slope", coordinates, -most, most)
        at = integers(leaf["at"], "at", heads, -most, most)
        right, wrong, width = integers(
            [leaf[name] for name in ("right", "wrong", "bin")], "plane", 3, -most, most
        )
        least, largest = integers(leaf["words"], "words", 2, 0, inputs)
        require(width > 0, "bins without width")
        return cls(slope, at, right, wrong, width, (least, largest))


@dataclass(frozen=True, eq=False)
class Head:
    """One head seen from a position with its own token: weights and values' coordinates.

    size: how many coordinates it has. values: these by position and token, over 2^P.
    """

    attention: Attention
    size: int
    values: list[dict[int, Vector]]

    @property
    def view(self) -> HeadView:
        return self.attention.view

    @cached_property
    def _ends(self) -> tuple[LeastPaths, LeastPaths]:
        """Return the least sums of w, and of -w."""
        ends = []
        for sign in (1, -1):
            terms = {
                j: {v: sign * w - weight_error(w) for v, w in here.items()}
                for j, here in self.attention.weights.items()
            }
            ends.append(LeastPaths(Ratio(self.attention, *self.view.sums(terms), 0), 0))
        return ends[0], ends[1]

    def denominators(self, cells: list[Placed]) -> tuple[int, int]:
        """Bound Σ_j w_j over all words of some cells: (not below, not above)."""
        low, high = self._ends
        return min(low.least(cell) for cell in cells), -min(high.least(cell) for cell in cells)

    def terms(
        self, slope: list[int], at: int, bits: int, middle: int
    ) -> list[tuple[int, list[list[int]]]]:
        """Return bounds over 2^U of w (g · u - ρ) / Ē, lower ones and then upper ones.

        They are as `HeadView.sums` adds them up.

        With x_low ≤ g · u - ρ ≤ x_high and |w - w̃| ≤ δ, w x is between w̃ x_low - δ |x_low| and w̃
        x_high + δ |x_high|.
        """
        cut, size, bounds = bits + P - U, sum(map(abs, slope)), []
        for sign in (1, -1):
            terms: dict[int, dict[int, int]] = {}
            for j, here in self.attention.weights.items():
                terms[j] = {}
                for v, w in here.items():
                    row, e = self.values[j][v]
                    x = sum(g * u for g, u in zip(slope, row, strict=True)) - (at << P)
                    low = (sign * x - size * e) >> cut
                    terms[j][v] = w * low - weight_error(w) * abs(low)
            constant, sums = self.view.sums(terms)
            bounds.append(
                (
                    sign * (constant // middle),
                    [[sign * (x // middle) for x in here] for here in sums],
                )
            )
        return bounds


class BinHistogram:
    """A histogram of words by the sum of their bins outside a window.

    It is one integer for each state at the window's ends.
    """

    def __init__(self, task: Automaton, bins: list[Table], low: int, high: int) -> None:
        """Add up the letters before `low` and those from `high` on.

        `bins` are by letter, state before it and letter.
        """
        self.bits, self.known = task.inputs.bit_length() + 1, dict[tuple[int, int, int], int]()
        self.offset = self.total = 0
        self.below, self.above = (
            Counter({0: 1}),
            dict.fromkeys(range(1 + max(map(max, task.next[-1]))), 1),
        )
        for n in range(low):
            sums = Counter[int]()
            for (state, after, x), many in self._ways(task.next[n], bins[n]).items():
                sums[after] += many * self.below[state] << self.bits * x
            self.below = sums
        for n in range(len(task.next) - 1, high - 1, -1):
            ends = dict.fromkeys(range(len(task.next[n])), 0)
            for (state, after, x), many in self._ways(task.next[n], bins[n]).items():
                ends[state] += many * self.above[after] << self.bits * x
            self.above = ends

    def _ways(self, table: Table, bins: Table) -> Counter[tuple[int, int, int]]:
        """Count letters by state before, state after, and bins above the letter's least."""
        least, most = min(map(min, bins)), max(map(max, bins))
        self.offset, self.total = self.offset + least, self.total + most - least
        require(
            self.total < limits.MAX_BINS, f"words are spread over more than {limits.MAX_BINS} bins"
        )
        return Counter(
            (state, after, x - least)
            for state, rows in enumerate(zip(table, bins, strict=True))
            for after, x in zip(*rows, strict=True)
        )

    def from_on(self, state: int, after: int, least: int) -> int:
        """Count words with these states at the window's ends and a sum of at least so many bins.

        2^bits is 1 modulo 2^bits - 1, and there are fewer words than that: the remainder is the sum
        of all bins.
        """
        key = state, after, max(least - self.offset, 0)
        if key not in self.known:
            together = self.below[state] * self.above[after]
            self.known[key] = (together >> self.bits * key[2]) % ((1 << self.bits) - 1)
        return self.known[key]


def counted(
    task: Automaton,
    heads: list[Head],
    plane: Hyperplane,
    box: list[tuple[int, int]],
    cells: list[Cell],
    bits: int,
) -> tuple[int, int] | None:
    """Count words of cells: (at least wrong, at most not right), or None if unknown.

    Wrong words have φ ≤ wrong, right ones φ ≥ right.

    All cells have the same window; the box is over 2^bits.
    """
    low, high = cells[0].low, cells[0].high
    require(
        all((cell.low, cell.high) == (low, high) for cell in cells),
        "counted cells of several windows",
    )
    tables = [[[[0] * len(row) for row in after] for after in task.next] for _ in "lh"]
    constants, sides, place = [0, 0], list[tuple[int, int, int]](), 0
    for head, rho in zip(heads, plane.at, strict=True):
        slope, ends = plane.slope[place : place + head.size], box[place : place + head.size]
        place += head.size
        least, most = head.denominators([head.view.placed(task, cell) for cell in cells])
        if least <= 0:
            return None
        middle = (least + most) // 2
        lowest = sum(min(g * a, g * b) for g, (a, b) in zip(slope, ends, strict=True)) - (
            rho << bits
        )
        largest = sum(max(g * a, g * b) for g, (a, b) in zip(slope, ends, strict=True)) - (
            rho << bits
        )
        sides.append(
            (
                middle,
                max(most - middle, middle - least) + 1,
                at_units(max(-lowest, largest, 0), 2 * bits),
            )
        )
        for side, (constant, sums) in enumerate(head.terms(slope, rho, bits, middle)):
            constants[side] += constant
            for table, index, here in zip(tables[side], head.view.index, sums, strict=True):
                for row, numbers in zip(table, index, strict=True):
                    row[:] = [x + here[number] for x, number in zip(row, numbers, strict=True)]
    ends_of = [
        at_units(end, bits) - at_units(sum(plane.at), bits) for end in (plane.right, plane.wrong)
    ]
    if len(heads) == 1:
        errors = [-(-side[1] * abs(end) // side[0]) for end in ends_of for side in sides]
    else:
        errors = [sum(-(-d * reach // middle) for middle, d, reach in sides)] * 2
    width = at_units(plane.bin, bits)
    outside = [*range(low), *range(high, len(task.next))]
    seen = [n for n in outside if any(head.view.places[n] for head in heads)]
    loose = sum(
        max(
            b - a
            for rows in zip(tables[0][n], tables[1][n], strict=True)
            for a, b in zip(*rows, strict=True)
        )
        for n in seen
    )
    bins = [[[x // width for x in row] for row in table] for table in tables[0]]
    spread, right, wrong, total = BinHistogram(task, bins, low, high), 0, 0, 0
    for cell in cells:
        window, words = list(constants), cell.words(task)
        for n, state, a in cell.path(task):
            window = [x + table[n][state][a] for x, table in zip(window, tables, strict=True)]
        at_least = -(-(ends_of[0] + errors[0] - window[0]) // width)
        at_most = (ends_of[1] - errors[1] - window[1] - loose) // width - len(seen)
        right += spread.from_on(cell.state, cell.after, at_least)
        wrong += words - spread.from_on(cell.state, cell.after, at_most + 1)
        total += words
    return wrong, total - right
