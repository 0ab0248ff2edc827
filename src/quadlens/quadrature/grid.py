"""The error of a scheme at every value of a + b, in time O(d log d + p), with nothing bounded away (`math.md` §4)."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float

from quadlens.quadrature.claims import Cost
from quadlens.quadrature.scheme import Scheme
from quadlens.quadrature.signed_sums import SignedSums, signed_sums
from quadlens.quadrature.sincos import sincos


@dataclass(frozen=True, eq=False)
class GridErrors:
    """Errors at s_j = jπ/q, j = 0 … q-1: all the values s = kw(a+b)/2 takes modulo π, each once.

    Attributes:
        z: e^{i s_j}.
        absolute: E(s_j) = Σ w_i |cos(s_j+φ_i)| e^{iψ_i} - (4/3) e^{-2is_j}.
        identity: Σ w_i cos(s_j+φ_i) e^{iψ_i}; its integral is 0.
        cost: What computing them took.

    The ReLU error is ½(absolute + identity) where cos u ≥ 0 and ½(absolute - identity) where cos u < 0. For c the error
    is Re(E e^{ikwc}), so |E| is the worst case over every real angle in place of kwc.
    """

    z: Complex[np.ndarray, " q"]
    absolute: Complex[np.ndarray, " q"]
    identity: Complex[np.ndarray, " q"]
    cost: Cost


def grid_errors(scheme: Scheme, folded_angle: bool = False) -> GridErrors:
    """Absolute-value and identity error at every s, each within `rounding_radius(n)` (docs/quadrature.md §4, §8)."""
    sums, (sine, cosine) = signed_sums(scheme, folded_angle), half_turn_grid(scheme.q)
    real, imaginary = abs_error_on_grid(sums, sine, cosine)
    identity = cosine * sums.X_identity - sine * sums.Y_identity
    n = scheme.n
    cost = Cost(100 * n + n * n.bit_length() + 30 * scheme.q, "d log d + p")
    return GridErrors(cosine + 1j * sine, real + 1j * imaginary, identity, cost)


def abs_error_on_grid(
    sums: SignedSums, sine: Float[np.ndarray, " q"], cosine: Float[np.ndarray, " q"]
) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
    """Real and imaginary part of E(s_j) at s_j = jπ/q, whose sines and cosines are given.

    Both the kinks and the s_j are in order, so each stretch's sums are repeated as often as it has points: no search.
    """
    q = len(sine)
    first = np.clip(np.ceil(sums.kink * (q / np.pi)), 0, q).astype(np.int64)
    points = np.diff(first, prepend=0, append=q)
    X, Y = np.repeat(sums.X, points), np.repeat(sums.Y, points)
    real = cosine * X.real - sine * Y.real - (4 / 3) * (cosine * cosine - sine * sine)
    imaginary = cosine * X.imag - sine * Y.imag + (8 / 3) * (cosine * sine)
    return real, imaginary


def half_turn_grid(q: int) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
    """(sin, cos) of jπ/q for j = 0 … q-1, as products of √q coarse and √q fine turns."""
    fine = math.isqrt(q - 1) + 1
    coarse = -(-q // fine)
    steps = np.concatenate([np.arange(fine), np.arange(coarse) * fine])
    sine, cosine = sincos(steps * (np.pi / q))
    fine_sine, fine_cosine, sine, cosine = sine[:fine], cosine[:fine], sine[fine:, None], cosine[fine:, None]
    whole_sine, whole_cosine = sine * fine_cosine + cosine * fine_sine, cosine * fine_cosine - sine * fine_sine
    return whole_sine.ravel()[:q], whole_cosine.ravel()[:q]
