"""The infinite-width limit of a cluster: every neuron spread evenly over its rotations, and the shared function.

    C(d) = Σ_i W_i (1/2π) ∫ σ(g_i(d, θ)) e^{2iθ} dθ,        logit_k(a,b,c) = Re( e^{ikw(c - 2b)} C(a - b) )

W_i is what neuron i writes at k: ω_i e^{iψ_i}, or ω_i e^{2iφ_i} where phases are as the theory has them. Turning a
neuron's input by t turns what it should write by 2t; the sum over a cluster with evenly spread phases is this integral.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Complex, Float

from quadlens.display import short
from quadlens.infinite_width.waves import PlaneCluster
from quadlens.model.activation import Nonlinearity

# Nodes of the trapezoidal rule in θ; with a kink its relative error is about 1/nodes².
NODES = 128
# Values of one block of differences d in memory at a time.
BLOCK = 2**20


def nodes_of(cluster: PlaneCluster) -> Float[np.ndarray, " nodes"]:
    """The angles that θ runs over: all of them, or the q that occur where waves are too short to go in between."""
    count = cluster.q if is_short(cluster) else NODES
    return 2 * np.pi * np.arange(count) / count


def is_short(cluster: PlaneCluster) -> bool:
    """Whether its waves are so short that there is nothing between the angles that occur."""
    return cluster.q % 2 == 0 and cluster.q <= 2 * cluster.degree


def summed(
    charges: Complex[np.ndarray, "m charges n"],
    written: Complex[np.ndarray, "m many"],
    height: Callable[[Any], Any],
    theta: Float[np.ndarray, " nodes"],
) -> Complex[np.ndarray, "n nodes many"]:
    """S(d, θ) = Σ_i W_i h(g_i(d, θ)): at θ = k w b the finite sum itself, on evenly spread θ the integrand's sum."""
    m, top, n = charges.shape
    turns = np.arange(top)[:, None] * theta
    waves = np.concatenate([np.cos(turns), -np.sin(turns)])
    parts = np.concatenate([charges.real, charges.imag], axis=1)
    both = np.concatenate([written.real, written.imag], axis=1).T
    many = written.shape[1]
    result = np.empty((n, len(theta), many), dtype=complex)
    step = max(1, BLOCK // (m * len(theta)))
    for start in range(0, n, step):
        rows = parts[:, :, start : start + step].transpose(2, 0, 1)
        sums = (both @ height(rows @ waves)).swapaxes(1, 2)
        result[start : start + step] = sums[..., :many] + 1j * sums[..., many:]
    return result


def rotated_limit(
    cluster: PlaneCluster,
    charges: Complex[np.ndarray, "m charges n"],
    written: Complex[np.ndarray, "m many"],
    sigma: Nonlinearity,
) -> Complex[np.ndarray, "n many"]:
    """C(d) of the module's formula, by the trapezoidal rule, for some sets of what is written."""
    theta = nodes_of(cluster)
    return np.einsum("dtw,t->dw", summed(charges, written, sigma.apply, theta), np.exp(2j * theta)) / len(theta)


def over_inputs(cluster: PlaneCluster, C: Complex[np.ndarray, " n"]) -> Complex[np.ndarray, "n n"]:
    """e^{-2ikwb} C(a - b), [a, b]: what multiplies e^{ikwc}."""
    b = np.arange(cluster.n)
    return C[(b[:, None] - b) % cluster.n] * np.exp(-2j * angles(cluster))


def angles(cluster: PlaneCluster) -> Float[np.ndarray, " n"]:
    """The angle k w b for every b."""
    return 2 * np.pi * (cluster.k * np.arange(cluster.n) % cluster.n) / cluster.n


@short
@dataclass(frozen=True, eq=False)
class SharedFunction:
    """g(d, θ) = Re Σ_m F_m(d) e^{imθ} with g_i(d, θ) ≈ ρ_i g(d, θ + φ_i) for every neuron of a cluster.

    Attributes:
        F: F_m(d), [m, d]; for one embedding and constant attention F_1 = 1 + e^{ikwd}, of modulus 2|cos u|.
        fit: Share of the pre-activations' energy that ρ_i g has, waves beyond the degree counted as missed.
        first_order: Root mean square over neurons and inputs of |ρ_i F_1|: where λ_2 is taken.
    """

    F: Complex[np.ndarray, "charges n"]
    fit: float
    first_order: float


def shared_function(cluster: PlaneCluster) -> SharedFunction:
    """The mean of all neurons turned back by their phases, weighted by ρ: least squares in F_m.

    Since each neuron is known at all its rotations, gaps between the phases leave nothing undetermined.
    """
    top = cluster.charges.shape[1]
    back = np.exp(-1j * np.outer(cluster.phi, np.arange(top))) * cluster.rho[:, None]
    F = np.einsum("im,imd->md", back, cluster.charges) / np.square(cluster.rho).sum()
    F[0] = F[0].real
    ideal = (np.exp(1j * np.outer(cluster.phi, np.arange(top))) * cluster.rho[:, None])[:, :, None] * F
    fit = cluster.share * (1 - _energy(cluster.charges - ideal) / _energy(cluster.charges))
    first = float(np.sqrt(np.square(np.abs(F[1])).mean() * np.square(cluster.rho).mean()))
    return SharedFunction(F, fit, first)


def _energy(charges: Complex[np.ndarray, "m charges n"]) -> float:
    """Mean square over θ, summed: the constant counts once, a wave half."""
    squares = np.square(np.abs(charges)).sum(axis=(0, 2))
    return float(squares[0] + squares[1:].sum() / 2)
