"""The collapsed model in plain integers over one power of two: the ground on which exact proofs stand."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Shaped

from quadlens.model.dyadic import Dyadic
from quadlens.model.tables import Tables
from quadlens.model.task import Task


@dataclass(frozen=True, eq=False)
class IntegerModel:
    """logit(a,b,c) = 2^-shift (Σ_i W_L[c,i] ReLU(U_a[a,i] + U_b[b,i]) + S_a[a,c] + S_b[b,c]), all Python integers.

    Attributes:
        task: What the model is asked.
        shift: Exponent of the common denominator of the logits.
        shift_w: Exponent of the denominator of W_L.
        U_a: Integers over the common denominator of U_a and U_b.
        U_b: The same for b.
        W_L: Scaled so that W_L · U has the denominator of the logits.
        S_a: Integers over the denominator of the logits.
        S_b: The same for b.
    """

    task: Task
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


def integer_model(exact: Tables[Dyadic]) -> IntegerModel:
    """Bring U_a and U_b to one denominator, and W_L U, S_a and S_b to another.

    The activation must be `relu`, or `abs`, which is a ReLU model too: |x| = 2 ReLU(x) - x, so W_L is doubled and
    what -x adds goes into the skip terms.
    """
    shift_u = max(exact.U_a.shift, exact.U_b.shift)
    shift = max(shift_u + exact.W_L.shift, exact.S_a.shift, exact.S_b.shift)
    U_a, U_b = (x.integers(shift_u) for x in (exact.U_a, exact.U_b))
    shift_w = shift - shift_u
    W_L = exact.W_L.integers(shift_w)
    S_a, S_b = (x.integers(shift) for x in (exact.S_a, exact.S_b))
    if exact.activation == "abs":
        S_a, S_b = S_a - U_a @ W_L.T, S_b - U_b @ W_L.T
        W_L = 2 * W_L
    return IntegerModel(exact.task, shift, shift_w, U_a, U_b, W_L, S_a, S_b)


def finer(model: IntegerModel, shift_w: int) -> IntegerModel:
    """The same model with W_L over a denominator of at least 2^shift_w."""
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
