"""cos and sin in float64, each with an enclosure by Arb: the only trigonometry a proof rests on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.proofs.enclosed import UNIT, Enclosed

# Every float below is within this of the true value: 4 u of Arb's radius, less than 2 u of reading its middle.
TRIGONOMETRY = 2.0**-50


def circle(n: int) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """cos(2π m/n) and sin(2π m/n) for m = 0 … n-1, each within 2^-50 of the true value."""
    from flint import arb, fmpq

    angles = [fmpq(2 * m, n) for m in range(n)]
    return _middles(map(arb.cos_pi_fmpq, angles)), _middles(map(arb.sin_pi_fmpq, angles))


def enclosed_circle(n: int) -> tuple[Enclosed, Enclosed]:
    """The same, as enclosures."""
    cos, sin = circle(n)
    return Enclosed(cos, np.full(n, TRIGONOMETRY)), Enclosed(sin, np.full(n, TRIGONOMETRY))


def enclosed_waves(phase: Float[np.ndarray, " n"]) -> tuple[Enclosed, Enclosed]:
    """The cos and sin of these very floats."""
    from flint import arb

    balls = [arb(x) for x in phase.tolist()]
    radius = np.full(len(phase), TRIGONOMETRY)
    return Enclosed(_middles(ball.cos() for ball in balls), radius), Enclosed(
        _middles(ball.sin() for ball in balls), radius
    )


def _middles(balls: Any) -> Float[np.ndarray, " n"]:
    enclosures: Sequence[Any] = list(balls)
    if not all(float(ball.rad()) < 4 * UNIT for ball in enclosures):
        raise ValueError("Arb's enclosure of a cosine or sine is wider than 2^-51")
    return np.array([float(ball.mid()) for ball in enclosures])
