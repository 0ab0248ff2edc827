"""Phases and frequencies of neurons against each other.

Written against read, higher against primary.
"""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.analysis.explanation import Explanation
from quadlens.analysis.explanation.of_study import explanation_of, strongest_keys_of
from quadlens.analysis.published import read_published
from quadlens.analysis.quadrature.of_study import rule_clusters
from quadlens.analysis.spectrum.harmonics import DRAWN_R2, RANK_NAMES, HarmonicFit
from quadlens.analysis.spectrum.of_study import keys_of
from quadlens.base.errors import BadConfig
from quadlens.base.numbers import at_least, listed
from quadlens.network.study import Study
from quadlens.show.figures.canvas import Target, angle_axis, canvas
from quadlens.show.figures.picture import Values, figure
from quadlens.show.figures.style import CONCEPT_COLOURS, QUIET_COLOUR, frequency_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RANK_LABELS = {
    2: "secondary-phi-twice-primary",
    3: "tertiary-phi-thrice-primary",
    4: "quaternary-phi-vs-primary",
}
MOST_PANELS = 6


def _drawn_clusters(study: Study) -> list[Values]:
    """One per key frequency that is a rule, or of the strongest."""
    explanation = study.once(explanation_of)
    rules, strongest = study.once(rule_clusters), study.once(strongest_keys_of)
    chosen = tuple(cluster.k for cluster in rules) or strongest
    both = zip(explanation.clusters, explanation.phases, strict=True)
    return [
        {"k": cluster.k, "cluster": cluster, "phases": phases}
        for cluster, phases in both
        if cluster.k in chosen
    ]


@figure(k="The cluster's frequency; the first key frequency if None.", values=_drawn_clusters)
def angles(study: Study, k: int | None = None, ax: Target = None) -> "Figure":
    """Draw output phase ψ against input phase φ of one cluster.

    Each neuron is a dot; the lines are ψ = 2φ.
    """
    clusters = {cluster.k: cluster for cluster in study.once(explanation_of).clusters}
    k = next((key for key in study.once(keys_of) if key in clusters), None) if k is None else k
    if k is None or k not in clusters:
        raise BadConfig(
            f"no cluster of this model has frequency {k}; there are: {listed(tuple(clusters))}"
        )
    cluster, colour = clusters[k], frequency_colour(k, study.once(keys_of))
    with canvas(ax, (4.8, 4.6)) as drawn:
        (axis,) = drawn.axes
        draw_multiple(axis, 2, 0.0)
        phi, psi = (np.angle(np.exp(1j * angle)) for angle in (cluster.phi, cluster.psi))
        weight = cluster.rho * cluster.omega
        size = 8 + 30 * weight / max(float(weight.max()), np.finfo(float).tiny)
        axis.scatter(phi, psi, s=size, color=colour, alpha=0.7, lw=0, zorder=3)
        axis.plot(phi, np.full(len(phi), -np.pi * 1.06), "|", ms=6, color=colour, alpha=0.7)
        _square(axis)
        axis.set(
            xlabel="input phase φ", ylabel="output phase ψ", ylim=(-np.pi * 1.12, np.pi * 1.04)
        )
        axis.set_title(f"k = {k}, {len(phi)} neurons", loc="left")
        return drawn.figure


def _square(axis: "Axes") -> None:
    """One turn either way, in the same units."""
    axis.set(xlim=(-np.pi * 1.04, np.pi * 1.04), ylim=(-np.pi * 1.04, np.pi * 1.04), aspect="equal")
    angle_axis(axis)
    angle_axis(axis, which="y")


def draw_multiple(axis: "Axes", m: int, offset: float) -> None:
    """The line θ = mφ + offset, cut where it leaves the circle's square."""
    cuts = np.arange(
        np.ceil((-m * np.pi + offset - np.pi) / (2 * np.pi)),
        (m * np.pi + offset + np.pi) / (2 * np.pi),
    )
    for turn in cuts:
        ends = np.array([-np.pi, np.pi]) + 2 * np.pi * turn
        phi = np.clip((ends - offset) / m, -np.pi, np.pi)
        if phi[1] - phi[0] > 1e-9:
            axis.plot(
                phi,
                m * phi + offset - 2 * np.pi * turn,
                color=CONCEPT_COLOURS["truth"],
                lw=0.9,
                zorder=1,
            )


def _drawn_ranks(study: Study) -> list[Values]:
    """One per rank, where p has so many frequencies and the model has key frequencies."""
    explanation, common = study.once(explanation_of), {"labels": RANK_LABELS, "drawn_r2": DRAWN_R2}
    ranks = (
        [rank for rank in RANK_LABELS if rank <= len(explanation.harmonics.k)]
        if study.once(keys_of)
        else []
    )
    shown = study.once(keys_of)[:MOST_PANELS]
    return [
        {
            "rank": n,
            "kind": RANK_NAMES[n - 1],
            "fits": {k: _best_fit(explanation, n, k) for k in shown},
            **common,
        }
        for n in ranks
    ]


@figure("One axes per key frequency (at most six)", values=_drawn_ranks, rank="2, 3 or 4.")
def harmonic_phases(study: Study, rank: int = 2, ax: Target = None) -> "Figure":
    """Draw the phase of a higher frequency against the primary phase.

    The frequency is each neuron's second, third or fourth largest.
    """
    explanation = study.once(explanation_of)
    keys, there = study.once(keys_of)[:MOST_PANELS], len(explanation.harmonics.k)
    if rank not in RANK_LABELS or rank > there or not keys:
        raise BadConfig(
            f"rank {rank}; expected 2, 3 or 4, of a model with key frequencies and as many "
            "frequencies"
        )
    columns = min(3, len(keys))
    size = (2.55 * columns + 0.3, 2.95 * -(-len(keys) // columns))
    with canvas(ax, size, len(keys), columns=columns) as drawn:
        for index, (axis, k) in enumerate(zip(drawn.axes, keys, strict=True)):
            _square(axis)
            axis.tick_params(labelsize=8)
            axis.set_xlabel("primary φ", fontsize=9)
            if index % columns == 0:
                axis.set_ylabel(f"{RANK_NAMES[rank - 1]} phase", fontsize=9)
            best = _best_fit(explanation, rank, k)
            _scatter(axis, study, rank, k, best)
            if best and best.multiple and best.r2_offset is not None and best.r2_offset > DRAWN_R2:
                draw_multiple(axis, best.multiple, best.offset or 0.0)
            axis.set_title(f"k = {k}: {_fit_words(best)}", loc="left", fontsize=8.5)
        return drawn.figure


def _scatter(axis: "Axes", study: Study, rank: int, k: int, best: HarmonicFit | None) -> None:
    harmonics, row = study.once(explanation_of).harmonics, rank - 1
    neurons = (
        (harmonics.k[0] == k) & harmonics.present[row] & ~study.once(explanation_of).roles.dead
    )
    shared = neurons & (harmonics.k[row] == best.frequency) if best else np.zeros_like(neurons)
    colour = frequency_colour(k, study.once(keys_of))
    for chosen, ink, alpha in ((neurons & ~shared, QUIET_COLOUR, 0.9), (shared, colour, 0.7)):
        phi, theta = (np.angle(np.exp(1j * harmonics.phase[r, chosen])) for r in (0, row))
        axis.scatter(phi, theta, s=9, lw=0, color=ink, alpha=alpha, zorder=3)


def _best_fit(explanation: Explanation, rank: int, k: int) -> HarmonicFit | None:
    """The frequency that most neurons share; one with a clear phase relation before one without."""
    fits = [fit for fit in explanation.harmonic_fits if fit.rank == rank and fit.k == k]
    return max(fits, key=lambda fit: ((fit.r2_offset or 0) > DRAWN_R2, fit.neurons), default=None)


def _fit_words(fit: HarmonicFit | None) -> str:
    if fit is None:
        return "none shared by ten"
    multiple = f" = {fit.multiple}·k" if fit.multiple else ""
    # Below zero the line is worse than none at all.
    r2 = "" if fit.r2_offset is None or fit.r2_offset < 0 else f", R² {at_least(fit.r2_offset, 2)}"
    return f"{fit.frequency}{multiple}{r2}"


def _doubling(study: Study) -> Values | None:
    doubling = study.once(explanation_of).doubling
    return (
        None
        if doubling.share is None
        else {"doubling": doubling, "paper": read_published().doubled}
    )


@figure(values=_doubling)
def primsecfreq(study: Study, ax: Target = None) -> "Figure":
    """Draw secondary against primary frequency.

    A dot is as large as the number of neurons; the line is 2k, folded.
    """
    explanation = study.once(explanation_of)
    with canvas(ax, (5.2, 4.2)) as drawn:
        (axis,) = drawn.axes
        half = explanation.p // 2
        k = np.linspace(0.5, half + 0.5, 400)
        folded = np.where(2 * k <= explanation.p / 2, 2 * k, explanation.p - 2 * k)
        axis.plot(k, folded, color=CONCEPT_COLOURS["truth"], lw=0.9, label="2k mod p, folded")
        harmonics = explanation.harmonics
        there = harmonics.present[1] & ~explanation.roles.dead
        pairs, counts = np.unique(harmonics.k[:2][:, there].T, axis=0, return_counts=True)
        axis.scatter(
            pairs[:, 0],
            pairs[:, 1],
            s=12 + 1.2 * counts,
            color=CONCEPT_COLOURS["ours"],
            alpha=0.75,
            zorder=3,
        )
        axis.set(
            xlabel="primary frequency k",
            ylabel="secondary frequency",
            xlim=(0, half + 1),
            ylim=(0, half + 1.5),
        )
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0))
        axis.locator_params(integer=True)
        return drawn.figure
