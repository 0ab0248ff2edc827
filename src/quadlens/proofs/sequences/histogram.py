"""Words of cells as a small automaton, to minimise and count sums of one term per letter.

States with the same future are one: the largest of ten tokens has 64 states, but of words whose
largest is m it only matters whether m was seen. Words are counted by their sum in whole steps,
exactly: a histogram is one integer with `bits` bits per bin, so that a letter is a shift and an
addition.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from quadlens.network.sequence_task import SequenceTask
from quadlens.proofs.sequences.interval import down

# Of one kind of states before a letter: the kind after it, and the symbols that lead there, one per
# letter.
Edge = tuple[int, Int[np.ndarray, " _"]]
Numbers = tuple[Int[np.ndarray, "_ _"], ...]


class WordAutomaton(NamedTuple):
    """Words between two boundaries.

    Attributes:
        start: The kind of the state before the first letter.
        levels: For each letter and kind of states before it, the edges.
    """

    start: int
    levels: tuple[tuple[tuple[Edge, ...], ...], ...]

    def used(self) -> list[Int[np.ndarray, " _"]]:
        """List the symbols of each letter that some word has."""
        return [
            np.unique(np.concatenate([there for edges in level for _, there in edges]))
            for level in self.levels
        ]


def word_automaton(
    task: SequenceTask,
    symbols: Numbers,
    first: int,
    last: int,
    start: int,
    ends: frozenset[int] | None,
) -> WordAutomaton:
    """Return the words from a state before letter `first` to certain states before `last`.

    `ends` are these states; None allows any.
    """
    kind = np.full(task.states[last], -1 if ends is not None else 0)
    kind[list(ends or ())] = 0
    levels = []
    for letter in range(last - 1, first - 1, -1):
        after, many = kind[task.next[letter]], int(symbols[letter].max()) + 1
        keys = np.sort(np.where(after < 0, -1, after * many + symbols[letter]), axis=1)
        rows, which = np.unique(keys, axis=0, return_inverse=True)
        live = np.flatnonzero(rows[:, -1] >= 0)
        number = np.full(len(rows), -1)
        number[live] = np.arange(len(live))
        kind = number[which.ravel()]
        levels.append(tuple(_edges(row[row >= 0], many) for row in rows[live]))
    return WordAutomaton(int(kind[start]), tuple(reversed(levels)))


def _edges(row: Int[np.ndarray, " n"], many: int) -> tuple[Edge, ...]:
    return tuple((int(to), row[row // many == to] % many) for to in np.unique(row // many))


def least(words: WordAutomaton, terms: list[Float[np.ndarray, "_ c"]]) -> Float[np.ndarray, " c"]:
    """Bound every word's sum from below, for each column of the terms.

    Terms are [symbol, column], one array per letter.
    """
    best = {words.start: np.zeros(terms[0].shape[1])}
    for level, term in zip(words.levels, terms, strict=True):
        after: dict[int, Float[np.ndarray, " c"]] = {}
        for kind, so_far in best.items():
            for to, symbols in level[kind]:
                total = down(so_far + term[symbols].min(axis=0))
                after[to] = np.minimum(after[to], total) if to in after else total
        best = after
    return np.min(list(best.values()), axis=0)


def count_negative(words: WordAutomaton, steps: list[list[int]], bits: int) -> int:
    """Count the words with a negative sum of steps, exactly.

    There are fewer than 2^bits - 1 words.
    """
    smallest = [
        min(step[n] for n in used.tolist()) for step, used in zip(steps, words.used(), strict=True)
    ]
    top = -1 - sum(smallest)
    if top < 0:
        return 0
    histograms, cut = {words.start: 1}, (1 << bits * (top + 1)) - 1
    for level, here, low in zip(words.levels, steps, smallest, strict=True):
        after: dict[int, int] = {}
        for kind, histogram in histograms.items():
            for to, symbols in level[kind]:
                total = after.get(to, 0)
                for n in symbols.tolist():
                    if here[n] - low <= top:
                        total += histogram << bits * (here[n] - low)
                after[to] = total
        histograms = {kind: total & cut for kind, total in after.items()}
    return sum(histograms.values()) % ((1 << bits) - 1)
