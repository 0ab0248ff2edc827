"""What a proof by `thin` costs, item by item, and which answers need no look of their own.

Scores that turn with a + b are compared once for each a - b. In the planes of the key frequencies
both H[:,c] and g of score(a,b,c) = g(a,b) · H[:,c] + κ[c] turn: with M_c the rotation by k w c in
each plane, c₀ = a + b, Δ = c - c₀ and u = a - b, both sides are turned back,

    ĝ(a,b) = M_c₀ᵀ g(a,b),    K(c₀,Δ) = M_c₀ᵀ (H[:,c₀] - H[:,c₀+Δ]),
    score(c₀) - score(c) = K · ĝ + κ[c₀] - κ[c],

and hardly depend on c₀. With their means ĝ_u and K̂(Δ) over c₀, and diam_j at least the diameter of
H in plane j,

    score(c₀) - score(c) ≥
        K̂(Δ) · ĝ_u - Σ_f max_c₀ |K_f - K̂_f| |ĝ_u,f| + min_c₀ (κ[c₀] - κ[c₀+Δ]) - Σ_j diam_j |ĝ -
        ĝ_u|_j

Proof. K · ĝ = K̂ · ĝ_u + (K - K̂) · ĝ_u + K · (ĝ - ĝ_u), and K turned is a difference of two
columns of H. ∎

The first three terms belong to u and Δ alone. Where they exceed what the last may take and what the
proof needs, answer c is settled; the others are looked at one by one. This only decides what is
counted: `thin` looks at all. It is done in float64, with `SLACK` for rounding and for that of
sines.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from quadlens.network.config import Config
from quadlens.network.task import Task
from quadlens.proofs.pairs.operations import product

# Far more than float64, or sines rounded to 40 bits, can move a difference of two scores, relative
# to the scores.
SLACK = 2.0**-30
# A machine keeps so many signs in one word; `saved_by_words` is what that would save.
WORD = 64


def planes(turns: tuple[int, ...], rank: int) -> list[list[int]]:
    """Coordinates that turn together: two for each frequency, the others alone."""
    paired = [[2 * j, 2 * j + 1] for j in range(len(turns))]
    return paired + [[f] for f in range(2 * len(turns), rank)]


def settled_bounds(
    task: Task,
    g: Float[np.ndarray, "p p m"],
    H: Float[np.ndarray, "m p"],
    kappa: Float[np.ndarray, " p"],
    turns: tuple[int, ...],
) -> Float[np.ndarray, "p p p"]:
    """Bound score(c₀) - score(c₀ + Δ) for every a, b and Δ, by the theorem.

    The bound is infinite where Δ = 0.
    """
    if task.cyclic is None:
        raise ValueError("only a task that is addition under other names turns")
    n, rank, names = task.n, len(H), task.cyclic
    angles = 2 * np.pi / n * np.outer(np.arange(n), turns)
    cosine, sine = np.cos(angles), np.sin(angles)

    def back(x: Float[np.ndarray, "... m"], c: np.ndarray) -> Float[np.ndarray, "... m"]:
        turned = x.copy()
        for j in range(len(turns)):
            first, second = x[..., 2 * j], x[..., 2 * j + 1]
            turned[..., 2 * j] = cosine[c, j] * first + sine[c, j] * second
            turned[..., 2 * j + 1] = cosine[c, j] * second - sine[c, j] * first
        return turned

    # From here on tokens and answers have the names under which the task is addition.
    a, b = np.argsort(names.of_a), np.argsort(names.of_b)
    named_H, named_kappa = np.empty_like(H), np.empty_like(kappa)
    named_H[:, names.of_c], named_kappa[names.of_c] = H, kappa
    tokens = np.arange(n)
    answer, apart = (tokens[:, None] + tokens) % n, (tokens[:, None] - tokens) % n
    turned = back(g[np.ix_(a, b)], answer)
    means = np.array([turned[apart == u].mean(axis=0) for u in range(n)])
    others = (tokens[:, None] + tokens) % n
    K = back(named_H.T[:, None, :] - named_H.T[others], tokens[:, None])
    mean_K = K.mean(axis=0)
    constant = (named_kappa[:, None] - named_kappa[others]).min(axis=0)
    groups = means @ mean_K.T - np.abs(means) @ np.abs(K - mean_K).max(axis=0).T + constant
    groups[:, 0] = np.inf
    away = turned - means[apart]
    lost = np.zeros((n, n))
    for together in planes(turns, rank):
        lost += (
            2
            * np.linalg.norm(named_H[together], axis=0).max()
            * np.linalg.norm(away[..., together], axis=-1)
        )
    sizes = np.abs(g).sum(axis=-1).max() * np.abs(H).max() + np.abs(kappa).max()
    bounds = np.empty((n, n, n))
    bounds[np.ix_(a, b)] = groups[apart] - lost[..., None] - SLACK * sizes
    return bounds


def turning_operations(p: int, rank: int, turned: int) -> int:
    """Count what grouping costs: per input, per c₀ and Δ, and per u and Δ.

    An input is turned, added to its mean, compared with it by planes, and what it needs is searched
    for; K is turned, its mean and largest deviation found, κ with them; the two sums of a group and
    κ are added up, and sorted.
    """
    t, alone, search = turned, rank - 2 * turned, math.ceil(math.log2(p))
    each_input = 6 * t + 2 * rank + 6 * t + 2 * alone + 2 + search
    each_answer = 6 * t + 4 * rank + 2
    each_group = 4 * rank + 1 + search
    return p * p * (each_input + each_answer + each_group)


@dataclass(frozen=True)
class Counted:
    """Sizes that the cost depends on.

    Attributes:
        r: Directions of the reading side.
        added: r₀ of them, along which inputs are added up.
        r_out: Directions of the writing side.
        q: Directions of the tokens' plane.
        turned: Planes of the writing side that turn; 0 where every answer is looked at.
        ends: Arc ends, over all inputs.
        mispredicted: Neurons beside the arcs, over all inputs.
        comparisons: Made to sort each neuron's tokens (`Signs.comparisons`).
        answers: Inputs and answers that are looked at one by one.
    """

    r: int
    added: int
    r_out: int
    q: int
    turned: int
    ends: int
    mispredicted: int
    comparisons: int
    answers: int


def sets_of_signs(p: int, d_mlp: int) -> int:
    """Count the sets of p signs: a union and each neuron's flips, for every token."""
    return (2 * d_mlp + 1) * p


def saved_by_words(p: int, d_mlp: int) -> int:
    """Return how many operations fewer `thin` takes if 64 signs of a set are one operation.

    The cost in a certificate's file counts so; `thin_items` counts each sign, as `arcs` and
    `moments` do.
    """
    return (p - math.ceil(p / WORD)) * sets_of_signs(p, d_mlp)


def thin_items(config: Config, counted: Counted) -> dict[str, int]:
    """Return the operations of each item; every sign of a set is one."""
    p, d, n, inner = config.p, config.d_model, config.d_mlp, config.n_heads * config.d_head
    r, r0, m, q = counted.r, counted.added, counted.r_out, counted.q
    positions, vocabularies = len(config.attention), 1 if config.b_token_offset == 0 else 2
    rows = vocabularies * p
    # O P, then V times that; the tokens less their mean times it, and times P and P' where they are
    # read; joined.
    streams = (
        product(inner, d, r) + product(d, inner, r) + 2 * rows * d + product(rows, d, r) + 4 * p * r
    )
    if config.read_position < 2:
        streams += product(p, d, r + m)
    # Constant rows: each position's, the heads' biases, their sum with all that is known of it,
    # what m leaves of it.
    streams += (
        positions * (product(1, d, inner) + product(1, inner, d) + 2 * d)
        + product(1, inner, d)
        + 6 * d
    )
    streams += 2 * product(1, d, r + m)
    # The tokens' plane: QᵀV, T, C, its Gram matrices for a and b, and the norms of E, V, O and what
    # is along of them.
    plane = product(q, d, inner) + product(q, inner, d) + product(rows, d, q) + 2 * rows * (d + q)
    plane += 2 * (d * inner + q * inner + inner * d + inner * r) + 5 * q * q
    # T Tᵀ and QᵀQ, symmetric, T Q, T P and QᵀP once; for a and b their sums, along (1 + D) along,
    # and C's rows.
    plane += 2 * q * (q + 1) * d + product(q, d, q) + 2 * product(q, d, r)
    plane += 2 * (
        q * r
        + product(q, r, r)
        + product(q, r, q)
        + 2 * q * q
        + product(p, q, q)
        + 2 * p * q
        + 12 * p
    )
    # Skip terms along P': T P', PᵀP', what is beyond P; both sides, and the constant row times W_U.
    skips = product(q, d, m) + product(r, d, m) + product(q, r, m) + q * m
    skips += (
        2 * (product(p, q, m) + product(p, r, m) + 3 * p * m)
        + product(1, d, p)
        + 2 * d
        + p
        + 2 * 8 * p
    )
    # F, norms of W_in and F, |N|; D; the norms of A; weights of the directions that are bounded; m
    # W_in with the bias.
    reading = product(d, r, n) + 2 * d * n + 2 * r * n + 5 * n + 2 * d * r * r + 3 * r * r
    reading += 2 * (2 * p * r + 8 * p) + 4 * r * n + d + product(1, d, n) + n
    # A₀ F₀ for both sides, to what is constant for b.
    inputs = (2 * r0 - 1) * p * n + 2 * r0 * p * n
    # B, H, their norms by planes, D'; r_i and s_i; ρ.
    writing = product(n, d, m) + product(d, m, p) + 2 * d * m * m + 3 * m * m
    writing += (
        2 * (n * d + 2 * n * m + d * p + 2 * m * p)
        + 5 * (n + p)
        + 4 * m * n
        + 6 * n
        + 6 * n * r0
        + 8 * p * r0
    )
    # Each neuron's U_b in order, each U_a found among them; unions and flips as sets, each flip
    # found and removed.
    signs = counted.comparisons + p * sets_of_signs(p, n)
    signs += 2 * (counted.ends + p * p + 2 * counted.mispredicted)
    sums = (
        m * (4 * p * n + 2 * counted.ends + 2 * counted.mispredicted)
        + counted.mispredicted
        + 2 * m * p * p
    )
    scores = (2 * m + 2) * counted.answers + 8 * p + 3 * p * p
    if counted.turned:
        scores += turning_operations(p, m, counted.turned)
    return {
        "attention from the directions": streams,
        "what attention leaves out": plane,
        "skip terms": skips,
        "W_in along directions": reading,
        "inputs of neurons": inputs,
        "W_out, W_U along directions": writing,
        "signs": signs,
        "sums over neurons": sums,
        "scores and margins": scores,
    }
