"""Primary against secondary frequency (figure `primsecfreq`), for this model."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.explanation import Explanation
from quadlens.figures.picture import Picture, percent
from quadlens.figures.style import CONCEPT_COLOURS, style
from quadlens.studies import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "primsecfreq"


def draw(explanation: Explanation) -> "Figure":
    """A dot a pair of frequencies, as large as the number of neurons that have it; the line is 2k, folded."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.2, 4.2))
        axis = figure.subplots()
        half = (explanation.p - 1) // 2
        k = np.linspace(0.5, half + 0.5, 400)
        folded = np.where(2 * k <= explanation.p / 2, 2 * k, explanation.p - 2 * k)
        axis.plot(k, folded, color=CONCEPT_COLOURS["truth"], lw=0.9, label="2k mod p, folded")
        pairs, counts = _pairs(explanation)
        axis.scatter(pairs[:, 0], pairs[:, 1], s=12 + 1.2 * counts, color=CONCEPT_COLOURS["ours"], alpha=0.75, zorder=3)
        axis.set(xlabel="primary frequency k", ylabel="secondary frequency", xlim=(0, half + 1), ylim=(0, half + 1.5))
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0))
        axis.locator_params(integer=True)
        return figure


def _pairs(explanation: Explanation) -> tuple[np.ndarray, np.ndarray]:
    harmonics = explanation.harmonics
    there = harmonics.present[1] & ~explanation.roles.dead
    return np.unique(harmonics.k[:2][:, there].T, axis=0, return_counts=True)


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, where neurons have a secondary frequency at all."""
    doubling = results.explanation.doubling
    if doubling.share is None:
        return ()
    low, high = 0.83, 0.84
    finding = (
        f"The secondary frequency is twice the primary one for {doubling.doubled} of {doubling.neurons} neurons of "
        f"this model ({percent(doubling.share)}); over the paper's population it is for {100 * low:.0f} to "
        f"{100 * high:.0f} %."
    )
    how = (
        "Across a neuron's primary frequency, up its second largest; the larger the dot, the more neurons. Dots on "
        "the line have a secondary frequency of exactly twice the primary. (The paper prints its population's "
        "picture without numbers.)"
    )
    title = "Primary and secondary frequency"
    return (Picture(NAME, NAME, title, finding, how, "data/neurons.csv", lambda: draw(results.explanation)),)
