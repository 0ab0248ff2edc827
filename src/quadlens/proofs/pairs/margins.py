"""From logits, one answer at a time, to margins, right answers and witnesses."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Bool, Int, Shaped

from quadlens.network.task import Task
from quadlens.proofs.pairs.proof import MAX_WITNESSES, Hints, Proof


@dataclass(frozen=True, eq=False)
class ExactAnswers:
    """How the model answers every input, exactly.

    Attributes:
        shift: margin = numerators · 2^-shift.
        margins: Right answer's logit minus the largest other, as an integer.
        rival: The answer with the largest other logit.
        task: What the right answers are.
    """

    shift: int
    margins: Shaped[np.ndarray, "p p"]
    rival: Int[np.ndarray, "p p"]
    task: Task

    @property
    def right(self) -> Bool[np.ndarray, "p p"]:
        """Where the right answer beats every other; a tie does not."""
        return np.asarray(self.margins > 0, dtype=bool)

    @property
    def smallest_margin(self) -> Fraction | None:
        """The smallest margin over the inputs answered right."""
        won = self.margins[self.right]
        return Fraction(min(won), 1 << self.shift) if len(won) else None

    @property
    def witnesses(self) -> tuple[tuple[int, int, int], ...]:
        """(a, b, answered) where the model is wrong, at most 100."""
        return listed(self.margins < 0, self.rival)

    @property
    def tied(self) -> tuple[tuple[int, int, int], ...]:
        """List at most 100 ties (a, b, c): c has the right answer's logit and none is above."""
        return listed(self.margins == 0, self.rival)

    @property
    def reason(self) -> str | None:
        """Say how many inputs are answered wrong or tied; None where none is."""
        wrong, tied = (
            int(np.count_nonzero(where)) for where in (self.margins < 0, self.margins == 0)
        )
        return not_right(self.task, wrong, tied, (*self.witnesses, *self.tied))

    def proof(self, strategy: str, hints: Hints, operations: int) -> Proof:
        """All that is true: exactly the inputs answered right, with the true smallest margin."""
        return Proof(
            strategy=strategy,
            certified=self.right,
            margin=self.smallest_margin,
            exact=True,
            witnesses=self.witnesses,
            tied=self.tied,
            hints=hints,
            operations=operations,
            reason=self.reason,
        )


def listed(
    where: Bool[np.ndarray, "p p"], rival: Int[np.ndarray, "p p"]
) -> tuple[tuple[int, int, int], ...]:
    """(a, b, rival) of the inputs marked, at most 100."""
    return tuple((int(a), int(b), int(rival[a, b])) for a, b in np.argwhere(where)[:MAX_WITNESSES])


def least_at(margins: Shaped[np.ndarray, "p p"]) -> tuple[int, int]:
    """The input (a, b) with the smallest margin, the first of several."""
    a, b = np.unravel_index(int(np.argmin(margins)), margins.shape)
    return int(a), int(b)


def not_right(
    task: Task, wrong: int, tied: int, examples: Sequence[tuple[int, int, int]]
) -> str | None:
    """Say how many inputs a model answers wrong or tied; None where it is none.

    Args:
        task: What the right answers are.
        wrong: Inputs whose right answer is below another.
        tied: Inputs whose right answer is the largest together with another.
        examples: (a, b, c) with c the other, the wrong ones first.
    """
    counts = [(wrong, "wrong"), (tied, "tied")]
    words = " and ".join(f"{word} on {count}" for count, word in counts if count)
    if not words:
        return None
    a, b, c = examples[0]
    relation = "is above" if wrong else "equals"
    return (
        f"the model is {words} of {task.n**2} inputs, for example {task.question(a, b)}: "
        f"the logit of {c} {relation} that of {task.answers[a, b]}"
    )


def not_proved(task: Task, certified: Bool[np.ndarray, "p p"], worst: tuple[int, int]) -> str:
    """How many inputs are left out and which is the worst, of which something is to be said."""
    left = int((~certified).sum())
    return (
        f"{left} of {certified.size} inputs are not proved; the worst is "
        f"{task.question(*worst)}, where"
    )


def proved_wrong(count: int) -> str:
    """How many inputs are proved wrong, with the verb that goes with it."""
    return f"{count:,} {'is' if count == 1 else 'are'} proved wrong"


def lead_in_words(right: int, rival: int, lead: float) -> str:
    """Which of two answers leads, and by how much.

    >>> lead_in_words(3, 4, 0.5), lead_in_words(3, 4, -35.5)
    ('3 leads 4 by 0.5', '4 leads 3 by 35.5')
    """
    ahead, behind = (right, rival) if lead >= 0 else (rival, right)
    return f"{ahead} leads {behind} by {abs(lead):.3g}"


class MarginTally:
    """Keeps each input's right logit and best other one while logits arrive.

    Logits arrive for one answer c at a time.
    """

    def __init__(self, task: Task) -> None:
        """Start with no logits seen."""
        self.task, p = task, task.n
        self.right = np.zeros((p, p), dtype=object)
        self.best: Shaped[np.ndarray, "p p"] | None = None
        self.rival = np.zeros((p, p), dtype=np.int64)
        self.unset = np.ones((p, p), dtype=bool)

    def take(self, c: int, logits: Shaped[np.ndarray, "p p"]) -> None:
        """Logits of answer c for all (a, b); call with c = 0, 1, …, p-1 in order."""
        here = self.task.answers == c
        self.right = np.where(here, logits, self.right)
        if self.best is None:
            # Where c = 0 is right there is no rival yet: `unset` lets c = 1 take the place whatever
            # its logit.
            self.best, self.unset = logits, here
            return
        better = np.asarray(logits > self.best, dtype=bool) | self.unset
        better &= ~here
        self.best = np.where(better, logits, self.best)
        self.rival = np.where(better, c, self.rival)
        self.unset = self.unset & ~better

    def answers(self, shift: int) -> ExactAnswers:
        """The margins, once all answers have been taken."""
        if self.best is None or self.unset.any():
            raise ValueError("not all answers have been taken")
        return ExactAnswers(shift, self.right - self.best, self.rival, self.task)
