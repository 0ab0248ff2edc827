"""The frontier: every strategy on one model, what it costs against what it proves."""

import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields

from quadlens.model.weights import Weights
from quadlens.numbers import double_below
from quadlens.proofs.budget import WaterfallStep, waterfall
from quadlens.proofs.certificate import Certificate
from quadlens.proofs.produce import Prover, strategies
from quadlens.proofs.proof import Verdict
from quadlens.spectrum.anatomy import Anatomy, anatomy_of
from quadlens.table import csv_text


@dataclass(frozen=True)
class FrontierPoint:
    """One strategy's cost and claims.

    Attributes:
        strategy: Its name.
        verdict: CERTIFIED, PARTLY or UNPROVED.
        certified_share: Share of the p² inputs proved right.
        margin_lower_bound: On the certified inputs; None when there are none.
        flops: Operations beyond the collapse.
        collapse_flops: Operations of the full collapse, 0 for a strategy that does without (its own is in flops).
        cost_share: All operations over all of brute force's, the collapse on both sides.
        cost_share_beyond_collapse: flops over brute force's.
        seconds: Time to prove; the collapse and the spectra are computed once, in the first strategy that needs them.
        reason: What stops it; None when all inputs are certified.
    """

    strategy: str
    verdict: Verdict
    certified_share: float
    margin_lower_bound: float | None
    flops: int
    collapse_flops: int
    cost_share: float
    cost_share_beyond_collapse: float
    seconds: float
    reason: str | None


@dataclass(frozen=True)
class Frontier:
    """All strategies on one model, and where the margin goes in the itemised bound."""

    p: int
    d_mlp: int
    points: tuple[FrontierPoint, ...]
    waterfall: tuple[WaterfallStep, ...]


def frontier(subject: Weights | Anatomy, progress: Callable[[str], None] = lambda name: None) -> Frontier:
    """Run every strategy that proves something itself, those in integers only where they are quick enough.

    Args:
        subject: The model.
        progress: Told each name before it runs.
    """
    prover = Prover(anatomy_of(subject))
    config = prover.anatomy.config
    points: list[FrontierPoint] = []
    steps: tuple[WaterfallStep, ...] = ()
    for name in strategies(config):
        progress(name)
        began = time.perf_counter()
        certificate = prover.certify(name)
        points.append(_point(certificate, time.perf_counter() - began))
        steps = steps or waterfall(prover.anatomy, certificate.proof)
    return Frontier(config.p, config.d_mlp, tuple(points), steps)


def _point(certificate: Certificate, seconds: float) -> FrontierPoint:
    proof = certificate.proof
    return FrontierPoint(
        strategy=proof.strategy,
        verdict=proof.verdict,
        certified_share=float(proof.certified.mean()),
        margin_lower_bound=double_below(proof.margin),
        flops=proof.operations,
        collapse_flops=certificate.collapse_flops,
        cost_share=certificate.cost_share,
        cost_share_beyond_collapse=certificate.cost_share_beyond_collapse,
        seconds=seconds,
        reason=proof.reason,
    )


def to_csv(rows: tuple[FrontierPoint, ...] | tuple[WaterfallStep, ...]) -> str:
    """A header and one line per row; an absent value is empty."""
    return csv_text([field.name for field in fields(rows[0])], map(astuple, rows)) if rows else ""
