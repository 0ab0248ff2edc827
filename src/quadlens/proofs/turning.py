"""Which answers need no look of their own: scores that turn with a + b are compared once for each a - b.

Scores are score(a,b,c) = g(a,b) · H[:,c] + κ[c]. In the planes of the key frequencies both H[:,c] and g turn: with M_c
the rotation by k w c in each plane, c₀ = a + b, Δ = c - c₀ and u = a - b, both sides are turned back,

    ĝ(a,b) = M_c₀ᵀ g(a,b),    K(c₀,Δ) = M_c₀ᵀ (H[:,c₀] - H[:,c₀+Δ]),    score(c₀) - score(c) = K · ĝ + κ[c₀] - κ[c],

and hardly depend on c₀. With their means ĝ_u and K̂(Δ) over c₀, and diam_j at least the diameter of H in plane j,

    score(c₀) - score(c) ≥
        K̂(Δ) · ĝ_u - Σ_f max_c₀ |K_f - K̂_f| |ĝ_u,f| + min_c₀ (κ[c₀] - κ[c₀+Δ]) - Σ_j diam_j |ĝ - ĝ_u|_j

Proof. K · ĝ = K̂ · ĝ_u + (K - K̂) · ĝ_u + K · (ĝ - ĝ_u), and K turned is a difference of two columns of H. ∎

The first three terms belong to u and Δ alone. Where they exceed what the last may take and what the proof needs, answer
c is settled; the others are looked at one by one. This only decides what is counted: `thin` looks at all. It is done in
float64, with `SLACK` for rounding and for that of sines.
"""

import math

import numpy as np
from jaxtyping import Float

from quadlens.model.task import Task

# Far more than float64, or sines rounded to 40 bits, can move a difference of two scores, relative to the scores.
SLACK = 2.0**-30


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
    """At most score(c₀) - score(c₀ + Δ) for every a, b and Δ, by the theorem; infinite where Δ = 0."""
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
        lost += 2 * np.linalg.norm(named_H[together], axis=0).max() * np.linalg.norm(away[..., together], axis=-1)
    sizes = np.abs(g).sum(axis=-1).max() * np.abs(H).max() + np.abs(kappa).max()
    bounds = np.empty((n, n, n))
    bounds[np.ix_(a, b)] = groups[apart] - lost[..., None] - SLACK * sizes
    return bounds


def turning_operations(p: int, rank: int, turned: int) -> int:
    """What grouping costs: for every input, for every c₀ and Δ, and for every u and Δ.

    An input is turned, added to its mean, compared with it by planes, and what it needs is searched for; K is turned,
    its mean and largest deviation found, κ with them; the two sums of a group and κ are added up, and sorted.
    """
    t, alone, search = turned, rank - 2 * turned, math.ceil(math.log2(p))
    each_input = 6 * t + 2 * rank + 6 * t + 2 * alone + 2 + search
    each_answer = 6 * t + 4 * rank + 2
    each_group = 4 * rank + 1 + search
    return p * p * (each_input + each_answer + each_group)
