"""Bound from below how many words are wrong at some step, from all steps' wrong cells.

With W_i the words in wrong cells of step i, |∪ W_i| ≥ Σ_i (|W_i| - Σ_{j before i} |W_i ∩ W_j|) over
any steps in any order. Steps come by size, the largest first, and one that would add nothing is
left out. |W_i ∩ W_j| is counted exactly: two cells share words where they agree on the letters and
the state that both fix, and then those words are a cell again, or two cells with paths of the
automaton in between.
"""

from collections import Counter, defaultdict
from typing import NamedTuple

from quadlens.network.sequence_task import SequenceTask


class Fixed(NamedTuple):
    """A cell as the letters that it fixes.

    Attributes:
        first: The first letter of the window.
        states: Before each of its letters, and after the last.
        letters: Of the window.
    """

    first: int
    states: tuple[int, ...]
    letters: tuple[int, ...]


def in_union(task: SequenceTask, wrong: list[list[Fixed]]) -> int:
    """Bound from below how many words are in a wrong cell of some step.

    `wrong` lists the wrong cells of each step.
    """
    chosen, total = list[int](), 0
    windows = [_by_window(cells) for cells in wrong]
    sizes = [
        sum(
            task.words_to[cell.first][cell.states[0]]
            * task.words_from[cell.first + len(cell.letters)]
            for cell in cells
        )
        for cells in wrong
    ]
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        gain = sizes[i]
        for j in chosen:
            if gain <= 0:
                break
            gain -= sum(
                _shared(task, *sorted((a, b)))
                for a in windows[i].items()
                for b in windows[j].items()
            )
        if gain > 0:
            chosen.append(i)
            total += gain
    return total


Window = tuple[tuple[int, int], list[Fixed]]


def _by_window(cells: list[Fixed]) -> dict[tuple[int, int], list[Fixed]]:
    windows: dict[tuple[int, int], list[Fixed]] = defaultdict(list)
    for cell in cells:
        windows[cell.first, cell.first + len(cell.letters)].append(cell)
    return dict(windows)


def _shared(task: SequenceTask, one: Window, other: Window) -> int:
    """Count the words that are in cells of both windows.

    The first window begins no later than the second.
    """
    ((a, b), lower), ((c, d), upper) = one, other
    if c >= b:
        begun = Counter[int]()
        for cell in lower:
            begun[cell.states[-1]] += task.words_to[a][cell.states[0]]
        for table in task.next[b:c]:
            after = Counter[int]()
            for state, n in begun.items():
                for to in table[state].tolist():
                    after[to] += n
            begun = after
        return sum(begun[cell.states[0]] for cell in upper) * task.words_from[d]
    end = min(b, d)
    agreeing = Counter((cell.states[0], cell.letters[: end - c]) for cell in upper)
    begun_at = (
        task.words_to[a][cell.states[0]]
        * agreeing[cell.states[c - a], cell.letters[c - a : end - a]]
        for cell in lower
    )
    return sum(begun_at) * task.words_from[max(b, d)]
