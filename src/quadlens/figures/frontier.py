"""What each way of proving costs and what it proves (beyond the paper)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from quadlens.figures.picture import Picture, at_most, percent
from quadlens.figures.style import CONCEPT_COLOURS, QUIET_COLOUR, style
from quadlens.proofs.certificate import Certificate
from quadlens.quadrature import ClusterBounds, Exact, UpperBound
from quadlens.studies import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "frontier"
NEEDS_PROOFS = True
RULE_MARKERS = ("o", "s", "^", "D")
EXACT_STRATEGIES = ("brute", "arcs")
# One mark a strategy, in every picture.
STRATEGY_MARKERS = {
    "brute": "P",
    "lipschitz": "o",
    "arcs": "D",
    "moments": "s",
    "thin": "v",
    "auto": "X",
}


@dataclass(frozen=True)
class ProofPoint:
    """What one strategy proves of the whole model (T3), and for how many operations.

    Attributes:
        strategy: Its name.
        operations: Counted, the collapse included.
        share: Of all inputs, proved right.
        margin: Lower bound on those inputs; 0 when there are none.
    """

    strategy: str
    operations: int
    share: float
    margin: float


def draw(clusters: tuple[ClusterBounds, ...], certificates: tuple[Certificate, ...]) -> "Figure":
    """Left: relative error proved against operations, worst cluster. Right: share of inputs proved."""
    with style():
        from matplotlib.figure import Figure
        from matplotlib.ticker import NullFormatter

        panels = int(bool(clusters)) + int(bool(certificates))
        figure = Figure(figsize=(3.8 * panels, 3.9))
        axes = figure.subplots(1, panels, squeeze=False)[0]
        if clusters:
            _draw_rules(axes[0], clusters)
        if certificates:
            _draw_proofs(axes[-1], certificates)
        for axis in axes:
            axis.set(xscale="log", xlabel="operations")
            axis.xaxis.set_minor_formatter(NullFormatter())
            _whole_decades(axis)
            axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=1, fontsize=8)
        return figure


def _whole_decades(axis: "Axes") -> None:
    """From one power of ten to another, so that the axis has at least two labels."""
    low, high = axis.get_xlim()
    axis.set_xlim(float(10 ** np.floor(np.log10(low))), float(10 ** np.ceil(np.log10(high))))


def _upper(claim: UpperBound | Exact) -> float:
    """The end that "at most" may quote."""
    return claim.upper if isinstance(claim, Exact) else claim.value


def rule_points(clusters: tuple[ClusterBounds, ...]) -> list[tuple[str, int, float, str]]:
    """(name, operations over all clusters, worst relative bound, concept) of each way to bound the quadrature error."""
    ways: tuple[tuple[str, str, Callable[[ClusterBounds], UpperBound | Exact]], ...] = (
        ("Lipschitz, full period", "bound", lambda one: one.rows.total_abs_bound_full),
        ("Lipschitz, half period", "bound", lambda one: one.rows.total_abs_bound_half),
        ("moments", "bound", lambda one: one.moment_bound_psi),
        ("exact", "exact", lambda one: one.exact_psi.absolute),
    )
    points = []
    for name, concept, claim_of in ways:
        claims = [(claim_of(one), one.baseline) for one in clusters]
        worst = max(_upper(claim.relative_to(baseline)) for claim, baseline in claims)
        points.append((name, sum(claim.cost.operations for claim, _ in claims), worst, concept))
    return points


def _draw_rules(axis: "Axes", clusters: tuple[ClusterBounds, ...]) -> None:
    axis.set_title("error of the rule (T1)", loc="left")
    axis.axhline(1, color=QUIET_COLOUR, lw=1.2)
    for (name, cost, worst, concept), marker in zip(rule_points(clusters), RULE_MARKERS, strict=True):
        axis.plot([cost], [worst], marker, ms=8, color=CONCEPT_COLOURS[concept], label=name)
    axis.set(ylabel="worst relative error proved", ylim=(0, None))


def _draw_proofs(axis: "Axes", certificates: tuple[Certificate, ...]) -> None:
    axis.set_title("the whole model (T3)", loc="left")
    brute = _brute_force(certificates)
    axis.axvline(brute, color=QUIET_COLOUR, lw=1.2)
    axis.text(brute, 50, "brute force ", rotation=90, ha="right", va="center", fontsize=8, color="#666666")
    for one in certificates:
        _mark(axis, one.proof.strategy, _operations(one), 100 * one.certified_inputs / one.p**2)
    axis.set(ylabel="inputs proved right, %", ylim=(0, 105))


def _operations(one: Certificate) -> int:
    """All of them: the collapse too."""
    return one.total_flops


def _brute_force(certificates: tuple[Certificate, ...]) -> int:
    """Brute force with the full collapse, which all strategies but thin share."""
    return certificates[0].brute_force_flops + max(one.collapse_flops for one in certificates)


def _mark(axis: "Axes", strategy: str, operations: int, y: float) -> None:
    """Bounds are filled, exact strategies hollow and larger: two that cost the same can both be seen."""
    exact = strategy in EXACT_STRATEGIES
    colour = CONCEPT_COLOURS["exact" if exact else "bound"]
    size, face = (11, "none") if exact else (8, colour)
    marker = STRATEGY_MARKERS.get(strategy, "*")
    axis.plot([max(operations, 1)], [y], marker, ms=size, mfc=face, mec=colour, mew=1.8, label=strategy, clip_on=False)


def draw_strategies(points: tuple[ProofPoint, ...]) -> "Figure":
    """Share of inputs, and margin, against operations: every strategy, brute force too."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.6, 3.6))
        share, margin = figure.subplots(1, 2)
        for point in points:
            _mark(share, point.strategy, point.operations, 100 * point.share)
            _mark(margin, point.strategy, point.operations, point.margin)
        share.set(ylabel="inputs proved right, %", ylim=(0, 105))
        margin.set(
            ylabel="margin proved, logits", ylim=(0, 1.1 * max((point.margin for point in points), default=0) or 1)
        )
        for axis in (share, margin):
            axis.set(xscale="log", xlabel="operations, collapse included")
            _whole_decades(axis)
        figure.legend(*share.get_legend_handles_labels(), loc="outside lower center", ncols=len(points), fontsize=8)
        return figure


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, where anything was bounded or proved."""
    clusters, certificates = results.clusters, results.certificates
    if not clusters and not certificates:
        return ()
    parts = (
        [
            f"{name}: at most {at_most(worst, 3)} for {cost:,} operations"
            for name, cost, worst, _ in rule_points(clusters)
        ]
        if clusters
        else []
    )
    for one in certificates:
        share = percent(one.certified_inputs / one.p**2)
        times = np.divide(_brute_force(certificates), max(_operations(one), 1))
        parts.append(f"strategy {one.proof.strategy}: {share} of inputs proved at 1/{times:.1f} of brute force's cost")
    finding = "; ".join(parts) + "."
    how = (
        "Left: the quadrature error of the worst cluster that each method proves, against what it costs; above the "
        "grey line a bound says nothing. Right: how many of all inputs a strategy proves right, against its cost, "
        "the collapse included; brute force is the grey line. Lower left, and upper left, are best."
    )
    title = "The frontier: what is proved, and for how much"
    return (Picture(NAME, None, title, finding, how, "data/frontier.csv", lambda: draw(clusters, certificates)),)
