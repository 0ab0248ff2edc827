"""Phases of secondary, tertiary and quaternary frequencies against the primary phase (three figures of the paper)."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.explanation import Explanation
from quadlens.figures.angles import draw_multiple, square
from quadlens.figures.picture import Picture
from quadlens.figures.style import QUIET_COLOUR, frequency_colour, style
from quadlens.spectrum.harmonics import RANK_NAMES, HarmonicFit
from quadlens.studies import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "harmonic-phases"
LABELS = {2: "secondary-phi-twice-primary", 3: "tertiary-phi-thrice-primary", 4: "quaternary-phi-vs-primary"}
# The paper draws the line where it fits this well.
DRAWN_R2 = 0.9
COLUMNS, MOST_PANELS = 3, 6


def draw(explanation: Explanation, rank: int) -> "Figure":
    """One panel a primary frequency: a dot a neuron at (φ, phase of its rank-th frequency written as a multiple)."""
    with style():
        from matplotlib.figure import Figure

        keys = explanation.key_frequencies[:MOST_PANELS]
        columns = min(COLUMNS, max(len(keys), 1))
        rows = -(-len(keys) // columns)
        figure = Figure(figsize=(2.55 * columns + 0.3, 2.95 * rows))
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis in axes[len(keys) :]:
            axis.set_visible(False)
        for index, (axis, k) in enumerate(zip(axes, keys, strict=False)):
            square(axis)
            axis.tick_params(labelsize=8)
            axis.set_xlabel("primary φ", fontsize=9)
            if index % columns == 0:
                axis.set_ylabel(f"{RANK_NAMES[rank - 1]} phase", fontsize=9)
            fits = fits_of(explanation, rank, k)
            _scatter(axis, explanation, rank, k)
            best = best_fit(fits)
            if best and best.multiple and best.r2_offset is not None and best.r2_offset > DRAWN_R2:
                draw_multiple(axis, best.multiple, best.offset or 0.0)
            axis.set_title(f"k = {k}: {_fit_words(best)}", loc="left", fontsize=8.5)
        return figure


def _scatter(axis: "object", explanation: Explanation, rank: int, k: int) -> None:
    harmonics = explanation.harmonics
    row = rank - 1
    mine = (harmonics.k[0] == k) & harmonics.present[row] & ~explanation.roles.dead
    best = best_fit(fits_of(explanation, rank, k))
    shared = mine & (harmonics.k[row] == best.frequency) if best else np.zeros_like(mine)
    for chosen, colour, alpha in (
        (mine & ~shared, QUIET_COLOUR, 0.9),
        (shared, frequency_colour(k, explanation.key_frequencies), 0.7),
    ):
        phi, theta = (np.angle(np.exp(1j * harmonics.phase[r, chosen])) for r in (0, row))
        axis.scatter(phi, theta, s=9, lw=0, color=colour, alpha=alpha, zorder=3)  # type: ignore[attr-defined]


def fits_of(explanation: Explanation, rank: int, k: int) -> list[HarmonicFit]:
    """The fits of one rank and primary frequency."""
    return [fit for fit in explanation.harmonic_fits if fit.rank == rank and fit.k == k]


def best_fit(fits: list[HarmonicFit]) -> HarmonicFit | None:
    """The frequency that most neurons share; one with a clear phase relation before one without."""
    return max(fits, key=lambda fit: ((fit.r2_offset or 0) > DRAWN_R2, fit.neurons), default=None)


def _fit_words(fit: HarmonicFit | None) -> str:
    if fit is None:
        return "none shared by ten"
    multiple = f" = {fit.multiple}·k" if fit.multiple else ""
    r2 = "" if fit.r2_offset is None else f", R² {fit.r2_offset:.2f}"
    return f"{fit.frequency}{multiple}{r2}"


def pictures(results: Results) -> tuple[Picture, ...]:
    """One a rank, where p has so many frequencies and the model has key frequencies."""
    explanation = results.explanation
    ranks = [rank for rank in LABELS if rank <= len(explanation.harmonics.k)] if results.keys else []
    return tuple(_picture(results, rank) for rank in ranks)


def _picture(results: Results, rank: int) -> Picture:
    explanation, name = results.explanation, RANK_NAMES[rank - 1]
    described = []
    for k in explanation.key_frequencies[:MOST_PANELS]:
        fit = best_fit(fits_of(explanation, rank, k))
        if fit is None:
            described.append(f"k = {k}: no {name} frequency is shared by ten neurons")
            continue
        r2 = ""
        if fit.r2 is not None and fit.r2_offset is not None and fit.offset is not None:
            r2 = f", R² of {fit.multiple}φ + π {fit.r2:.3f}, of {fit.multiple}φ {fit.offset:+.2f} {fit.r2_offset:.3f}"
        described.append(f"k = {k}: {fit.frequency} ({fit.neurons} neurons{r2})")
    finding = (
        f"The clearest {name} frequency and how well its phase follows the primary one: " + "; ".join(described) + "."
    )
    meaning = {
        2: "For the secondary frequency 2k the paper finds the phase 2φ + π: two lines, half a turn up.",
        3: "A clear line appears where the tertiary frequency is a multiple of k that some other cluster also uses.",
        4: "The paper finds no pattern here; a cloud is what to expect.",
    }[rank]
    how = (
        f"A dot a neuron; across its primary phase, up the phase of its {name} frequency, written as a multiple m·k "
        "of the primary. Coloured dots share the frequency in the title, a line is drawn where a fit exceeds R² "
        f"{DRAWN_R2}. {meaning}"
    )
    title = f"Primary and {name} phases"
    return Picture(LABELS[rank], LABELS[rank], title, finding, how, "data/neurons.csv", lambda: draw(explanation, rank))
