"""Cells: the words that pass a state and have given letters in a window, everything outside being free.

At a step the window goes from the letter that is asked for to the letter of the query's own token, so that the right
answer and the own token are functions of the cell. Refining a cell fixes one more letter, below or above its window.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from quadlens.model.sequence_task import SequenceTask
from quadlens.sequences.interval import Interval
from quadlens.sequences.tables import StepTables

Indices = Int[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of one step with the same window and own token.

    Attributes:
        first: The first letter of the window.
        last: The letter after its last.
        own: Index of the own token.
        state: Of each cell, at the window's lower boundary.
        after: Of each cell, at its upper boundary.
        answer: The right answer of each.
        N: What the window's letters add, [cell, coordinate].
        E: The same for denominators, [cell, head].
        letters: The window's letters, [cell, letter].
    """

    first: int
    last: int
    own: int
    state: Indices
    after: Indices
    answer: Indices
    N: Interval
    E: Interval
    letters: Int[np.ndarray, "n w"]

    def __len__(self) -> int:
        return len(self.state)

    def of(self, at: np.ndarray) -> "Cells":
        """Some of them."""
        arrays = (self.state[at], self.after[at], self.answer[at], self.N[at], self.E[at], self.letters[at])
        return Cells(self.first, self.last, self.own, *arrays)

    def count(self, task: SequenceTask, at: int) -> int:
        """How many words pass one of them, exactly."""
        return task.words_to[self.first][int(self.state[at])] * task.words_from[self.last]

    def refined(self, task: SequenceTask, tables: StepTables, side: str) -> tuple["Cells", Indices]:
        """Every cell with one more letter fixed, below ("-") or above ("+"); and whose child each is, in order."""
        if side == "-":
            table = task.next[self.first - 1]
            before = [np.argwhere(table == state) for state in range(task.states[self.first])]
            fixed = np.concatenate([before[s] for s in self.state.tolist()])
            parent = np.repeat(np.arange(len(self)), [len(before[s]) for s in self.state.tolist()])
            letter, states, letters = self.first - 1, fixed[:, 0], fixed[:, 1]
            state, after, first, last = states, self.after[parent], self.first - 1, self.last
            window = np.concatenate([letters[:, None], self.letters[parent]], axis=1)
        else:
            table = task.next[self.last]
            parent = np.repeat(np.arange(len(self)), table.shape[1])
            letter, states = self.last, self.after[parent]
            letters = np.tile(np.arange(table.shape[1]), len(self))
            state, after, first, last = self.state[parent], table[states, letters], self.first, self.last + 1
            window = np.concatenate([self.letters[parent], letters[:, None]], axis=1)
        N = self.N[parent] + tables.N[letter][self.own, states, letters]
        E = self.E[parent] + tables.E[letter][self.own, states, letters]
        return Cells(first, last, self.own, state, after, self.answer[parent], N, E, window), parent


def window(task: SequenceTask, step: int) -> tuple[int, int]:
    """First letter of a step's window, and the one after its last."""
    query, letter, _ = task.steps[step]
    fed = task.positions[query]
    both = (letter, letter if isinstance(fed, int) else fed[0])
    return min(both), max(both) + 1


def all_cells(task: SequenceTask, tables: StepTables, step: int) -> tuple[list[Cells], list[Indices]]:
    """Every cell of a step that a word passes, one group per own token; and each one's place in canonical order."""
    query, asked, right = task.steps[step]
    first, last = window(task, step)
    shape = (task.states[first], *task.alphabets[first:last])
    columns = np.unravel_index(np.arange(int(np.prod(shape))), shape)
    reached = np.array(task.words_to[first], dtype=object) > 0
    place = np.flatnonzero(reached[columns[0]])
    columns = tuple(one[place] for one in columns)
    states = [columns[0]]
    for letter in range(first, last):
        states.append(task.next[letter][states[-1], columns[1 + letter - first]])

    def at(letter: int, table: np.ndarray) -> Indices:
        return table[states[letter - first], columns[1 + letter - first]]

    fed = task.positions[query]
    own = np.full(len(place), fed) if isinstance(fed, int) else at(*fed)
    answer, letters = at(asked, right), np.stack(columns[1:], axis=1)
    groups, places = [], []
    for index, token in enumerate(tables.own):
        here = np.flatnonzero(own == token)
        if not len(here):
            continue
        N, E = (
            Interval(*(np.zeros((len(here), n)) for _ in "lh")) for n in (tables.N[0].shape[-1], tables.E[0].shape[-1])
        )
        for letter in range(first, last):
            s, a = states[letter - first][here], letters[here, letter - first]
            N, E = N + tables.N[letter][index, s, a], E + tables.E[letter][index, s, a]
        groups.append(Cells(first, last, index, columns[0][here], states[-1][here], answer[here], N, E, letters[here]))
        places.append(place[here])
    return groups, places
