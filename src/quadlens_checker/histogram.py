"""Words of some cells by a sum of one integer per letter: least sums and negative sums.

States from which the same sums follow are merged first. A histogram of sums is one integer, `bits`
bits per bin, and each bin's count is at most the number of words, which is below 2^bits - 1: no bin
runs over into the next one. Adding a letter's term is a shift, and the integer modulo 2^bits - 1 is
the sum of its bins.
"""

from dataclasses import dataclass
from functools import cached_property

from quadlens_checker import limits
from quadlens_checker.automata import Table
from quadlens_checker.reading import require

# For each letter and kind of states before it: by the kind of states after it, the symbols that
# lead there.
Level = list[dict[int, list[int]]]


@dataclass(frozen=True, eq=False)
class WordPaths:
    """Words as paths from one kind of states before the first letter."""

    start: int
    levels: list[Level]

    @cached_property
    def used(self) -> list[set[int]]:
        """List the symbols of each letter that occur."""
        return [
            {n for edges in level for symbols in edges.values() for n in symbols}
            for level in self.levels
        ]

    def least(self, terms: list[list[int]]) -> int:
        """Return the smallest sum of any word; terms are by letter and symbol."""
        best = {self.start: 0}
        for level, term in zip(self.levels, terms, strict=True):
            after: dict[int, int] = {}
            for kind, total in best.items():
                for to, symbols in level[kind].items():
                    behind = total + min([term[n] for n in symbols])
                    after[to] = min(after.get(to, behind), behind)
            best = after
        return min(best.values())

    def negative(self, terms: list[list[int]], bits: int) -> int:
        """Count the words with a sum below 0.

        Bins are counted from the sum of each letter's smallest term on.
        """
        smallest = [
            min([term[n] for n in used]) for term, used in zip(terms, self.used, strict=True)
        ]
        bins = -sum(smallest)
        if bins <= 0:
            return 0
        require(bins <= limits.MAX_BINS, f"a histogram of more than {limits.MAX_BINS} bins")
        counts, below = {self.start: 1}, (1 << bits * bins) - 1
        for level, term, least in zip(self.levels, terms, smallest, strict=True):
            after: dict[int, int] = {}
            for kind, histogram in counts.items():
                for to, symbols in level[kind].items():
                    places = [bits * (term[n] - least) for n in symbols if term[n] - least < bins]
                    after[to] = (
                        sum([histogram << place for place in places], after.get(to, 0)) & below
                    )
            counts = after
        return sum(counts.values()) % ((1 << bits) - 1)


def words(
    tables: list[Table], symbols: list[Table], start: int, ends: frozenset[int] | None
) -> WordPaths:
    """Return the words over these letters from a state to one of `ends`, or to any.

    `tables` and `symbols` are by [state][letter]: the state after it, and its symbol.

    Two states are of one kind where as many letters with each symbol lead to each kind after them.
    """
    states = (
        frozenset(state for row in tables[-1] for state in row) if tables else frozenset([start])
    )
    kinds = dict.fromkeys(states if ends is None else states & ends, 0)
    levels: list[Level] = []
    for letter in range(len(tables) - 1, -1, -1):
        known: dict[tuple[tuple[int, int], ...], int] = {}
        before, level = dict[int, int](), list[dict[int, list[int]]]()
        for state, (row, numbers) in enumerate(zip(tables[letter], symbols[letter], strict=True)):
            onwards = [
                (kinds[after], n) for after, n in zip(row, numbers, strict=True) if after in kinds
            ]
            if not onwards:
                continue
            key = tuple(sorted(onwards))
            if key not in known:
                known[key] = len(level)
                level.append({})
                for to, n in onwards:
                    level[-1].setdefault(to, []).append(n)
            before[state] = known[key]
        kinds = before
        levels.append(level)
    require(start in kinds, "a cell that no word reaches")
    return WordPaths(kinds[start], levels[::-1])
