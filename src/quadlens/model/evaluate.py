"""How a model answers: accuracy, margins and loss over all p² pairs, or a sample where p² is too many."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from quadlens.display import Displayed
from quadlens.model.activation import apply_activation
from quadlens.model.collapsed import Collapsed

MAX_WITNESSES = 100
# Past this many multiplications a pass over all p³ logits takes minutes.
MAX_OPERATIONS = 1e13
BLOCK_FLOATS = 1 << 24


@dataclass(frozen=True, repr=False)
class Evaluation(Displayed):
    """What the model does on the pairs tried, in float64.

    Attributes:
        p: Modulus.
        pairs: How many pairs were tried (p² unless sampled).
        correct: How many are answered right; a tie between the right answer and another is not right.
        accuracy: correct / pairs.
        min_margin: Smallest margin: right logit minus the largest other.
        min_margin_pair: The pair that has it.
        median_margin: Median margin.
        loss: Mean cross-entropy.
        wrong: Pairs answered wrong with the answer given, (a, b, answered), at most 100.
    """

    p: int
    pairs: int
    correct: int
    accuracy: float
    min_margin: float
    min_margin_pair: tuple[int, int]
    median_margin: float
    loss: float
    wrong: tuple[tuple[int, int, int], ...]

    def _facts(self) -> dict[str, object]:
        return {
            "p": self.p,
            "correct": f"{self.correct} of {self.pairs}",
            "min_margin": f"{self.min_margin:.6g}",
            "median_margin": f"{self.median_margin:.6g}",
            "loss": f"{self.loss:.3g}",
        }


def all_pairs(p: int) -> Int[np.ndarray, "pp 2"]:
    """Every (a, b), row-major.

    >>> all_pairs(3)[:4].tolist()
    [[0, 0], [0, 1], [0, 2], [1, 0]]
    """
    return np.stack(np.divmod(np.arange(p * p), p), axis=1)


def pair_logits(collapsed: Collapsed, pairs: Int[np.ndarray, "n 2"]) -> Float[np.ndarray, "n p"]:
    """Logits of the pairs given, through the collapsed model."""
    a, b = pairs[:, 0], pairs[:, 1]
    hidden = apply_activation(collapsed.activation, collapsed.U_a[a] + collapsed.U_b[b])
    return hidden @ collapsed.W_L.T + collapsed.S_a[a] + collapsed.S_b[b]


def evaluate(
    collapsed: Collapsed,
    pairs: Int[np.ndarray, "n 2"] | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Evaluation:
    """Run the model on `pairs` (all p² when None), a block at a time so that no p³ array is ever made.

    Args:
        collapsed: The model.
        pairs: Inputs to try.
        progress: Called with the number of pairs done after each block.
    """
    pairs = all_pairs(collapsed.p) if pairs is None else pairs
    rows = max(1, BLOCK_FLOATS // (collapsed.p + collapsed.d_mlp))
    margins, answers, losses = [], [], []
    for start in range(0, len(pairs), rows):
        block = pairs[start : start + rows]
        margin, answer, loss = _judge(pair_logits(collapsed, block), block.sum(axis=1) % collapsed.p)
        margins.append(margin)
        answers.append(answer)
        losses.append(loss)
        progress(start + len(block))
    margin, answer = np.concatenate(margins), np.concatenate(answers)
    wrong = np.flatnonzero(~(margin > 0))
    worst = int(margin.argmin())
    return Evaluation(
        p=collapsed.p,
        pairs=len(pairs),
        correct=len(pairs) - len(wrong),
        accuracy=(len(pairs) - len(wrong)) / len(pairs),
        min_margin=float(margin[worst]),
        min_margin_pair=(int(pairs[worst, 0]), int(pairs[worst, 1])),
        median_margin=float(np.median(margin)),
        loss=float(np.concatenate(losses).mean()),
        wrong=tuple((int(pairs[i, 0]), int(pairs[i, 1]), int(answer[i])) for i in wrong[:MAX_WITNESSES]),
    )


def margins(collapsed: Collapsed) -> Float[np.ndarray, "p p"]:
    """Right logit minus the largest other, for every (a, b)."""
    p, b = collapsed.p, np.arange(collapsed.p)
    return np.stack([_judge(collapsed.logits(a), (a + b) % p)[0] for a in range(p)])


def _judge(
    logits: Float[np.ndarray, "n p"], right: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Margin, answer and cross-entropy of each row; a tied answer is reported as the other one."""
    rows = np.arange(len(logits))
    correct_logit = logits[rows, right]
    others = logits.copy()
    others[rows, right] = -np.inf
    best_other = others.argmax(axis=1)
    margin = correct_logit - others[rows, best_other]
    top = logits.max(axis=1)
    loss = np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top - correct_logit
    return margin, np.where(margin > 0, right, best_other), loss
