"""Bound attention's output over all words of a cell.

From a query position with its own token, a coordinate of what a head writes is r = Σ_j w_j u_j /
Σ_j w_j over the positions seen, and r ≥ τ exactly when Σ_j w_j (u_j - τ) ≥ 0. Terms of one letter
are added up; the least sum over the letters below and above a cell is a shortest path over the
automaton's states. Nothing is divided.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from quadlens_checker.automata import Automaton, Table
from quadlens_checker.limits import COORDINATE_BITS
from quadlens_checker.reading import require
from quadlens_checker.sequence_tables import P, weight_error

Terms = Mapping[int, Mapping[int, int]]  # by position and token


class Cell(NamedTuple):
    """Words with one state before letter `low` and given letters from there on.

    `after` is the state behind these letters.
    """

    low: int
    state: int
    letters: tuple[int, ...]
    after: int

    @property
    def high(self) -> int:
        """The boundary behind the last letter fixed."""
        return self.low + len(self.letters)

    def path(self, task: Automaton) -> Iterator[tuple[int, int, int]]:
        """(letter, state before it, its symbol) of the letters fixed."""
        states = task.states(self.letters, self.low, self.state)
        return zip(range(self.low, self.high), states[:-1], self.letters, strict=True)

    def look_up(self, task: Automaton, letter: int, table: Table) -> int:
        """The entry of a table for one of the letters fixed."""
        state = task.states(self.letters[: letter - self.low], self.low, self.state)[-1]
        return table[state][self.letters[letter - self.low]]

    def words(self, task: Automaton) -> int:
        """How many there are."""
        return task.words_to[self.low][self.state] * task.words_from[self.high]


class Placed(NamedTuple):
    """A cell as a head sees it.

    `numbers` are (number of the letter, number of its tuple of tokens) of the letters fixed.
    """

    low: int
    state: int
    numbers: list[tuple[int, int]]
    high: int
    after: int


def cells_of(task: Automaton, low: int, high: int) -> Iterator[Cell]:
    """Yield all cells that fix the letters low … high - 1.

    They come by state, then by letters from the lowest.
    """
    for state in range(len(task.next[low])):
        yield from ended(task, Cell(low, state, (), state), high)


def ended(task: Automaton, cell: Cell, high: int) -> Iterator[Cell]:
    """The cells inside one, its letters fixed up to high."""
    if cell.high == high:
        yield cell
        return
    for a, after in enumerate(task.next[cell.high][cell.after]):
        yield from ended(task, cell._replace(letters=(*cell.letters, a), after=after), high)


def refined(task: Automaton, cell: Cell, sign: str) -> Iterator[Cell]:
    """The cells inside one that fix one letter more, below (`-`) or above (`+`) those it fixes."""
    if sign == "+":
        require(cell.high < len(task.next), "a letter after the last one")
        yield from ended(task, cell, cell.high + 1)
        return
    require(sign == "-" and cell.low > 0, "a letter before the first one")
    for state, row in enumerate(task.next[cell.low - 1]):
        for a, after in enumerate(row):
            if after == cell.state:
                yield cell._replace(low=cell.low - 1, state=state, letters=(a, *cell.letters))


def leaves_of(task: Automaton, cell: Cell, entry: Any) -> Iterator[tuple[Cell, int | None]]:
    """Yield the cells that an entry of a certificate names, with the number of their leaf.

    Together they are the given cell.
    """
    if entry is None or type(entry) is int:
        yield cell, entry
        return
    require(
        isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], list),
        "an entry that is no cell",
    )
    children = list(refined(task, cell, entry[0]))
    require(len(children) == len(entry[1]), "a refined cell that lacks cells, or has too many")
    for child, inner in zip(children, entry[1], strict=True):
        yield from leaves_of(task, child, inner)


@dataclass(frozen=True, eq=False)
class HeadView:
    """What a head sees from one position: the tokens of each letter after each state.

    tokens: for each letter the distinct tuples of tokens at its positions. index: number of the
    tuple, by letter, state before it and letter. groups: for each letter sets of such tuples;
    edges: by letter and state, (state after, number of the set of tuples that lead there).
    """

    constant: list[tuple[int, int]]
    places: list[list[int]]
    tokens: list[list[tuple[int, ...]]]
    index: list[list[list[int]]]
    groups: list[list[tuple[int, ...]]]
    edges: list[list[list[tuple[int, int]]]]

    @classmethod
    def of(cls, task: Automaton, seen: list[int]) -> "HeadView":
        """Arrange the positions seen by the letters that they depend on."""
        view = cls([], [[] for _ in task.next], [], [], [], [])
        tables: list[list[Any]] = [[] for _ in task.next]
        for j in seen:
            fed = task.fed[j]
            if isinstance(fed, int):
                view.constant.append((j, fed))
            else:
                view.places[fed[0]].append(j)
                tables[fed[0]].append(fed[1])
        for after, here in zip(task.next, tables, strict=True):
            known: dict[tuple[int, ...], int] = {}
            groups: dict[tuple[int, ...], int] = {}
            index, edges = [], []
            for s, row in enumerate(after):
                numbers = [
                    known.setdefault(tuple([t[s][a] for t in here]), len(known))
                    for a in range(len(row))
                ]
                reached: dict[int, set[int]] = {}
                for number, state in zip(numbers, row, strict=True):
                    reached.setdefault(state, set()).add(number)
                index.append(numbers)
                edges.append(
                    [
                        (e, groups.setdefault(tuple(sorted(g)), len(groups)))
                        for e, g in reached.items()
                    ]
                )
            view.tokens.append(list(known))
            view.index.append(index)
            view.groups.append(list(groups))
            view.edges.append(edges)
        return view

    @cached_property
    def last(self) -> int:
        """The last letter of which anything is seen, or -1."""
        return max((n for n, places in enumerate(self.places) if places), default=-1)

    def placed(self, task: Automaton, cell: Cell) -> Placed:
        """Return a cell as the head sees it."""
        numbers = [
            (n, self.index[n][state][a]) for n, state, a in cell.path(task) if self.places[n]
        ]
        return Placed(cell.low, cell.state, numbers, cell.high, cell.after)

    def symbols(self, task: Automaton, cell: Cell) -> list[int]:
        """The number of the tuple of tokens of each letter that a cell fixes."""
        return [self.index[n][state][a] for n, state, a in cell.path(task)]

    def sums(self, terms: Terms) -> tuple[int, list[list[int]]]:
        """Add up a term per position: over constant positions, and per letter and tuple."""
        by_letter = []
        for places, tuples in zip(self.places, self.tokens, strict=True):
            of = [terms[j] for j in places]
            by_letter.append(
                [sum([t[v] for t, v in zip(of, tokens, strict=True)]) for tokens in tuples]
            )
        return sum(terms[j][v] for j, v in self.constant), by_letter


@dataclass(frozen=True, eq=False)
class Attention:
    """A head seen from one position with its own token: weights w̃ and their sums.

    The weights are those of all positions and tokens.
    """

    view: HeadView
    weights: Terms

    @cached_property
    def sums(self) -> tuple[int, list[list[int]]]:
        """Return the sums of the weights, as `HeadView.sums` does."""
        return self.view.sums(self.weights)

    def ratio(self, values: Mapping[int, Mapping[int, tuple[int, int]]], sign: int) -> "Ratio":
        """Return the ratio of a coordinate (sign 1) or of its negative (-1).

        `values` are the middle and the error over 2^P.

        u is rounded down to ū, an integer over 2^U. With |w - w̃| ≤ δ and |ū|, |τ| ≤ most, w (u -
        τ) ≥ w (ū - τ) ≥ w̃ (ū - τ) - 2 δ most.
        """
        cut = P - COORDINATE_BITS
        lower = {
            j: {v: (sign * values[j][v][0] - values[j][v][1]) >> cut for v in here}
            for j, here in self.weights.items()
        }
        most = max(max(map(abs, here.values())) for here in lower.values()) + 1
        terms = {
            j: {v: w * lower[j][v] - 2 * most * weight_error(w) for v, w in here.items()}
            for j, here in self.weights.items()
        }
        constant, sums = self.view.sums(terms)
        return Ratio(self, constant, sums, most)


@dataclass(frozen=True)
class Envelope:
    """The lines a - τ w that are least at some integer τ, in order of w.

    starts[i] is the first τ at which line i + 1 is no more than line i.
    """

    lines: list[tuple[int, int]]
    starts: list[int]

    @classmethod
    def of(cls, lines: Iterable[tuple[int, int]]) -> "Envelope":
        """Leave out the lines that are nowhere needed.

        Of lines with one w the least a is enough. With w₁ < w₂ < w₃ the second line is no more than
        the first from τ₁₂ = (a₂ - a₁)/(w₂ - w₁) on, and the third from τ₁₃ = (a₃ - a₁)/(w₃ - w₁)
        on. Where τ₁₃ ≤ τ₁₂ the second is not needed: before τ₁₂ it is more than the first, and from
        τ₁₂ on, which is not before τ₁₃, it is not less than the third. The lines that are left have
        τ₁₂ < τ₁₃, hence τ₁₂ < τ₂₃: each is least from its start to the next one's.
        """
        kept: list[tuple[int, int]] = []
        for a, w in sorted(lines, key=lambda line: (line[1], line[0])):
            if kept and kept[-1][1] == w:
                continue
            while len(kept) > 1:
                (a1, w1), (a2, w2) = kept[-2:]
                if (a - a1) * (w2 - w1) > (a2 - a1) * (w - w1):
                    break
                kept.pop()
            kept.append((a, w))
        starts = [-((a1 - a2) // (w2 - w1)) for (a1, w1), (a2, w2) in pairwise(kept)]
        return cls(kept, starts)

    def least(self, tau: int) -> int:
        """Return the least value at τ."""
        a, w = self.lines[bisect_right(self.starts, tau)]
        return a - tau * w


@dataclass(frozen=True, eq=False)
class Ratio:
    """The ratio r of one coordinate: numerators less their uncertainty, and denominators.

    `constant` and `sums` are of w̃ ū, less what is not known of them; |τ| ≤ most is required.
    """

    attention: Attention
    constant: int
    sums: list[list[int]]
    most: int
    envelopes: dict[int, list[Envelope]] = field(default_factory=dict)

    def least_sums(self, letter: int) -> list[Envelope]:
        """Return the least sum of one letter over each set of tuples of its tokens."""
        if letter not in self.envelopes:
            lines = list(zip(self.sums[letter], self.attention.sums[1][letter], strict=True))
            groups = self.attention.view.groups[letter]
            self.envelopes[letter] = [Envelope.of([lines[n] for n in group]) for group in groups]
        return self.envelopes[letter]

    def holds(self, tau: int, cells: list[Placed]) -> bool:
        """Whether r ≥ τ for every word of these cells; τ over 2^U."""
        if tau <= -self.most:  # no ū is smaller, and r is an average
            return True
        if tau > self.most:
            return False
        paths = LeastPaths(self, tau)
        return all(paths.least(cell) >= 0 for cell in cells)

    def of_word(self, task: Automaton, word: list[int]) -> int:
        """Return the largest τ that one word is shown to reach: the only division."""
        index, states = self.attention.view.index, task.states(word)
        top, (bottom, weights) = self.constant, self.attention.sums
        for n, a in enumerate(word):
            number = index[n][states[n]][a]
            top, bottom = top + self.sums[n][number], bottom + weights[n][number]
        require(bottom > 0, "weights of attention too small to compare")
        return max(top // bottom, -self.most)


@dataclass(frozen=True, eq=False)
class LeastPaths:
    """Least sums of w (u - τ) over letters below and above a cell, for one τ.

    terms: sums of single letters by (letter, number of its tuple). below, above: least sums by
    boundary and state. outside: their sum for the two ends of a cell.
    """

    ratio: Ratio
    tau: int
    terms: dict[tuple[int, int], int] = field(default_factory=dict)
    below: list[dict[int, int]] = field(default_factory=list)
    above: list[list[int]] = field(default_factory=list)
    outside: dict[tuple[int, int, int, int], int] = field(default_factory=dict)

    def steps(self, letter: int) -> tuple[list[int], list[list[tuple[int, int]]]]:
        """Return a letter's least sums, and by state before it (state after, number of its sum)."""
        least = [envelope.least(self.tau) for envelope in self.ratio.least_sums(letter)]
        return least, self.ratio.attention.view.edges[letter]

    def low(self, boundary: int) -> dict[int, int]:
        """Return the least sum before a boundary, by the states that are reached there.

        It is over constant positions and the letters before the boundary.
        """
        if not self.below:
            self.below.append({0: self.ratio.constant - self.tau * self.ratio.attention.sums[0]})
        while len(self.below) <= boundary:
            (least, edges), sums = self.steps(len(self.below) - 1), dict[int, int]()
            for state, start in self.below[-1].items():
                for after, g in edges[state]:
                    through = start + least[g]
                    if after not in sums or through < sums[after]:
                        sums[after] = through
            self.below.append(sums)
        return self.below[boundary]

    def up(self, boundary: int) -> list[int] | None:
        """Return the least sum of all letters from a boundary on, by the state there.

        It is None where none of these letters is seen.
        """
        last = self.ratio.attention.view.last
        if boundary > last:
            return None
        while len(self.above) <= last - boundary:
            least, edges = self.steps(last - len(self.above))
            if self.above:
                behind = self.above[-1]
                sums = [min([least[g] + behind[after] for after, g in ways]) for ways in edges]
            else:
                sums = [min([least[g] for _, g in ways]) for ways in edges]
            self.above.append(sums)
        return self.above[last - boundary]

    def term(self, place: tuple[int, int]) -> int:
        """Return w (u - τ) of one letter and tuple of its tokens, and remember it."""
        letter, number = place
        sums, weights = self.ratio.sums[letter], self.ratio.attention.sums[1][letter]
        self.terms[place] = sums[number] - self.tau * weights[number]
        return self.terms[place]

    def least(self, cell: Placed) -> int:
        """Bound Σ_j w_j (u_j - τ) from below for every word of a cell."""
        ends = cell.low, cell.state, cell.high, cell.after
        total = self.outside.get(ends)
        if total is None:
            above = self.up(cell.high)
            total = self.low(cell.low)[cell.state] + (above[cell.after] if above else 0)
            self.outside[ends] = total
        known = self.terms
        for place in cell.numbers:
            total += known[place] if place in known else self.term(place)
        return total
