"""Ball arithmetic for a scheme: every real number enclosed, every float rounded outwards."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from quadlens.analysis.quadrature.claims import Cost, Exact, UpperBound
from quadlens.analysis.quadrature.scheme import Scheme
from quadlens.base.numbers import precision

PRECISION = 128
# python-flint ships no types; a ball is its `arb`, a complex ball its `acb`.
Ball = Any


@contextmanager
def precision_for(scheme: Scheme) -> Iterator[None]:
    """Work with enough bits for the scheme's phases.

    These are 128 beyond the largest phase's integer part.
    """
    largest = float(max(np.abs(scheme.phi).max(), np.abs(scheme.psi).max(), 1.0))
    with precision(PRECISION + math.frexp(largest)[1]):
        yield


def balls(values: Any) -> list[Ball]:
    """Each double as an exact ball."""
    from flint import arb

    return [arb(x) for x in values.tolist()]


def weight_balls(scheme: Scheme) -> list[Ball]:
    """w_i = 2π ρ_i ω_i / Σ_j ρ_j ω_j, enclosed."""
    from flint import arb

    products = [
        rho * omega for rho, omega in zip(balls(scheme.rho), balls(scheme.omega), strict=True)
    ]
    scale = 2 * arb.pi() / sum(products, arb(0))
    return [product * scale for product in products]


def upper(ball: Ball) -> float:
    """A double at or above everything in the ball."""
    return math.nextafter(float(ball.upper()), math.inf)


def lower(ball: Ball) -> float:
    """A double at or below everything in the ball."""
    return math.nextafter(float(ball.lower()), -math.inf)


def upper_bound(
    ball: Ball, quantity: str, equation: str, assumptions: tuple[str, ...], cost: Cost
) -> UpperBound:
    """The claim that the quantity is at most anything in the ball."""
    return UpperBound(max(0.0, upper(ball)), quantity, equation, assumptions, cost)


def exact(
    ball: Ball, quantity: str, equation: str, assumptions: tuple[str, ...], cost: Cost
) -> Exact:
    """The claim that the quantity (a size, so not negative) lies in the ball."""
    return Exact(max(0.0, lower(ball)), upper(ball), quantity, equation, assumptions, cost)
