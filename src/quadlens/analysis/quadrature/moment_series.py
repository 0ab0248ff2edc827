"""Moments: why a scheme is good, and a bound for all real s from a few (`math.md` §4)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from quadlens.analysis.quadrature.balls import Ball, balls, precision_for, upper_bound, weight_balls
from quadlens.analysis.quadrature.claims import ARB, DOUBLES, Cost, UpperBound
from quadlens.analysis.quadrature.scheme import Scheme
from quadlens.analysis.quadrature.supremum import out_phases, unit

DEFAULT_MOMENTS = 20


@dataclass(frozen=True, eq=False)
class RuleMoments:
    """Float64 sizes of the terms of the error's Fourier series, for tables and figures.

    Attributes:
        m: Index of the term e^{2ims}, from -M to M.
        order: 2m + 2, the moment that multiplies it when ψ = 2φ.
        coefficient: |a_m| = (2/π) / |4m² - 1|.
        size: |ν_{2m}| / 2π, with 1 taken off inside for m = -1: 0 for a perfect rule, at most 1 (2
            for m = -1).
        term: |a_m| |ν_{2m}|, what the term adds to the error at most.
    """

    m: Int[np.ndarray, " terms"]
    order: Int[np.ndarray, " terms"]
    coefficient: Float[np.ndarray, " terms"]
    size: Float[np.ndarray, " terms"]
    term: Float[np.ndarray, " terms"]


def moments(scheme: Scheme, M: int = DEFAULT_MOMENTS, with_psi: bool = False) -> RuleMoments:
    """ν_{2m} = Σ w_i e^{i(ψ_i + 2mφ_i)} for |m| ≤ M; μ_{2m+2} when ψ = 2φ.

    Σ w_i |cos(s+φ_i)| e^{iψ_i} = Σ_m a_m e^{2ims} ν_{2m}; the integral (4/3)e^{-2is} is the term m
    = -1 with ν = 2π.
    """
    m = np.arange(-M, M + 1)
    out = scheme.psi if with_psi else 2 * scheme.phi
    values = np.exp(1j * (out + 2 * m[:, None] * scheme.phi)) @ scheme.w
    values[m == -1] -= 2 * np.pi
    coefficient = 2 / np.pi / np.abs(4.0 * m * m - 1)
    size = np.abs(values)
    return RuleMoments(m, 2 * m + 2, coefficient, size / (2 * np.pi), coefficient * size)


def bound_moments(scheme: Scheme, M: int = DEFAULT_MOMENTS, with_psi: bool = False) -> UpperBound:
    """Σ_{|m| ≤ M} |a_m| |ν_{2m} - 2π[m = -1]| + 4/(2M+1): abs error for all real s, any c.

    a_m = (2/π)(-1)^{m+1}/(4m²-1) and Σ_{|m|>M} |a_m| 2π = 4/(2M+1); proof in docs/quadrature.md §7.
    With ψ = 2φ the term m = -1 is zero and ν_{2m} = μ_{2m+2}.

    Args:
        scheme: The rule.
        M: How many harmonics on either side, at least 1.
        with_psi: Use the model's ψ_i instead of 2φ_i.
    """
    from flint import arb

    if M < 1:
        raise ValueError(f"M = {M}: the term m = -1 carries the integral, so M must be at least 1")
    with precision_for(scheme):
        total = arb(4) / (2 * M + 1)
        for m, value in _moment_balls(scheme, M, with_psi):
            distance = abs(value - 2 * arb.pi()) if m == -1 else abs(value)
            # Without the angle error ν_{-2} is Σ w_i = 2π, not only nearly.
            if m != -1 or with_psi:
                total += 2 / (arb.pi() * abs(4 * m * m - 1)) * distance
        angle = "ψ" if with_psi else "2φ"
        quantity, equation = (
            f"abs error, all real s, any c with {angle}",
            f"docs/quadrature.md §7 with M = {M}",
        )
        cost = Cost((80 + 8 * (2 * M + 1)) * scheme.n, f"{M} d")
        return upper_bound(total, quantity, equation, (DOUBLES, ARB), cost)


def _moment_balls(scheme: Scheme, M: int, with_psi: bool) -> list[tuple[int, Ball]]:
    """Return (m, Σ w_i e^{i(ψ_i + 2mφ_i)}) for m = -M … M.

    Each neuron turns by e^{2iφ_i} from one m to the next.
    """
    from flint import acb

    values, turns = [], []
    outs = out_phases(scheme, with_psi)
    for w, phi, out in zip(weight_balls(scheme), balls(scheme.phi), outs, strict=True):
        values.append(w * unit(out - 2 * M * phi))
        turns.append(unit(2 * phi))
    result = []
    for m in range(-M, M + 1):
        result.append((m, sum(values, acb(0))))
        values = [value * turn for value, turn in zip(values, turns, strict=True)]
    return result
