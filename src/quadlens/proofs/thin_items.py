"""What a proof by `thin` costs, item by item."""

import math
from dataclasses import dataclass

from quadlens.model.config import Config
from quadlens.proofs.operations import product
from quadlens.proofs.turning import turning_operations

# Sets of tokens are counted in words of so many bits.
WORD = 64


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


def thin_items(config: Config, counted: Counted) -> dict[str, int]:
    """Operations of each item."""
    p, d, n, inner = config.p, config.d_model, config.d_mlp, config.n_heads * config.d_head
    r, r0, m, q = counted.r, counted.added, counted.r_out, counted.q
    positions, vocabularies = len(config.attention), 1 if config.b_token_offset == 0 else 2
    rows = vocabularies * p
    # O P, then V times that; the tokens less their mean times it, and times P and P' where they are read; joined.
    streams = product(inner, d, r) + product(d, inner, r) + 2 * rows * d + product(rows, d, r) + 4 * p * r
    if config.read_position < 2:
        streams += product(p, d, r + m)
    # Constant rows: each position's, the heads' biases, their sum with all that is known of it, what m leaves of it.
    streams += positions * (product(1, d, inner) + product(1, inner, d) + 2 * d) + product(1, inner, d) + 6 * d
    streams += 2 * product(1, d, r + m)
    # The tokens' plane: QᵀV, T, C, its Gram matrices for a and b, and the norms of E, V, O and what is along of them.
    plane = product(q, d, inner) + product(q, inner, d) + product(rows, d, q) + 2 * rows * (d + q)
    plane += 2 * (d * inner + q * inner + inner * d + inner * r) + 5 * q * q
    # T Tᵀ and QᵀQ, symmetric, T Q, T P and QᵀP once; for a and b their sums, along (1 + D) along, and C's rows.
    plane += 2 * q * (q + 1) * d + product(q, d, q) + 2 * product(q, d, r)
    plane += 2 * (q * r + product(q, r, r) + product(q, r, q) + 2 * q * q + product(p, q, q) + 2 * p * q + 12 * p)
    # Skip terms along P': T P', PᵀP', what is beyond P; both sides, and the constant row times W_U.
    skips = product(q, d, m) + product(r, d, m) + product(q, r, m) + q * m
    skips += 2 * (product(p, q, m) + product(p, r, m) + 3 * p * m) + product(1, d, p) + 2 * d + p + 2 * 8 * p
    # F, norms of W_in and F, |N|; D; the norms of A; weights of the directions that are bounded; m W_in with the bias.
    reading = product(d, r, n) + 2 * d * n + 2 * r * n + 5 * n + 2 * d * r * r + 3 * r * r
    reading += 2 * (2 * p * r + 8 * p) + 4 * r * n + d + product(1, d, n) + n
    # A₀ F₀ for both sides, to what is constant for b.
    inputs = (2 * r0 - 1) * p * n + 2 * r0 * p * n
    # B, H, their norms by planes, D'; r_i and s_i; ρ.
    writing = product(n, d, m) + product(d, m, p) + 2 * d * m * m + 3 * m * m
    writing += 2 * (n * d + 2 * n * m + d * p + 2 * m * p) + 5 * (n + p) + 4 * m * n + 6 * n + 6 * n * r0 + 8 * p * r0
    # Each neuron's U_b in order, each U_a found among them; unions and flips as sets, each flip found and removed.
    words = math.ceil(p / WORD)
    signs = counted.comparisons + words * (2 * n + 1) * p + 2 * (counted.ends + p * p + 2 * counted.mispredicted)
    sums = m * (4 * p * n + 2 * counted.ends + 2 * counted.mispredicted) + counted.mispredicted + 2 * m * p * p
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
