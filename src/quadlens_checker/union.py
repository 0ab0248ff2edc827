"""How many words are in wrong cells of one step or another.

|∪ W_i| ≥ Σ_i (|W_i| - Σ_{j before i} |W_i ∩ W_j|).

The steps come by |W_i|, the largest first (of equal ones the earlier), and one that would add
nothing is passed over.
"""

from collections import Counter, defaultdict
from itertools import product

from quadlens_checker.automata import Automaton
from quadlens_checker.cells import Cell

Windows = dict[tuple[int, int], list[Cell]]


def in_some(task: Automaton, wrong: list[list[Cell]]) -> int:
    """No more than the words that are in one of the wrong cells, which are given for each step."""
    total, taken = 0, list[Windows]()
    windows, sizes = (
        [by_window(cells) for cells in wrong],
        [sum(cell.words(task) for cell in cells) for cells in wrong],
    )
    for step in sorted(range(len(sizes)), key=lambda n: (-sizes[n], n)):
        more = sizes[step]
        for other in taken:
            for first, second in product(windows[step].values(), other.values()):
                more -= common(
                    task, *((first, second) if first[0].low <= second[0].low else (second, first))
                )
        if more > 0:
            total += more
            taken.append(windows[step])
    return total


def by_window(cells: list[Cell]) -> Windows:
    """Cells by the letters that they fix."""
    windows: Windows = defaultdict(list)
    for cell in cells:
        windows[cell.low, cell.high].append(cell)
    return windows


def common(task: Automaton, lower: list[Cell], upper: list[Cell]) -> int:
    """Count the words in both lists of cells.

    The windows are the same within each list, and the first one does not begin later.
    """
    (low, high), (start, end) = (lower[0].low, lower[0].high), (upper[0].low, upper[0].high)
    if start >= high:
        paths = Counter[int]()
        for cell in lower:
            paths[cell.after] += task.words_to[low][cell.state]
        for table in task.next[high:start]:
            onwards = Counter[int]()
            for state, n in paths.items():
                for after in table[state]:
                    onwards[after] += n
            paths = onwards
        return sum(paths[cell.state] for cell in upper) * task.words_from[end]
    both = min(high, end)
    fitting = Counter((cell.state, cell.letters[: both - start]) for cell in upper)
    total = 0
    for cell in lower:
        state = task.states(cell.letters[: start - low], low, cell.state)[-1]
        total += (
            task.words_to[low][cell.state] * fitting[state, cell.letters[start - low : both - low]]
        )
    return total * task.words_from[max(high, end)]
