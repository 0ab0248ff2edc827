"""A checkpoint's own attention beside a constant: where it is farthest, and what replacing it changes."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from quadlens.errors import BadConfig
from quadlens.model.params import Params

# Softmax in float64 of equal scores differs by a few units of 1e-16; anything above this is attention that looks.
CONSTANT_WITHIN = 1e-12


@dataclass(frozen=True)
class Mix:
    """weight = scale · softmax + shift: how a project blends its attention with a constant.

    Ordinary attention is (1, 0); Zhong et al. (coeff, 1 - coeff); gbmi (1 - rate, rate / n).
    """

    scale: float = 1.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and math.isfinite(self.shift)):
            raise BadConfig(f"attention {self.scale} · softmax + {self.shift} is not finite")


@dataclass(frozen=True, eq=False)
class Farthest:
    """The input and head on which attention is farthest from a reference.

    Attributes:
        a: First operand.
        b: Second operand.
        head: Head.
        gap: Largest difference of a weight there.
        weights: The weights there.
        reference: What they are compared with.
    """

    a: int
    b: int
    head: int
    gap: float
    weights: Float[np.ndarray, " positions"]
    reference: Float[np.ndarray, " positions"]

    def __str__(self) -> str:
        shown = ", ".join(f"{x:.4g}" for x in self.weights)
        return f"head {self.head} on a = {self.a}, b = {self.b} has the weights ({shown})"


def farthest(own: Params, reference: Float[np.ndarray, " positions"] | None = None) -> Farthest:
    """Where the attention of `own` is farthest from `reference`, which is head 0 on a = 0, b = 0 when None."""
    tables, p = own.token_tables(), own.config.p
    constant = np.array(own.config.attention)[:, None, None]
    worst = None
    for a in range(p):
        weights = tables.gates(np.full(p, a), np.arange(p)) + constant
        reference = weights[:, 0, 0] if reference is None else reference
        gap = np.abs(weights - reference[:, None, None]).max(axis=0)
        head, b = (int(i) for i in np.unravel_index(int(gap.argmax()), gap.shape))
        if worst is None or gap[head, b] > worst.gap:
            worst = Farthest(a, b, head, float(gap[head, b]), weights[:, head, b], reference)
    if worst is None:
        raise BadConfig("no inputs: p is 0")
    return worst


def effect_of_replacing(own: Params, replaced: Params) -> str:
    """In words, how the logits of `replaced`, whose attention is constant, differ from those of `own`."""
    tables, collapsed, p = own.token_tables(), replaced.collapse(), own.config.p
    largest, changed = 0.0, 0
    for a in range(p):
        before, after = tables.logits(a), collapsed.logits(a)
        largest = max(largest, float(np.abs(before - after).max()))
        changed += int((before.argmax(axis=1) != after.argmax(axis=1)).sum())
    return (
        f"this is another model than the checkpoint: logits differ by up to {largest:.3g}, "
        f"and {changed} of {p * p} answers ({changed / p**2:.1%}) are others"
    )
