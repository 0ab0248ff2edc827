"""What each way of proving costs and what it proves."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from quadlens.analysis.quadrature.analysis import ClusterBounds
from quadlens.analysis.quadrature.claims import Exact, UpperBound
from quadlens.analysis.quadrature.of_study import rule_clusters
from quadlens.base.errors import BadConfig
from quadlens.base.numbers import double_below
from quadlens.network.study import Study
from quadlens.proofs.pairs.certificate import Certificate
from quadlens.proofs.pairs.of_study import certificates_of
from quadlens.proofs.pairs.produce import STRATEGIES
from quadlens.show.figures.canvas import Target, canvas
from quadlens.show.figures.picture import Values, figure
from quadlens.show.figures.style import CONCEPT_COLOURS, QUIET_COLOUR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RULE_MARKERS = ("o", "s", "^", "D")


def _rule_costs(study: Study) -> Values | None:
    clusters, certificates = study.once(rule_clusters), study.once(certificates_of)
    if not clusters and not certificates:
        return None
    return {"rules": rule_points(clusters) if clusters else [], "certificates": certificates}


@figure(
    values=_rule_costs,
    ax="Two axes (one where the model has no rules, or the study no proofs)",
)
def frontier(study: Study, ax: Target = None) -> "Figure":
    """Draw cost against what is proved.

    The relative error of the rules (T1), and the share of inputs (T3).
    """
    clusters, certificates = study.once(rule_clusters), study.once(certificates_of)
    panels = int(bool(clusters)) + int(bool(certificates))
    if not panels:
        raise BadConfig(
            "this model has no quadrature rules, and the study has no proofs: there is no cost to "
            "draw"
        )
    with canvas(ax, (3.8 * panels, 3.9), panels) as drawn:
        from matplotlib.ticker import NullFormatter

        if clusters:
            _draw_rules(drawn.axes[0], clusters)
        if certificates:
            _draw_proofs(drawn.axes[-1], certificates)
        for axis in drawn.axes:
            axis.set(xscale="log", xlabel="operations")
            axis.xaxis.set_minor_formatter(NullFormatter())
            _whole_decades(axis)
            axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=1, fontsize=8)
        return drawn.figure


def _whole_decades(axis: "Axes") -> None:
    """From one power of ten to another, so that the axis has at least two labels."""
    low, high = axis.get_xlim()
    axis.set_xlim(float(10 ** np.floor(np.log10(low))), float(10 ** np.ceil(np.log10(high))))


def _upper(claim: UpperBound | Exact) -> float:
    """The end that "at most" may quote."""
    return claim.upper if isinstance(claim, Exact) else claim.value


def rule_points(clusters: tuple[ClusterBounds, ...]) -> list[tuple[str, int, float, str]]:
    """Return cost and worst bound of each way to bound the quadrature error.

    Each is (name, operations over all clusters, worst relative bound, concept).
    """
    ways: tuple[tuple[str, str, Callable[[ClusterBounds], UpperBound | Exact]], ...] = (
        ("Lipschitz, full period", "bound", lambda cluster: cluster.rows.total_abs_bound_full),
        ("Lipschitz, half period", "bound", lambda cluster: cluster.rows.total_abs_bound_half),
        ("moments", "bound", lambda cluster: cluster.moment_bound_psi),
        ("exact", "exact", lambda cluster: cluster.exact_psi.absolute),
    )
    points = []
    for name, concept, claim_of in ways:
        claims = [(claim_of(cluster), cluster.baseline) for cluster in clusters]
        worst = max(_upper(claim.relative_to(baseline)) for claim, baseline in claims)
        points.append((name, sum(claim.cost.operations for claim, _ in claims), worst, concept))
    return points


def _draw_rules(axis: "Axes", clusters: tuple[ClusterBounds, ...]) -> None:
    axis.set_title("error of the rule (T1)", loc="left")
    axis.axhline(1, color=QUIET_COLOUR, lw=1.2)
    for (name, count, worst, concept), marker in zip(
        rule_points(clusters), RULE_MARKERS, strict=True
    ):
        axis.plot([count], [worst], marker, ms=8, color=CONCEPT_COLOURS[concept], label=name)
    axis.set(ylabel="worst relative error proved", ylim=(0, None))


def _draw_proofs(axis: "Axes", certificates: tuple[Certificate, ...]) -> None:
    axis.set_title("the whole model (T3)", loc="left")
    brute = certificates[0].brute_force_flops + certificates[0].brute_force_collapse_flops
    axis.axvline(brute, color=QUIET_COLOUR, lw=1.2)
    axis.text(
        brute, 50, "brute force ", rotation=90, ha="right", va="center", fontsize=8, color="#666666"
    )
    for certificate in certificates:
        _mark(
            axis,
            certificate.proof.strategy,
            certificate.total_flops,
            100 * certificate.certified_inputs / certificate.p**2,
        )
    axis.set(ylabel="inputs proved right, %", ylim=(0, 105))


def _mark(axis: "Axes", strategy: str, operations: int, y: float) -> None:
    """Mark bounds filled, exact strategies hollow and larger.

    Two that cost the same can both be seen.
    """
    facts = STRATEGIES[strategy].facts
    colour = CONCEPT_COLOURS[facts.mark.concept]
    size, face = (11, "none") if facts.exact else (8, colour)
    axis.plot(
        [max(operations, 1)],
        [y],
        facts.mark.shape,
        ms=size,
        mfc=face,
        mec=colour,
        mew=1.8,
        label=strategy,
        clip_on=False,
    )


def draw_strategies(certificates: Sequence[Certificate], ax: Target = None) -> "Figure":
    """Share of inputs, and margin, against operations: every strategy, brute force too."""
    with canvas(ax, (7.6, 3.6), 2) as drawn:
        share, margin = drawn.axes
        for certificate in certificates:
            _mark(
                share,
                certificate.proof.strategy,
                certificate.total_flops,
                100 * certificate.certified_inputs / certificate.p**2,
            )
            _mark(
                margin,
                certificate.proof.strategy,
                certificate.total_flops,
                (double_below(certificate.proof.margin) or 0.0),
            )
        share.set(ylabel="inputs proved right, %", ylim=(0, 105))
        top = (
            1.1
            * max(
                ((double_below(certificate.proof.margin) or 0.0) for certificate in certificates),
                default=0,
            )
            or 1
        )
        margin.set(ylabel="margin proved, logits", ylim=(0, top))
        for axis in drawn.axes:
            axis.set(xscale="log", xlabel="operations, collapse included")
            _whole_decades(axis)
        drawn.legend(columns=len(certificates))
        return drawn.figure
