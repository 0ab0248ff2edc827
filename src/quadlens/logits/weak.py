"""Where |cos u| ≈ 0 the pizza logits vanish: what the secondary frequency adds there."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from quadlens.logits.closed_form import ClosedForm
from quadlens.logits.parts import LogitParts
from quadlens.logits.regression import cos_2u, cos_u


@dataclass(frozen=True)
class WeakSpot:
    """The distance at which one key frequency's pizza logit is smallest.

    Coefficients are those of cos(k w (a+b-c)) over the inputs with a - b ≡ ±distance (mod p).

    Attributes:
        k: Key frequency.
        distance: d = a - b with the smallest |cos u|, u = k w d/2; the smaller of ±d.
        cos_u: |cos u| there, sin(π/2p) when gcd(k, p) = 1.
        abs_component: Coefficient measured in the absolute-value component.
        identity_component: Coefficient measured in the identity component.
        skip: Coefficient measured in the skip connection.
        all_logits: Coefficient measured in all logits: the sum of the three.
        pizza_term: C_k |cos u| of the closed form.
        secondary_term: D_k cos 2u of the closed form.
        relative: all_logits there over the mean of all_logits over every distance; 1 for a clock.
    """

    k: int
    distance: int
    cos_u: float
    abs_component: float
    identity_component: float
    skip: float
    all_logits: float
    pizza_term: float
    secondary_term: float
    relative: float | None


def weak_spots(parts: LogitParts, form: ClosedForm) -> tuple[WeakSpot, ...]:
    """One weak spot a key frequency."""
    small, double = cos_u(parts.p, parts.keys), cos_2u(parts.p, parts.keys)
    spots = []
    for row, k in enumerate(parts.keys):
        d = int(small[row, : (parts.p + 1) // 2].argmin())
        # d and -d have the same u up to sign; the model's own profile differs a little between them.
        pair = np.array([d, -d % parts.p])

        def at(profile: Float[np.ndarray, "K p"], row: int = row, pair: np.ndarray = pair) -> float:
            return float(profile[row, pair].mean())

        mean = float(parts.all_logits.profile[row].mean())
        spots.append(
            WeakSpot(
                k=k,
                distance=d,
                cos_u=float(small[row, d]),
                abs_component=at(parts.abs_component.profile),
                identity_component=at(parts.identity_component.profile),
                skip=at(parts.skip.profile),
                all_logits=at(parts.all_logits.profile),
                pizza_term=float(form.C[row] * small[row, d]),
                secondary_term=float(form.D[row] * double[row, d]),
                relative=at(parts.all_logits.profile) / mean if mean != 0 else None,
            )
        )
    return tuple(spots)
