"""The exact worst case over all a, b, c of what a scheme gets wrong, enclosed (`math.md` §4)."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float, Int

from quadlens.display import short
from quadlens.quadrature.claims import DOUBLES, IEEE, Cost, Exact
from quadlens.quadrature.expi import rounding_radius
from quadlens.quadrature.grid import GridErrors, abs_error_blocks, grid_errors, signed_sums
from quadlens.quadrature.scheme import Scheme

EQUATION = "math.md §4, exact evaluation"


@short
@dataclass(frozen=True)
class ExactErrors:
    """Worst cases over a, b in Z_p. "any c": every real angle in place of kwc (the modulus). "integer c": c in Z_p.

    Attributes:
        angle: "2φ" or "ψ", the output phases used.
        absolute: Absolute-value part, any c.
        absolute_integer_c: The same over integer c only; at most 1 - cos(π/2D) smaller, relatively, D = `directions`.
        absolute_cos: c = 0: max |Σ w_i |cos(s+φ_i)| cos 2φ_i - (4/3) cos 2s|.
        absolute_sin: The same with sines.
        identity: Identity part, any c.
        identity_cos: c = 0.
        identity_sin: Sines.
        relu: ReLU, both signs of cos u, any c. (For every s both occur, for even p too: docs/quadrature.md §4.)
        relu_cos: ReLU as the paper's table has it: cos u > 0, a + b = 0 … p-1, c = 0.
        relu_sin: The same with sines.
    """

    angle: str
    absolute: Exact
    absolute_integer_c: Exact
    absolute_cos: Exact
    absolute_sin: Exact
    identity: Exact
    identity_cos: Exact
    identity_sin: Exact
    relu: Exact
    relu_cos: Exact
    relu_sin: Exact


def exact_errors(scheme: Scheme, with_psi: bool = False) -> ExactErrors:
    """Every worst case of one scheme from one pass over neurons and one over a + b.

    With `with_psi` the values carry ψ_i itself, so that no triangle inequality is left for ψ ≈ 2φ.
    """
    grid, angle = grid_errors(scheme, with_psi), "ψ" if with_psi else "2φ"
    cost, radius = grid.cost + Cost(20 * scheme.q, "p"), rounding_radius(scheme.n)

    def claim(value: float, quantity: str) -> Exact:
        return _enclosed(value, radius, f"{quantity} with {angle}", cost)

    relu_rows = _relu_on_table(scheme, grid)
    both = np.concatenate([grid.absolute + grid.identity, grid.absolute - grid.identity]) / 2
    return ExactErrors(
        angle=angle,
        absolute=claim(_largest(grid.absolute), "abs error, all a, b, any c"),
        absolute_integer_c=claim(
            largest_over_integer_c(grid.absolute, grid.z, scheme.directions), "abs error, all a, b, integer c"
        ),
        absolute_cos=claim(float(np.abs(grid.absolute.real).max()), "abs cos error, all a, b"),
        absolute_sin=claim(float(np.abs(grid.absolute.imag).max()), "abs sin error, all a, b"),
        identity=claim(_largest(grid.identity), "identity error, all a, b, any c"),
        identity_cos=claim(float(np.abs(grid.identity.real).max()), "identity cos error, all a, b"),
        identity_sin=claim(float(np.abs(grid.identity.imag).max()), "identity sin error, all a, b"),
        relu=claim(_largest(both), "ReLU error, all a, b, any c"),
        relu_cos=claim(float(np.abs(relu_rows.real).max()), "ReLU cos error, a + b = 0 … p-1, cos u > 0"),
        relu_sin=claim(float(np.abs(relu_rows.imag).max()), "ReLU sin error, a + b = 0 … p-1, cos u > 0"),
    )


def exact_abs_error(scheme: Scheme, with_psi: bool = False) -> Exact:
    """Worst case of the absolute-value part over all a, b and any c, alone, in O(d log d + p)."""
    sums, angle = signed_sums(scheme, with_psi), "ψ" if with_psi else "2φ"
    worst = max(_largest(turned) for _, turned in abs_error_blocks(sums, scheme.q))
    cost = Cost(100 * scheme.n + scheme.n * scheme.n.bit_length() + 35 * scheme.q, "d log d + p")
    return _enclosed(worst, rounding_radius(scheme.n), f"abs error, all a, b, any c with {angle}", cost)


def largest_over_integer_c(error: Complex[np.ndarray, " q"], z: Complex[np.ndarray, " q"], directions: int) -> float:
    """Largest over j and c in Z_p of |Re(error_j e^{ikwc})|.

    With the sign dropped, e^{ikwc} runs over every one of z = e^{ijπ/q} for odd q, over every other one for even q. The
    best one is next to -arg(error), and only errors of nearly the largest modulus can win.
    """
    q, modulus = len(z), np.abs(error)
    candidates = error[modulus >= modulus.max() * np.cos(np.pi / (2 * directions)) * (1 - 1e-9)]
    nearest, step = np.rint(-np.angle(candidates) * (directions / np.pi)).astype(np.int64), q // directions
    return max(float(_real_part_sizes(candidates, z[(nearest + shift) * step % q]).max()) for shift in (-1, 0, 1))


def _real_part_sizes(x: Complex[np.ndarray, " m"], y: Complex[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    return np.abs(x.real * y.real - x.imag * y.imag)


def _relu_on_table(scheme: Scheme, grid: GridErrors) -> Complex[np.ndarray, " p"]:
    """½(absolute ± identity) at s = kπt/p, t = 0 … p-1: past a half turn the identity part changes sign."""
    common = scheme.p // scheme.q
    turns: Int[np.ndarray, " p"] = (scheme.k // common) * np.arange(scheme.p) % (2 * scheme.q)
    index = turns % scheme.q
    sign = np.where(turns < scheme.q, 1.0, -1.0)
    return (grid.absolute[index] + sign * grid.identity[index]) / 2


def _largest(values: Complex[np.ndarray, " m"]) -> float:
    """The largest modulus; one square root, of the largest square."""
    squares = values.view(np.float64) ** 2
    return math.sqrt(float((squares[0::2] + squares[1::2]).max()))


def _enclosed(value: float, radius: float, quantity: str, cost: Cost) -> Exact:
    """The enclosure value ± radius of a size."""
    lower = max(0.0, float(np.nextafter(value - radius, -np.inf)))
    upper = float(np.nextafter(value + radius, np.inf))
    return Exact(lower, upper, quantity, EQUATION, (DOUBLES, IEEE), cost)
