"""The rule for "computes integrals" in report, explorer and captions, with its thresholds."""

from dataclasses import dataclass

from quadlens.base.display import short
from quadlens.base.numbers import decimals, percent

# R² from which on a formula may stand for the logits; below it the answers it gives say nothing
# about the network.
STANDS_FOR_LOGITS = 0.9
# How much less R² must be left when output phases are permuted; the share of answers that evenly
# spread nodes must keep; and the share that nodes on half a period must not.
LOST, KEPT, BROKEN = 0.5, 0.99, 0.9
# Circular R² from which on one phase is said to follow a multiple of another.
CLEAR_RELATION = 0.9
# Worst exact error of a rule, over its integral's mean size: from the first on the sum is no
# integral, below the second it is one without a caveat.
NO_INTEGRAL, GOOD_RULE = 1.0, 0.2


@short
@dataclass(frozen=True)
class Criterion:
    """One thing that the rule asks for.

    Attributes:
        name: What it is.
        holds: Whether the measured value reaches the threshold.
        words: The measured value in a clause, for a sentence that says why.
        asked: The threshold in a clause, for a sentence that states the rule.
    """

    name: str
    holds: bool
    words: str
    asked: str


@dataclass(frozen=True)
class Integration:
    """Whether a hidden layer computes integrals, as the lens measures (`docs/lens.md`).

    All are None where no neuron reads and writes the same frequency, or without a lens.

    Attributes:
        shared: R² of the logits of one function per frequency that its neurons share, read at phase
            φ and written at 2φ, nothing fitted to logits.
        permuted: The same for networks whose output phases are permuted within each cluster.
        even: Share of inputs whose answer stays when as many fresh neurons, spread evenly, take the
            clusters' place.
        half: The same with neurons on half a period.
        right: Share of inputs that the shared functions alone answer right: about the task, and no
            part of the rule.
    """

    shared: float | None = None
    permuted: float | None = None
    even: float | None = None
    half: float | None = None
    right: float | None = None

    @property
    def parts(self) -> tuple[Criterion, ...]:
        """The rule: everything it asks for."""
        if self.shared is None or self.permuted is None or self.even is None or self.half is None:
            return ()
        shared_function = (
            "one function per frequency, which its neurons share, read at phase φ and written at "
            "2φ,"
        )
        less = f"{shared_function} has R² {decimals(self.shared, 3, 'down')} of the logits"
        left = f"with output phases permuted R² {decimals(self.permuted, 3, 'up')} is left"
        even = f"evenly spread neurons keep {percent(self.even, 2, 'down')} of the answers"
        half = f"neurons on half a period keep {percent(self.half, 2, 'up')}"
        rows = (
            (
                "shared function",
                self.shared >= STANDS_FOR_LOGITS,
                less,
                f", below {STANDS_FOR_LOGITS:g}",
                f"{shared_function} has an R² of at least {STANDS_FOR_LOGITS:g} of the logits",
            ),
            (
                "permuted phases",
                self.permuted <= self.shared - LOST,
                left,
                f", not {LOST:g} less",
                f"at least {LOST:g} of that is lost when output phases are permuted",
            ),
            (
                "even nodes",
                self.even >= KEPT,
                even,
                f", not {100 * KEPT:g} %",
                f"as many evenly spread neurons keep {100 * KEPT:g} % of the answers",
            ),
            (
                "half the nodes",
                self.half < BROKEN,
                half,
                f", not less than {100 * BROKEN:g} %",
                f"neurons on half a period keep less than {100 * BROKEN:g} %",
            ),
        )
        return tuple(
            Criterion(name, holds, words + ("" if holds else short), asked)
            for name, holds, words, short, asked in rows
        )

    @property
    def holds(self) -> bool | None:
        """Whether the layer computes integrals; None where there is no shared function."""
        return None if self.shared is None else all(part.holds for part in self.parts)

    @property
    def fails(self) -> tuple[Criterion, ...]:
        """The parts that do not hold."""
        return tuple(part for part in self.parts if not part.holds)

    @property
    def why(self) -> str:
        """The measured values behind the verdict, those that fail where some do.

        They are the end of a sentence.
        """
        return "; ".join(part.words for part in self.fails or self.parts)

    @property
    def sentence(self) -> str:
        """The verdict with its reason; empty where nothing is measured."""
        if self.holds is None:
            return ""
        verdict = "computes integrals" if self.holds else "cannot be said to compute integrals"
        # What a formula answers that is far from the logits says nothing about the network.
        stands = self.shared is not None and self.shared >= STANDS_FOR_LOGITS
        right = (
            f" The shared functions alone answer {percent(self.right or 0.0)} of the inputs right."
            if stands
            else ""
        )
        return f"Its hidden layer {verdict}: {self.why}.{right}"

    @property
    def rule(self) -> str:
        """The rule in one sentence."""
        return (
            "A layer is said to compute integrals where "
            f"{', and where '.join(part.asked for part in self.parts)}."
        )


def alone(r2: float, right: str) -> str:
    """Say what a formula with this R² answers alone, if it may stand for the logits.

    Sums of cos(kw(a+b-c)) with positive coefficients answer everything right, whatever network they
    are fitted to.

    >>> alone(0.98, "3,481 of 3,481 inputs right"), alone(0.32, "3,481 of 3,481 inputs right")
    (' and alone answers 3,481 of 3,481 inputs right', ', too little to stand for the logits')
    """
    return (
        f" and alone answers {right}"
        if r2 >= STANDS_FOR_LOGITS
        else ", too little to stand for the logits"
    )


def doubles(error: float) -> str:
    """Say how a rule with this relative worst error doubles the angle.

    >>> doubles(0.1), doubles(0.4), doubles(2.3)
    ('the angle is doubled', 'the angle is doubled roughly', 'the angle is not doubled')
    """
    how = (
        "doubled"
        if error < GOOD_RULE
        else "doubled roughly"
        if error < NO_INTEGRAL
        else "not doubled"
    )
    return f"the angle is {how}"
