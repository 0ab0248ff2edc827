"""Regressions of the logits on clock, pizza and secondary factors, one factor per key frequency.

With d = a - b and t = a + b - c every factor is f_k(d) cos(k w t). Over all (a, b, c) the factors of different k are
orthogonal, and ⟨f cos(kwt), g cos(kwt)⟩ = ½ mean_d f g, so that a regression over p³ logits needs only the profile
g_k(d) of a part and its variance (`parts.py`); an intercept would be the mean, which the variance leaves out.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from quadlens.display import short
from quadlens.logits.parts import LogitParts, Part


def cos_u(p: int, keys: tuple[int, ...], shifts: tuple[float, ...] | None = None) -> Float[np.ndarray, "K p"]:
    """The pizza factor's amplitude |cos u|, u = k w d/2 + δ_k, for every key and every distance d = a - b in Z_p."""
    return np.abs(np.cos(_half_angles(p, keys, shifts)))


def cos_2u(p: int, keys: tuple[int, ...], shifts: tuple[float, ...] | None = None) -> Float[np.ndarray, "K p"]:
    """The amplitude of what the secondary frequency adds, cos 2u = cos(k w d + 2 δ_k)."""
    return np.cos(2 * _half_angles(p, keys, shifts))


def _half_angles(p: int, keys: tuple[int, ...], shifts: tuple[float, ...] | None) -> Float[np.ndarray, "K p"]:
    # |cos u| and cos 2u have period π in u, and k w d/2 = π k d/p: reduce k·d modulo p first.
    products = (np.outer(np.array(keys, dtype=np.int64), np.arange(p)) % p).astype(np.float64)
    return np.pi / p * products + np.array(shifts or (0.0,) * len(keys))[:, None]


class Regression(NamedTuple):
    """A least-squares fit of one part of the logits.

    Attributes:
        r2: 1 - (residual variance) / (variance); None for a part that does not vary.
        coefficients: One column a factor, one row per key.
    """

    r2: float | None
    coefficients: Float[np.ndarray, "K factors"]


def regress(part: Part, factors: list[Float[np.ndarray, "K p"]]) -> Regression:
    """Fit `part` by Σ_k Σ_j β_kj f_j(d) cos(k w (a+b-c)), the f_j given as tables [k, d]."""
    F = np.stack(factors, axis=1)
    gram = np.einsum("kid,kjd->kij", F, F)
    moment = np.einsum("kid,kd->ki", F, part.profile)
    beta = np.einsum("kij,kj->ki", np.linalg.pinv(gram, hermitian=True), moment)
    fitted = np.einsum("ki,kid->kd", beta, F)
    return Regression(r2_of(part, fitted), beta)


def r2_of(part: Part, amplitude: Float[np.ndarray, "K p"]) -> float | None:
    """R² of Σ_k h_k(d) cos(k w (a+b-c)) as a description of `part`, fitted or not.

    Residual variance: variance - Σ_k v (2 mean_d(h g) - mean_d h²), v the mean of cos²(k w t).
    """
    if part.variance == 0.0:
        return None
    p = amplitude.shape[1]
    v = part.mean_square[:, None]
    explained = float((2 * v * amplitude * part.profile).sum() - (v * np.square(amplitude)).sum()) / p
    return explained / part.variance


@short
@dataclass(frozen=True)
class ClockPizza:
    """R² of the two forms the literature gives the logits (`sec:secondary-freqs`).

    Attributes:
        pizza: Against |cos u| cos(k w (a+b-c)) (Zhong et al.).
        clock: Against cos(k w (a+b-c)) (Nanda et al.).
        pizza_and_secondary: Against |cos u| and cos 2u times cos(k w (a+b-c)), two factors per key.
    """

    pizza: float | None
    clock: float | None
    pizza_and_secondary: float | None


@short
@dataclass(frozen=True)
class ClockPizzaTable:
    """The three regressions of the paper."""

    all_logits: ClockPizza
    abs_component: ClockPizza
    mlp_output: ClockPizza


def clock_pizza(parts: LogitParts) -> ClockPizzaTable:
    """Regress all logits, their absolute-value component and the MLP output on the clock and pizza factors."""
    pizza, secondary = cos_u(parts.p, parts.keys, parts.shifts), cos_2u(parts.p, parts.keys, parts.shifts)

    def of(part: Part) -> ClockPizza:
        return ClockPizza(
            pizza=regress(part, [pizza]).r2,
            clock=regress(part, [np.ones_like(pizza)]).r2,
            pizza_and_secondary=regress(part, [pizza, secondary]).r2,
        )

    return ClockPizzaTable(of(parts.all_logits), of(parts.abs_component), of(parts.mlp_output))
