"""Brute force, the slow obvious way: the sum itself for each value of a + b, O(d p)."""

from typing import Literal

import numpy as np
from jaxtyping import Complex, Float

from quadlens.quadrature.claims import Estimate
from quadlens.quadrature.integrals import abs_integral
from quadlens.quadrature.scheme import Scheme

Part = Literal["abs", "identity", "relu"]
# Entries of the p × d table in memory at a time: half a megabyte, so that they stay in the cache.
BLOCK = 2**16


def brute_force_error(scheme: Scheme, part: Part = "abs", folded_angle: bool = False) -> Estimate:
    """Largest over a, b of |Σ w_i f(cos(s+φ_i)) e^{iψ_i} - integral| in float64 (paper, eq. abs-error), any c.

    For ReLU both s and s + π are tried: the sign of cos u takes both values for every a + b.
    """
    s = scheme.k * np.pi * np.arange(scheme.p) / scheme.p
    if part == "relu":
        s = np.concatenate([s, s + np.pi])
    out = scheme.psi if folded_angle else 2 * scheme.phi
    values = scheme.w * np.exp(1j * out)
    worst = 0.0
    rows = max(1, BLOCK // scheme.n)
    for start in range(0, len(s), rows):
        worst = max(worst, float(np.abs(_errors(scheme.phi, values, s[start : start + rows], part)).max()))
    return Estimate(worst, "brute force over a + b in float64")


def _errors(
    phi: Float[np.ndarray, " n"], values: Complex[np.ndarray, " n"], s: Float[np.ndarray, " m"], part: Part
) -> Complex[np.ndarray, " m"]:
    cosines = np.cos(s[:, None] + phi)
    pairs = np.stack([values.real, values.imag], axis=1)
    if part == "identity":
        sums = cosines @ pairs
        return sums[:, 0] + 1j * sums[:, 1]
    heights = np.abs(cosines) if part == "abs" else np.maximum(cosines, 0.0)
    sums = heights @ pairs
    return sums[:, 0] + 1j * sums[:, 1] - abs_integral(s) * (1.0 if part == "abs" else 0.5)
