"""What a proof strategy hands on: claims, the hints that make them cheap to check, and what they cost."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool

from quadlens.model.params import Model
from quadlens.proofs.operations import Operations
from quadlens.spectrum.anatomy import Anatomy

Verdict = Literal["CERTIFIED", "PARTLY", "NOT"]

MAX_WITNESSES = 100


@dataclass(frozen=True)
class Term:
    """One named part of an error budget.

    Attributes:
        bound: An upper bound of the part's size over all inputs and answers, in logits.
        worst: Where it is attained or bounded worst: (a, b) or (a, b, c); None when it is the same everywhere.
    """

    bound: Fraction
    worst: tuple[int, ...] | None = None


@runtime_checkable
class Hints(Protocol):
    """What a checker would otherwise have to search for. Hints are never trusted, only tried."""

    def to_json(self) -> Mapping[str, Any]:
        """The hints in JSON's types, integers only."""


@dataclass(frozen=True)
class NoHints:
    """Brute force needs none."""

    def to_json(self) -> Mapping[str, Any]:
        """Nothing."""
        return {}


class ImpossibleProof(RuntimeError):
    """A proof that contradicts itself: a mistake of a strategy, never an outcome."""


@dataclass(frozen=True, eq=False)
class Proof:
    """What one strategy proved about one model, in real arithmetic on the stored weights (T3 of `math.md` §5).

    For every input with certified[a,b], logit(a, b, a+b mod p) - logit(a, b, c) ≥ margin > 0 for every other c.

    Attributes:
        strategy: Its name.
        certified: Which inputs are proved right.
        margin: A lower bound of the margin on all certified inputs; None when there are none.
        exact: Whether `margin` is the true smallest margin and every input left out is in fact not answered right.
        witnesses: Inputs proved wrong, (a, b, answered); a tie counts as wrong. At most 100.
        hints: For the checker.
        operations: What the proof cost, beyond the collapse.
        terms: The error budget, by name; empty for exact strategies, which neglect nothing and bound nothing.
        logit_error: T2: |logit - closed form| ≤ logit_error for all a, b, c, logits taken relative to their mean over c
            (which no answer depends on); None when the strategy does not say.
        own_collapse: Whether `operations` has all that was needed, the full collapse not being part of it.
        reason: Why not everything is certified; None when it is.
    """

    strategy: str
    certified: Bool[np.ndarray, "p p"]
    margin: Fraction | None
    exact: bool
    witnesses: tuple[tuple[int, int, int], ...]
    hints: Hints
    operations: Operations
    terms: Mapping[str, Term] = field(default_factory=dict)
    logit_error: Fraction | None = None
    own_collapse: bool = False
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.margin is None) != (not self.certified.any()):
            raise ImpossibleProof("a proof has a margin exactly when it certifies some input")
        if self.margin is not None and self.margin <= 0:
            raise ImpossibleProof(f"margin {self.margin} is not positive: a tie is not a right answer")
        if (self.reason is None) != bool(self.certified.all()):
            raise ImpossibleProof("a proof gives a reason exactly when it leaves some input out")

    @property
    def verdict(self) -> Verdict:
        """CERTIFIED when all inputs are proved right, PARTLY when some are, NOT when none is."""
        if self.certified.all():
            return "CERTIFIED"
        return "PARTLY" if self.certified.any() else "NOT"

    @property
    def uncertified(self) -> tuple[tuple[int, int], ...]:
        """The inputs that are not proved right."""
        return tuple((int(a), int(b)) for a, b in np.argwhere(~self.certified))


@runtime_checkable
class Strategy(Protocol):
    """A way to prove what a model does. `prove` never raises because a model is wrong or out of reach: it says so."""

    @property
    def name(self) -> str:
        """As in `quadlens certify --strategy NAME`."""

    def prove(self, subject: Model | Anatomy) -> Proof:
        """The strongest statement this strategy has for a model; an anatomy is used as far as it is computed."""


def nothing_proved(strategy: str, p: int, reason: str) -> Proof:
    """The outcome of a strategy that cannot read a model."""
    return Proof(strategy, np.zeros((p, p), dtype=bool), None, False, (), NoHints(), Operations(), reason=reason)
