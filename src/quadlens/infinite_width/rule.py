"""A cluster as a quadrature rule: what the lens claims of it, in one function, nodes and weights.

    Σ_i w_i h(g(d, θ + φ_i)) e^{2iφ_i}   ≈   A e^{-2iθ} (1/2π) ∫ h(g(d, φ)) e^{2iφ} dφ,        A = Σ_i w_i

g is the function that all neurons share, pre_i(d, θ) ≈ ρ_i g(d, θ + φ_i). Where σ is homogeneous of degree s, h = σ and
w_i = ρ_i^s ω_i; for any other σ, h(x) = Σ_i ω_i σ(ρ_i x) / Σ_i ω_i and w_i = ω_i. The right side is a handful of
numbers per frequency, the left side the same function at the nodes that the network has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Complex, Float

from quadlens.display import short
from quadlens.infinite_width.integral import SharedFunction, angles, is_short, nodes_of, shared_function, summed
from quadlens.infinite_width.waves import PlaneCluster
from quadlens.model.activation import NONLINEARITIES, Activation, Nonlinearity

# Points at which h is tabulated where σ is not homogeneous; between them it is a straight line.
TABULATED = 4097
# h(g) counts as repeating after half a turn where what does not repeat has less than this share of its energy.
REPEATS = 0.01
# A coefficient of g below this share of the largest is rounding, and no number of the explanation.
ROUNDING = 1e-9


@short
@dataclass(frozen=True, eq=False)
class Rule:
    """One cluster's claim.

    Attributes:
        cluster: The neurons, with φ.
        shared: g.
        w: Weights w_i.
        activation: σ.
        table: Points and h there, made of every ρ_i and ω_i, where σ is not homogeneous; None where h is σ.
    """

    cluster: PlaneCluster
    shared: SharedFunction
    w: Float[np.ndarray, " m"]
    activation: Activation
    table: Float[np.ndarray, "2 points"] | None

    def height(self, x: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """What a neuron makes of g: h(x)."""
        return NONLINEARITIES[self.activation].apply(x) if self.table is None else np.interp(x, *self.table)

    @property
    def A(self) -> float:
        """The sum of the weights."""
        return float(self.w.sum())

    @property
    def is_rule(self) -> bool:
        """Whether there is a circle to integrate over: not for the sign wave of even n, nor with a single neuron."""
        return len(self.w) > 1 and not is_short(self.cluster)

    @property
    def numbers(self) -> int:
        """How many real numbers the right side has: k, A, the coefficients of g but for rounding, the table of h."""
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
        """After which h(g) e^{2iφ} repeats: half a turn for an even σ and a g of odd charges, else a turn."""
        energy = np.square(np.abs(self.harmonics)).sum(axis=0)
        return np.pi if energy[1::2].sum() < REPEATS * energy[1:].sum() else 2 * np.pi

    def moment(self, q: int) -> complex:
        """μ_q = Σ_i w_i e^{iqφ_i}: A for q = 0, and 0 for an even rule, but for multiples of its number of nodes."""
        return complex((self.w * np.exp(1j * q * self.cluster.phi)).sum())

    def sums(
        self, phi: Float[np.ndarray, " nodes"], w: Float[np.ndarray, "nodes many"]
    ) -> Complex[np.ndarray, "n n many"]:
        """Σ_j w_j h(g(d, θ_b + φ_j)) e^{2iφ_j} over all inputs, [a, b], for any nodes and some sets of weights."""
        turned = np.exp(1j * np.outer(phi, np.arange(len(self.shared.F))))[:, :, None] * self.shared.F
        found = summed(turned, w * np.exp(2j * phi)[:, None], self.height, angles(self.cluster))
        b = np.arange(self.cluster.n)
        return found[(b[:, None] - b) % self.cluster.n, b]


def rule_of(cluster: PlaneCluster, sigma: Nonlinearity) -> Rule:
    """The claim about a cluster whose activation is σ."""
    shared = shared_function(cluster)
    if sigma.degree is not None:
        return Rule(cluster, shared, cluster.rho**sigma.degree * cluster.omega, sigma.name, None)
    return tabulated_rule(cluster, shared, sigma.name, sigma.apply)


def tabulated_rule(
    cluster: PlaneCluster, shared: SharedFunction, activation: Activation, sigma: Callable[[Any], Any]
) -> Rule:
    """The claim for any function in the place of the activation: h is a table, and the weights are ω."""
    top = max(float(np.abs(shared.F).max(axis=1).sum()), np.finfo(float).tiny)
    x = np.linspace(-top, top, TABULATED)
    values = sigma(np.outer(x, cluster.rho)) @ cluster.omega / cluster.omega.sum()
    return Rule(cluster, shared, cluster.omega, activation, np.stack([x, values]))
