"""The integrals of a scheme in closed form; their mean size; the error by brute force."""

import math
from dataclasses import replace
from typing import Literal

import numpy as np
from jaxtyping import Complex, Float

from quadlens.analysis.quadrature.balls import PRECISION, exact
from quadlens.analysis.quadrature.claims import ARB, Cost, Estimate, Exact
from quadlens.analysis.quadrature.scheme import Scheme
from quadlens.base.numbers import precision


def abs_integral(s: Float[np.ndarray, " m"]) -> Complex[np.ndarray, " m"]:
    """Return ∫_{-π}^{π} |cos(s+φ)| e^{2iφ} dφ = (4/3) e^{-2is}.

    The real part is h_c's integral, the imaginary part h_s's.

    Equation: `math.md` §3; proof in docs/quadrature.md §1. The identity part integrates to 0, ReLU
    to half of this.
    """
    return 4 / 3 * np.exp(-2j * s)


def cos_baseline(scheme: Scheme) -> Exact:
    """Return the mean over a+b of (4/3)|cos 2s| = (4/3) / (D sin(π/2D)), D = p/gcd(k,p).

    Equation: the paper's rel-error-baseline-concrete.

    2s = 2πkt/p runs over the multiples of 2π/q; up to sign, the cosines are those of jπ/D, a
    Dirichlet kernel, with the scheme's D = `directions`. Even D, which only an even p has, has a
    cosine that is 0: (4/3) cot(π/2D) / D.
    """
    from flint import arb

    with precision(PRECISION):
        half, D = arb.pi() / (2 * scheme.directions), scheme.directions
        value = arb(4) / (3 * D * half.sin()) if D % 2 else 4 * half.cot() / (3 * D)
    return exact(value, "mean of |∫ abs cos|", "rel-error-baseline-concrete", (ARB,), Cost(44, "1"))


def sin_baseline(scheme: Scheme) -> Exact:
    """Return the mean over a+b of (4/3)|sin 2s| = (4/3) cot(π/2D) / D, D as above.

    Equation: the paper's rel-error-baseline-concrete.
    """
    from flint import arb

    with precision(PRECISION):
        value = 4 * (arb.pi() / (2 * scheme.directions)).cot() / (3 * scheme.directions)
    return exact(value, "mean of |∫ abs sin|", "rel-error-baseline-concrete", (ARB,), Cost(45, "1"))


def half_of(claim: Exact) -> Exact:
    """The ReLU baseline: half of the absolute value's. Halving is exact in binary."""
    cost = claim.cost + Cost(1, "1")
    return replace(
        claim,
        lower=claim.lower / 2,
        upper=claim.upper / 2,
        quantity=f"½ {claim.quantity}",
        cost=cost,
    )


ErrorPart = Literal["abs", "identity", "relu"]
# Entries of the p × d table in memory at a time: half a megabyte, so that they stay in the cache.
BLOCK = 2**16


def brute_force_error(scheme: Scheme, part: ErrorPart = "abs", with_psi: bool = False) -> Estimate:
    """Return the largest |Σ w_i f(cos(s+φ_i)) e^{iψ_i} - integral| over a, b in float64, any c.

    Equation: the paper's abs-error.

    For ReLU both s and s + π are tried: the sign of cos u takes both values for every a + b.
    """
    s = scheme.k * np.pi * np.arange(scheme.p) / scheme.p
    if part == "relu":
        s = np.concatenate([s, s + np.pi])
    out = scheme.psi if with_psi else 2 * scheme.phi
    values = scheme.w * np.exp(1j * out)
    worst = 0.0
    rows = max(1, BLOCK // scheme.n)
    for start in range(0, len(s), rows):
        errors = _errors(scheme.phi, values, s[start : start + rows], part)
        # NumPy's modulus of complex numbers differs in the last digit by where the arrays lie in
        # memory; this does not.
        worst = max(worst, float((errors.real**2 + errors.imag**2).max()))
    return Estimate(math.sqrt(worst), "brute force over a + b in float64")


def _errors(
    phi: Float[np.ndarray, " n"],
    values: Complex[np.ndarray, " n"],
    s: Float[np.ndarray, " m"],
    part: ErrorPart,
) -> Complex[np.ndarray, " m"]:
    cosines = np.cos(s[:, None] + phi)
    pairs = np.stack([values.real, values.imag], axis=1)
    if part == "identity":
        sums = cosines @ pairs
        return sums[:, 0] + 1j * sums[:, 1]
    heights = np.abs(cosines) if part == "abs" else np.maximum(cosines, 0.0)
    sums = heights @ pairs
    return sums[:, 0] + 1j * sums[:, 1] - abs_integral(s) * (1.0 if part == "abs" else 0.5)
