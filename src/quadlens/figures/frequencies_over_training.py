"""Which frequencies emerge when, on the input side and on the output side of the neurons."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.figures.picture import Picture, listed
from quadlens.figures.style import QUIET_COLOUR, frequency_colour, style
from quadlens.spectrum.harmonics import doubled
from quadlens.studies import Results
from quadlens.training.history import History

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "frequencies-over-training"
# A frequency is named when it ends with at least this share of the power.
NAMED_SHARE = 0.02


def draw(history: History, keys: tuple[int, ...] = ()) -> "Figure":
    """Share of the neurons' power at each frequency; those that survive are named, key frequencies in their colours.

    A survivor that is no key (usually a key's double) is drawn dashed, in the colour of the key it doubles.
    """
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 5.0))
        axes = figure.subplots(2, 1, sharex=True)
        epochs = np.maximum(history.spectrum_epochs, 1)
        shares = [_shares(power) for power in (history.input_power, history.output_power)]
        survivors = surviving(history)
        keys = keys or survivors
        p = 2 * history.input_power.shape[1] + 1
        halved = {doubled(k, p): k for k in keys}
        for axis, share, side in zip(axes, shares, ("input, (U_a + U_b)/2", "output, W_L"), strict=True):
            for k in range(1, share.shape[1] + 1):
                if k not in survivors:
                    axis.plot(epochs, 100 * share[:, k - 1], color=QUIET_COLOUR, lw=0.7, zorder=1)
            for k in survivors:
                is_key = k in keys
                colour = frequency_colour(k if is_key else halved.get(k, k), keys)
                name = f"k = {k}" if is_key or k not in halved else f"{k} = 2·{halved[k]}"
                dash = "-" if is_key else "--"
                axis.plot(epochs, 100 * share[:, k - 1], dash, color=colour, lw=1.8, zorder=2, label=name)
            axis.set(xscale="log", ylabel="share of power, %", ylim=(0, None))
            axis.set_title(side, loc="left", fontsize=10)
        axes[1].set_xlabel("epoch")
        axes[0].legend(ncols=2, loc="upper left")
        return figure


def surviving(history: History) -> tuple[int, ...]:
    """Frequencies that end with at least `NAMED_SHARE` of the power on either side."""
    last = [_shares(power)[-1] for power in (history.input_power, history.output_power)]
    return tuple(sorted({int(k) for share in last for k in np.flatnonzero(share >= NAMED_SHARE) + 1}))


def _shares(power: np.ndarray) -> np.ndarray:
    return power / np.maximum(power.sum(axis=1, keepdims=True), np.finfo(float).tiny)


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, where the run's history is at hand."""
    history = results.history
    if history is None or not len(history.spectrum_epochs):
        return ()
    half = history.input_power.shape[1]
    finding = (
        f"All {half} frequencies start alike; after {int(history.spectrum_epochs[-1]):,} epochs "
        f"{listed(surviving(history))} hold at least {100 * NAMED_SHARE:.0f} % of the power each."
    )
    how = (
        "Each line is a frequency; up, its share of all the power the neurons read (above) or write (below). Grey "
        "lines die out; a dashed line is no key frequency itself but the double of one."
    )
    title = "Which frequencies survive training"
    return (Picture(NAME, None, title, finding, how, "data/spectrum.csv", lambda: draw(history, results.keys)),)
