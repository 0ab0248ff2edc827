"""`moments` for large p, in float64 with a proved forward error and margins in O(p²).

The functions are cos(k w c), sin(k w c) of the frequencies K that carry W_L, so the score can be
turned to the right answer. With c = a + b + δ and α_k, β_k the sums h of cosine and sine,

    score = Σ_k A_k cos(k w δ) + D_k sin(k w δ),
    A_k = α_k cos(k w (a+b)) + β_k sin(k w (a+b)),   D_k = β_k cos(k w (a+b)) - α_k sin(k w (a+b)),

and the score at δ = 0 leads the score at δ by

    Σ_k A_k (1 - cos k w δ) - D_k sin(k w δ)  ≥  Σ_k min A_k (1 - cos k w δ) - max|D_k| |sin k w δ|

where min and max run over the p inputs with the same a - b: A_k is close to C_k |cos u|, a function
of a - b only. So p groups times p values of δ are tried, not p² inputs times p answers.

Rounding. u = 2^-53; the weights enter exactly, so every sign is exact. For one function with
weights v, let H = Σ_i |v_i| (max_a |U_a[a,i]| + max_b |U_b[b,i]|): no partial sum exceeds it. A
running sum of d_mlp products is off by at most (d_mlp + 1) u H to first order; an input with E arc
ends and Q corrections adds E of them and Q products, so

    |h computed - h| ≤ 1.01 u H (E (d_mlp + 3) + E² + Q + 4),   E, Q the largest over the inputs.

The cos and sin of the p angles come from Arb, enclosed and rounded to within ε = 2^-50;
`bound_rounding` adds up what both do to the margin. The factor 1.01 covers the second order while E
d_mlp < 2^40.

The rest is `direct.py`'s: the remainder of W_L, the logits of the inputs of a few groups that are
not proved (at most a tenth), and what is claimed. So one wrong input, which no score of low rank
can show, is found and named.

Why sums and margins are not `direct.py`'s: adding up all neurons costs 2 (m + 1) p² d_mlp for m
functions, 18 p² d_mlp for the eight of four frequencies, and comparing their scores 2 m p³; by arcs
and groups all of it is about 2.2 p² d_mlp at p = 2,003 and 4,096 neurons.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from quadlens.analysis.spectrum.cluster import NeuronSpectra
from quadlens.network.tables import FloatTables
from quadlens.proofs.pairs.direct import (
    SMALLEST_SLACK,
    InputMargins,
    brute_loss,
    claimed,
    spread_left,
)
from quadlens.proofs.pairs.enclosed import TRIGONOMETRY, UNIT, circle
from quadlens.proofs.pairs.float_layer import FloatLayer, layer_of_floats
from quadlens.proofs.pairs.plan import (
    ArcPlan,
    Signs,
    correction_sizes,
    group_by_frequency,
    order_of,
)
from quadlens.proofs.pairs.proof import Proof

SECOND_ORDER = 1.01
LARGEST_SUM = 1 << 40
MOST_KEYS = 64
PLAN_BYTES = 1 << 21
# Of the groups, the share that is settled input by input.
SETTLED_SHARE = 10


def moments_large_operations(
    p: int, d_mlp: int, keys: int, ends: int, mispredicted: int, settled: int = 0
) -> int:
    """Count the operations of `prove_large`, with 2|K| + 1 functions.

    F ends and Q mispredicted neurons are as for arcs.

    Signs and arcs 2 p² d_mlp; remainder (4|K| + 2) p d_mlp + d_mlp; sums over active neurons
    (2|K| + 1)(4 p d_mlp + 2 F + 2 Q) + Q; turning 6|K| p² and the extremes of groups (2|K| + 1) p²;
    scores of groups 4|K| p (p-1), the smallest over δ p (p-1), less ρ and rounding p. Each group
    settled p (2 p d_mlp + 2 d_mlp + p). What bounds the rounding of W_L's remainder, 4|K| p d_mlp
    once more, is left out, as in `direct_operations`.
    """
    remainder = (4 * keys + 2) * p * d_mlp + d_mlp
    sums = (2 * keys + 1) * (4 * p * d_mlp + 2 * ends + 2 * mispredicted) + mispredicted
    by_groups = (8 * keys + 1) * p**2 + (4 * keys + 1) * p * (p - 1) + p
    return (
        2 * p**2 * d_mlp
        + remainder
        + sums
        + by_groups
        + settled * p * (2 * p * d_mlp + 2 * d_mlp + p)
    )


@dataclass(frozen=True, eq=False)
class MomentTables:
    """The functions, their weights and their running sums.

    Attributes:
        cos: cos(k w c) of the frequencies K.
        sin: sin(k w c).
        weights: M for all cosines, then all sines, then the spread r, in the order of the neurons.
        P_a: Running sums for a, one table a function.
        P_b: Running sums for b.
        sizes: H of each function.
    """

    cos: Float[np.ndarray, "K p"]
    sin: Float[np.ndarray, "K p"]
    weights: Float[np.ndarray, "functions d_mlp"]
    P_a: Float[np.ndarray, "p d_mlp_plus_1 functions"]
    P_b: Float[np.ndarray, "p d_mlp_plus_1 functions"]
    sizes: Float[np.ndarray, " functions"]


class Groups(NamedTuple):
    """Over the p inputs with a - b = d: the smallest A_k, the largest |D_k| and the largest ρ.

    Attributes:
        A: [k, d].
        D: [k, d].
        rho: [d].
        ends: Most arc ends of an input.
        wrong: Most corrections of an input.
        counted: Arc ends of all inputs that cost a look-up.
        corrected: Corrections of all inputs.
    """

    A: Float[np.ndarray, "K p"]
    D: Float[np.ndarray, "K p"]
    rho: Float[np.ndarray, " p"]
    ends: int
    wrong: int
    counted: int
    corrected: int


def prove_large(strategy: str, collapsed: FloatTables, spectra: NeuronSpectra) -> Proof:
    """Prove by moments for a ReLU model with an exact float64 collapse and no skip terms.

    That is an MLP with float32 weights.

    The spectra are hints: they order the neurons and choose the frequencies, and any order and
    choice is sound.
    """
    if collapsed.activation != "relu" or collapsed.S_a.any() or collapsed.S_b.any():
        raise ValueError("moments in float64 are for relu models without skip terms")
    p, layer = collapsed.p, layer_of_floats(collapsed)
    order = order_of(group_by_frequency(spectra.input))
    U_a, U_b = (np.ascontiguousarray(x[:, order]) for x in (collapsed.U_a, collapsed.U_b))
    tables = build_tables(layer, order, loud_frequencies(collapsed, spectra))
    groups = turn_and_group(tables, U_a, U_b)
    lost = max(bound_rounding(tables, groups, collapsed.d_mlp), brute_loss(layer))
    lead, delta = group_margins(tables, groups)
    apart = np.subtract.outer(np.arange(p), np.arange(p)) % p
    inputs = InputMargins(
        (lead - groups.rho)[apart], (layer.task.answers + delta[apart]) % p, float(groups.rho.max())
    )
    left = np.flatnonzero(lead - groups.rho <= max(SMALLEST_SLACK, 4 * lost))
    settled = left if len(left) <= p / SETTLED_SHARE else left[:0]
    for group in settled:
        a, b = np.nonzero(apart == group)
        inputs.settle(layer, a, b, layer.sigma(layer.U_a[a] + layer.U_b[b]) @ layer.W_L.T)
    keys = len(tables.cos)
    operations = moments_large_operations(
        p, len(order), keys, groups.counted, groups.corrected, len(settled)
    )
    return claimed(strategy, layer, inputs, lost, None, operations, None, rank=2 * keys)


def loud_frequencies(collapsed: FloatTables, spectra: NeuronSpectra) -> Int[np.ndarray, " K"]:
    """Return W_L's frequencies before the widest drop in weight.

    This is a guess, on which only tightness depends.
    """
    weight = spectra.output.amplitude @ np.abs(collapsed.U_a).mean(axis=0)
    falling = np.argsort(weight, kind="stable")[::-1]
    ratio = weight[falling[:-1]] / np.maximum(weight[falling[1:]], 1e-300)
    loud = int(np.argmax(ratio[:MOST_KEYS])) + 1 if len(ratio) else 1
    return np.sort(falling[:loud]) + 1


def build_tables(
    layer: FloatLayer, order: Int[np.ndarray, " d_mlp"], keys: Int[np.ndarray, " K"]
) -> MomentTables:
    """Return the weights M, the range r of the remainder, and all running sums.

    Its own rounding is added to r.
    """
    p = layer.task.n
    turns = np.outer(keys, np.arange(p)) % p
    cos, sin = (table[turns] for table in circle(p))
    basis = np.concatenate([cos, sin])
    M = basis @ layer.W_L * (2 / p)
    weights = np.concatenate([M, spread_left(layer, basis.T, M)[None]])[:, order]
    U_a, U_b = layer.U_a[:, order], layer.U_b[:, order]
    P_a, P_b = running_sums(U_a, weights), running_sums(U_b, weights)
    sizes = np.abs(weights) @ (np.abs(U_a).max(axis=0) + np.abs(U_b).max(axis=0)) * SECOND_ORDER
    return MomentTables(cos, sin, weights, P_a, P_b, sizes)


def running_sums(
    U: Float[np.ndarray, "p d_mlp"], weights: Float[np.ndarray, "functions d_mlp"]
) -> Float[np.ndarray, "p d_mlp_plus_1 functions"]:
    """Return Σ_{i<j} weights[f,i] U[token,i] for every token, j and f.

    Functions lie side by side in memory.
    """
    sums = np.zeros((len(U), U.shape[1] + 1, len(weights)))
    columns = np.ascontiguousarray(weights.T)
    for token, row in enumerate(U):
        np.add.accumulate(row[:, None] * columns, axis=0, out=sums[token, 1:])
    return sums


def turn_and_group(
    tables: MomentTables, U_a: Float[np.ndarray, "p d_mlp"], U_b: Float[np.ndarray, "p d_mlp"]
) -> Groups:
    """Sum all blocks of tokens a, on a few threads; their order does not matter.

    NumPy works outside Python's lock.
    """
    p = len(U_b)
    signs, step = Signs.of(U_a, U_b), max(1, PLAN_BYTES // U_b.size)
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        blocks = pool.map(
            lambda start: block(tables, U_a, U_b, signs, start, min(start + step, p)),
            range(0, p, step),
        )
        A, D, rho, ends, wrong, counted, corrected = zip(*blocks, strict=True)
    largest = np.max(D, axis=0), np.max(rho, axis=0), max(ends), max(wrong)
    return Groups(np.min(A, axis=0), *largest, sum(counted), sum(corrected))


def block(
    tables: MomentTables,
    U_a: Float[np.ndarray, "p d_mlp"],
    U_b: Float[np.ndarray, "p d_mlp"],
    signs: Signs,
    start: int,
    stop: int,
) -> Groups:
    """Sum over active neurons for a = start … stop - 1.

    The sums are turned to the right answer and grouped by a - b.
    """
    p, K = len(U_b), len(tables.cos)
    A, D, rho = np.full((K, p), np.inf), np.zeros((K, p)), np.zeros(p)
    plan = signs.plan(start, stop)
    sizes = correction_sizes(U_a[start:stop], U_b, plan)
    h = all_sums(tables, start, plan, sizes).reshape(stop - start, p, -1)
    for a in range(start, stop):
        row, right = h[a - start].T, (a + np.arange(p)) % p
        cos, sin = tables.cos[:, right], tables.sin[:, right]
        alpha, beta = row[:K], row[K : 2 * K]
        group = (a - np.arange(p)) % p
        A[:, group] = np.minimum(A[:, group], alpha * cos + beta * sin)
        D[:, group] = np.maximum(D[:, group], np.abs(beta * cos - alpha * sin))
        rho[group] = np.maximum(rho[group], row[-1])
    ends, wrong = (
        int(np.bincount(rows, minlength=plan.inputs).max())
        for rows in (plan.end_row, plan.wrong_row)
    )
    return Groups(A, D, rho, ends, wrong, plan.counted_ends, plan.mispredicted)


def all_sums(
    tables: MomentTables, start: int, plan: ArcPlan, sizes: Float[np.ndarray, " wrong"]
) -> Float[np.ndarray, "inputs functions"]:
    """`plan.hidden_sums` for all functions at once, for the tokens a from `start` on.

    Each of the three sums (arcs in the table of a, arcs in the table of b, corrections) is a sparse
    matrix, one row an input, times a dense one with a column a function.
    """
    d_mlp = tables.weights.shape[1]
    row, at, sign = plan.signed_ends()
    sign = sign.astype(np.float64)
    sums = _sparse_times(
        row, (start + row // plan.p) * (d_mlp + 1) + at, sign, plan.inputs, tables.P_a
    )
    sums += _sparse_times(row, row % plan.p * (d_mlp + 1) + at, sign, plan.inputs, tables.P_b)
    sums += _sparse_times(plan.wrong_row, plan.wrong, sizes, plan.inputs, tables.weights.T)
    return sums


def _sparse_times(
    row: Int[np.ndarray, " n"],
    column: Int[np.ndarray, " n"],
    value: Float[np.ndarray, " n"],
    rows: int,
    dense: Float[np.ndarray, "..."],
) -> Float[np.ndarray, "rows functions"]:
    """Return Σ value · dense[column] for each row, rows ascending.

    `dense` is flattened to (columns, functions).
    """
    from scipy.sparse import csr_array

    flat = dense.reshape(-1, dense.shape[-1])
    starts = np.searchsorted(row, np.arange(rows + 1))
    return np.asarray(csr_array((value, column, starts), shape=(rows, len(flat))) @ flat)


def group_margins(
    tables: MomentTables, groups: Groups
) -> tuple[Float[np.ndarray, " p"], Int[np.ndarray, " p"]]:
    """Return each group's smallest margin bound over δ ≠ 0, and that δ.

    It is the least of Σ_k min A_k (1 - cos k w δ) - max|D_k| |sin k w δ|.
    """
    leads = groups.A.T @ (1 - tables.cos[:, 1:]) - groups.D.T @ np.abs(tables.sin[:, 1:])
    return np.ascontiguousarray(leads.min(axis=1)), leads.argmin(axis=1) + 1


def bound_rounding(tables: MomentTables, groups: Groups, d_mlp: int) -> float:
    """Bound what rounding takes from a margin: in h, ρ, the turn and the last sum."""
    K, E, Q = len(tables.cos), groups.ends, groups.wrong
    if E * d_mlp >= LARGEST_SUM:
        raise ValueError(
            f"{E} arcs of {d_mlp} neurons: the bound on rounding holds below 2^40 terms"
        )
    sums = SECOND_ORDER * UNIT * tables.sizes * (E * (d_mlp + 3) + E * E + Q + 4)
    waves = tables.sizes[: 2 * K].sum()
    # Functions and weights are doubles, and any will do: two for the functions of two answers, five
    # for the turn.
    turn = waves * (7 * TRIGONOMETRY + (9 * K + 60) * UNIT)
    return float(SECOND_ORDER * (3 * sums[: 2 * K].sum() + sums[-1] + turn))
