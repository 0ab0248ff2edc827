"""The price of ψ ≈ 2φ in the paper's totals."""

from quadlens.quadrature.balls import balls, precision_for, upper_bound, weight_balls
from quadlens.quadrature.claims import ARB, DOUBLES, Cost, UpperBound
from quadlens.quadrature.scheme import Scheme


def bound_angle(scheme: Scheme) -> UpperBound:
    """Σ_i w_i |ψ_i - 2φ_i|, the distance on the circle (paper, eq. angle-approximation-error).

    |e^{iψ} - e^{2iφ}| ≤ |ψ - 2φ - 2πm| for every integer m, so the m picked in rounded arithmetic costs no soundness.
    """
    from flint import arb

    with precision_for(scheme):
        turn, total = 2 * arb.pi(), arb(0)
        for w, psi, phi in zip(weight_balls(scheme), balls(scheme.psi), balls(scheme.phi), strict=True):
            difference = psi - 2 * phi
            total += w * abs(difference - turn * (difference / turn + 0.5).mid().floor().mid())
        quantity = "abs (or ReLU) error from ψ instead of 2φ, all a, b, c"
        equation = "angle-approximation-error"
        return upper_bound(total, quantity, equation, (DOUBLES, ARB), Cost(10 * scheme.n, "d"))
