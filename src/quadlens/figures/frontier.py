"""What each way of proving costs and what it proves (beyond the paper)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from quadlens.certify.certificate import Certificate
from quadlens.figures.picture import Picture, at_most, percent
from quadlens.figures.results import Results
from quadlens.figures.style import CONCEPT_COLOURS, QUIET_COLOUR, style
from quadlens.quadrature import ClusterBounds, Exact, UpperBound, printed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "frontier"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


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
        claims = [(claim_of(one), one.baseline.lower) for one in clusters]
        worst = max(printed(claim) / scale for claim, scale in claims)
        points.append((name, sum(claim.cost.operations for claim, _ in claims), worst, concept))
    return points


def _draw_rules(axis: "Axes", clusters: tuple[ClusterBounds, ...]) -> None:
    axis.set_title("error of the rule (T1)", loc="left")
    axis.axhline(1, color=QUIET_COLOUR, lw=1.2)
    for (name, cost, worst, concept), marker in zip(rule_points(clusters), MARKERS, strict=False):
        axis.plot([cost], [worst], marker, ms=8, color=CONCEPT_COLOURS[concept], label=name)
    axis.set(ylabel="worst relative error proved", ylim=(0, None))


def _draw_proofs(axis: "Axes", certificates: tuple[Certificate, ...]) -> None:
    axis.set_title("the whole model (T3)", loc="left")
    brute = certificates[0].brute_force_flops
    axis.axvline(brute, color=QUIET_COLOUR, lw=1.2)
    axis.text(brute, 50, "brute force ", rotation=90, ha="right", va="center", fontsize=8, color="#666666")
    for certificate, marker in zip(certificates, MARKERS, strict=False):
        share = 100 * certificate.certified_inputs / certificate.p**2
        proof = certificate.proof
        concept = "exact" if proof.exact else "bound"
        cost = max(proof.operations.total, 1)
        axis.plot([cost], [share], marker, ms=8, color=CONCEPT_COLOURS[concept], label=proof.strategy, clip_on=False)
    axis.set(ylabel="inputs proved right, %", ylim=(0, 105))


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
        times = np.divide(one.brute_force_flops, max(one.proof.operations.total, 1))
        parts.append(f"strategy {one.proof.strategy}: {share} of inputs proved at 1/{times:.1f} of brute force's cost")
    finding = "; ".join(parts) + "."
    how = (
        "Left: the quadrature error of the worst cluster that each method proves, against what it costs; above the "
        "grey line a bound says nothing. Right: how many of all inputs a strategy proves right, against its cost; "
        "brute force is the grey line. Lower left, and upper left, are best."
    )
    title = "The frontier: what is proved, and for how much"
    return (Picture(NAME, None, title, finding, how, "data/frontier.csv", lambda: draw(clusters, certificates)),)
