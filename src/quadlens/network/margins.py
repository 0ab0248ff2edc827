"""Margins: the right answer's logit less the largest other, of floats or integers.

Where logits come one answer at a time, `proofs/pairs/margins.py` keeps the best while they do.
"""

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped


def leads(
    logits: Shaped[np.ndarray, "*inputs c"], answer: Int[np.ndarray, "*inputs"]
) -> tuple[Shaped[np.ndarray, "*inputs"], Int[np.ndarray, "*inputs"]]:
    """Return each margin, with the first of the largest competing answers.

    >>> leads(np.array([[1.0, 5.0, 2.0]]), np.array([1]))
    (array([3.]), array([2]))

    Python's integers, however long, are compared with -∞ and subtracted without rounding.

    >>> leads(np.array([[10**30, 1, 10**30 - 1]], dtype=object), np.array([0]))[0]
    array([1], dtype=object)
    """
    others, index = logits.copy(), np.asarray(answer)[..., None]
    np.put_along_axis(others, index, -np.inf, axis=-1)
    competitor = others.argmax(axis=-1)
    lead = np.take_along_axis(logits, index, axis=-1) - np.take_along_axis(
        others, competitor[..., None], axis=-1
    )
    return lead[..., 0], competitor


def leads_of_set(
    logits: Float[np.ndarray, "*inputs c"], right: Bool[np.ndarray, "*inputs c"]
) -> Float[np.ndarray, "*inputs"]:
    """Return the margins where several answers may be right.

    A margin is the largest right logit less the largest other.

    >>> leads_of_set(np.array([[1.0, 5.0, 2.0]]), np.array([[True, False, True]]))
    array([-3.])
    """
    best, other = (np.where(which, logits, -np.inf).max(axis=-1) for which in (right, ~right))
    return best - other


def cross_entropy(
    logits: Float[np.ndarray, "*inputs c"], right: Int[np.ndarray, "*inputs"]
) -> Float[np.ndarray, "*inputs"]:
    """Return -log softmax of the right answer, for every input."""
    top = logits.max(axis=-1)
    right_logit = np.take_along_axis(logits, right[..., None], axis=-1)[..., 0]
    return np.log(np.exp(logits - top[..., None]).sum(axis=-1)) + top - right_logit
