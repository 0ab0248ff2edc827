"""Attention weights (gates): softmax of exact scores, to 2^-64 with a proved error."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from operator import mul

from quadlens_checker.collapse import Weights, token_streams
from quadlens_checker.exponential import BITS, LARGEST, exponential
from quadlens_checker.limits import GATE_BITS
from quadlens_checker.matrices import Matrix, plus, rows, times, transposed
from quadlens_checker.model_file import Config, Softmax
from quadlens_checker.reading import Clock, require, ticking


@dataclass(frozen=True)
class Gates:
    """The gates of all inputs.

    powers: for each head and each position seen, e^score as (m, k) by the token read and the token
    attended to. read: the position read. scale: what softmax is multiplied by.
    """

    powers: list[list[list[list[tuple[int, int]]]]]
    read: int
    scale: float

    @property
    def error(self) -> Fraction:
        """ε: a bound on |γ - Γ/2^GATE_BITS|; see `shares`."""
        return share_error(self.scale, GATE_BITS)

    def of(self, a: int, b: int) -> list[int]:
        """Γ for each head and each position seen, in that order."""
        n, d = self.scale.as_integer_ratio()
        tokens = a, b, 0
        query, gates = tokens[self.read], []
        for head in self.powers:
            gates += shares([of[query][tokens[t]] for t, of in enumerate(head)], n, d)
        return gates


def share_error(scale: float, bits: int) -> Fraction:
    """A bound on the error of `shares` as numbers over 2^bits."""
    return Fraction(abs(scale)) / (1 << 108) + Fraction(1, 2 << bits)


def shares(powers: list[tuple[int, int]], n: int, d: int, bits: int = GATE_BITS) -> list[int]:
    """Return Γ_t, the nearest integer to 2^bits (n/d) a_t / Σ a.

    a_t 2^K is the power m_t 2^k_t, rounded down.

    With K the largest k and x_t = e^y_t / 2^(K - BITS): a_t = x_t + δ_t, |δ_t| ≤ 2^-110 x_t + 1.
    Let X = Σ x, A = Σ a and Δ = Σ |δ|. Then |a_t/A - x_t/X| = |δ_t X - x_t Σ δ| / (A X) ≤ 2 Δ/A. As
    A ≥ 2^(BITS-1) = 2^127, Δ ≤ 2^-110 X + 3 and X ≤ A + Δ, 2 Δ/A < 2^-108: the share times n/d is
    within |n/d| 2^-108, and rounding adds at most 2^-(bits+1). ∎
    """
    top = max(k for _, k in powers)
    aligned = [m >> min(top - k, 2 * BITS) for m, k in powers]
    total = sum(aligned)
    return [((2 * n * x << bits) + d * total) // (2 * d * total) for x in aligned]


def read_gates(config: Config, softmax: Softmax, weights: Weights, clock: Clock) -> Gates:
    """Exact scores query · key / divisor, and their exponentials."""
    streams, d = token_streams(config, weights), config.d_model
    top, bottom = softmax.divisor.as_integer_ratio()

    def through(kind: str, h: int, x: Matrix) -> Matrix:
        product = times(x, rows(weights[f"W_{kind}"], h * d, h * d + d), clock)
        return plus(product, rows(weights[f"b_{kind}"], h, h + 1))

    def powers(scores: Matrix) -> Iterator[list[tuple[int, int]]]:
        denominator = top << scores[1]
        for row in ticking(scores[0], clock):
            require(
                all(abs(x) * bottom < denominator * LARGEST for x in row),
                "an attention score beyond 2^60",
            )
            yield [exponential(x * bottom, denominator) for x in row]

    by_head: list[list[list[list[tuple[int, int]]]]] = []
    for h in range(config.n_heads):
        query, by_position = through("Q", h, streams[config.read_position]), []
        for t, x in enumerate(streams[: config.seen]):
            keys = through("K", h, x)
            if t == config.read_position:  # a token attends to itself: only the diagonal occurs
                own = [[sum(map(mul, *pair))] for pair in zip(query[0], keys[0], strict=True)]
                by_position.append(
                    [power * len(own) for power in powers((own, query[1] + keys[1]))]
                )
            else:
                by_position.append(list(powers(times(query, transposed(keys), clock))))
        by_head.append(by_position)
    return Gates(by_head, config.read_position, softmax.scale)
