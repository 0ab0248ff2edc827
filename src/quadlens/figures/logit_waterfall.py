"""The itemised bound on |logit - closed form|: which term of the error budget is how large (beyond the paper)."""

import math
from typing import TYPE_CHECKING

from quadlens.figures.picture import Picture, at_most
from quadlens.figures.style import CONCEPT_COLOURS, style
from quadlens.proofs.certificate import Certificate
from quadlens.proofs.frontier import WaterfallStep
from quadlens.studies import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "logit-waterfall"
NEEDS_PROOFS = True


def draw(steps: tuple[WaterfallStep, ...], lead: float) -> "Figure":
    """Each term's bound, stacked up to their sum, and in it what the term is; the line is the smallest margin."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.8, 0.36 * len(steps) + 1.4))
        axis = figure.subplots()
        start = 0.0
        for row, step in enumerate(steps):
            axis.barh(
                row, step.bound, left=start, color=CONCEPT_COLOURS["bound"], height=0.7, label=_once(row, "bound")
            )
            text = _size(step.bound)
            if step.measured is not None:
                colour, label = CONCEPT_COLOURS["truth"], _once(row, "measured")
                axis.barh(row, step.measured, left=start, color=colour, height=0.25, label=label)
                text += f" ({step.measured:.2f})"
            start += step.bound
            axis.annotate(text, (start, row), (3, 0), "data", "offset points", va="center", fontsize=8)
        if lead > 0:
            axis.axvline(lead, color=CONCEPT_COLOURS["exact"], lw=1.5, label="smallest margin of the model")
        axis.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.1, ncols=3)
        axis.set_yticks(range(len(steps)), [step.term for step in steps])
        axis.invert_yaxis()
        axis.set(xlabel="bound on |logit − closed form|, added up", xlim=(0, 1.22 * max(start, lead, 1e-9)))
        axis.grid(visible=False, axis="y")
        return figure


def _once(row: int, label: str) -> str | None:
    """A label for the legend from the first row only."""
    return label if row == 0 else None


def _size(bound: float) -> str:
    """Rounded up, to two decimals where that says anything."""
    return at_most(bound, 2) if bound >= 0.01 or bound == 0 else f"< {10.0 ** math.ceil(math.log10(bound)):.0e}"


def itemised(results: Results) -> Certificate | None:
    """The proof that bounds |logit - closed form| (T2)."""
    return next((one for one in results.certificates if one.proof.logit_error is not None), None)


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, where some proof itemises its error."""
    certificate = itemised(results)
    if certificate is None or not results.waterfall:
        return ()
    lead = results.evaluation.min_margin
    *steps, whole = results.waterfall
    worst = max(steps, key=lambda step: step.bound)
    proved = f"{certificate.certified_inputs:,} of {certificate.p**2:,} inputs are proved right that way"
    measured = "" if whole.measured is None else f" In fact no logit is off by more than {whole.measured:.1f}."
    finding = (
        f"Bounding every term by itself (strategy {certificate.proof.strategy}) leaves {at_most(whole.bound, 1)} "
        f"logits of doubt; the largest term is {worst.term} with {at_most(worst.bound, 1)}. The smallest margin is "
        f"{lead:.1f}; {proved}.{measured}"
    )
    how = (
        "Each bar is the proved worst case of one thing that the closed form neglects, added up from top to bottom; "
        "the thin black bar, and the number in brackets, is the largest change of a logit it really makes. An "
        "input is proved right where twice the sum stays below the lead that the closed form gives the right answer; "
        "the green line, the model's smallest margin, is for scale."
    )
    title = "The error budget, term by term"
    return (Picture(NAME, None, title, finding, how, "data/certificates.json", lambda: draw(tuple(steps), lead)),)
