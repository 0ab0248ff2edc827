"""Closed forms: the integrals a scheme approximates, and their mean size (the paper's baselines)."""

import numpy as np
from jaxtyping import Complex, Float

from quadlens.quadrature.balls import PRECISION, exact
from quadlens.quadrature.claims import ARB, Cost, Exact
from quadlens.quadrature.scheme import Scheme


def abs_integral(s: Float[np.ndarray, " m"]) -> Complex[np.ndarray, " m"]:
    """∫_{-π}^{π} |cos(s+φ)| e^{2iφ} dφ = (4/3) e^{-2is}: the real part is h_c's integral, the imaginary part h_s's.

    Equation: `math.md` §3; proof in docs/quadrature.md §1. The identity part integrates to 0, ReLU to half of this.
    """
    return 4 / 3 * np.exp(-2j * s)


def cos_baseline(scheme: Scheme) -> Exact:
    """Mean over a+b of (4/3)|cos 2s| = (4/3) / (q sin(π/2q)), q = p/gcd(k,p)  (paper, eq. rel-error-baseline-concrete).

    2s = 2πkt/p runs over the multiples of 2π/q; up to sign, the cosines are those of jπ/q, a Dirichlet kernel.
    """
    from flint import arb, ctx

    with ctx.workprec(PRECISION):
        value = arb(4) / (3 * scheme.q * (arb.pi() / (2 * scheme.q)).sin())
    return exact(value, "mean of |∫ abs cos|", "rel-error-baseline-concrete", (ARB,), Cost(44, "1"))


def sin_baseline(scheme: Scheme) -> Exact:
    """Mean over a+b of (4/3)|sin 2s| = (4/3) cot(π/2q) / q  (paper, eq. rel-error-baseline-concrete)."""
    from flint import arb, ctx

    with ctx.workprec(PRECISION):
        value = 4 * (arb.pi() / (2 * scheme.q)).cot() / (3 * scheme.q)
    return exact(value, "mean of |∫ abs sin|", "rel-error-baseline-concrete", (ARB,), Cost(45, "1"))


def half_of(claim: Exact) -> Exact:
    """The ReLU baseline: half of the absolute value's. Halving is exact in binary."""
    return Exact(
        claim.lower / 2,
        claim.upper / 2,
        f"½ {claim.quantity}",
        claim.equation,
        claim.assumptions,
        claim.cost + Cost(1, "1"),
    )
