"""Which frequencies emerge when, on the input side and on the output side of the neurons."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.figures.style import FREQUENCY_COLOURS, QUIET_COLOUR, style
from quadlens.training.history import History

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "frequencies-over-training"
# A frequency is named when it ends with at least this share of the power.
NAMED_SHARE = 0.02


def draw(history: History) -> "Figure":
    """Share of the neurons' power at each frequency; those that survive are coloured and named."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 5.0))
        axes = figure.subplots(2, 1, sharex=True)
        epochs = np.maximum(history.spectrum_epochs, 1)
        shares = [_shares(power) for power in (history.input_power, history.output_power)]
        survivors = sorted({int(k) for share in shares for k in np.flatnonzero(share[-1] >= NAMED_SHARE) + 1})
        colour = {k: FREQUENCY_COLOURS[i % len(FREQUENCY_COLOURS)] for i, k in enumerate(survivors)}
        for axis, share, side in zip(axes, shares, ("input, (U_a + U_b)/2", "output, W_L"), strict=True):
            for k in range(1, share.shape[1] + 1):
                if k not in colour:
                    axis.plot(epochs, 100 * share[:, k - 1], color=QUIET_COLOUR, lw=0.7, zorder=1)
            for k in survivors:
                axis.plot(epochs, 100 * share[:, k - 1], color=colour[k], lw=1.8, zorder=2, label=f"k = {k}")
            axis.set(xscale="log", ylabel="share of power, %", ylim=(0, None))
            axis.set_title(side, loc="left", fontsize=10)
        axes[1].set_xlabel("epoch")
        axes[0].legend(ncols=2, loc="upper left")
        figure.suptitle("Frequencies over training")
        return figure


def _shares(power: np.ndarray) -> np.ndarray:
    return power / np.maximum(power.sum(axis=1, keepdims=True), np.finfo(float).tiny)
