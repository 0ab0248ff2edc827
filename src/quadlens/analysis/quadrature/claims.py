"""Three kinds of number that cannot be mixed: estimate, upper bound, exact enclosure.

None of them turns into a plain float by itself, and only values of the same kind can be added. What
a bound assumes and what it cost to compute travel with it.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from quadlens.base.display import claim
from quadlens.base.numbers import at_most, between, decimals

# What every claim of this package rests on, and nothing else.
DOUBLES = (
    "φ, ψ, ρ, ω are exactly the stored doubles; weights are the real numbers w_i = 2π ρ_i ω_i / Σ "
    "ρ_j ω_j"
)
IEEE = "IEEE 754 double arithmetic, rounding to nearest"
ARB = "ball arithmetic of Arb (python-flint) encloses"


@dataclass(frozen=True)
class Cost:
    """Elementary operations spent: + - × ÷ √ and comparisons count 1, a sine with its cosine 40.

    Attributes:
        operations: How many.
        order: How the number grows, in d (neurons of the cluster) and p.
    """

    operations: int
    order: str

    def __post_init__(self) -> None:
        if self.operations < 0:
            raise ValueError(f"a cost cannot be negative: {self.operations}")

    def __add__(self, other: "Cost") -> "Cost":
        parts = [part for part in self.order.split(" + ") if part]
        parts += [part for part in other.order.split(" + ") if part and part not in parts]
        return Cost(self.operations + other.operations, " + ".join(parts))


@dataclass(frozen=True)
class Estimate:
    """A float64 number with no guarantee.

    Attributes:
        value: The number.
        how: How it was computed.
    """

    kind: ClassVar = "estimate"
    value: float
    how: str


@dataclass(frozen=True)
class UpperBound:
    """`quantity ≤ value`, proved, rounding included.

    Attributes:
        value: The bound.
        quantity: What is bounded.
        equation: The equation implemented (label in the paper, or section of docs/quadrature.md).
        assumptions: What the proof takes for granted.
        cost: What computing it took.
    """

    kind: ClassVar = "upper bound"
    value: float
    quantity: str
    equation: str
    assumptions: tuple[str, ...]
    cost: Cost

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value >= 0):
            raise ValueError(
                f"an upper bound of a size must be finite and not negative, got {self.value}"
            )

    def __repr__(self) -> str:
        return claim("UpperBound", f"≤ {self.value}", self.quantity)

    def __add__(self, other: "UpperBound") -> "UpperBound":
        """Bound of the sum; values are added upwards, costs and assumptions are joined."""
        _same_kind(self, other)
        return UpperBound(_up(self.value + other.value), *_of_both(self, "+", other))

    def times(self, factor: float) -> "UpperBound":
        """Bound of `factor` times the quantity, factor ≥ 0."""
        if not factor >= 0:
            raise ValueError(
                f"multiplying an upper bound by {factor} would turn the inequality around"
            )
        cost = self.cost + Cost(1, "")
        value = _up(self.value * factor)
        return UpperBound(
            value,
            f"{factor:g} · ({self.quantity})",
            f"{factor:g} · {self.equation}",
            self.assumptions,
            cost,
        )

    def named(self, quantity: str, equation: str) -> "UpperBound":
        """Return the bound under the name of the quantity it was put together for."""
        return replace(self, quantity=quantity, equation=equation)

    def relative_to(self, scale: "Exact") -> "UpperBound":
        """Bound of quantity / scale: divided by the lower end of `scale`, rounded up."""
        return UpperBound(_up(self.value / _positive(scale)), *_of_both(self, "/", scale, 1))


@dataclass(frozen=True)
class Exact:
    """`lower ≤ quantity ≤ upper`, proved.

    The width is rounding only; for a supremum it is also where the search stopped.

    Attributes:
        lower: Lower end.
        upper: Upper end.
        quantity: What is enclosed.
        equation: The equation implemented.
        assumptions: What the proof takes for granted.
        cost: What computing it took.
    """

    kind: ClassVar = "exact"
    lower: float
    upper: float
    quantity: str
    equation: str
    assumptions: tuple[str, ...]
    cost: Cost

    def __post_init__(self) -> None:
        if not (
            math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower <= self.upper
        ):
            raise ValueError(
                f"an enclosure needs finite ends with lower ≤ upper, got [{self.lower}, "
                f"{self.upper}]"
            )

    def __repr__(self) -> str:
        return claim("Exact", f"{self.lower} … {self.upper}", self.quantity)

    def __add__(self, other: "Exact") -> "Exact":
        """Enclosure of the sum of the two quantities."""
        _same_kind(self, other)
        lower, upper = _down(self.lower + other.lower), _up(self.upper + other.upper)
        return Exact(lower, upper, *_of_both(self, "+", other))

    @property
    def middle(self) -> float:
        """The number to print: the middle of the enclosure."""
        return self.lower + (self.upper - self.lower) / 2

    @property
    def width(self) -> float:
        """The width of the enclosure."""
        return self.upper - self.lower

    def as_upper_bound(self) -> UpperBound:
        """The weaker statement quantity ≤ upper."""
        return UpperBound(self.upper, self.quantity, self.equation, self.assumptions, self.cost)

    def relative_to(self, scale: "Exact") -> "Exact":
        """Enclosure of quantity / scale, for a quantity that is not negative."""
        if self.lower < 0:
            raise ValueError(f"relative_to is for sizes, got an enclosure from {self.lower}")
        upper, lower = _up(self.upper / _positive(scale)), max(0.0, _down(self.lower / scale.upper))
        return Exact(lower, upper, *_of_both(self, "/", scale, 2))


Claim = Estimate | UpperBound | Exact
# What each kind of claim promises, as tables show it.
MARKS = {"exact": "=", "upper bound": "≤", "estimate": "≈"}


def printed(claim: Claim) -> float:
    """The one number a table shows for a claim."""
    return claim.middle if isinstance(claim, Exact) else claim.value


def shown(claim: Claim, digits: int) -> str:
    """Return a claim's number with so many digits; a bound is rounded up, so it stays one.

    An enclosure wider than its last digit (a search that stopped early) is shown by its ends.
    """
    if isinstance(claim, Exact):
        return between(claim.lower, claim.upper, digits)
    return (
        at_most(claim.value, digits)
        if isinstance(claim, UpperBound)
        else decimals(claim.value, digits)
    )


def claim_to_dict(claim: Claim) -> dict[str, object]:
    """A claim as JSON, its kind included."""
    number: dict[str, object] = {"kind": claim.kind.replace(" ", "_"), "value": printed(claim)}
    if isinstance(claim, Estimate):
        return number | {"how": claim.how}
    enclosure_ends = (
        {"lower": claim.lower, "upper": claim.upper} if isinstance(claim, Exact) else {}
    )
    return (
        number
        | enclosure_ends
        | {
            "quantity": claim.quantity,
            "equation": claim.equation,
            "assumptions": list(claim.assumptions),
            "operations": claim.cost.operations,
            "order": claim.cost.order,
        }
    )


def _same_kind(claim: object, other: object) -> None:
    if type(claim) is not type(other):
        raise TypeError(
            f"cannot add {type(other).__name__} to {type(claim).__name__}: they promise different "
            "things; "
            "turn an Exact into a bound with as_upper_bound(), and never add an Estimate to either"
        )


def _positive(scale: Exact) -> float:
    if not scale.lower > 0:
        raise ValueError(
            f"cannot divide by {scale.quantity}: its enclosure starts at {scale.lower}"
        )
    return scale.lower


def _of_both(
    claim: UpperBound | Exact, sign: str, other: UpperBound | Exact, operations: int = 0
) -> tuple[str, str, tuple[str, ...], Cost]:
    """Return quantity, equation, assumptions and cost of a sum or a quotient.

    The operation itself costs `operations`.
    """
    quantity = (
        f"({claim.quantity}) / ({other.quantity})"
        if sign == "/"
        else f"{claim.quantity} + {other.quantity}"
    )
    assumptions = tuple(dict.fromkeys(claim.assumptions + other.assumptions))
    return (
        quantity,
        f"{claim.equation} {sign} {other.equation}",
        assumptions,
        claim.cost + other.cost + Cost(operations, ""),
    )


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)


def _down(value: float) -> float:
    return math.nextafter(value, -math.inf)
