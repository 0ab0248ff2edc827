"""Bound an attention coordinate over all words of a cell, by a number τ and shortest paths.

Lemma. Let w_j > 0. A coordinate Σ_j w_j u_j / Σ_j w_j is at least τ exactly when Σ_j w_j (u_j - τ)
≥ 0. The sum has one term N_l[s,a] - τ E_l[s,a] per letter, so its smallest value over all words
that pass a cell is

    low[s](τ) + Σ_{letters of the window} (N_l - τ E_l) + up[s'](τ),

low[s] being the smallest over beginnings that lead to state s, and up[s'] over ends from s' on: two
shortest paths along the automaton. That the coordinate is at most τ is the same with -u and -τ.
Everything is rounded down.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from quadlens.network.sequence_task import SequenceTask
from quadlens.proofs.sequences.cells import Cells
from quadlens.proofs.sequences.interval import Interval, down, up
from quadlens.proofs.sequences.tables import StepTables

GRID = 160


def terms(N: Interval, E: Interval, tau: Float[np.ndarray, "*g"]) -> Float[np.ndarray, "..."]:
    """Bound N - τ E from below; all shapes broadcast."""
    return down(N.lo - up(np.maximum(tau * E.lo, tau * E.hi)))


@dataclass(frozen=True, eq=False)
class ShortestPaths:
    """Smallest sums outside one window, for one own token and coordinate and many τ.

    Attributes:
        low: [state at the window's first letter, τ]: the smallest sum of constants and letters
            before it; infinite where no word leads there.
        up: [state after its last, τ]: the smallest sum of the letters after it.
    """

    low: Float[np.ndarray, "_ _"]
    up: Float[np.ndarray, "_ _"]


def side(
    tables: StepTables, own: int, coordinate: int, head: int, sign: int
) -> tuple[list[Interval], list[Interval]]:
    """Return N, or -N where `sign` is -1, and E of each letter; the constants' come last."""
    N = [part[own, ..., coordinate] for part in (*tables.N, tables.N_constant)]
    E = [part[own, ..., head] for part in (*tables.E, tables.E_constant)]
    return (N if sign > 0 else [-part for part in N]), E


def shortest_paths(
    task: SequenceTask,
    N: list[Interval],
    E: list[Interval],
    tau: Float[np.ndarray, " g"],
    cells: Cells,
) -> ShortestPaths:
    """Return the smallest sums before and after the window of these cells, for each τ."""

    def term(letter: int) -> Float[np.ndarray, "..."]:
        return terms(N[letter][..., None], E[letter][..., None], tau)

    low = term(-1)[None]
    for letter in range(cells.first):
        table = task.next[letter].ravel()
        sums = down(low[:, None] + term(letter)).reshape(-1, len(tau))
        order = np.argsort(table, kind="stable")
        reached, starts = np.unique(table[order], return_index=True)
        low = np.full((task.states[letter + 1], len(tau)), np.inf)
        low[reached] = np.minimum.reduceat(sums[order], starts, axis=0)
    ends = np.zeros((task.states[-1], len(tau)))
    for letter in range(task.letters - 1, cells.last - 1, -1):
        table = task.next[letter]
        unseen = not (E[letter].hi.any() or N[letter].lo.any() or N[letter].hi.any())
        if unseen and not ends.any():
            ends = np.zeros((len(table), len(tau)))
        else:
            ends = down(term(letter) + ends[table]).min(axis=1)
    return ShortestPaths(low, ends)


def search(
    task: SequenceTask, tables: StepTables, cells: Cells, heads: Int[np.ndarray, " k"]
) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
    """Estimate where each coordinate of each cell lies: hints, which `holds` proves.

    The smallest sum is concave in τ, so that it is above its chord between two grid points.
    """
    ends = np.empty((2, len(cells), len(heads)))
    for k, head in enumerate(heads.tolist()):
        for place, sign in enumerate((1, -1)):
            N, E = side(tables, cells.own, k, head, sign)
            grid = _grid(N, E)
            paths = shortest_paths(task, N, E, grid, cells)
            ends[place, :, k] = sign * _root(cells, paths, *_window(cells, k, head, sign), grid)
    return ends[0], ends[1]


def _window(cells: Cells, k: int, head: int, sign: int) -> tuple[Interval, Interval]:
    N = cells.N[:, k]
    return (N if sign > 0 else -N), cells.E[:, head]


def _grid(N: list[Interval], E: list[Interval]) -> Float[np.ndarray, " g"]:
    """Return a grid from below the smallest u that has weight to above the largest."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.concatenate([(n.middle / e.middle).ravel() for n, e in zip(N, E, strict=True)])
    weights = np.concatenate([e.middle.ravel() for e in E])
    ratios = ratios[(weights > 0) & np.isfinite(ratios)]
    if not len(ratios):
        return np.zeros(2)
    low, high = ratios.min(), ratios.max()
    slack = 1e-9 * (abs(low) + abs(high) + 1e-9)
    return np.linspace(low - slack, high + slack, GRID)


def _root(
    cells: Cells, paths: ShortestPaths, N: Interval, E: Interval, grid: Float[np.ndarray, " g"]
) -> Float[np.ndarray, " n"]:
    """Find the largest τ that the chords prove, by bisection over the grid."""
    low, ends = paths.low, paths.up

    def at(g: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return low[cells.state, g] + N.lo - grid[g] * E.middle + ends[cells.after, g]

    below, above = np.zeros(len(cells), dtype=np.int64), np.full(len(cells), len(grid) - 1)
    while (above - below > 1).any():
        middle = (above + below) // 2
        proved = at(middle) >= 0
        below, above = np.where(proved, middle, below), np.where(proved, above, middle)
    here, there = at(below), at(above)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip(np.nan_to_num(here / (here - there)), 0.0, 1.0)
    return grid[below] + share * (grid[above] - grid[below])


def holds(
    task: SequenceTask,
    tables: StepTables,
    cells: Cells,
    heads: Int[np.ndarray, " k"],
    leaf: Int[np.ndarray, " n"],
    boxes: Interval,
) -> np.ndarray:
    """Say which cells are proved to be in the box of their leaf; boxes are [leaf, coordinate]."""
    proved = np.ones(len(cells), dtype=bool)
    for k, head in enumerate(heads.tolist()):
        for sign, ends in ((1, boxes.lo), (-1, -boxes.hi)):
            N, E = side(tables, cells.own, k, head, sign)
            tau = ends[:, k]
            paths = shortest_paths(task, N, E, tau, cells)
            own_N, own_E = _window(cells, k, head, sign)
            low, end = paths.low[cells.state, leaf], paths.up[cells.after, leaf]
            proved &= down(down(low + terms(own_N, own_E, tau[leaf])) + end) >= 0
    return proved
