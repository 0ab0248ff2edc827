"""Exact ground truth: every logit of a model with float weights, with no rounding at all."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.errors import BadConfig
from quadlens.model.collapse import collapse
from quadlens.model.dyadic import DYADICS, Dyadic, exact_activation
from quadlens.model.tables import Tables
from quadlens.model.task import Task
from quadlens.model.weights import Weights


def collapse_exactly(weights: Weights) -> Tables[Dyadic]:
    """U_a, U_b, W_L, S_a, S_b without rounding; attention weights are taken as the doubles they are.

    Raises:
        BadConfig: for attention that depends on the tokens, or several layers.
    """
    if weights.config.softmax is not None:
        raise BadConfig(
            f"this model's attention is a {weights.config.attention_kind}, and e^x is not rational: exact arithmetic "
            "cannot express it; `quadlens evaluate`, `explain` and `certify` work"
        )
    return collapse(weights, DYADICS)


@dataclass(frozen=True, eq=False)
class ExactLogits:
    """All p³ logits as integers over 2^shift.

    Attributes:
        p: Number of elements.
        shift: logit(a,b,c) = slices[a][b,c] · 2^-shift.
        slices: One fmpz_mat [b, c] for each a.
        task: What the right answers are.
    """

    p: int
    shift: int
    slices: tuple[Any, ...]
    task: Task

    def logit(self, a: int, b: int, c: int) -> Fraction:
        """One logit, exactly."""
        return Fraction(int(self.slices[a][b, c]), 1 << self.shift)

    def margin(self, a: int, b: int) -> Fraction:
        """Right answer's logit minus the largest other; positive exactly when the model answers (a, b) right."""
        row = [int(self.slices[a][b, c]) for c in range(self.p)]
        right = row.pop(int(self.task.answers[a, b]))
        return Fraction(right - max(row), 1 << self.shift)

    def to_floats(self) -> Float[np.ndarray, "p p p"]:
        """Every logit rounded once, to the nearest double."""
        scale = 1 << self.shift
        values = [int(n) / scale for block in self.slices for n in block.entries()]
        return np.array(values).reshape(self.p, self.p, self.p)


def exact_logits(model: Weights) -> ExactLogits:
    """All p³ logits of `model`, exactly, at the cost of p³·d_mlp big-integer operations."""
    collapsed = collapse_exactly(model)
    blocks = list(_logit_blocks(collapsed))
    shift = max(block.shift for block in blocks)
    return ExactLogits(
        collapsed.p, shift, tuple(block.at_shift(shift).numerators for block in blocks), model.config.task
    )


def _logit_blocks(collapsed: Tables[Dyadic]) -> Iterator[Dyadic]:
    """Logits [b, c] for each a in turn."""
    from flint import fmpz_mat

    p, (sigma, degree) = collapsed.p, exact_activation(collapsed.activation)
    shift = max(collapsed.U_a.shift, collapsed.U_b.shift)
    U_a, U_b = collapsed.U_a.at_shift(shift).numerators, collapsed.U_b.at_shift(shift).numerators
    d_mlp = U_a.ncols()
    W_out = collapsed.W_L.transposed()
    rows_b = [[U_b[b, i] for i in range(d_mlp)] for b in range(p)]
    for a in range(p):
        row_a = [U_a[a, i] for i in range(d_mlp)]
        neurons = [sigma(x + y) for row_b in rows_b for x, y in zip(row_a, row_b, strict=True)]
        hidden = Dyadic(fmpz_mat(p, d_mlp, neurons), degree * shift)
        skip_a = Dyadic(fmpz_mat(1, p, [collapsed.S_a.numerators[a, c] for c in range(p)]), collapsed.S_a.shift)
        yield hidden @ W_out + skip_a.repeated(p) + collapsed.S_b


@dataclass(frozen=True)
class Agreement:
    """How far float64 is from the exact logits.

    Attributes:
        max_error: Largest |float64 logit - exact logit|.
        largest_logit: Largest |exact logit|, to read the error against.
        correct: Inputs that exact arithmetic answers right, of all p².
        min_margin: The smallest exact margin, rounded once.
    """

    max_error: float
    largest_logit: float
    correct: int
    min_margin: float


def agreement(model: Weights) -> Agreement:
    """Compare the float64 collapsed model with exact arithmetic on all p³ logits."""
    # First the float64 model: it says so when the weights overflow float64, where `to_floats` could not round.
    collapsed = model.collapse()
    exact = exact_logits(model)
    rounded = exact.to_floats()
    floats = np.stack([collapsed.logits(a) for a in range(exact.p)])
    margins = [exact.margin(a, b) for a in range(exact.p) for b in range(exact.p)]
    return Agreement(
        max_error=float(np.abs(floats - rounded).max()),
        largest_logit=float(np.abs(rounded).max()),
        correct=sum(margin > 0 for margin in margins),
        min_margin=float(min(margins)),
    )
