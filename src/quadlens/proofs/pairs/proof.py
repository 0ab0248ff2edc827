"""What a proof strategy hands on: claims, hints that make checking cheap, and costs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool

from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.base.display import short
from quadlens.base.errors import BadWeights
from quadlens.network.activation import Activation
from quadlens.network.weights import Weights

Verdict = Literal["CERTIFIED", "PARTLY", "UNPROVED"]

MAX_WITNESSES = 100


@short
@dataclass(frozen=True)
class Term:
    """One named part of an error budget.

    Attributes:
        bound: An upper bound of the part's size over all inputs and answers, in logits.
        worst: Where it is attained or bounded worst: (a, b) or (a, b, c); None when it is the same
            everywhere.
    """

    bound: Fraction
    worst: tuple[int, ...] | None = None


@runtime_checkable
class Hints(Protocol):
    """Values that a checker would have to search for. Hints are never trusted, only tried."""

    def to_json(self) -> Mapping[str, Any]:
        """The hints in JSON's types, integers only."""


@dataclass(frozen=True)
class NoHints:
    """Brute force needs none."""

    def to_json(self) -> Mapping[str, Any]:
        return {}


class ImpossibleProof(RuntimeError):
    """A proof that contradicts itself: a mistake of a strategy, never an outcome."""


@short
@dataclass(frozen=True, eq=False)
class Proof:
    """What one strategy proved about one model, in real arithmetic on its weights (T3).

    For every input with certified[a,b], logit(a, b, answers[a,b]) - logit(a, b, c) ≥ margin > 0 for
    every other c.

    Attributes:
        strategy: Its name.
        certified: Which inputs are proved right.
        margin: A lower bound of the margin on all certified inputs; None when there are none.
        exact: Whether `margin` is the true smallest margin and every input left out is in fact not
            answered right.
        witnesses: Inputs proved wrong, (a, b, answered). At most 100.
        hints: For the checker; None when it has no theorem to follow this proof by.
        operations: What the proof cost, beyond the collapse.
        filed_operations: What the certificate's file says in its place, if it counts in another way
            (`thin`).
        terms: The error budget, by name; empty for exact strategies, which neglect nothing and
            bound nothing.
        own_collapse: Whether `operations` has all that was needed, the full collapse not being part
            of it.
        reason: Why not everything is certified; None when it is.
        obstacle: Why the checker could not follow this proof although it knows the theorem; None
            when it can.
        complete: Whether every input left out is in fact not answered right, so that no other
            strategy could say more.
        tied: Inputs proved tied, (a, b, c): the logit of c is that of the right answer, none is
            above. At most 100.
        applies: Whether the strategy is for such a model; one that is and fails has proved nothing
            all the same.
    """

    strategy: str
    certified: Bool[np.ndarray, "p p"]
    margin: Fraction | None
    exact: bool
    witnesses: tuple[tuple[int, int, int], ...]
    hints: Hints | None
    operations: int
    terms: Mapping[str, Term] = field(default_factory=dict)
    own_collapse: bool = False
    reason: str | None = None
    complete: bool = False
    obstacle: str | None = None
    tied: tuple[tuple[int, int, int], ...] = ()
    applies: bool = True
    filed_operations: int | None = None

    def __post_init__(self) -> None:
        if (self.margin is None) != (not self.certified.any()):
            raise ImpossibleProof("a proof has a margin exactly when it certifies some input")
        if self.margin is not None and self.margin <= 0:
            raise ImpossibleProof(
                f"margin {self.margin} is not positive: a tie is not a right answer"
            )
        if (self.reason is None) != bool(self.certified.all()):
            raise ImpossibleProof("a proof gives a reason exactly when it leaves some input out")

    @property
    def verdict(self) -> Verdict:
        """Return CERTIFIED, PARTLY or UNPROVED: all inputs are proved right, some, or none."""
        if self.certified.all():
            return "CERTIFIED"
        return "PARTLY" if self.certified.any() else "UNPROVED"

    @property
    def uncertified(self) -> tuple[tuple[int, int], ...]:
        """The inputs that are not proved right."""
        return tuple((int(a), int(b)) for a, b in np.argwhere(~self.certified))


@dataclass(frozen=True)
class Mark:
    """How a strategy is drawn, the same in every picture.

    Attributes:
        shape: Of its point, as matplotlib names it.
        concept: The colour, as `figures.style` names it; exact strategies are drawn hollow.
    """

    shape: str
    concept: Literal["exact", "bound"]


@dataclass(frozen=True)
class StrategyFacts:
    """A strategy's name, description and reach.

    Attributes:
        name: As in `quadlens certify --strategy NAME`.
        description: One sentence: what it does and what it proves.
        activations: Those it can read.
        mark: How it is drawn.
        exact: Whether it proves all that is true, with the true smallest margin.
        in_integers: Whether it works in Python's integers at every p, which takes minutes on large
            models.
        own_collapse: Whether it does without the full collapse, so that its cost has everything in
            it.
        chooses: Whether it only chooses among the others, whose names its proofs carry.
        has_certificate: Whether the checker knows its theorem.
    """

    name: str
    description: str
    activations: tuple[Activation, ...]
    mark: Mark
    exact: bool = False
    in_integers: bool = False
    own_collapse: bool = False
    chooses: bool = False
    has_certificate: bool = True


@runtime_checkable
class Strategy(Protocol):
    """A way to prove what a model does.

    `prove` never raises because a model is wrong or out of reach: it says so.
    """

    @property
    def facts(self) -> StrategyFacts:
        """Return the strategy's facts."""

    def prove(self, subject: Weights | Anatomy) -> Proof:
        """Return the strongest statement that this strategy has for a model.

        An anatomy is used as far as it is computed.
        """


def nothing_proved(strategy: str, p: int, reason: str, applies: bool = False) -> Proof:
    """The outcome of a strategy that is not for such a model, or that is and fails."""
    none = np.zeros((p, p), dtype=bool)
    return Proof(strategy, none, None, False, (), NoHints(), 0, reason=reason, applies=applies)


def attempt(strategy: Strategy, subject: Weights | Anatomy) -> Proof:
    """Return the strategy's proof.

    Weights beyond what its float64 planning can hold prove nothing, and the reason says so.

    An overflow or an invalid operation anywhere in the planning ends it: no claim is made from
    infinities.
    """
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            return strategy.prove(subject)
    except (ArithmeticError, ValueError, np.linalg.LinAlgError, BadWeights) as error:
        name = strategy.facts.name
        remedy = "scale the weights down" if name == "brute" else "try the strategy brute"
        reason = f"{name} cannot plan in float64 with weights of this size ({error}); {remedy}"
        return nothing_proved(name, subject.config.p, reason, applies=True)
