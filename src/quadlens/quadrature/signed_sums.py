"""|cos(s+φ)| without the absolute value: each neuron's sign flips once as s runs over a half turn."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float

from quadlens.quadrature.scheme import Scheme, products_of, reduced
from quadlens.quadrature.turns import turns


@dataclass(frozen=True, eq=False)
class SignedSums:
    """Σ w_i |cos(s+φ_i)| e^{iψ_i} = α_j e^{is} + β_j e^{-is} for s in [0, π] between kink j-1 and kink j, j = 0 … n.

    |cos(s+φ_i)| = |sin(κ_i - s)| with the kink κ_i = (π/2 - φ_i) mod π, and sin(κ_i - s) changes sign only there.

    Attributes:
        kink: κ_i, sorted; in [0, π] up to rounding.
        alpha: (i/2) Σ_i ± w_i e^{i(ψ_i - κ_i)} on each stretch.
        beta: (-i/2) Σ_i ± w_i e^{i(ψ_i + κ_i)} on each stretch.
    """

    kink: Float[np.ndarray, " n"]
    alpha: Complex[np.ndarray, " stretches"]
    beta: Complex[np.ndarray, " stretches"]


def signed_sums(scheme: Scheme, folded_angle: bool) -> SignedSums:
    """Sort the kinks and run over them once (`math.md` §4); with `folded_angle` ψ is the model's, otherwise 2φ."""
    kink = np.pi / 2 - reduced(scheme.phi)
    kink -= np.floor(kink * (1 / np.pi)) * np.pi
    order = np.argsort(kink)
    kink = kink[order]
    back, w = turns(-kink), _weights(scheme)[order]
    if folded_angle:
        values = turns(reduced(scheme.psi)[order])
        values *= w
        return SignedSums(kink, _flipping(values * back, 0.5j), _flipping(values * np.conj(back), -0.5j))
    # e^{2iφ} = -e^{-2iκ}, so that ψ - κ stands for -3κ and ψ + κ for -κ, with the sign turned.
    once = back * w
    thrice = once * back
    thrice *= back
    return SignedSums(kink, _flipping(thrice, -0.5j), _flipping(once, 0.5j))


def identity_sums(scheme: Scheme, folded_angle: bool) -> tuple[complex, complex]:
    """α = ½ Σ w_i e^{i(ψ_i+φ_i)} and β = ½ Σ w_i e^{i(ψ_i-φ_i)}: the identity part is α e^{is} + β e^{-is}."""
    turn = turns(reduced(scheme.phi))
    values = turns(reduced(scheme.psi)) if folded_angle else turn * turn
    values *= _weights(scheme) / 2
    return complex((values * turn).sum()), complex((values * np.conj(turn)).sum())


def _weights(scheme: Scheme) -> Float[np.ndarray, " n"]:
    products = products_of(scheme)
    products *= 2 * np.pi / products.sum()
    return products


def _flipping(terms: Complex[np.ndarray, " n"], factor: complex) -> Complex[np.ndarray, " stretches"]:
    """`factor` (±i/2, so exact) times Σ_i ± terms_i on each stretch: + before neuron i's kink, - after it."""
    running = np.empty(len(terms) + 1, dtype=np.complex128)
    running[0] = 0.0
    np.cumsum(terms, out=running[1:])
    total = running[-1]
    # factor · (total - 2 running), without a copy.
    running *= -2 * factor
    running += factor * total
    return running
