"""The error of a scheme at every value of a + b, in time O(d log d + p), with nothing bounded away (`math.md` §4)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float

from quadlens.quadrature.claims import Cost
from quadlens.quadrature.expi import expi
from quadlens.quadrature.scheme import Scheme, products_of, reduced


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


def signed_sums(scheme: Scheme, with_psi: bool) -> SignedSums:
    """Sort the kinks and run over them once (`math.md` §4); with `with_psi` ψ is the model's, otherwise 2φ."""
    kink = np.pi / 2 - reduced(scheme.phi)
    kink -= np.floor(kink * (1 / np.pi)) * np.pi
    order = np.argsort(kink)
    kink = kink[order]
    back, w = expi(-kink), _weights(scheme)[order]
    if with_psi:
        values = expi(reduced(scheme.psi)[order])
        values *= w
        return SignedSums(kink, _flipping(values * back, 0.5j), _flipping(values * np.conj(back), -0.5j))
    # e^{2iφ} = -e^{-2iκ}, so that ψ - κ stands for -3κ and ψ + κ for -κ, with the sign turned.
    once = back * w
    thrice = once * back
    thrice *= back
    return SignedSums(kink, _flipping(thrice, -0.5j), _flipping(once, 0.5j))


def identity_sums(scheme: Scheme, with_psi: bool) -> tuple[complex, complex]:
    """α = ½ Σ w_i e^{i(ψ_i+φ_i)} and β = ½ Σ w_i e^{i(ψ_i-φ_i)}: the identity part is α e^{is} + β e^{-is}."""
    turn = expi(reduced(scheme.phi))
    values = expi(reduced(scheme.psi)) if with_psi else turn * turn
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


# The grid is worked on in blocks of ROWS coarse turns of FINE points each, whose arrays stay in the cache.
FINE, ROWS = 128, 64


@dataclass(frozen=True, eq=False)
class GridErrors:
    """Errors at s_j = jπ/q, j = 0 … q-1: all the values s = kw(a+b)/2 takes modulo π, each once.

    Attributes:
        z: e^{i s_j}.
        absolute: E(s_j) = Σ w_i |cos(s_j+φ_i)| e^{iψ_i} - (4/3) e^{-2is_j}.
        identity: Σ w_i cos(s_j+φ_i) e^{iψ_i}; its integral is 0.
        cost: What computing them took.

    The ReLU error is ½(absolute + identity) where cos u ≥ 0 and ½(absolute - identity) where cos u < 0. For c the error
    is Re(E e^{ikwc}), so |E| is the worst case over every real angle in place of kwc.
    """

    z: Complex[np.ndarray, " q"]
    absolute: Complex[np.ndarray, " q"]
    identity: Complex[np.ndarray, " q"]
    cost: Cost


def grid_errors(scheme: Scheme, with_psi: bool = False) -> GridErrors:
    """Absolute-value and identity error at every s, each within `rounding_radius(n)` (docs/quadrature.md §4, §8)."""
    sums, n, q = signed_sums(scheme, with_psi), scheme.n, scheme.q
    blocks = [(np.conj(back), turned) for back, turned in abs_error_blocks(sums, q)]
    z, turned = (np.concatenate([block[i] for block in blocks]) for i in (0, 1))
    alpha, beta = identity_sums(scheme, with_psi)
    cost = Cost(100 * n + n * n.bit_length() + 40 * q, "d log d + p")
    return GridErrors(z, z * turned, alpha * z + beta * np.conj(z), cost)


def abs_error_blocks(
    sums: SignedSums, q: int
) -> Iterator[tuple[Complex[np.ndarray, " length"], Complex[np.ndarray, " length"]]]:
    """(v, v E(s)) with v = e^{-is}, s = jπ/q, block by block: v E = α + v² (β - (4/3) v) has the modulus of E.

    Both the kinks and the s_j are in order, so each stretch's sums are repeated as often as it has points: no search
    but for a block's ends.
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
    """(start, e^{-ijπ/q} for j = start, start + 1, …), each angle as a coarse turn and a fine one."""
    rows, columns = -(-q // FINE), min(FINE, q)
    tables = expi(np.concatenate([np.arange(columns), np.arange(rows) * FINE]) * (-np.pi / q))
    fine, coarse = tables[:columns], tables[columns:, None]
    for row in range(0, rows, ROWS):
        yield row * FINE, (coarse[row : row + ROWS] * fine).ravel()[: q - row * FINE]
