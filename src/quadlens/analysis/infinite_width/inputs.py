"""The hidden layer over all inputs, its elements renamed so that the task is addition."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from quadlens.base.errors import BadConfig
from quadlens.network.activation import NONLINEARITIES, Nonlinearity
from quadlens.network.tables import FloatTables

# Pre-activations of more inputs times neurons than this would take gigabytes.
MAX_VALUES = 10**8


@dataclass(frozen=True, eq=False)
class Inputs:
    """The hidden layer over all inputs, as the lens reads it.

    Attributes:
        n: Number of elements.
        task: The task's name.
        renaming: What a and b stand for, where the task is not addition itself, and where the
            factors of norms are; else empty.
        sigma: The activation.
        pre: Pre-activations, [a, b, neuron]; with the factor f(a,b) of a norm before the
            unembedding drawn in where σ is homogeneous of some degree k, f σ(x) = σ(f^(1/k) x).
        logits: Logits, [a, b, c].
        W_L: Neuron-to-logit map, [c, neuron]; times the mean of f(a,b) where σ is not homogeneous.
    """

    n: int
    task: str
    renaming: str
    sigma: Nonlinearity
    pre: Float[np.ndarray, "n n d_mlp"]
    logits: Float[np.ndarray, "n n n"]
    W_L: Float[np.ndarray, "n d_mlp"]


def inputs_of(layer: FloatTables) -> Inputs:
    """All pre-activations and logits of a hidden layer, renamed.

    Raises:
        BadConfig: when the task has no cyclic relabelling, or the model has too many inputs.
    """
    n, task = layer.p, layer.task
    if n * n * (layer.d_mlp + n) > MAX_VALUES:
        raise BadConfig(
            f"the lens looks at all inputs, and n = {n} with {layer.d_mlp} neurons has too many; "
            f"expected n² (d_mlp + n) up to {MAX_VALUES:.0e}"
        )
    new = task.cyclic
    if new is None:
        raise BadConfig(
            f"the task {task.name} ({task.words}) has no cyclic relabelling: no renaming of its "
            "elements makes it "
            "addition, so there is no frequency to integrate over; `quadlens explain` shows what "
            "needs none"
        )
    old_a, old_b, old_c = (np.argsort(x) for x in (new.of_a, new.of_b, new.of_c))
    sigma, W_L = NONLINEARITIES[layer.activation], layer.W_L[old_c]
    pre = np.stack([layer.pre(int(a))[old_b] for a in old_a])
    factor = layer.size_table[1][np.ix_(old_a, old_b)]
    if layer.sizes is not None and sigma.degree is not None:
        pre = factor[:, :, None] ** (1 / sigma.degree) * pre
    elif layer.sizes is not None:
        W_L = factor.mean() * W_L
    logits = np.stack([layer.logits(int(a))[np.ix_(old_b, old_c)] for a in old_a])
    how = "" if new.root is None else f", by the discrete logarithm to base {new.root}"
    renaming = (
        ""
        if new.is_identity
        else f"Here a, b and c are the elements renamed so that {task.words} is a sum{how}."
    )
    if layer.sizes is not None:
        where = (
            "what neurons read" if sigma.degree is not None else "W_L, at its mean over all inputs,"
        )
        renaming = (
            f"{renaming} The factor of a norm before the unembedding is in {where} here.".strip()
        )
    return Inputs(n, task.name, renaming, sigma, pre, logits, W_L)
