"""How many boxes lie over each angle (the paper's overlap figure)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from quadlens.quadrature.scheme import Scheme, reduced


@dataclass(frozen=True, eq=False)
class BoxDensity:
    """A step function on the circle: `count[j]` boxes over (edges[j], edges[j+1]).

    Attributes:
        edges: From -π to π.
        count: Boxes over each step; the mean is 1.
        uncovered: Share of the circle under no box.
        mean_deviation: Mean of |count - 1|.
    """

    edges: Float[np.ndarray, " n_edges"]
    count: Int[np.ndarray, " steps"]
    uncovered: float
    mean_deviation: float


def box_density(scheme: Scheme) -> BoxDensity:
    """Sweep over the ends of all boxes, in float64."""
    phi, w = reduced(scheme.phi), scheme.w
    turn = 2 * np.pi
    low, high = _wrapped(phi - w / 2), _wrapped(phi + w / 2)
    # A box over the seam at ±π is there at the start; one of the whole circle (a single weight) is there throughout.
    at_start = int(((low > high) | (w >= turn * (1 - 1e-12))).sum())
    partial = w < turn * (1 - 1e-12)
    places = np.concatenate([low[partial], high[partial]])
    steps = np.concatenate([np.ones(partial.sum(), dtype=np.int64), -np.ones(partial.sum(), dtype=np.int64)])
    order = np.argsort(places, kind="stable")
    edges = np.concatenate([[-np.pi], places[order], [np.pi]])
    count = at_start + np.concatenate([[0], np.cumsum(steps[order])])
    length = np.diff(edges)
    return BoxDensity(
        edges,
        count,
        float(length[count == 0].sum() / turn),
        float((length * np.abs(count - 1)).sum() / turn),
    )


def _wrapped(angle: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """To [-π, π)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi
