"""What the checker can follow, known before a certificate is written.

The checker refuses what lies beyond its limits, and where softmax or σ is not rational it loses a
little by an enclosure of its own, in integers. Of the checker the producer reads the list of limits
(`quadlens_checker.limits`) and nothing else.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from quadlens.network.activation import NONLINEARITIES
from quadlens.network.collapse import value_biases
from quadlens.network.config import Config
from quadlens.network.dyadic import DYADICS, Dyadic
from quadlens.network.tables import Tables
from quadlens.network.weights import Weights
from quadlens.proofs.pairs.proof import StrategyFacts
from quadlens_checker import limits


def model_obstacle(model: Weights, facts: StrategyFacts) -> str | None:
    """Say why no proof of this model by this strategy can have a certificate.

    It says what is known before the proof; None where nothing stands in the way.
    """
    if not facts.has_certificate:
        return (
            "the checker does not know its theorem; prove it without a "
            "certificate, or by the strategy auto"
        )
    size = sum(array.nbytes for array in model.tensors.values())
    unknown = unknown_model(model.config)
    if unknown is None and size > limits.MAX_MODEL_BYTES:
        unknown = (
            f"the checker reads models of up to {limits.MAX_MODEL_BYTES:,} "
            f"bytes, and this one has {size:,}"
        )
    if unknown is not None:
        return f"{unknown}; prove it without a certificate"
    return None


def unknown_model(config: Config) -> str | None:
    """Why the checker refuses every model of this kind."""
    p, activation = config.p, config.activation
    arcs = config.attention_kind == "constant" and config.no_tables is None
    most = limits.MAX_MODULUS if arcs else limits.MAX_DIRECT_MODULUS
    if p > most:
        return f"the checker takes p up to {most}, and this model has p = {p}"
    if activation not in limits.ACTIVATIONS:
        return (
            f"the checker knows the activations {', '.join(limits.ACTIVATIONS)}, and "
            f"this model has {activation}"
        )
    return None


def too_long(name: str, number: Fraction | None) -> str | None:
    """Why the checker refuses this rational."""
    digits = 0 if number is None else _digits(number.numerator) + 1 + _digits(number.denominator)
    if digits <= limits.MAX_RATIONAL_LENGTH:
        return None
    return (
        f"the {name} has some {digits:,} digits when it is written out "
        "exactly, and the checker reads "
        f"{limits.MAX_RATIONAL_LENGTH:,}: weights of so different sizes are beyond it"
    )


def _digits(n: int) -> int:
    """Count the decimal digits of n > 0, at most one too many, without printing n.

    Python refuses to print very long integers.
    """
    return n.bit_length() * 30103 // 100000 + 1


def score_obstacle(exact: Tables[Dyadic]) -> str | None:
    """Why the checker refuses the attention scores of this model."""
    divisor = Fraction(exact.divisor)
    scores = max(
        (_size(x) / divisor for table in exact.gated for x in table.scores), default=Fraction(0)
    )
    if scores < 1 << limits.SCORE_BITS:
        return None
    return (
        f"the checker takes attention scores below 2^{limits.SCORE_BITS}, and "
        "this model has larger ones"
    )


@dataclass(frozen=True)
class CheckerError:
    """How far the checker's enclosure of a model can be from the model.

    Attributes:
        sigma: e, of each σ.
        rest: Of the difference of two logits, all that does not go through a σ.
        refusal: Why the checker refuses the model's attention scores; None when it does not.
    """

    sigma: Fraction
    rest: Fraction
    refusal: str | None

    def loss(self, spread: float, residual: float) -> float:
        """bound_: what the checker can lose of a margin, or of a margin less ρ.

        Args:
            spread: Σ_i s_i, s_i the spread of W_L[·,i] over the answers.
            residual: Σ_i of the spread of what a low-rank form leaves of W_L[·,i]; 0 for brute
                force.

        With L = e spread + rest, which `direct.enclose` of the checker proves for the difference of
        two logits: a lead is within L of the true one and L is taken off, 2 L. Of a low-rank score,
        whose weights have spreads of at most `spread` and `residual` together, it is off by L + e
        residual, and ρ by e residual and less than 2 L.
        """
        try:
            L = self.sigma * Fraction(spread) + self.rest
            return 1.01 * float(4 * L + 2 * self.sigma * Fraction(residual))
        except OverflowError:
            return math.inf


def checker_error(model: Weights, exact: Tables[Dyadic]) -> CheckerError:
    """The error that `direct.enclose` of the checker proves for itself, from the same sizes."""
    U_b, gates = _as_in_the_checker(model, exact)
    scale, heads = abs(Fraction(exact.scale)), len(exact.gated[0].scores) if exact.gated else 0
    lost = len(gates) * (scale / (1 << 108) + Fraction(1, 2 << limits.GATE_BITS))
    total = heads * scale + lost
    U_g, S_g = (
        max(map(_size, each), default=Fraction(0))
        for each in (zip(*gates, strict=True) if gates else ((), ()))
    )
    most = math.ceil(_size(exact.U_a) + _size(U_b) + total * (U_g + 1)) + 2
    degree = NONLINEARITIES[exact.activation].degree
    slope = 2 if degree is None else degree * most ** (degree - 1)
    q = limits.PRE_BITS - most.bit_length()
    if q <= limits.GRID_BITS or slope * (2 + total / 2) > Fraction(2) ** (q - limits.LOSS_BITS):
        q = limits.WIDE_BITS
    last = Fraction(1, 1 << q)
    rounding = {
        None: Fraction(1, 1 << 40) + 4 * last,
        1: Fraction(0),
        2: last,
        4: (2 * most**2 + 1) * last,
    }[degree]
    largest = most + 2 if degree is None else most**degree
    e = slope * ((2 + total / 2) * last + lost * U_g) + rounding
    weights = Fraction(
        exact.W_L.shape[1] * largest, 1 << (64 + max(0, largest.bit_length() - limits.SIGMA_BITS))
    )
    return CheckerError(
        e, weights + 2 * ((1 + total / 2) * last + lost * S_g), score_obstacle(exact)
    )


def _as_in_the_checker(
    model: Weights, exact: Tables[Dyadic]
) -> tuple[Dyadic, list[tuple[Dyadic, Dyadic]]]:
    """Return U_b, and U and S of each head and position, as the checker has them.

    The value biases, which the tables have once, are in U_b.
    """
    U_b, gates = exact.U_b, []
    if not exact.gated:
        return U_b, []
    out = [Dyadic.from_floats(x) for x in (model.W_in, model.W_U[:, : model.config.p])]
    for h, bias in enumerate(value_biases(model, DYADICS)):
        of_U, of_S = (bias @ x for x in out)
        U_b = U_b + of_U.scaled(-exact.scale).repeated(U_b.shape[0])
        for table in exact.gated:
            rows = table.U[h].shape[0]
            gates.append((table.U[h] + of_U.repeated(rows), table.S[h] + of_S.repeated(rows)))
    return U_b, gates


def _size(x: Dyadic) -> Fraction:
    """The largest size of an entry."""
    entries: list[Any] = x.numerators.entries()
    top, bottom = max(entries), min(entries)
    return Fraction(int(max(top, -bottom)), 1 << x.shift)
