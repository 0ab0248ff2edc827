"""The itemised bound on |logit - closed form|: which term of the error budget is how large (beyond the paper)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from quadlens.certify.certificate import Certificate
from quadlens.certify.proof import Term
from quadlens.certify.summary import rounded_up
from quadlens.figures.picture import Picture, at_most
from quadlens.figures.results import Results
from quadlens.figures.style import CONCEPT_COLOURS, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "logit-waterfall"


def draw(terms: Mapping[str, Term], lead: float) -> "Figure":
    """Each term's worst case, stacked up to their sum; the line is the smallest margin."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.8, 0.36 * len(terms) + 1.3))
        axis = figure.subplots()
        total = 0.0
        for row, (_, size) in enumerate(sizes(terms)):
            axis.barh(row, size, left=total, color=CONCEPT_COLOURS["bound"], height=0.7)
            axis.annotate(
                at_most(size, 2), (total + size, row), (3, 0), "data", "offset points", va="center", fontsize=8
            )
            total += size
        if lead > 0:
            axis.axvline(lead, color=CONCEPT_COLOURS["exact"], lw=1.5, label="smallest margin of the model")
            axis.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.1)
        axis.set_yticks(range(len(terms)), list(terms))
        axis.invert_yaxis()
        axis.set(xlabel="bound on |logit − closed form|, added up", xlim=(0, 1.12 * max(total, lead, 1e-9)))
        axis.grid(visible=False, axis="y")
        return figure


def sizes(terms: Mapping[str, Term]) -> list[tuple[str, float]]:
    """Every term as a double that is not below it."""
    return [(name, float(rounded_up(term.bound) or 0.0)) for name, term in terms.items()]


def itemised(results: Results) -> Certificate | None:
    """The proof that names the most terms."""
    return max(
        (one for one in results.certificates if one.proof.terms), key=lambda one: len(one.proof.terms), default=None
    )


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, where some proof itemises its error."""
    certificate = itemised(results)
    if certificate is None:
        return ()
    terms, lead = certificate.proof.terms, results.evaluation.min_margin
    worst, size = max(sizes(terms), key=lambda pair: pair[1])
    total = sum(size for _, size in sizes(terms))
    verdict = "far too much to prove anything" if total > lead else "small enough to prove every input"
    finding = (
        f"Bounding every term by itself (strategy {certificate.proof.strategy}) leaves {at_most(total, 1)} logits of "
        f"doubt; the largest term is {worst} with {at_most(size, 1)}. The smallest margin is {lead:.1f}: {verdict}."
    )
    how = (
        "Each bar is the worst case of one thing that the closed form neglects, added up from top to bottom. A bound "
        "proves an input right when it stays left of the lead the right answer has; the green line is the model's "
        "smallest margin."
    )
    title = "The error budget, term by term"
    return (Picture(NAME, None, title, finding, how, "data/certificates.json", lambda: draw(terms, lead)),)
