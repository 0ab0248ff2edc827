"""Rectangles: sorted phases, weights as widths, and the best way to slide one against the other."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from quadlens.quadrature.scheme import Scheme, reduced


@dataclass(frozen=True, eq=False)
class Rectangles:
    """Rectangle i reaches from edges[i] to edges[i+1] and is evaluated at phi[i] - shift.

    Attributes:
        order: Which neuron each rectangle is; phi = φ[order], folded if `half`.
        phi: Sorted phases: in (-π, π], or in [0, π) when folded.
        edges: Running sum of the widths from -π, or from -π/2 when folded.
        shift: θ, the minimiser of Σ_i e_i(θ).
        half: Whether the phases are folded modulo π and the widths halved.
    """

    order: Int[np.ndarray, " n"]
    phi: Float[np.ndarray, " n"]
    edges: Float[np.ndarray, " n_edges"]
    shift: float
    half: bool


def rectangles(scheme: Scheme, half: bool = False) -> Rectangles:
    """The paper's rectangles in float64 (`math.md` §3), slid by the best θ."""
    period = np.pi if half else 2 * np.pi
    folded = reduced(scheme.phi) % period
    phi = folded if half else np.where(folded > np.pi, folded - period, folded)
    order = np.argsort(phi, kind="stable")
    width = scheme.w[order] * (0.5 if half else 1.0)
    edges = np.concatenate([[-period / 2], -period / 2 + np.cumsum(width)])
    return Rectangles(order, phi[order], edges, best_shift(phi[order], edges), half)


def best_shift(phi: Float[np.ndarray, " n"], edges: Float[np.ndarray, " n_edges"]) -> float:
    """The θ that minimises 2 ∫ |x + θ - φ(x)| dx, φ(x) the phase of x's rectangle (paper, eq. abs-bound).

    The function of θ is convex and piecewise quadratic; its slope is 2·(length of {x: φ(x) - x < θ} - length of the
    rest), so the minimiser is the median of φ(x) - x for x uniform on the circle. On rectangle i that difference is
    spread evenly over [φ_i - v_i, φ_i - v_{i-1}]: the distribution function is piecewise linear with 2n breakpoints,
    and its median is found exactly (up to rounding of θ itself, which costs no soundness: every θ gives a bound).
    """
    starts, ends = phi - edges[1:], phi - edges[:-1]
    points = np.concatenate([starts, ends])
    order = np.argsort(points, kind="stable")
    points = points[order]
    density = np.cumsum(np.where(order < len(phi), 1, -1))
    mass = np.concatenate([[0.0], np.cumsum(density[:-1] * np.diff(points))])
    middle = mass[-1] / 2
    i = int(np.clip(np.searchsorted(mass, middle, side="right") - 1, 0, len(points) - 2))
    # Where the density is zero the mass stands still, and every point of that stretch is a median.
    return float(points[i] + ((middle - mass[i]) / density[i] if density[i] > 0 else 0.0))
