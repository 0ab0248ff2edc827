"""A cluster as a quadrature rule: nodes φ_i, weights w_i that sum to 2π, values at ψ_i."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from quadlens.analysis.quadrature.expi import LARGEST_ANGLE
from quadlens.analysis.spectrum.cluster import Cluster
from quadlens.base.display import short
from quadlens.base.errors import QuadlensError
from quadlens.base.numbers import precision

# Products ρω between these need no rescaling: nothing in this package can overflow or lose digits
# to underflow.
SMALLEST_PLAIN, LARGEST_PLAIN = 2.0**-500, 2.0**500


class NotAScheme(QuadlensError):
    """Numbers that define no quadrature rule."""


@dataclass(frozen=True)
class NoBound:
    """The outcome for a cluster that is no quadrature rule.

    Attributes:
        k: The cluster's frequency.
        neurons: Its size.
        reason: Why there is no bound, and what would help.
    """

    k: int
    neurons: int
    reason: str


@short
@dataclass(frozen=True, eq=False)
class Scheme:
    """Σ_i w_i h(φ_i) ≈ ∫_{-π}^{π} h(φ) dφ with w_i = 2π ρ_i ω_i / Σ_j ρ_j ω_j.

    From the paper's section "Computing numerical integration error" (w'_i there). The rule *is* the
    stored doubles: w_i is the real number given by that formula, so the weights sum to 2π exactly
    and no rounding is left outside the claims made about the rule.

    Attributes:
        p: Modulus.
        k: Frequency.
        phi: φ_i, any finite doubles.
        psi: ψ_i, any finite doubles.
        rho: ρ_i ≥ 0.
        omega: ω_i ≥ 0, with some ρ_i ω_i > 0.
    """

    p: int
    k: int
    phi: Float[np.ndarray, " n"]
    psi: Float[np.ndarray, " n"]
    rho: Float[np.ndarray, " n"]
    omega: Float[np.ndarray, " n"]

    def __post_init__(self) -> None:
        problem = _problem(self.p, self.k, self.phi, self.psi, self.rho, self.omega)
        if problem is not None:
            raise NotAScheme(f"no quadrature rule at frequency {self.k}: {problem}")
        # Own copies, in doubles: the rule must not change with an array it was made from, nor be
        # computed in less.
        for name in ("phi", "psi", "rho", "omega"):
            copy = np.array(getattr(self, name), dtype=np.float64)
            copy.flags.writeable = False
            object.__setattr__(self, name, copy)

    @property
    def n(self) -> int:
        """Number of neurons."""
        return len(self.phi)

    @property
    def q(self) -> int:
        """Number of values of a + b modulo p that this frequency tells apart.

        It is p / gcd(k, p), at least 3.
        """
        return self.p // math.gcd(self.k, self.p)

    @property
    def directions(self) -> int:
        """Number of different lines that the angles kwc of integer c lie on.

        They are those of jπ/directions.

        The angles are the multiples of 2π/q. Modulo π these are all multiples of π/q for odd q,
        every other one for even q.
        """
        return self.q if self.q % 2 else self.q // 2

    @property
    def w(self) -> Float[np.ndarray, " n"]:
        """The weights in float64, each within (n+5)·2^-53 of w_i, relatively."""
        products = products_of(self)
        return products * (2 * np.pi / products.sum())


def scheme_of(cluster: Cluster) -> Scheme | NoBound:
    """The cluster as a quadrature rule, or why it is none."""
    arrays = tuple(
        np.array(x, dtype=np.float64)
        for x in (cluster.phi, cluster.psi, cluster.rho, cluster.omega)
    )
    problem = _problem(cluster.p, cluster.k, *arrays)
    if problem is not None:
        return NoBound(cluster.k, len(cluster.phi), problem)
    return Scheme(cluster.p, cluster.k, *arrays)


def products_of(scheme: Scheme) -> Float[np.ndarray, " n"]:
    """Return ρ_i ω_i times one common power of two, each rounded once.

    So none overflows and the largest is not tiny.
    """
    # Out of range is not an error here: the plain product is then thrown away.
    with np.errstate(over="ignore", under="ignore"):
        plain = scheme.rho * scheme.omega
    if plain.min() >= SMALLEST_PLAIN and plain.max() <= LARGEST_PLAIN:
        return plain
    mantissa_rho, exponent_rho = np.frexp(scheme.rho)
    mantissa_omega, exponent_omega = np.frexp(scheme.omega)
    mantissa, exponent = mantissa_rho * mantissa_omega, exponent_rho + exponent_omega
    largest = exponent[mantissa > 0].max()
    with np.errstate(under="ignore"):
        return np.ldexp(mantissa, exponent - largest)


def reduced(phases: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the phases modulo 2π as doubles of at most `LARGEST_ANGLE`.

    Each is within 2^-51 of the true remainder.

    Phases that small already are used as they are; larger ones are reduced with ball arithmetic.
    """
    large = np.abs(phases) > LARGEST_ANGLE
    if not large.any():
        return phases
    from flint import arb

    result = phases.copy()
    # The integer part of the largest double has 1024 bits; 128 more are left for the remainder.
    with precision(1152):
        turn = 2 * arb.pi()
        for i in np.flatnonzero(large):
            x = arb(float(phases[i]))
            result[i] = float((x - turn * (x / turn + 0.5).floor().mid().floor()).mid())
    return result


def _problem(
    p: int,
    k: int,
    phi: Float[np.ndarray, " n"],
    psi: Float[np.ndarray, " n"],
    rho: Float[np.ndarray, " n"],
    omega: Float[np.ndarray, " n"],
) -> str | None:
    if p < 2 or not 1 <= k < p / 2:
        sign_wave = (
            "the sign wave (-1)^a has no phase but 0 and π: there is no circle to integrate over"
        )
        return sign_wave if 2 * k == p else f"p = {p} and k = {k}; expected k in 1 … p/2"
    if len(phi) < 2:
        return f"a rule needs at least two neurons, this cluster has {len(phi)}"
    for name, array in (("φ", phi), ("ψ", psi), ("ρ", rho), ("ω", omega)):
        bad = np.flatnonzero(~np.isfinite(array))
        if len(bad):
            return (
                f"{name} of neuron {bad[0]} of the cluster is {array[bad[0]]}, not a finite "
                "number; "
                "check the weights"
            )
    for name, array in (("ρ", rho), ("ω", omega)):
        bad = np.flatnonzero(array < 0)
        if len(bad):
            return (
                f"amplitude {name} of neuron {bad[0]} is {array[bad[0]]}; move the sign into its "
                "phase"
            )
    if not ((rho > 0) & (omega > 0)).any():
        return (
            "all weights ρω are zero, so they cannot be scaled to sum to 2π; the cluster does "
            "nothing"
        )
    return None
