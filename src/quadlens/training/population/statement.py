"""One line of the comparison: our number with its interval beside the paper's."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from quadlens.base.numbers import at_most, significant
from quadlens.training.population.intervals import (
    Interval,
    as_clustered,
    both_scatter,
    difference,
    p_value,
    wilson,
)

# "agrees" is never said without its margin, "differs" never without its p-value (`Tested`).
Verdict = Literal["agrees", "differs", "cannot be compared", "cannot fail"]


@dataclass(frozen=True)
class Tested:
    """How sure a verdict is.

    Attributes:
        p: P-value of this comparison alone; below 0.05 it differs.
        margin: An equivalence test at 95 % passes with this margin and no smaller one: the largest
            difference, of shares or of numbers, that the data allow. None where the paper's word is
            "mostly".
        p_holm: The same p-value after Holm's correction for all comparisons of the page.
    """

    p: float
    margin: float | None
    p_holm: float | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict by this comparison alone."""
        return "differs" if self.p < 0.05 else "agrees"

    def words(self, of_shares: bool = True) -> str:
        """How sure the verdict is: the margin of an agreement, the p-values of a difference."""
        if self.verdict == "differs":
            together = "" if self.p_holm is None else f", after Holm {self.p_holm:.2g}"
            return f"p = {self.p:.2g}{together}" + (
                ": not shown" if (self.p_holm or 0) >= 0.05 else ""
            )
        if self.margin is None:
            return ""
        points = f"{at_most(100 * Fraction(self.margin), 1)} points"
        return f"to within {points if of_shares else significant(self.margin, 'up', 2)}"

    def to_dict(self) -> dict[str, Any]:
        """The JSON view."""
        return {"p": self.p, "p_holm": self.p_holm, "margin": self.margin}


@dataclass(frozen=True)
class Statement:
    """A statement about the population.

    Attributes:
        name: As in published.json, or ours.
        words: What it says.
        ours: Our number.
        ci95: Its interval of 95 %; None where there is none.
        paper: The paper's number.
        of: What `ours` is counted among; None for a number that is no count.
        paper_of: The same for the paper's.
        verdict: Plainly.
        why: By how much it differs, or why it cannot be compared, or what was compared.
        tested: P-values and margin; None where there was nothing to test.
    """

    name: str
    words: str
    ours: int | float | None
    ci95: Interval | None
    paper: int | float | None
    of: int | None
    paper_of: int | None
    verdict: Verdict
    why: str
    tested: Tested | None = None

    @property
    def share(self) -> float | None:
        """Our count as a share of what it is counted among."""
        return None if self.of in (None, 0) or self.ours is None else self.ours / (self.of or 1)

    def to_dict(self) -> dict[str, Any]:
        """The JSON view."""
        value: dict[str, Any] = {"ours": self.ours, "ci95": self.ci95, "paper": self.paper}
        if self.of is not None:
            paper_share = (
                self.paper / self.paper_of if self.paper is not None and self.paper_of else None
            )
            scaled = (
                None if self.ci95 is None or not self.of else [end / self.of for end in self.ci95]
            )
            value |= {
                "of": self.of,
                "paper_of": self.paper_of,
                "share": self.share,
                "share_ci95": scaled,
            }
            value["paper_share"] = paper_share
        value |= self.tested.to_dict() if self.tested else {}
        return value | {"verdict": self.verdict, "why": self.why, "words": self.words}


def count_statement(
    name: str,
    words: str,
    count: int,
    of: int,
    paper: tuple[int, int] | None,
    *,
    ci_share: Interval | None = None,
) -> Statement:
    """A count among others; compared by shares, with the sampling error of both sides.

    Args:
        name: Its name.
        words: What it says.
        count: Ours.
        of: Among how many.
        paper: The paper's count and among how many; None where it has none.
        ci_share: Interval of our share from drawing whole models; None where what is counted is
            independent.
    """
    ci = ci_share or wilson(count, of)
    scaled = None if ci is None else (ci[0] * of, ci[1] * of)
    theirs = paper[0] if paper else None
    tested = None
    if paper is None or ci is None:
        why = "not in the paper" if paper is None else "we have none to count among"
    else:
        share, their_share = count / of, paper[0] / paper[1]
        their_ci = wilson(*paper) or (0.0, 1.0)
        if ci_share is not None:
            their_ci = as_clustered(
                their_share, their_ci, ci_share, wilson(count, of) or (0.0, 1.0)
            )
        low, high = difference(share, ci, their_share, their_ci)
        tested = _tested(share - their_share, low, high)
        why = (
            f"{share:.1%} against {their_share:.1%}, difference {share - their_share:+.1%} "
            f"[{low:+.1%}, {high:+.1%}]"
        )
    verdict = tested.verdict if tested else "cannot be compared"
    return Statement(
        name, words, count, scaled, theirs, of, paper[1] if paper else None, verdict, why, tested
    )


def _tested(gap: float, low: float, high: float) -> Tested:
    """Test a difference by its interval of 95 %."""
    return Tested(p_value(gap, gap - low if gap > 0 else high - gap), max(-low, high))


@dataclass(frozen=True)
class Printed:
    """A number of the paper that is no count.

    Attributes:
        low: The smallest that is printed so.
        high: The largest that is printed so.
        models: From how many models.
    """

    low: float
    high: float
    models: int


def number_statement(
    name: str,
    words: str,
    ours: float | None,
    ci: Interval | None,
    models: int,
    paper: Printed | None = None,
) -> Statement:
    """A number that is no count; compared with the sampling error of both sides.

    Args:
        name: Its name.
        words: What it says.
        ours: Ours; None where we have none.
        ci: Its interval.
        models: From how many of our models.
        paper: The paper's; None where it has none.
    """
    middle = None if paper is None else (paper.low + paper.high) / 2
    tested = None
    if paper is None or middle is None:
        why = "not in the paper"
    elif ours is None or ci is None:
        why = "our models are too few, or all alike, for an interval"
    else:
        factor = both_scatter(models, paper.models)
        low = ours - factor * (ours - ci[0]) - paper.high
        high = ours + factor * (ci[1] - ours) - paper.low
        # Of what is printed as the paper's number, the nearest to ours.
        tested = _tested(ours - min(max(ours, paper.low), paper.high), low, high)
        why = f"difference {ours - middle:+.3g} [{low:+.3g}, {high:+.3g}]"
    verdict = tested.verdict if tested else "cannot be compared"
    return Statement(name, words, ours, ci, middle, None, None, verdict, why, tested)
