"""The frontier: every strategy on one model, what it costs against what it proves."""

import csv
import io
import time
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, fields

from quadlens.model.params import Model
from quadlens.proofs.attempt import attempt
from quadlens.proofs.brute import brute_force_operations
from quadlens.proofs.budget import measure_budget
from quadlens.proofs.collapse_cost import collapse_operations
from quadlens.proofs.produce import STRATEGIES
from quadlens.proofs.proof import Proof, Term, Verdict
from quadlens.proofs.summary import rounded_down, rounded_up
from quadlens.spectrum.anatomy import Anatomy, anatomy_of

# Past this many of brute force's operations, strategies that work out every logit in integers take minutes: left out.
MAX_EXACT_OPERATIONS = 2e10
IN_INTEGERS = ("brute", "arcs", "thin")


@dataclass(frozen=True)
class FrontierPoint:
    """One strategy's cost and claims.

    Attributes:
        strategy: Its name.
        verdict: CERTIFIED, PARTLY or NOT.
        certified_share: Share of the p² inputs proved right.
        margin_lower_bound: On the certified inputs; None when there are none.
        flops: Operations beyond the collapse.
        share_of_brute_force: flops over brute force's.
        collapse_flops: Operations of the full collapse, 0 for a strategy that does without (its own is in flops).
        share_with_collapse: All operations over all of brute force's, the collapse on both sides.
        seconds: Time to prove; the collapse and the spectra are computed once, in the first strategy that needs them.
        reason: What stops it; None when all inputs are certified.
    """

    strategy: str
    verdict: Verdict
    certified_share: float
    margin_lower_bound: float | None
    flops: int
    share_of_brute_force: float
    collapse_flops: int
    share_with_collapse: float
    seconds: float
    reason: str | None


@dataclass(frozen=True)
class WaterfallStep:
    """One term of the error budget (T2): what `lipschitz` proves about it, and what it is.

    Attributes:
        term: Its name.
        bound: Proved worst case over all inputs, in logits.
        worst: The input where the bound is largest, as "a+b"; None when it is the same everywhere.
        measured: The largest change of a logit that it makes, in float64; None when it was not measured.
        measured_at: Where, as "a+b→c".
    """

    term: str
    bound: float
    worst: str | None
    measured: float | None
    measured_at: str | None


@dataclass(frozen=True)
class Frontier:
    """All strategies on one model, and where the margin goes in the itemised bound."""

    p: int
    d_mlp: int
    points: tuple[FrontierPoint, ...]
    waterfall: tuple[WaterfallStep, ...]


def frontier(subject: Model | Anatomy, progress: Callable[[str], None] = lambda name: None) -> Frontier:
    """Run every strategy but `auto`; `progress` is told each name before it runs."""
    anatomy = anatomy_of(subject)
    p, d_mlp = anatomy.config.p, anatomy.config.d_mlp
    points: list[FrontierPoint] = []
    steps: tuple[WaterfallStep, ...] = ()
    for name in strategies_for(p, d_mlp):
        progress(name)
        began = time.perf_counter()
        proof = attempt(STRATEGIES[name], anatomy)
        points.append(_point(anatomy.model, proof, time.perf_counter() - began))
        if name == "lipschitz":
            steps = waterfall(anatomy, proof)
    return Frontier(p, d_mlp, tuple(points), steps)


def waterfall(subject: Model | Anatomy, proof: Proof) -> tuple[WaterfallStep, ...]:
    """The terms of the itemised proof beside their measured sizes, and last the whole; none for other proofs."""
    if not proof.terms or proof.logit_error is None:
        return ()
    small = brute_force_operations(subject.config.p, subject.config.d_mlp) <= MAX_EXACT_OPERATIONS
    measured = {term.name: term for term in measure_budget(subject)} if small else {}
    steps = []
    for name, term in {**proof.terms, "all": Term(proof.logit_error)}.items():
        found = measured.get(name)
        steps.append(
            WaterfallStep(
                term=name,
                bound=float(rounded_up(term.bound) or 0.0),
                worst="+".join(map(str, term.worst)) if term.worst else None,
                measured=found.largest if found else None,
                measured_at="{}+{}→{}".format(*found.worst) if found else None,
            )
        )
    return tuple(steps)


def strategies_for(p: int, d_mlp: int) -> Iterator[str]:
    """The names to try: exact ones only where integers are quick enough."""
    for name in STRATEGIES:
        if name == "auto" or (name in IN_INTEGERS and brute_force_operations(p, d_mlp) > MAX_EXACT_OPERATIONS):
            continue
        yield name


def _point(model: Model, proof: Proof, seconds: float) -> FrontierPoint:
    brute = brute_force_operations(model.config.p, model.config.d_mlp)
    collapse = collapse_operations(model)
    flops, mine = proof.operations.total, 0 if proof.own_collapse else collapse
    return FrontierPoint(
        strategy=proof.strategy,
        verdict=proof.verdict,
        certified_share=float(proof.certified.mean()),
        margin_lower_bound=rounded_down(proof.margin),
        flops=flops,
        share_of_brute_force=flops / brute,
        collapse_flops=mine,
        share_with_collapse=(flops + mine) / (brute + collapse),
        seconds=seconds,
        reason=proof.reason,
    )


def to_csv(rows: tuple[FrontierPoint, ...] | tuple[WaterfallStep, ...]) -> str:
    """A header and one line a row; an absent value is empty."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if rows:
        writer.writerow([field.name for field in fields(rows[0])])
    writer.writerows(astuple(row) for row in rows)
    return stream.getvalue()
