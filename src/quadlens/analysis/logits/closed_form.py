"""Which form the logits have: regressions, closed forms, and where they are weak.

With d = a - b and t = a + b - c every factor is f_k(d) cos(k w t). Over all (a, b, c) the factors
of different k are orthogonal, and ⟨f cos(kwt), g cos(kwt)⟩ = ½ mean_d f g, so that a regression
over p³ logits needs only the profile g_k(d) of a part and its variance (`parts.py`); an intercept
would be the mean, which the variance leaves out.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from quadlens.analysis.logits.parts import LogitPart, LogitParts
from quadlens.base.display import short

BLOCK_FLOATS = 1 << 22


def cos_u(
    p: int, keys: tuple[int, ...], shifts: tuple[float, ...] | None = None
) -> Float[np.ndarray, "K p"]:
    """Return |cos u|, u = k w d/2 + δ_k, for every key and distance d = a - b in Z_p.

    It is the pizza factor's amplitude.
    """
    return np.abs(np.cos(_half_angles(p, keys, shifts)))


def cos_2u(
    p: int, keys: tuple[int, ...], shifts: tuple[float, ...] | None = None
) -> Float[np.ndarray, "K p"]:
    """The amplitude of what the secondary frequency adds, cos 2u = cos(k w d + 2 δ_k)."""
    return np.cos(2 * _half_angles(p, keys, shifts))


def _half_angles(
    p: int, keys: tuple[int, ...], shifts: tuple[float, ...] | None
) -> Float[np.ndarray, "K p"]:
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


def regress(part: LogitPart, factors: list[Float[np.ndarray, "K p"]]) -> Regression:
    """Fit `part` by Σ_k Σ_j β_kj f_j(d) cos(k w (a+b-c)), the f_j given as tables [k, d]."""
    F = np.stack(factors, axis=1)
    gram = np.einsum("kid,kjd->kij", F, F)
    moment = np.einsum("kid,kd->ki", F, part.profile)
    beta = np.einsum("kij,kj->ki", np.linalg.pinv(gram, hermitian=True), moment)
    fitted = np.einsum("ki,kid->kd", beta, F)
    return Regression(r2_of(part, fitted), beta)


def r2_of(part: LogitPart, amplitude: Float[np.ndarray, "K p"]) -> float | None:
    """R² of Σ_k h_k(d) cos(k w (a+b-c)) as a description of `part`, fitted or not.

    Residual variance: variance - Σ_k v (2 mean_d(h g) - mean_d h²), v the mean of cos²(k w t).
    """
    if part.variance == 0.0:
        return None
    p = amplitude.shape[1]
    v = part.mean_square[:, None]
    explained = (
        float((2 * v * amplitude * part.profile).sum() - (v * np.square(amplitude)).sum()) / p
    )
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
    """Regress logits, their absolute-value part and the MLP output on clock and pizza factors."""
    pizza, secondary = (
        cos_u(parts.p, parts.keys, parts.shifts),
        cos_2u(parts.p, parts.keys, parts.shifts),
    )

    def regressions(part: LogitPart) -> ClockPizza:
        return ClockPizza(
            pizza=regress(part, [pizza]).r2,
            clock=regress(part, [np.ones_like(pizza)]).r2,
            pizza_and_secondary=regress(part, [pizza, secondary]).r2,
        )

    return ClockPizzaTable(
        regressions(parts.all_logits),
        regressions(parts.abs_component),
        regressions(parts.mlp_output),
    )


@short
@dataclass(frozen=True, eq=False)
class ClosedForm:
    """The form Σ_k (C_k |cos u| + D_k cos 2u) cos(k w (a+b-c)) (`sec:identity-component-relu`).

    u is k w (a-b)/2, plus the key's shift where a and b have phases of their own.

    Attributes:
        p: Modulus.
        keys: Key frequencies.
        C: C_k.
        D: D_k.
        r2: R² over all p³ logits of the model; None when they do not vary.
        correct: How many of the p² inputs it answers right on its own; ties are not right.
        min_margin: Its smallest margin, right answer minus best other.
    """

    p: int
    keys: tuple[int, ...]
    C: Float[np.ndarray, " K"]
    D: Float[np.ndarray, " K"]
    r2: float | None
    correct: int
    min_margin: float

    @property
    def inputs(self) -> int:
        """How many inputs there are."""
        return self.p**2


def judge_closed_form(
    parts: LogitParts, C: Float[np.ndarray, " K"], D: Float[np.ndarray, " K"]
) -> ClosedForm:
    """Judge the two-term form with given coefficients against the model's logits."""
    pizza, secondary = (
        cos_u(parts.p, parts.keys, parts.shifts),
        cos_2u(parts.p, parts.keys, parts.shifts),
    )
    amplitude = C[:, None] * pizza + D[:, None] * secondary
    margins = distance_margins(parts.p, parts.keys, amplitude)
    # Its logits depend on d = a - b and t = a + b - c alone: each distance stands for p inputs.
    return ClosedForm(
        p=parts.p,
        keys=parts.keys,
        C=C,
        D=D,
        r2=r2_of(parts.all_logits, amplitude),
        correct=int((margins > 0).sum()) * parts.p,
        min_margin=float(margins.min()),
    )


def distance_margins(
    p: int, keys: tuple[int, ...], amplitude: Float[np.ndarray, "K p"]
) -> Float[np.ndarray, " p"]:
    """For each distance d, Σ_k h_k(d) minus the largest Σ_k h_k(d) cos(k w t) over t ≠ 0."""
    others = np.cos(2 * np.pi / p * (np.outer(np.array(keys, dtype=np.int64), np.arange(1, p)) % p))
    rows = max(1, BLOCK_FLOATS // p)
    best = [(amplitude[:, d : d + rows].T @ others).max(axis=1) for d in range(0, p, rows)]
    return amplitude.sum(axis=0) - np.concatenate(best)


@short
@dataclass(frozen=True)
class ClosedForms:
    """The forms of one model's logits, with coefficients found in three ways.

    Attributes:
        by_parts: C_k from the absolute-value component on |cos u|, D_k from the identity component
            on cos 2u, as the paper finds them.
        fitted: C_k and D_k that fit all logits best, jointly.
        pizza_only: C_k as in `by_parts`, D_k = 0: what is left when the secondary frequency is
            taken away.
    """

    by_parts: ClosedForm
    fitted: ClosedForm
    pizza_only: ClosedForm


def closed_forms(parts: LogitParts) -> ClosedForms:
    """Find the coefficients and judge the three forms."""
    pizza, secondary = (
        cos_u(parts.p, parts.keys, parts.shifts),
        cos_2u(parts.p, parts.keys, parts.shifts),
    )
    C = regress(parts.abs_component, [pizza]).coefficients[:, 0]
    D = regress(parts.identity_component, [secondary]).coefficients[:, 0]
    joint = regress(parts.all_logits, [pizza, secondary]).coefficients
    return ClosedForms(
        by_parts=judge_closed_form(parts, C, D),
        fitted=judge_closed_form(parts, joint[:, 0], joint[:, 1]),
        pizza_only=judge_closed_form(parts, C, np.zeros_like(D)),
    )


@short
@dataclass(frozen=True)
class WeakSpot:
    """The distance at which one key frequency's pizza logit is smallest.

    Coefficients are those of cos(k w (a+b-c)) over the inputs with a - b ≡ distance (mod p), and
    its negative where both are weak.

    Attributes:
        k: Key frequency.
        distance: d = a - b with the smallest |cos u|; the smaller of ±d where there is no shift.
        both_signs: Whether -d is as weak: where neurons read a and b alike. With a shift only d
            itself is.
        cos_u: |cos u| there, sin(π/2p) when gcd(k, p) = 1.
        abs_component: Coefficient measured in the absolute-value component.
        identity_component: Coefficient measured in the identity component.
        skip: Coefficient measured in the skip connection.
        all_logits: Coefficient measured in all logits: the sum of the three.
        pizza_term: C_k |cos u| of the two-term form.
        secondary_term: D_k cos 2u of the two-term form.
        relative: all_logits there over the mean of all_logits over every distance; 1 for a clock.
    """

    k: int
    distance: int
    both_signs: bool
    cos_u: float
    abs_component: float
    identity_component: float
    skip: float
    all_logits: float
    pizza_term: float
    secondary_term: float
    relative: float | None

    @property
    def where(self) -> str:
        """The distance as a table has it: ±d where both signs are weak."""
        return f"{'±' if self.both_signs and self.distance else ''}{self.distance}"


def weak_spots(parts: LogitParts, form: ClosedForm) -> tuple[WeakSpot, ...]:
    """One weak spot per key frequency."""
    small, double = (
        cos_u(parts.p, parts.keys, parts.shifts),
        cos_2u(parts.p, parts.keys, parts.shifts),
    )
    spots = []
    for row, k in enumerate(parts.keys):
        if parts.shifts[row]:
            d = int(small[row].argmin())
            pair = np.array([d])
        else:
            d = int(small[row, : parts.p // 2 + 1].argmin())
            # d and -d have the same u up to sign; the model's own profile differs a little between
            # them.
            pair = np.array([d, -d % parts.p])

        def at(profile: Float[np.ndarray, "K p"], row: int = row, pair: np.ndarray = pair) -> float:
            return float(profile[row, pair].mean())

        mean = float(parts.all_logits.profile[row].mean())
        spots.append(
            WeakSpot(
                k=k,
                distance=d,
                both_signs=not parts.shifts[row],
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
