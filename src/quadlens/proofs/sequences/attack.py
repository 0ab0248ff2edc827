"""Find inputs with small margins. Nothing here is a proof; the words are run afterwards.

At a point r of a cell the margin falls fastest along its gradient g. To first order a word moves
Σ_k g_k r_k by Σ_l Σ_k g_k (N_lk[s,a] - r_k E_l[s,a]) / E, one term per letter, whose smallest sum
over the words of the cell is a shortest path. Its word gives the next point.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from quadlens.base.numbers import precision
from quadlens.network.margins import leads_of_set
from quadlens.network.sequence_forward import after_attention, forward
from quadlens.network.sequence_task import SequenceTask, Words
from quadlens.proofs.sequences.cells import Cells
from quadlens.proofs.sequences.tables import Network, StepTables

ROUNDS = 4
TRUTH_BITS = 200


@dataclass(frozen=True, eq=False)
class FoundWord:
    """A word and its margin at a step.

    Attributes:
        margin: In float64.
        step: Where.
        word: Its letters.
    """

    margin: float
    step: int
    word: tuple[int, ...]


def point_margins(
    network: Network,
    stream: Float[np.ndarray, " d"],
    points: Float[np.ndarray, "n k"],
    answers: Int[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """Return the margins at points of the coordinates, in float64."""
    logits = after_attention(network.weights, stream + points @ network.rows)
    return leads_of_set(logits, network.task.answers[answers])


def word_margin(network: Network, word: Words, step: int) -> float:
    """Return the margin of one word at a step, in float64.

    It is infinite where no token can be wrong, or where float64 cannot hold it.
    """
    task = network.task
    logits = forward(network.weights, task.tokens(word), task.steps[step][0])
    margin = float(leads_of_set(logits, task.right(word, step))[0])
    return np.inf if np.isnan(margin) else margin


def attack(
    network: Network,
    tables: StepTables,
    step: int,
    cells: Cells,
    at: int,
    start: Float[np.ndarray, " k"],
) -> FoundWord:
    """Return the word of a cell with the smallest margin that descent from `start` finds."""
    task, own, heads = network.task, cells.own, network.heads
    stream = tables.stream.middle[own]
    N = [table.middle[own] for table in tables.N]
    E = [table.middle[own] for table in tables.E]
    point, best = start, FoundWord(np.inf, step, ())
    for _ in range(ROUNDS):
        gradient = margin_gradient(network, stream, point, int(cells.answer[at]))
        costs = [
            n @ gradient - e[..., heads] @ (gradient * point) for n, e in zip(N, E, strict=True)
        ]
        word = shortest_word(
            task, costs, cells.first, [(int(cells.state[at]), tuple(cells.letters[at].tolist()))]
        )
        descended = FoundWord(word_margin(network, word, step), step, tuple(word[0].tolist()))
        if best.word and descended.margin >= best.margin:
            break
        best, states = descended, task.trace(word)[0]
        total_N, total_E = tables.N_constant.middle[own], tables.E_constant.middle[own]
        for letter in range(task.letters):
            total_N = total_N + N[letter][states[letter], word[0, letter]]
            total_E = total_E + E[letter][states[letter], word[0, letter]]
        with np.errstate(divide="ignore", invalid="ignore"):
            point = np.nan_to_num(total_N / total_E[heads])
    return best


def margin_gradient(
    network: Network, stream: Float[np.ndarray, " d"], point: Float[np.ndarray, " k"], answer: int
) -> Float[np.ndarray, " k"]:
    """Estimate the margin's gradient by central differences."""
    k = len(point)
    step = 1e-6 * (1 + np.abs(point).max(initial=0.0))
    points = np.concatenate([point + step * np.eye(k), point - step * np.eye(k)])
    margins = point_margins(network, stream, points, np.full(2 * k, answer))
    return np.nan_to_num((margins[:k] - margins[k:]) / (2 * step))


def shortest_word(
    task: SequenceTask,
    costs: list[Float[np.ndarray, "_ _"]],
    first: int,
    cells: list[tuple[int, tuple[int, ...]]],
) -> Words:
    """Return the word of some cells with the smallest sum of costs.

    Args:
        task: The task.
        costs: Of each letter.
        first: The first letter of the cells' window.
        cells: Of each, its state before the window and its letters.
    """
    word = np.zeros((1, task.letters), dtype=np.int64)
    # Beginnings that lead to a state, forwards, remembering how.
    sums, came = np.zeros(1), []
    for letter in range(first):
        table = task.next[letter]
        total = (sums[:, None] + costs[letter]).ravel()
        order = np.lexsort((total, table.ravel()))
        reached, starts = np.unique(table.ravel()[order], return_index=True)
        sums, how = (
            np.full(task.states[letter + 1], np.inf),
            np.zeros(task.states[letter + 1], dtype=np.int64),
        )
        sums[reached], how[reached] = total[order[starts]], order[starts]
        came.append(how)
    # Ends from the cells' upper boundary, backwards.
    last = first + len(cells[0][1])
    ends, choice = np.zeros(task.states[-1]), []
    for letter in range(task.letters - 1, last - 1, -1):
        total = costs[letter] + ends[task.next[letter]]
        choice.append(total.argmin(axis=1))
        ends = total.min(axis=1)
    best, state, end = np.inf, 0, 0
    for number, (begin, letters) in enumerate(cells):
        total, after = sums[begin], begin
        for letter, a in enumerate(letters, first):
            total, after = total + costs[letter][after, a], int(task.next[letter][after, a])
        if number == 0 or total + ends[after] < best:
            best, state, end, word[0, first:last] = total + ends[after], begin, after, letters
    for letter in range(first - 1, -1, -1):
        state, word[0, letter] = divmod(int(came[letter][state]), task.alphabets[letter])
    for letter, chosen in zip(range(last, task.letters), reversed(choice), strict=True):
        word[0, letter] = chosen[end]
        end = int(task.next[letter][end, word[0, letter]])
    return word


def true_margin(network: Network, word: tuple[int, ...], step: int) -> tuple[float, float, int]:
    """Bound a word's margin at a step in real arithmetic; also return its top token."""
    task = network.task
    letters = np.array([word])
    with precision(TRUTH_BITS):
        logits = forward(network.weights, task.tokens(letters), task.steps[step][0], True)[0]
        right = task.right(letters, step)[0]
        ends_of = [
            np.array([float(getattr(x, end)()) for x in logits]) for end in ("lower", "upper")
        ]
    # Reading a ball's end as a float may round it either way.
    low, high = np.nextafter(ends_of[0], -np.inf), np.nextafter(ends_of[1], np.inf)
    with np.errstate(over="ignore"):
        ends = (
            low[right].max() - high[~right].max(initial=-np.inf),
            high[right].max() - low[~right].max(initial=-np.inf),
        )
    middle = low / 2 + high / 2
    return (
        float(np.nextafter(ends[0], -np.inf)),
        float(np.nextafter(ends[1], np.inf)),
        int(middle.argmax()),
    )
