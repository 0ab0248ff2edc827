"""What soundness means: every claim against exhaustive exact evaluation, without tolerance."""

from fractions import Fraction

import numpy as np
from jaxtyping import Int64, Shaped

from quadlens.network.exact import collapse_exactly, exact_logits, integer_model
from quadlens.network.task import Task
from quadlens.network.weights import Weights
from quadlens.proofs.pairs.proof import Proof


class Truth(list[list[Fraction]]):
    """Every margin of a model, [a][b], and what the right answers are."""

    def __init__(self, task: Task) -> None:
        """No margins yet."""
        super().__init__()
        self.answers: list[list[int]] = task.answers.tolist()


def true_margins(model: Weights) -> Truth:
    """Every margin, from every logit, with no rounding."""
    exact, margins = exact_logits(model), Truth(model.config.task)
    for a in range(exact.p):
        table = [[int(x) for x in row] for row in exact.slices[a].tolist()]
        rights = [row.pop(right) for right, row in zip(margins.answers[a], table, strict=True)]
        margins.append(
            [
                Fraction(right - max(row), 1 << exact.shift)
                for right, row in zip(rights, table, strict=True)
            ]
        )
    return margins


# Bits of a piece. The factors of a product are a piece and the sum of two pieces. Over 4,096
# neurons such products add up to less than 2^53.
PIECE = 20
WORD = 3  # pieces that are compared at once


def pieces(x: Shaped[np.ndarray, "m n"], count: int = 1) -> Int64[np.ndarray, "pieces m n"]:
    """Return at least `count` digits to the base 2^PIECE, the lowest first.

    The last digit is 0 or -1, and the others are not negative.
    """
    digits: list[np.ndarray] = []
    while len(digits) < count - 1 or np.any((x != 0) & (x != -1)):
        digits.append((x & ((1 << PIECE) - 1)).astype(np.int64))
        x = x >> PIECE
    return np.stack([*digits, x.astype(np.int64)])


def quick_margins(model: Weights) -> Truth:
    """Return the same as `true_margins`, as exactly, by products of short integers.

    The activation is relu or |x|, and there are at most 4,096 neurons.
    """
    exact = integer_model(collapse_exactly(model))
    p, d = exact.p, exact.d_mlp
    assert d <= 4096
    ranks = [
        np.unique(np.concatenate([-u, v]), return_inverse=True)[1]
        for u, v in zip(exact.U_a.T, exact.U_b.T, strict=True)
    ]
    rank_a, rank_b = np.array(ranks).T[:p], np.array(ranks).T[p:]
    W = pieces(exact.W_L.T)
    width = max(len(pieces(exact.U_a)), len(pieces(exact.U_b)))
    U_a, U_b = (pieces(U, width).astype(float) for U in (exact.U_a, exact.U_b))
    length = max(width + len(W), len(pieces(exact.S_a)), len(pieces(exact.S_b))) + 3
    length += -length % WORD
    S_a, S_b = pieces(exact.S_a, length), pieces(exact.S_b, length)
    columns, margins = W.astype(float).transpose(1, 0, 2).reshape(d, -1), Truth(model.config.task)
    for a in range(p):
        active = rank_b > rank_a[a]
        hidden = ((U_a[:, a, None] + U_b) * active).reshape(-1, d)
        products = (hidden @ columns).astype(np.int64).reshape(width, p, len(W), p)
        logits = S_a[:, a, None] + S_b
        for k in range(width):
            logits[k : k + len(W)] += products[k].transpose(1, 0, 2)
        for k in range(length - 1):
            logits[k + 1] += logits[k] >> PIECE
            logits[k] &= (1 << PIECE) - 1
        words = [
            logits[k] + (logits[k + 1] << PIECE) + (logits[k + 2] << 2 * PIECE)
            for k in range(0, length, WORD)
        ]
        best, b, right = np.ones((p, p), dtype=bool), np.arange(p), np.array(margins.answers[a])
        best[b, right] = False
        for word in words[::-1]:
            best &= word == np.where(best, word, np.iinfo(np.int64).min).max(axis=1, keepdims=True)
        lead = [(word[b, right] - word[b, best.argmax(axis=1)]).tolist() for word in words]
        margins.append(
            [
                Fraction(sum(x << WORD * PIECE * k for k, x in enumerate(of_b)), 1 << exact.shift)
                for of_b in zip(*lead, strict=True)
            ]
        )
    return margins


def check_sound(proof: Proof, truth: Truth) -> None:
    """Assert that all claims of a proof are true.

    What is certified is right with at least the margin claimed. What is called wrong or tied is so.
    A complete proof leaves out only what is not right.
    """
    for a, row in enumerate(truth):
        for b, margin in enumerate(row):
            if proof.certified[a, b]:
                assert proof.margin is not None
                assert margin >= proof.margin > 0
            elif proof.complete:
                assert margin <= 0
    for a, b, answered in proof.witnesses:
        assert truth[a][b] < 0
        assert answered != truth.answers[a][b]
    for a, b, other in proof.tied:
        assert truth[a][b] == 0
        assert other != truth.answers[a][b]


def check_complete(proof: Proof, truth: Truth) -> None:
    """Assert that an exact strategy certifies all that is true.

    Its margin is the true smallest one, and it lists the rest as wrong or tied.
    """
    right = [margin for row in truth for margin in row if margin > 0]
    assert int(proof.certified.sum()) == len(right)
    assert proof.margin == (min(right) if right else None)
    behind = [margin for row in truth for margin in row if margin <= 0]
    assert len(proof.witnesses) == min(100, sum(margin < 0 for margin in behind))
    assert len(proof.tied) == min(100, sum(margin == 0 for margin in behind))
