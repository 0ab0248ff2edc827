"""The exact error of a scheme at every a + b in time O(d log d + p), and its worst case.

`math.md` §4.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float, Int

from quadlens.analysis.quadrature.claims import DOUBLES, IEEE, Cost, Exact
from quadlens.analysis.quadrature.expi import expi, rounding_radius
from quadlens.analysis.quadrature.scheme import Scheme, reduced
from quadlens.base.display import short

EQUATION = "math.md §4, exact evaluation"
# The grid is worked on in blocks of ROWS coarse turns of FINE points each, whose arrays stay in the
# cache.
FINE, ROWS = 128, 64


@dataclass(frozen=True, eq=False)
class SignedSums:
    """The sums Σ w_i |cos(s+φ_i)| e^{iψ_i} as α_j e^{is} + β_j e^{-is} for s in [0, π].

    They hold between kink j-1 and kink j, j = 0 … n.

    |cos(s+φ_i)| = |sin(κ_i - s)| with the kink κ_i = (π/2 - φ_i) mod π. There alone sin(κ_i - s)
    changes sign.

    Attributes:
        kink: κ_i, sorted; in [0, π] up to rounding.
        alpha: (i/2) Σ_i ± w_i e^{i(ψ_i - κ_i)} on each stretch.
        beta: (-i/2) Σ_i ± w_i e^{i(ψ_i + κ_i)} on each stretch.
    """

    kink: Float[np.ndarray, " n"]
    alpha: Complex[np.ndarray, " stretches"]
    beta: Complex[np.ndarray, " stretches"]


def signed_sums(scheme: Scheme, with_psi: bool) -> SignedSums:
    """Sort the kinks and run over them once (`math.md` §4).

    With `with_psi` ψ is the model's, otherwise 2φ.
    """
    kink = np.pi / 2 - reduced(scheme.phi)
    kink -= np.floor(kink * (1 / np.pi)) * np.pi
    order = np.argsort(kink)
    kink = kink[order]
    back, w = expi(-kink), scheme.w[order]
    if with_psi:
        values = expi(reduced(scheme.psi)[order])
        values *= w
        return SignedSums(
            kink, _flipping(values * back, 0.5j), _flipping(values * np.conj(back), -0.5j)
        )
    # e^{2iφ} = -e^{-2iκ}, so that ψ - κ stands for -3κ and ψ + κ for -κ, with the sign turned.
    once = back * w
    thrice = once * back
    thrice *= back
    return SignedSums(kink, _flipping(thrice, -0.5j), _flipping(once, 0.5j))


def identity_sums(scheme: Scheme, with_psi: bool) -> tuple[complex, complex]:
    """Return α = ½ Σ w_i e^{i(ψ_i+φ_i)} and β = ½ Σ w_i e^{i(ψ_i-φ_i)}.

    The identity part is α e^{is} + β e^{-is}.
    """
    turn = expi(reduced(scheme.phi))
    values = expi(reduced(scheme.psi)) if with_psi else turn * turn
    values *= scheme.w / 2
    return complex((values * turn).sum()), complex((values * np.conj(turn)).sum())


def _flipping(
    terms: Complex[np.ndarray, " n"], factor: complex
) -> Complex[np.ndarray, " stretches"]:
    """Return `factor` (±i/2, so exact) times Σ_i ± terms_i on each stretch.

    The sign is + before neuron i's kink, - after it.
    """
    running = np.empty(len(terms) + 1, dtype=np.complex128)
    running[0] = 0.0
    np.cumsum(terms, out=running[1:])
    total = running[-1]
    # factor · (total - 2 running), without a copy.
    running *= -2 * factor
    running += factor * total
    return running


@dataclass(frozen=True, eq=False)
class GridErrors:
    """Errors at s_j = jπ/q, j = 0 … q-1: all the values s = kw(a+b)/2 takes modulo π, each once.

    Attributes:
        z: e^{i s_j}.
        absolute: E(s_j) = Σ w_i |cos(s_j+φ_i)| e^{iψ_i} - (4/3) e^{-2is_j}.
        identity: Σ w_i cos(s_j+φ_i) e^{iψ_i}; its integral is 0.
        cost: What computing them took.

    The ReLU error is ½(absolute + identity) where cos u ≥ 0 and ½(absolute - identity) where cos u
    < 0. For c the error is Re(E e^{ikwc}), so |E| is the worst case over every real angle in place
    of kwc.
    """

    z: Complex[np.ndarray, " q"]
    absolute: Complex[np.ndarray, " q"]
    identity: Complex[np.ndarray, " q"]
    cost: Cost


def grid_errors(scheme: Scheme, with_psi: bool = False) -> GridErrors:
    """Return the absolute-value and identity errors at every s.

    Each is within `rounding_radius(n)` (docs/quadrature.md §4, §8).
    """
    sums, n, q = signed_sums(scheme, with_psi), scheme.n, scheme.q
    blocks = [(np.conj(back), turned) for back, turned in abs_error_blocks(sums, q)]
    z, turned = (np.concatenate([block[i] for block in blocks]) for i in (0, 1))
    alpha, beta = identity_sums(scheme, with_psi)
    cost = Cost(100 * n + n * n.bit_length() + 40 * q, "d log d + p")
    return GridErrors(z, z * turned, alpha * z + beta * np.conj(z), cost)


def abs_error_blocks(
    sums: SignedSums, q: int
) -> Iterator[tuple[Complex[np.ndarray, " length"], Complex[np.ndarray, " length"]]]:
    """Yield (v, v E(s)) with v = e^{-is}, s = jπ/q, block by block.

    v E = α + v² (β - (4/3) v) has the modulus of E.

    Both the kinks and the s_j are in order, so each stretch's sums are repeated as often as it has
    points: no search but for a block's ends.
    """
    # The first j at which each neuron's sign has flipped.
    first = np.clip(np.ceil(sums.kink * (q / np.pi)), 0, q).astype(np.int64)
    for start, back in half_turn_blocks(q):
        stop = start + len(back)
        low, high = np.searchsorted(first, (start, stop - 1), side="right")
        edges = np.empty(high - low + 2, dtype=np.int64)
        edges[0], edges[1:-1], edges[-1] = start, first[low:high], stop
        points = edges[1:] - edges[:-1]
        turned = back * (-4 / 3)
        turned += np.repeat(sums.beta[low : high + 1], points)
        turned *= back
        turned *= back
        turned += np.repeat(sums.alpha[low : high + 1], points)
        yield back, turned


def half_turn_blocks(q: int) -> Iterator[tuple[int, Complex[np.ndarray, " length"]]]:
    """Yield (start, e^{-ijπ/q} for j = start, start + 1, …).

    Each angle is a coarse turn and a fine one.
    """
    rows, columns = -(-q // FINE), min(FINE, q)
    tables = expi(np.concatenate([np.arange(columns), np.arange(rows) * FINE]) * (-np.pi / q))
    fine, coarse = tables[:columns], tables[columns:, None]
    for row in range(0, rows, ROWS):
        yield row * FINE, (coarse[row : row + ROWS] * fine).ravel()[: q - row * FINE]


@short
@dataclass(frozen=True)
class ExactErrors:
    """Worst cases over a, b in Z_p.

    "any c" is every real angle in place of kwc (the modulus), "integer c" is c in Z_p.

    Attributes:
        angle: "2φ" or "ψ", the output phases used.
        absolute: Absolute-value part, any c.
        absolute_integer_c: The same over integer c only; at most 1 - cos(π/2D) smaller, relatively,
            D = `directions`.
        absolute_cos: c = 0: max |Σ w_i |cos(s+φ_i)| cos 2φ_i - (4/3) cos 2s|.
        absolute_sin: The same with sines.
        identity: Identity part, any c.
        identity_cos: c = 0.
        identity_sin: Sines.
        relu: ReLU, both signs of cos u, any c. (For every s both occur, for even p too:
            docs/quadrature.md §4.)
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
            largest_over_integer_c(grid.absolute, grid.z, scheme.directions),
            "abs error, all a, b, integer c",
        ),
        absolute_cos=claim(float(np.abs(grid.absolute.real).max()), "abs cos error, all a, b"),
        absolute_sin=claim(float(np.abs(grid.absolute.imag).max()), "abs sin error, all a, b"),
        identity=claim(_largest(grid.identity), "identity error, all a, b, any c"),
        identity_cos=claim(float(np.abs(grid.identity.real).max()), "identity cos error, all a, b"),
        identity_sin=claim(float(np.abs(grid.identity.imag).max()), "identity sin error, all a, b"),
        relu=claim(_largest(both), "ReLU error, all a, b, any c"),
        relu_cos=claim(
            float(np.abs(relu_rows.real).max()), "ReLU cos error, a + b = 0 … p-1, cos u > 0"
        ),
        relu_sin=claim(
            float(np.abs(relu_rows.imag).max()), "ReLU sin error, a + b = 0 … p-1, cos u > 0"
        ),
    )


def exact_abs_error(scheme: Scheme, with_psi: bool = False) -> Exact:
    """Worst case of the absolute-value part over all a, b and any c, alone, in O(d log d + p)."""
    sums, angle = signed_sums(scheme, with_psi), "ψ" if with_psi else "2φ"
    worst = max(_largest(turned) for _, turned in abs_error_blocks(sums, scheme.q))
    cost = Cost(100 * scheme.n + scheme.n * scheme.n.bit_length() + 35 * scheme.q, "d log d + p")
    return _enclosed(
        worst, rounding_radius(scheme.n), f"abs error, all a, b, any c with {angle}", cost
    )


def largest_over_integer_c(
    error: Complex[np.ndarray, " q"], z: Complex[np.ndarray, " q"], directions: int
) -> float:
    """Largest over j and c in Z_p of |Re(error_j e^{ikwc})|.

    With the sign dropped, e^{ikwc} runs over every one of z = e^{ijπ/q} for odd q, over every other
    one for even q. The best one is next to -arg(error), and only errors of nearly the largest
    modulus can win.
    """
    q, modulus = len(z), np.abs(error)
    candidates = error[modulus >= modulus.max() * np.cos(np.pi / (2 * directions)) * (1 - 1e-9)]
    nearest, step = (
        np.rint(-np.angle(candidates) * (directions / np.pi)).astype(np.int64),
        q // directions,
    )
    return max(
        float(_real_part_sizes(candidates, z[(nearest + shift) * step % q]).max())
        for shift in (-1, 0, 1)
    )


def _real_part_sizes(
    x: Complex[np.ndarray, " m"], y: Complex[np.ndarray, " m"]
) -> Float[np.ndarray, " m"]:
    return np.abs(x.real * y.real - x.imag * y.imag)


def _relu_on_table(scheme: Scheme, grid: GridErrors) -> Complex[np.ndarray, " p"]:
    """Return ½(absolute ± identity) at s = kπt/p, t = 0 … p-1.

    Past a half turn the identity part changes sign.
    """
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
