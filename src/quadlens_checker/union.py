"""How many words are in wrong cells of one step or another: |∪ W_i| ≥ Σ_i (|W_i| - Σ_{j before i} |W_i ∩ W_j|).

The steps come by |W_i|, the largest first (of equal ones the earlier), and one that would add nothing is passed over.
"""

from collections import Counter, defaultdict
from itertools import product

from quadlens_checker.automata import Automaton
from quadlens_checker.cells import Cell
from quadlens_checker.counting import words_behind

Windows = dict[tuple[int, int], list[Cell]]


def in_some(task: Automaton, wrong: list[list[Cell]]) -> int:
    """No more than the words that are in one of the wrong cells, which are given for each step."""
    words_to, found, taken = task.words_to(), 0, list[Windows]()
    windows = [by_window(cells) for cells in wrong]
    sizes = [
        sum(words_to[low][cell.state] * words_behind(task, high) for (low, high), here in one.items() for cell in here)
        for one in windows
    ]
    for number in sorted(range(len(sizes)), key=lambda n: (-sizes[n], n)):
        more = sizes[number]
        for other in taken:
            for first, second in product(windows[number].values(), other.values()):
                more -= common(task, words_to, *((first, second) if first[0].low <= second[0].low else (second, first)))
        if more > 0:
            found += more
            taken.append(windows[number])
    return found


def by_window(cells: list[Cell]) -> Windows:
    """Cells by the letters that they fix."""
    found: Windows = defaultdict(list)
    for cell in cells:
        found[cell.low, cell.high].append(cell)
    return found


def common(task: Automaton, words_to: list[list[int]], lower: list[Cell], upper: list[Cell]) -> int:
    """How many words are in both; the windows are the same within each, and the first one does not begin later."""
    (low, high), (start, end) = (lower[0].low, lower[0].high), (upper[0].low, upper[0].high)
    if start >= high:
        paths = Counter[int]()
        for cell in lower:
            paths[cell.after] += words_to[low][cell.state]
        for table in task.next[high:start]:
            onwards = Counter[int]()
            for state, n in paths.items():
                for after in table[state]:
                    onwards[after] += n
            paths = onwards
        return sum(paths[cell.state] for cell in upper) * words_behind(task, end)
    both = min(high, end)
    fitting = Counter((cell.state, cell.letters[: both - start]) for cell in upper)
    total = 0
    for cell in lower:
        state = cell.state
        for n, a in enumerate(cell.letters[: start - low], low):
            state = task.next[n][state][a]
        total += words_to[low][cell.state] * fitting[state, cell.letters[start - low : both - low]]
    return total * words_behind(task, max(high, end))
