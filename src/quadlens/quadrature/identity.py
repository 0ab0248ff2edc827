"""The identity part of ReLU: linear, so its exact worst case has a closed form."""

from quadlens.quadrature.balls import Ball, balls, exact, precision_for, weight_balls
from quadlens.quadrature.claims import ARB, DOUBLES, Cost, Exact
from quadlens.quadrature.scheme import Scheme


def identity_supremum(scheme: Scheme, folded_angle: bool = False) -> Exact:
    """The supremum over all real s, any c, of |Σ w_i cos(s+φ_i) e^{iψ_i}|: ½(|ν_1| + |ν_{-1}|).

    ν_n = Σ w_i e^{i(ψ_i + nφ_i)}; with `folded_angle` ψ is the model's, otherwise 2φ. The sum is
    ½(e^{is} ν_1 + e^{-is} ν_{-1}), and some s turns both terms the same way. Equation: docs/quadrature.md §6.
    """
    from flint import acb

    with precision_for(scheme):
        plus, minus = acb(0), acb(0)
        for w, phi, out in zip(weight_balls(scheme), balls(scheme.phi), out_phases(scheme, folded_angle), strict=True):
            plus += w * unit(out + phi)
            minus += w * unit(out - phi)
        value = (abs(plus) + abs(minus)) / 2
        quantity = f"identity part with {'ψ' if folded_angle else '2φ'}, all real s and c"
        return exact(value, quantity, "docs/quadrature.md §6", (DOUBLES, ARB), Cost(92 * scheme.n, "d"))


def out_phases(scheme: Scheme, folded_angle: bool) -> list[Ball]:
    """ψ_i, or 2φ_i."""
    return balls(scheme.psi) if folded_angle else [2 * phi for phi in balls(scheme.phi)]


def unit(angle: Ball) -> Ball:
    """e^{i angle}."""
    from flint import acb

    sine, cosine = angle.sin_cos()
    return acb(cosine, sine)
