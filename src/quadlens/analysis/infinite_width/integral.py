"""The infinite-width limit of a cluster, its shared function, and its quadrature rule.

    C(d) = Σ_i W_i (1/2π) ∫ σ(g_i(d, θ)) e^{2iθ} dθ
    logit_k(a,b,c) = Re( e^{ikw(c - 2b)} C(a - b) )

W_i is what neuron i writes at k: ω_i e^{iψ_i}, or ω_i e^{2iφ_i} where phases are as the theory has
them. Turning a neuron's input by t turns what it should write by 2t; the sum over a cluster with
evenly spread phases is this integral.

A cluster as a quadrature rule says it with one function g that all neurons share, pre_i(d, θ) ≈ ρ_i
g(d, θ + φ_i):

    Σ_i w_i h(g(d, θ + φ_i)) e^{2iφ_i}   ≈   A e^{-2iθ} (1/2π) ∫ h(g(d, φ)) e^{2iφ} dφ
    A = Σ_i w_i

Where σ is homogeneous of degree s, h = σ and w_i = ρ_i^s ω_i; for any other σ, h(x) = Σ_i ω_i σ(ρ_i
x) / Σ_i ω_i and w_i = ω_i. The right side is a handful of numbers per frequency, the left side the
same function at the nodes that the network has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Complex, Float

from quadlens.analysis.infinite_width.waves import PlaneCluster
from quadlens.base.display import short
from quadlens.network.activation import NONLINEARITIES, Activation, Nonlinearity

# Nodes of the trapezoidal rule in θ; with a kink its relative error is about 1/nodes².
NODES = 128
# Values of one block of differences d in memory at a time.
BLOCK = 2**20
# Points at which h is tabulated where σ is not homogeneous; between them it is a straight line.
TABULATED = 4097
# h(g) counts as repeating after half a turn where what does not repeat has less than this share of
# its energy.
REPEATS = 0.01
# A coefficient of g below this share of the largest is rounding, and no number of the explanation.
ROUNDING = 1e-9


def nodes_of(cluster: PlaneCluster) -> Float[np.ndarray, " nodes"]:
    """Return the angles that θ runs over.

    Where waves are too short to go in between, these are the q that occur.
    """
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
    """Return S(d, θ) = Σ_i W_i h(g_i(d, θ)).

    At θ = k w b it is the finite sum itself, on evenly spread θ the integrand's sum.
    """
    m, top, n = charges.shape
    turns = np.arange(top)[:, None] * theta
    waves = np.concatenate([np.cos(turns), -np.sin(turns)])
    parts = np.concatenate([charges.real, charges.imag], axis=1)
    both = np.concatenate([written.real, written.imag], axis=1).T
    n_weights = written.shape[1]
    result = np.empty((n, len(theta), n_weights), dtype=complex)
    step = max(1, BLOCK // (m * len(theta)))
    for start in range(0, n, step):
        rows = parts[:, :, start : start + step].transpose(2, 0, 1)
        sums = (both @ height(rows @ waves)).swapaxes(1, 2)
        result[start : start + step] = sums[..., :n_weights] + 1j * sums[..., n_weights:]
    return result


def rotated_limit(
    cluster: PlaneCluster,
    charges: Complex[np.ndarray, "m charges n"],
    written: Complex[np.ndarray, "m many"],
    sigma: Nonlinearity,
) -> Complex[np.ndarray, "n many"]:
    """C(d) of the module's formula, by the trapezoidal rule, for some sets of what is written."""
    theta = nodes_of(cluster)
    return np.einsum(
        "dtw,t->dw", summed(charges, written, sigma.apply, theta), np.exp(2j * theta)
    ) / len(theta)


def finite_sums(
    cluster: PlaneCluster,
    charges: Complex[np.ndarray, "m charges n"],
    written: Complex[np.ndarray, "m many"],
    height: Callable[[Any], Any],
) -> Complex[np.ndarray, "n n many"]:
    """S(a - b, k w b): the sums of a finite network over all inputs, [a, b]."""
    b = np.arange(cluster.n)
    return summed(charges, written, height, angles(cluster))[(b[:, None] - b) % cluster.n, b]


def over_inputs(cluster: PlaneCluster, C: Complex[np.ndarray, " n"]) -> Complex[np.ndarray, "n n"]:
    """e^{-2ikwb} C(a - b), [a, b]: what multiplies e^{ikwc}."""
    return by_difference(C) * np.exp(-2j * angles(cluster))


def by_difference(C: Complex[np.ndarray, "n ..."]) -> Complex[np.ndarray, "n n ..."]:
    """C(a - b) over all inputs, [a, b]."""
    b = np.arange(len(C))
    return C[(b[:, None] - b) % len(C)]


def angles(cluster: PlaneCluster) -> Float[np.ndarray, " n"]:
    """The angle k w b for every b."""
    return 2 * np.pi * (cluster.k * np.arange(cluster.n) % cluster.n) / cluster.n


@short
@dataclass(frozen=True, eq=False)
class SharedFunction:
    """The function of a cluster: g(d, θ) = Re Σ_m F_m(d) e^{imθ}, g_i(d, θ) ≈ ρ_i g(d, θ + φ_i).

    Attributes:
        F: F_m(d), [m, d]; for one embedding and constant attention F_1 = 1 + e^{ikwd}, of modulus
            2|cos u|.
        fit: Share of the pre-activations' energy that ρ_i g has, waves beyond the degree counted as
            missed.
        first_order: Root mean square over neurons and inputs of |ρ_i F_1|: where λ_2 is taken.
    """

    F: Complex[np.ndarray, "charges n"]
    fit: float
    first_order: float


def shared_function(cluster: PlaneCluster) -> SharedFunction:
    """The mean of all neurons turned back by their phases, weighted by ρ: least squares in F_m.

    Since each neuron is known at all its rotations, gaps between the phases leave nothing
    undetermined.
    """
    top = cluster.charges.shape[1]
    back = np.exp(-1j * np.outer(cluster.phi, np.arange(top))) * cluster.rho[:, None]
    F = np.einsum("im,imd->md", back, cluster.charges) / np.square(cluster.rho).sum()
    F[0] = F[0].real
    ideal = (np.exp(1j * np.outer(cluster.phi, np.arange(top))) * cluster.rho[:, None])[
        :, :, None
    ] * F
    fit = cluster.share * (1 - _energy(cluster.charges - ideal) / _energy(cluster.charges))
    first = float(np.sqrt(np.square(np.abs(F[1])).mean() * np.square(cluster.rho).mean()))
    return SharedFunction(F, fit, first)


def _energy(charges: Complex[np.ndarray, "m charges n"]) -> float:
    """Mean square over θ, summed: the constant counts once, a wave half."""
    squares = np.square(np.abs(charges)).sum(axis=(0, 2))
    return float(squares[0] + squares[1:].sum() / 2)


@short
@dataclass(frozen=True, eq=False)
class Rule:
    """The claim about one cluster: its quadrature rule and its shared function.

    Attributes:
        cluster: The neurons, with φ.
        shared: g.
        w: Weights w_i.
        activation: σ.
        table: Points and h there, made of every ρ_i and ω_i, where σ is not homogeneous; None where
            h is σ.
    """

    cluster: PlaneCluster
    shared: SharedFunction
    w: Float[np.ndarray, " m"]
    activation: Activation
    table: Float[np.ndarray, "2 points"] | None

    def height(self, x: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Return h(x), a neuron's output where g is x."""
        return (
            NONLINEARITIES[self.activation].apply(x)
            if self.table is None
            else np.interp(x, *self.table)
        )

    @property
    def A(self) -> float:
        """The sum of the weights."""
        return float(self.w.sum())

    @property
    def is_rule(self) -> bool:
        """Whether there is a circle to integrate over.

        The sign wave of even n has none, nor has a single neuron.
        """
        return len(self.w) > 1 and not is_short(self.cluster)

    @property
    def numbers(self) -> int:
        """Number of real numbers on the right side: k, A, coefficients of g, the table of h.

        Coefficients that are rounding are not counted.
        """
        waves = np.abs(np.fft.fft(self.shared.F, axis=1))
        real = np.full(len(waves), 2)
        real[0] = 1  # F_0 is real: a wave over d and its mirror image are one complex number
        coefficients = int((real[:, None] * (waves > ROUNDING * waves.max(initial=0.0))).sum())
        return 2 + coefficients + (0 if self.table is None else 2 * len(self.w))

    @cached_property
    def harmonics(self) -> Complex[np.ndarray, "n nodes"]:
        """s_m(d) with h(g(d, θ)) = Σ_m s_m(d) e^{imθ}; negative m from the end."""
        theta = nodes_of(self.cluster)
        m = np.arange(len(self.shared.F))
        g = (self.shared.F.T @ np.exp(1j * np.outer(m, theta))).real
        return np.fft.fft(self.height(g), axis=1) / len(theta)

    @property
    def integral(self) -> Complex[np.ndarray, " n"]:
        """A (1/2π) ∫ h(g(d, φ)) e^{2iφ} dφ for every d: the harmonic of charge -2."""
        return self.A * self.harmonics[:, -2]

    @property
    def period(self) -> float:
        """The period of h(g) e^{2iφ}: half a turn or a turn.

        It is half a turn for an even σ and a g of odd charges.
        """
        energy = np.square(np.abs(self.harmonics)).sum(axis=0)
        return np.pi if energy[1::2].sum() < REPEATS * energy[1:].sum() else 2 * np.pi

    def moment(self, q: int) -> complex:
        """Return μ_q = Σ_i w_i e^{iqφ_i}, which is A for q = 0.

        For an even rule it is 0 but for multiples of its number of nodes.
        """
        return complex((self.w * np.exp(1j * q * self.cluster.phi)).sum())

    def sums(
        self, phi: Float[np.ndarray, " nodes"], w: Float[np.ndarray, "nodes many"]
    ) -> Complex[np.ndarray, "n n many"]:
        """Return Σ_j w_j h(g(d, θ_b + φ_j)) e^{2iφ_j} over all inputs, [a, b].

        It takes any nodes and several sets of weights.
        """
        turned = (
            np.exp(1j * np.outer(phi, np.arange(len(self.shared.F))))[:, :, None] * self.shared.F
        )
        return finite_sums(self.cluster, turned, w * np.exp(2j * phi)[:, None], self.height)


def rule_of(cluster: PlaneCluster, sigma: Nonlinearity) -> Rule:
    """The claim about a cluster whose activation is σ."""
    shared = shared_function(cluster)
    if sigma.degree is not None:
        return Rule(cluster, shared, cluster.rho**sigma.degree * cluster.omega, sigma.name, None)
    return tabulated_rule(cluster, shared, sigma.name, sigma.apply)


def tabulated_rule(
    cluster: PlaneCluster,
    shared: SharedFunction,
    activation: Activation,
    sigma: Callable[[Any], Any],
) -> Rule:
    """Return the claim for any function in the place of the activation.

    h is a table, and the weights are ω.
    """
    top = max(float(np.abs(shared.F).max(axis=1).sum()), np.finfo(float).tiny)
    x = np.linspace(-top, top, TABULATED)
    values = sigma(np.outer(x, cluster.rho)) @ cluster.omega / cluster.omega.sum()
    return Rule(cluster, shared, cluster.omega, activation, np.stack([x, values]))
