"""Exact ground truth: every logit of a model with float weights, with no rounding at all."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Shaped

from quadlens.errors import BadConfig
from quadlens.model.collapse import collapse
from quadlens.model.dyadic import DYADICS, Dyadic
from quadlens.model.integers import in_integers
from quadlens.model.margins import leads
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
        shift: logit(a,b,c) = slices[a,b,c] · 2^-shift.
        slices: Python integers, [a, b, c].
        task: What the right answers are.
    """

    shift: int
    slices: Shaped[np.ndarray, "p p p"]
    task: Task

    @property
    def p(self) -> int:
        """Number of elements."""
        return self.task.n

    def logit(self, a: int, b: int, c: int) -> Fraction:
        """One logit, exactly."""
        return Fraction(self.slices[a, b, c], 1 << self.shift)

    def margin(self, a: int, b: int) -> Fraction:
        """Right answer's logit minus the largest other; positive exactly when the model answers (a, b) right."""
        (lead,), _ = leads(self.slices[[a], [b]], self.task.answers[[a], [b]])
        return Fraction(lead, 1 << self.shift)

    def to_floats(self) -> Float[np.ndarray, "p p p"]:
        """Every logit rounded once, to the nearest double."""
        return np.asarray(self.slices / (1 << self.shift), dtype=np.float64)


def exact_logits(model: Weights) -> ExactLogits:
    """All p³ logits of `model`, exactly, at the cost of p³·d_mlp big-integer operations."""
    collapsed = in_integers(collapse_exactly(model))
    b = np.arange(collapsed.p)
    slices = np.stack([collapsed.logits(np.full_like(b, a), b) for a in range(collapsed.p)])
    return ExactLogits(collapsed.shift, slices, collapsed.task)


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
    margins, _ = leads(exact.slices, exact.task.answers)
    return Agreement(
        max_error=float(np.abs(floats - rounded).max()),
        largest_logit=float(np.abs(rounded).max()),
        correct=int(np.count_nonzero(margins > 0)),
        min_margin=margins.min() / (1 << exact.shift),
    )
