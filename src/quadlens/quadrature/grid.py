"""The error of a scheme at every value of a + b, in time O(d log d + p), with nothing bounded away (`math.md` §4)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex

from quadlens.quadrature.claims import Cost
from quadlens.quadrature.scheme import Scheme
from quadlens.quadrature.signed_sums import SignedSums, identity_sums, signed_sums
from quadlens.quadrature.turns import turns

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


def grid_errors(scheme: Scheme, folded_angle: bool = False) -> GridErrors:
    """Absolute-value and identity error at every s, each within `rounding_radius(n)` (docs/quadrature.md §4, §8)."""
    sums, n, q = signed_sums(scheme, folded_angle), scheme.n, scheme.q
    blocks = [(np.conj(back), turned) for back, turned in abs_error_blocks(sums, q)]
    z, turned = (np.concatenate([block[i] for block in blocks]) for i in (0, 1))
    alpha, beta = identity_sums(scheme, folded_angle)
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
    tables = turns(np.concatenate([np.arange(columns), np.arange(rows) * FINE]) * (-np.pi / q))
    fine, coarse = tables[:columns], tables[columns:, None]
    for row in range(0, rows, ROWS):
        yield row * FINE, (coarse[row : row + ROWS] * fine).ravel()[: q - row * FINE]
