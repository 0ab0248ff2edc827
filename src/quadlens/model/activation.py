"""The activations a hidden layer may have, applied to float arrays or to exact integers."""

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from quadlens.errors import BadConfig

Activation = Literal["relu", "abs", "square"]

ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)


def parse_activation(name: object) -> Activation:
    """Return `name` as an `Activation`, or say which ones there are."""
    for known in ACTIVATIONS:
        if name == known:
            return known
    raise BadConfig(f"activation {name!r} is not supported; expected one of {', '.join(ACTIVATIONS)}")


def apply_activation(activation: Activation, x: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """σ(x), elementwise: `relu` max(x, 0), `abs` |x|, `square` x².

    >>> apply_activation("relu", np.array([-2.0, 3.0])).tolist()
    [0.0, 3.0]
    """
    table: dict[Activation, Callable[[Float[np.ndarray, "*shape"]], Float[np.ndarray, "*shape"]]] = {
        "relu": lambda y: np.maximum(y, 0.0),
        "abs": np.abs,
        "square": np.square,
    }
    return table[activation](x)
