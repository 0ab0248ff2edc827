"""Loss and accuracy over training."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.figures.picture import Picture, percent
from quadlens.figures.style import CONCEPT_COLOURS, style
from quadlens.studies import Results
from quadlens.training.history import History

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "learning-curve"


def draw(history: History) -> "Figure":
    """Loss on a logarithmic axis above, accuracy below, training and validation in the same two colours."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 4.6))
        loss, accuracy = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        epochs = history.curves[:, 0] + 1
        for name, column in (("train", 1), ("validation", 3)):
            values, shares = history.curves[:, column], history.curves[:, column + 1]
            if not np.isfinite(values).any():
                continue
            colour = CONCEPT_COLOURS[name]
            loss.plot(epochs, values, color=colour, lw=1.4, label=name)
            accuracy.plot(epochs, 100 * shares, color=colour, lw=1.4, label=name)
        loss.set(yscale="log", xscale="log", ylabel="loss (cross-entropy)")
        accuracy.set(xlabel="epoch", ylabel="accuracy, %", ylim=(-3, 103))
        loss.legend()
        return figure


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, where the run's history is at hand."""
    history = results.history
    if history is None or not len(history.curves):
        return ()
    last = history.curves[-1]
    finding = f"After {int(last[0]) + 1:,} epochs the loss on training pairs is {last[1]:.1e}"
    if np.isfinite(last[3]):
        finding += f" and on validation pairs {last[3]:.1e}, with {percent(float(last[4]))} of them right"
    how = (
        "Both axes of the upper panel are logarithmic. Training loss falls first; validation follows when the model "
        "has found an algorithm rather than a table."
    )
    title = "Learning curve"
    return (Picture(NAME, None, title, f"{finding}.", how, "data/history.csv", lambda: draw(history)),)
