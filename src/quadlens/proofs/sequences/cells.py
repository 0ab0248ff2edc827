"""Cells: the words that pass one state and have given letters in a window.

Letters outside the window are free.

At a step the window goes from the letter that is asked for to the letter of the query's own token,
so that the right answer and the own token are functions of the cell. Refining a cell fixes one more
letter, below or above its window.
"""

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from quadlens.base.errors import BadConfig
from quadlens.network.sequence_task import SequenceTask
from quadlens.proofs.sequences.interval import Interval
from quadlens.proofs.sequences.tables import StepTables

Indices = Int[np.ndarray, " n"]
# Cells that a step may have before any is refined: as many as two letters of the largest alphabet.
MOST_AT_FIRST = 1 << 20


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
        """Return the cells at these indices."""
        arrays = (
            self.state[at],
            self.after[at],
            self.answer[at],
            self.N[at],
            self.E[at],
            self.letters[at],
        )
        return Cells(self.first, self.last, self.own, *arrays)

    def refined(self, task: SequenceTask, tables: StepTables, side: str) -> tuple["Cells", Indices]:
        """Fix one more letter of every cell, below ("-") or above ("+") its window.

        The result is the children, and for each child the index of its parent, in order.
        """
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
            state, after, first, last = (
                self.state[parent],
                table[states, letters],
                self.first,
                self.last + 1,
            )
            window = np.concatenate([self.letters[parent], letters[:, None]], axis=1)
        N = self.N[parent] + tables.N[letter][self.own, states, letters]
        E = self.E[parent] + tables.E[letter][self.own, states, letters]
        return Cells(first, last, self.own, state, after, self.answer[parent], N, E, window), parent


def window(task: SequenceTask, step: int) -> tuple[int, int]:
    """Return the first letter of a step's window and the letter after its last."""
    query, letter, _ = task.steps[step]
    fed = task.positions[query]
    both = (letter, letter if isinstance(fed, int) else fed[0])
    return min(both), max(both) + 1


def places_of(task: SequenceTask, step: int) -> tuple[int, ...]:
    """Return the number of states before a step's window and of letters at each place in it."""
    first, last = window(task, step)
    return (task.states[first], *task.alphabets[first:last])


class ReachedCells(NamedTuple):
    """Every cell of a step that a word passes, one row each.

    Attributes:
        place: In canonical order: by the state before the window, then by letters from the lowest.
        states: Before each letter of the window, and after the last.
        letters: Of the window.
        own: The query's own token.
        answer: The right answer.
    """

    place: Indices
    states: Int[np.ndarray, "n _"]
    letters: Int[np.ndarray, "n w"]
    own: Indices
    answer: Indices


def check_window(task: SequenceTask, step: int) -> None:
    """Refuse a step with too many cells, before memory is taken for them.

    Raises:
        BadConfig: where the letter that is asked for is far from that of the position that is read.
    """
    first, last = window(task, step)
    if prod(places_of(task, step)) > MOST_AT_FIRST:
        raise BadConfig(
            f"task {task.name!r}: step {step} fixes the letters {first} … {last - 1}, from "
            "the one that is asked for "
            "to that of the position that is read. These have more than "
            f"{MOST_AT_FIRST:,} cells, and every one is listed; read a "
            "position whose letter is nearer"
        )


def reached(task: SequenceTask, step: int) -> ReachedCells:
    """List the cells of a step that some word passes, in canonical order.

    Raises:
        BadConfig: where there are too many.
    """
    check_window(task, step)
    (query, asked, right), (first, _), shape = (
        task.steps[step],
        window(task, step),
        places_of(task, step),
    )
    columns = np.stack(np.unravel_index(np.arange(int(np.prod(shape))), shape), axis=1)
    place = np.flatnonzero((np.array(task.words_to[first], dtype=object) > 0)[columns[:, 0]])
    states, letters = [columns[place, 0]], columns[place, 1:]
    for letter, symbols in enumerate(letters.T, first):
        states.append(task.next[letter][states[-1], symbols])

    def at(letter: int, table: np.ndarray) -> Indices:
        return table[states[letter - first], letters[:, letter - first]]

    fed = task.positions[query]
    own = np.full(len(place), fed) if isinstance(fed, int) else at(*fed)
    return ReachedCells(place, np.stack(states, axis=1), letters, own, at(asked, right))


def all_cells(
    task: SequenceTask, tables: StepTables, step: int
) -> tuple[list[Cells], list[Indices]]:
    """Group the cells that some word passes by own token, with their canonical places."""
    (first, last), every = window(task, step), reached(task, step)
    groups, places = [], []
    for index, token in enumerate(tables.own):
        members = np.flatnonzero(every.own == token)
        if not len(members):
            continue
        states, letters = every.states[members], every.letters[members]
        N, E = (Interval.zeros(len(members), part[0].shape[-1]) for part in (tables.N, tables.E))
        for letter, s, a in zip(range(first, last), states.T, letters.T, strict=False):
            N, E = N + tables.N[letter][index, s, a], E + tables.E[letter][index, s, a]
        ends = states[:, 0], states[:, -1]
        groups.append(Cells(first, last, index, *ends, every.answer[members], N, E, letters))
        places.append(every.place[members])
    return groups, places
