"""Phases and frequencies of neurons against each other: written against read, higher against primary."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.errors import BadConfig
from quadlens.explanation import Explanation
from quadlens.figures.canvas import Target, angle_axis, canvas
from quadlens.figures.picture import Family, Words, figure
from quadlens.figures.style import CONCEPT_COLOURS, QUIET_COLOUR, frequency_colour
from quadlens.numbers import at_least, fit, listed, percent
from quadlens.spectrum import Cluster, ClusterPhases
from quadlens.spectrum.harmonics import RANK_NAMES, HarmonicFit
from quadlens.studies import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RANK_LABELS = {2: "secondary-phi-twice-primary", 3: "tertiary-phi-thrice-primary", 4: "quaternary-phi-vs-primary"}
# The paper draws the line where it fits this well.
DRAWN_R2 = 0.9
MOST_PANELS = 6
# What the paper says of its population: the share of neurons whose secondary frequency is twice the primary one.
PAPER_DOUBLED = (0.83, 0.84)


@figure(k="The cluster's frequency; the first key frequency if None.")
def angles(study: Study, k: int | None = None, ax: Target = None) -> "Figure":
    """Draw output phase ψ against input phase φ of one cluster, one dot per neuron; the lines are ψ = 2φ."""
    clusters = {one.k: one for one in study.explanation.clusters}
    k = next((key for key in study.keys if key in clusters), None) if k is None else k
    if k is None or k not in clusters:
        raise BadConfig(f"no cluster of this model has frequency {k}; there are: {listed(tuple(clusters))}")
    cluster, colour = clusters[k], frequency_colour(k, study.keys)
    with canvas(ax, (4.8, 4.6)) as drawn:
        (axis,) = drawn.axes
        draw_multiple(axis, 2, 0.0)
        phi, psi = (np.angle(np.exp(1j * angle)) for angle in (cluster.phi, cluster.psi))
        weight = cluster.rho * cluster.omega
        size = 8 + 30 * weight / max(float(weight.max()), np.finfo(float).tiny)
        axis.scatter(phi, psi, s=size, color=colour, alpha=0.7, lw=0, zorder=3)
        axis.plot(phi, np.full(len(phi), -np.pi * 1.06), "|", ms=6, color=colour, alpha=0.7)
        _square(axis)
        axis.set(xlabel="input phase φ", ylabel="output phase ψ", ylim=(-np.pi * 1.12, np.pi * 1.04))
        axis.set_title(f"k = {k}, {len(phi)} neurons", loc="left")
        return drawn.figure


def _square(axis: "Axes") -> None:
    """One turn either way, in the same units."""
    axis.set(xlim=(-np.pi * 1.04, np.pi * 1.04), ylim=(-np.pi * 1.04, np.pi * 1.04), aspect="equal")
    angle_axis(axis)
    angle_axis(axis, which="y")


def draw_multiple(axis: "Axes", m: int, offset: float) -> None:
    """The line θ = mφ + offset, cut where it leaves the circle's square."""
    cuts = np.arange(np.ceil((-m * np.pi + offset - np.pi) / (2 * np.pi)), (m * np.pi + offset + np.pi) / (2 * np.pi))
    for turn in cuts:
        ends = np.array([-np.pi, np.pi]) + 2 * np.pi * turn
        phi = np.clip((ends - offset) / m, -np.pi, np.pi)
        if phi[1] - phi[0] > 1e-9:
            axis.plot(phi, m * phi + offset - 2 * np.pi * turn, color=CONCEPT_COLOURS["truth"], lw=0.9, zorder=1)


def _all_angles(study: Study) -> tuple[Words, ...]:
    """One per key frequency."""
    explanation = study.explanation
    chosen = [cluster.k for cluster in study.clusters] or study.strongest_keys
    return tuple(
        _angles_words(cluster, phases)
        for cluster, phases in zip(explanation.clusters, explanation.phases, strict=True)
        if cluster.k in chosen
    )


def _angles_words(cluster: Cluster, phases: ClusterPhases) -> Words:
    k, spacing = cluster.k, phases.spacing
    r2 = "no R² (the phases do not vary)" if phases.r2 is None else f"R² = {fit(phases.r2)}"
    even = "roughly even" if spacing.roughly_uniform else "uneven"
    return Words(
        name=f"angles-{k}",
        label=f"angles:{k}",
        title=f"Phases of frequency {k}",
        finding=f"Output phase against twice the input phase at frequency {k}: {r2}. Gaps between the "
        f"{len(cluster.phi)} phases have mean {spacing.width_mean:.3f} and standard deviation "
        f"{spacing.width_std:.3f}: {even} by the paper's test.",
        how_to_read="Each dot is a neuron, larger the more it weighs. On the lines ψ = 2φ (cut where the circle is "
        "cut) the neuron writes with exactly twice the phase it reads with. Ticks at the bottom show how evenly φ "
        "covers the circle.",
        data="data/neurons.csv",
        options={"k": k},
    )


@figure("One axes per key frequency (at most six)", rank="2, 3 or 4.")
def harmonic_phases(study: Study, rank: int = 2, ax: Target = None) -> "Figure":
    """Draw the phase of each neuron's second, third or fourth largest frequency against its primary phase."""
    explanation = study.explanation
    keys, there = explanation.key_frequencies[:MOST_PANELS], len(explanation.harmonics.k)
    if rank not in RANK_LABELS or rank > there or not keys:
        raise BadConfig(f"rank {rank}; expected 2, 3 or 4, of a model with key frequencies and as many frequencies")
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
            _scatter(axis, explanation, rank, k, best)
            if best and best.multiple and best.r2_offset is not None and best.r2_offset > DRAWN_R2:
                draw_multiple(axis, best.multiple, best.offset or 0.0)
            axis.set_title(f"k = {k}: {_fit_words(best)}", loc="left", fontsize=8.5)
        return drawn.figure


def _scatter(axis: "Axes", explanation: Explanation, rank: int, k: int, best: HarmonicFit | None) -> None:
    harmonics, row = explanation.harmonics, rank - 1
    mine = (harmonics.k[0] == k) & harmonics.present[row] & ~explanation.roles.dead
    shared = mine & (harmonics.k[row] == best.frequency) if best else np.zeros_like(mine)
    colour = frequency_colour(k, explanation.key_frequencies)
    for chosen, ink, alpha in ((mine & ~shared, QUIET_COLOUR, 0.9), (shared, colour, 0.7)):
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


def _all_harmonics(study: Study) -> tuple[Words, ...]:
    """One per rank, where p has so many frequencies and the model has key frequencies."""
    ranks = [rank for rank in RANK_LABELS if rank <= len(study.explanation.harmonics.k)] if study.keys else []
    return tuple(_harmonic_words(study, rank) for rank in ranks)


def _harmonic_words(study: Study, rank: int) -> Words:
    explanation, name = study.explanation, RANK_NAMES[rank - 1]
    described = []
    for k in explanation.key_frequencies[:MOST_PANELS]:
        fit = _best_fit(explanation, rank, k)
        if fit is None:
            described.append(f"k = {k}: no {name} frequency is shared by ten neurons")
            continue
        r2 = ", no clear phase relation"
        if fit.r2 is not None and fit.offset is not None and (fit.r2_offset or 0) > DRAWN_R2:
            turned = f"{abs(fit.offset):.2f}"
            best = f"{fit.multiple}φ" + (f" {'+' if fit.offset > 0 else '-'} {turned}" if float(turned) else "")
            r2 = (
                f", R² {at_least(fit.r2, 3)} for the phase {fit.multiple}φ + π, {at_least(fit.r2_offset, 3)} for {best}"
            )
        described.append(f"k = {k}: {fit.frequency} ({fit.neurons} neurons{r2})")
    meaning = {
        2: "For the secondary frequency 2k the paper finds the phase 2φ + π: two lines, half a turn up.",
        3: "A clear line appears where the tertiary frequency is a multiple of k that some other cluster also uses.",
        4: "The paper finds no pattern here; a cloud is what to expect.",
    }[rank]
    return Words(
        name=RANK_LABELS[rank],
        label=RANK_LABELS[rank],
        title=f"Primary and {name} phases",
        finding=f"The clearest {name} frequency and how well its phase follows the primary one: "
        + "; ".join(described)
        + ".",
        how_to_read=f"One dot per neuron; across its primary phase, up the phase of its {name} frequency, written as a "
        "multiple m·k of the primary. Coloured dots share the frequency in the title, a line is drawn where a fit "
        f"exceeds R² {DRAWN_R2}. {meaning}",
        data="data/neurons.csv",
        options={"rank": rank},
    )


@figure()
def primsecfreq(study: Study, ax: Target = None) -> "Figure":
    """Draw secondary against primary frequency, a dot as large as the number of neurons; the line is 2k, folded."""
    explanation = study.explanation
    with canvas(ax, (5.2, 4.2)) as drawn:
        (axis,) = drawn.axes
        half = explanation.p // 2
        k = np.linspace(0.5, half + 0.5, 400)
        folded = np.where(2 * k <= explanation.p / 2, 2 * k, explanation.p - 2 * k)
        axis.plot(k, folded, color=CONCEPT_COLOURS["truth"], lw=0.9, label="2k mod p, folded")
        harmonics = explanation.harmonics
        there = harmonics.present[1] & ~explanation.roles.dead
        pairs, counts = np.unique(harmonics.k[:2][:, there].T, axis=0, return_counts=True)
        axis.scatter(pairs[:, 0], pairs[:, 1], s=12 + 1.2 * counts, color=CONCEPT_COLOURS["ours"], alpha=0.75, zorder=3)
        axis.set(xlabel="primary frequency k", ylabel="secondary frequency", xlim=(0, half + 1), ylim=(0, half + 1.5))
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0))
        axis.locator_params(integer=True)
        return drawn.figure


def _primsecfreq_words(study: Study) -> Words | None:
    doubling = study.explanation.doubling
    if doubling.share is None:
        return None
    low, high = PAPER_DOUBLED
    return Words(
        title="Primary and secondary frequency",
        finding=f"The secondary frequency is twice the primary one for {doubling.doubled} of {doubling.neurons} "
        f"neurons of this model ({percent(doubling.share)}); over the paper's population it is for "
        f"{100 * low:.0f} to {100 * high:.0f} %.",
        how_to_read="Across a neuron's primary frequency, up its second largest; the larger the dot, the more "
        "neurons. Dots on the line have a secondary frequency of exactly twice the primary. (The paper prints its "
        "population's picture without numbers.)",
        data="data/neurons.csv",
    )


ANGLES = Family("angles", angles, _all_angles, ("angles-K", "angles:K"), in_paper=True)
HARMONIC_PHASES = Family("harmonic-phases", harmonic_phases, _all_harmonics, tuple(RANK_LABELS.values()), in_paper=True)
PRIMSECFREQ = Family("primsecfreq", primsecfreq, _primsecfreq_words, in_paper=True)
