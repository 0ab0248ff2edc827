"""|cos(s+φ)| without the absolute value: each neuron's sign flips once as s runs over a half turn."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float

from quadlens.quadrature.scheme import Scheme, products_of, reduced
from quadlens.quadrature.sincos import sincos


@dataclass(frozen=True, eq=False)
class SignedSums:
    """Σ w_i |cos(s+φ_i)| e^{iψ_i} = X_j cos s - Y_j sin s for s in [0, π] between kink j-1 and kink j, j = 0 … n.

    |cos(s+φ_i)| = ± (cos s cos φ_i - sin s sin φ_i), and the sign flips only at kink_i = (π/2 - φ_i) mod π.

    Attributes:
        kink: Sorted; in [0, π] up to rounding.
        X: Σ_i ± w_i e^{iψ_i} cos φ_i on each stretch.
        Y: Σ_i ± w_i e^{iψ_i} sin φ_i on each stretch.
        X_identity: Σ_i w_i e^{iψ_i} cos φ_i, without signs: the identity part is X_identity cos s - Y_identity sin s.
        Y_identity: Σ_i w_i e^{iψ_i} sin φ_i.
    """

    kink: Float[np.ndarray, " n"]
    X: Complex[np.ndarray, " stretches"]
    Y: Complex[np.ndarray, " stretches"]
    X_identity: complex
    Y_identity: complex


def signed_sums(scheme: Scheme, folded_angle: bool) -> SignedSums:
    """Sort the kinks and run over them once (`math.md` §4); with `folded_angle` ψ is the model's, otherwise 2φ."""
    phi = reduced(scheme.phi)
    sine, cosine = sincos(phi)
    values = np.empty(scheme.n, dtype=np.complex128)
    if folded_angle:
        values.imag, values.real = sincos(reduced(scheme.psi))
    else:
        values.imag, values.real = 2 * sine * cosine, cosine * cosine - sine * sine
    products = products_of(scheme)
    products *= 2 * np.pi / products.sum()
    values *= products
    X_identity = complex(values.real @ cosine, values.imag @ cosine)
    Y_identity = complex(values.real @ sine, values.imag @ sine)
    kink = np.pi / 2 - phi
    half_turns = np.floor(kink / np.pi)
    kink -= half_turns * np.pi
    # cos(s+φ) = (-1)^m sin(kink - s) for φ = π/2 - kink - mπ: sign and kink come from the same m, so they agree.
    # Reduced phases leave m in {-1, 0, 1}.
    values *= 1.0 - 2.0 * half_turns * half_turns
    order = np.argsort(kink)
    values = values[order]
    X, Y = _flipping(values, cosine[order]), _flipping(values, sine[order])
    return SignedSums(kink[order], X, Y, X_identity, Y_identity)


def _flipping(values: Complex[np.ndarray, " n"], factor: Float[np.ndarray, " n"]) -> Complex[np.ndarray, " stretches"]:
    """Σ_i ± values_i factor_i on each stretch: + before neuron i's kink, - after it."""
    running = np.empty(len(values) + 1, dtype=np.complex128)
    running[0] = 0.0
    np.cumsum(values * factor, out=running[1:])
    total = running[-1]
    running *= -2.0
    running += total
    return running
