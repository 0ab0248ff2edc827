"""How many neurons each key frequency has (figure `freqcount`)."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.explanation import Explanation
from quadlens.figures.picture import Picture, listed
from quadlens.figures.style import CONCEPT_COLOURS, frequency_colour, style
from quadlens.studies import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "freqcount"
# More frequencies than this get a label only every so often.
LABELLED = 30


def counts(explanation: Explanation) -> tuple[np.ndarray, np.ndarray]:
    """Living neurons with primary input frequency k = 1 …, and how many of them write another one."""
    roles, half = explanation.roles, (explanation.p - 1) // 2
    alive = ~roles.dead
    every = np.bincount(roles.k_in[alive], minlength=half + 1)[1:]
    stray = np.bincount(roles.k_in[alive & (roles.k_in != roles.k_out)], minlength=half + 1)[1:]
    return every, stray


def draw(explanation: Explanation) -> "Figure":
    """One bar a frequency; the part of neurons that write another frequency is marked."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.8, 3.0))
        axis = figure.subplots()
        every, stray = counts(explanation)
        k = np.arange(1, len(every) + 1)
        colours = [frequency_colour(int(one), explanation.key_frequencies) for one in k]
        axis.bar(k, every, color=colours, width=0.8)
        if stray.any():
            axis.bar(k, stray, color=CONCEPT_COLOURS["wrong"], width=0.8, label="write another frequency")
            axis.legend(loc="lower right", bbox_to_anchor=(1, 1))
        for one in k[every > 0]:
            axis.annotate(
                str(every[one - 1]), (one, every[one - 1]), (0, 2), "data", "offset points", ha="center", fontsize=8
            )
        step = 1 if len(k) <= LABELLED else len(k) // LABELLED + 1
        axis.set_xticks(k[::step], [str(one) for one in k[::step]], fontsize=8)
        axis.set(
            xlabel="primary input frequency k", ylabel="neurons", xlim=(0.3, len(k) + 0.7), ylim=(0, every.max() * 1.12)
        )
        axis.grid(visible=False, axis="x")
        return figure


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, for every model with living neurons."""
    explanation = results.explanation
    every, stray = counts(explanation)
    if not every.any():
        return ()
    used = tuple(int(k) + 1 for k in np.flatnonzero(every))
    finding = (
        f"The key frequencies are {listed(explanation.key_frequencies)}. Living neurons read {len(used)} of "
        f"{len(every)} possible frequencies; {int(stray.sum())} write another one than they read."
    )
    paper = "; ".join(f"{k}: {n}" for k, n in results.published.key_neurons)
    how = (
        "One bar a frequency, coloured where it is key, grey where it is not. Red parts are neurons that write another "
        f"frequency than they read. The paper's mainline model has {paper} neurons."
    )
    title = "The key frequencies"
    return (Picture(NAME, NAME, title, finding, how, "data/neurons.csv", lambda: draw(explanation)),)
