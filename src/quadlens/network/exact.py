"""Exact arithmetic on float weights: the collapsed model, and every logit.

The integers, all over one power of two, are the ground on which exact proofs stand.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int, Shaped

from quadlens.base.errors import BadConfig
from quadlens.network.activation import Activation
from quadlens.network.collapse import collapse
from quadlens.network.dyadic import DYADICS, Dyadic, exact_activation
from quadlens.network.margins import leads
from quadlens.network.tables import Tables
from quadlens.network.task import Task
from quadlens.network.weights import Weights


def collapse_exactly(weights: Weights) -> Tables[Dyadic]:
    """Return U_a, U_b, W_L, S_a, S_b without rounding.

    Attention weights are taken as the doubles they are.

    Raises:
        BadConfig: for attention that depends on the tokens, or several layers.
    """
    if weights.config.softmax is not None:
        raise BadConfig(
            f"this model's attention is a {weights.config.attention_kind}, and e^x is not "
            "rational: exact arithmetic "
            "cannot express it; `quadlens evaluate`, `explain` and `certify` work"
        )
    return collapse(weights, DYADICS)


@dataclass(frozen=True, eq=False)
class IntegerModel:
    """The collapsed model in Python integers, over powers of two.

    logit(a,b,c) = 2^-shift (Σ_i W_L[c,i] σ(U_a[a,i] + U_b[b,i]) + S_a[a,c] + S_b[b,c]).

    Attributes:
        task: What the model is asked.
        activation: σ, which maps integers to integers.
        shift: Exponent of the common denominator of the logits.
        shift_w: Exponent of the denominator of W_L.
        U_a: Integers over the common denominator of U_a and U_b.
        U_b: The same for b.
        W_L: Scaled so that W_L · σ(U) has the denominator of the logits.
        S_a: Integers over the denominator of the logits.
        S_b: The same for b.
    """

    task: Task
    activation: Activation
    shift: int
    shift_w: int
    U_a: Shaped[np.ndarray, "p d_mlp"]
    U_b: Shaped[np.ndarray, "p d_mlp"]
    W_L: Shaped[np.ndarray, "p d_mlp"]
    S_a: Shaped[np.ndarray, "p p"]
    S_b: Shaped[np.ndarray, "p p"]

    @property
    def p(self) -> int:
        """Number of elements."""
        return self.task.n

    @property
    def d_mlp(self) -> int:
        """Number of neurons."""
        return int(self.U_a.shape[1])

    def logits(
        self, a: Int[np.ndarray, " n"], b: Int[np.ndarray, " n"]
    ) -> Shaped[np.ndarray, "n p"]:
        """Return every logit of the pairs (a, b), over 2^shift; FLINT multiplies."""
        sigma, _ = exact_activation(self.activation)
        neurons = [sigma(x) for x in (self.U_a[a] + self.U_b[b]).ravel().tolist()]
        hidden = Dyadic.from_entries(len(a), self.d_mlp, neurons, self.shift - self.shift_w)
        return (hidden @ self._output).integers() + self.S_a[a] + self.S_b[b]

    @cached_property
    def _output(self) -> Dyadic:
        return Dyadic.from_entries(
            self.p, self.d_mlp, self.W_L.ravel().tolist(), self.shift_w
        ).transposed()


def in_integers(exact: Tables[Dyadic]) -> IntegerModel:
    """Bring U_a and U_b to one denominator, and W_L σ(U), S_a and S_b to another.

    Raises:
        BadConfig: when σ of a rational is not rational.
    """
    _, degree = exact_activation(exact.activation)
    shift_u = max(exact.U_a.shift, exact.U_b.shift)
    shift = max(degree * shift_u + exact.W_L.shift, exact.S_a.shift, exact.S_b.shift)
    shift_w = shift - degree * shift_u
    U_a, U_b = (x.integers(shift_u) for x in (exact.U_a, exact.U_b))
    S_a, S_b = (x.integers(shift) for x in (exact.S_a, exact.S_b))
    return IntegerModel(
        exact.task,
        exact.activation,
        shift,
        shift_w,
        U_a,
        U_b,
        exact.W_L.integers(shift_w),
        S_a,
        S_b,
    )


def integer_model(exact: Tables[Dyadic]) -> IntegerModel:
    """Return a model with `relu` or `abs` as a ReLU model in integers.

    |x| = 2 ReLU(x) - x, so that for `abs` W_L is doubled and what -x adds goes into the skip terms.
    """
    model = in_integers(exact)
    if model.activation != "abs":
        return model
    S_a, S_b = model.S_a - model.U_a @ model.W_L.T, model.S_b - model.U_b @ model.W_L.T
    return replace(model, activation="relu", W_L=2 * model.W_L, S_a=S_a, S_b=S_b)


def finer(model: IntegerModel, shift_w: int) -> IntegerModel:
    """Return the model with W_L over a denominator of at least 2^shift_w."""
    extra = max(0, shift_w - model.shift_w)
    if not extra:
        return model
    return replace(
        model,
        shift=model.shift + extra,
        shift_w=model.shift_w + extra,
        W_L=model.W_L * (1 << extra),
        S_a=model.S_a * (1 << extra),
        S_b=model.S_b * (1 << extra),
    )


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
        """Return one logit, exactly."""
        return Fraction(self.slices[a, b, c], 1 << self.shift)

    def margin(self, a: int, b: int) -> Fraction:
        """Return the right answer's logit less the largest other, exactly.

        It is positive exactly when the model answers (a, b) right.
        """
        (lead,), _ = leads(self.slices[[a], [b]], self.task.answers[[a], [b]])
        return Fraction(lead, 1 << self.shift)

    def to_floats(self) -> Float[np.ndarray, "p p p"]:
        """Round every logit once, to the nearest double."""
        return np.asarray(self.slices / (1 << self.shift), dtype=np.float64)


def exact_logits(model: Weights) -> ExactLogits:
    """Return all p³ logits exactly, with p³·d_mlp operations on big integers."""
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
    # First the float64 model: it says so when the weights overflow float64, where `to_floats` could
    # not round.
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
