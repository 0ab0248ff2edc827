"""Exact worst cases over all real s of the identity part, the absolute value and ReLU."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Complex, Float

from quadlens.analysis.quadrature.balls import Ball, balls, exact, precision_for, weight_balls
from quadlens.analysis.quadrature.claims import ARB, DOUBLES, IEEE, Cost, Exact
from quadlens.analysis.quadrature.exact import SignedSums, identity_sums, signed_sums
from quadlens.analysis.quadrature.expi import UNIT, expi, rounding_radius
from quadlens.analysis.quadrature.scheme import Scheme


def identity_supremum(scheme: Scheme, with_psi: bool = False) -> Exact:
    """The supremum over all real s, any c, of |Σ w_i cos(s+φ_i) e^{iψ_i}|: ½(|ν_1| + |ν_{-1}|).

    ν_n = Σ w_i e^{i(ψ_i + nφ_i)}; with `with_psi` ψ is the model's, otherwise 2φ. The sum is
    ½(e^{is} ν_1 + e^{-is} ν_{-1}), and some s turns both terms the same way. Equation:
    docs/quadrature.md §6.
    """
    from flint import acb

    with precision_for(scheme):
        plus, minus = acb(0), acb(0)
        for w, phi, out in zip(
            weight_balls(scheme), balls(scheme.phi), out_phases(scheme, with_psi), strict=True
        ):
            plus += w * unit(out + phi)
            minus += w * unit(out - phi)
        value = (abs(plus) + abs(minus)) / 2
        quantity = f"identity part with {'ψ' if with_psi else '2φ'}, all real s and c"
        return exact(
            value, quantity, "docs/quadrature.md §6", (DOUBLES, ARB), Cost(92 * scheme.n, "d")
        )


def out_phases(scheme: Scheme, with_psi: bool) -> list[Ball]:
    """Return ψ_i, or 2φ_i."""
    return balls(scheme.psi) if with_psi else [2 * phi for phi in balls(scheme.phi)]


def unit(angle: Ball) -> Ball:
    """Return e^{i angle}."""
    from flint import acb

    sine, cosine = angle.sin_cos()
    return acb(cosine, sine)


# Evaluating one piece in float64 is off by less than this (docs/quadrature.md §8).
EVALUATION_ERROR = 4000 * UNIT
# A double just above π: [0, ABOVE_PI] covers a whole period.
ABOVE_PI = float(np.nextafter(np.pi, 4.0))
# Stop when the enclosure is this narrow, or after this many halvings; both leave a sound enclosure.
NARROW, MOST_HALVINGS = 1e-12, 40
# More pieces than this many times the kinks means a flat maximum; stop early, with a wider
# enclosure.
MOST_PIECES_PER_KINK = 64


@dataclass(frozen=True, eq=False)
class CurvePieces:
    """Pieces of E(s) = α e^{is} + β e^{-is} - γ e^{-2is} for s in [start, stop], α, β constant.

    Attributes:
        start: Left ends.
        stop: Right ends.
        alpha: As in `SignedSums`.
        beta: As in `SignedSums`.
        gamma: 4/3 for the absolute value, 2/3 for ReLU.
    """

    start: Float[np.ndarray, " m"]
    stop: Float[np.ndarray, " m"]
    alpha: Complex[np.ndarray, " m"]
    beta: Complex[np.ndarray, " m"]
    gamma: float

    def at(self, chosen: Bool[np.ndarray, " m"]) -> "CurvePieces":
        """Only the chosen pieces."""
        return CurvePieces(
            self.start[chosen], self.stop[chosen], self.alpha[chosen], self.beta[chosen], self.gamma
        )


def abs_supremum(scheme: Scheme, with_psi: bool = False) -> Exact:
    """The supremum over all real s, any c, of |Σ w_i |cos(s+φ_i)| e^{iψ_i} - (4/3) e^{-2is}|."""
    pieces = _abs_pieces(signed_sums(scheme, with_psi))
    return _claim(scheme, pieces, f"abs error, all real s, any c with {'ψ' if with_psi else '2φ'}")


def relu_supremum(scheme: Scheme, with_psi: bool = False) -> Exact:
    """Enclose the supremum of the ReLU error ½|E_abs ± identity| over real s, any c.

    Both signs of cos u are taken.
    """
    pieces = _abs_pieces(signed_sums(scheme, with_psi))
    alpha, beta = identity_sums(scheme, with_psi)
    both = CurvePieces(
        np.tile(pieces.start, 2),
        np.tile(pieces.stop, 2),
        np.concatenate([pieces.alpha + alpha, pieces.alpha - alpha]) / 2,
        np.concatenate([pieces.beta + beta, pieces.beta - beta]) / 2,
        pieces.gamma / 2,
    )
    return _claim(scheme, both, f"ReLU error, all real s, any c with {'ψ' if with_psi else '2φ'}")


def _abs_pieces(sums: SignedSums) -> CurvePieces:
    """One piece between each two neighbouring kinks of [0, π]."""
    kinks = np.clip(sums.kink, 0.0, ABOVE_PI)
    start, stop = np.concatenate([[0.0], kinks]), np.concatenate([kinks, [ABOVE_PI]])
    return CurvePieces(start, stop, sums.alpha, sums.beta, 4 / 3).at(stop > start)


def _claim(scheme: Scheme, pieces: CurvePieces, quantity: str) -> Exact:
    lower, upper, visited = _enclose(pieces)
    radius, n = rounding_radius(scheme.n), scheme.n
    return Exact(
        max(0.0, float(np.nextafter(lower - radius, -np.inf))),
        float(np.nextafter(upper + radius, np.inf)),
        quantity,
        "docs/quadrature.md §5",
        (DOUBLES, IEEE),
        Cost(100 * n + n * max(1, n.bit_length()) + 120 * visited, "d log d"),
    )


def _enclose(pieces: CurvePieces) -> tuple[float, float, int]:
    """Lower and upper end of the largest |E| over all pieces, and how many pieces were looked at.

    `lower` is a value that is reached, `settled` the highest ceiling of pieces that need no more
    halving.
    """
    lower, settled, visited, most_pieces = 0.0, 0.0, 0, MOST_PIECES_PER_KINK * len(pieces.start)
    for _ in range(MOST_HALVINGS):
        middle_values, ceiling = _values_and_ceilings(pieces)
        visited += len(middle_values)
        lower = max(lower, float(middle_values.max()) - EVALUATION_ERROR)
        narrow = ceiling - middle_values <= NARROW + EVALUATION_ERROR
        settled = max(settled, float(ceiling[narrow].max(initial=0.0)))
        alive = (ceiling > max(lower, settled)) & ~narrow
        if not alive.any():
            return lower, max(lower, settled), visited
        if 2 * int(alive.sum()) > most_pieces:
            break
        pieces = _halved(pieces.at(alive))
    return lower, max(lower, settled, float(ceiling.max())), visited


def _values_and_ceilings(
    pieces: CurvePieces,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Return |E| at each middle m, and a ceiling of |E| on [m-r, m+r].

    The ceiling is max |E(m) ± r E'(m)| + ½ r² sup|E''|.

    A linear function's modulus is convex, so its largest value is at an end; |E''| ≤ |α| + |β| +
    4γ.
    """
    middle = pieces.start + (pieces.stop - pieces.start) / 2
    reach = np.maximum(pieces.stop - middle, middle - pieces.start) * (1 + 2.0**-50)
    z = expi(middle)
    up, down, integral = pieces.alpha * z, pieces.beta * np.conj(z), pieces.gamma * np.conj(z * z)
    value = up + down - integral
    slope = reach * 1j * (up - down + 2 * integral)
    bend = _modulus(pieces.alpha) + _modulus(pieces.beta) + 4 * pieces.gamma
    end_values = np.maximum(_modulus(value + slope), _modulus(value - slope))
    return _modulus(value), end_values + 0.5 * reach * reach * bend * (
        1 + 2.0**-40
    ) + EVALUATION_ERROR


def _modulus(z: Complex[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Return |z| by a square root, which IEEE 754 rounds correctly.

    The library's hypot promises nothing.
    """
    return np.sqrt(z.real * z.real + z.imag * z.imag)


def _halved(pieces: CurvePieces) -> CurvePieces:
    middle = pieces.start + (pieces.stop - pieces.start) / 2
    return CurvePieces(
        np.concatenate([pieces.start, middle]),
        np.concatenate([middle, pieces.stop]),
        np.tile(pieces.alpha, 2),
        np.tile(pieces.beta, 2),
        pieces.gamma,
    )
