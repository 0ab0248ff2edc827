"""How a model learned: loss and accuracy over training, and which frequencies survive."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.analysis.spectrum.harmonics import doubled
from quadlens.analysis.spectrum.of_study import keys_of
from quadlens.base.errors import BadConfig
from quadlens.network.study import Study
from quadlens.show.figures.canvas import Target, canvas
from quadlens.show.figures.picture import Values, figure
from quadlens.show.figures.style import CONCEPT_COLOURS, QUIET_COLOUR, frequency_colour
from quadlens.training.history import History
from quadlens.training.of_study import history_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A frequency is named when it ends with at least this share of the power.
NAMED_SHARE = 0.02
WITH_HISTORY = (
    "A study, a training result, a path or the name of a bundled model; its history "
    "must be at hand."
)


def _history(study: Study) -> History:
    history = study.once(history_of)
    if history is None or not len(history.curves):
        raise BadConfig(
            "the files of the training run are not beside this model, so how it learned cannot be "
            "drawn"
        )
    return history


def _last_row(study: Study) -> Values | None:
    history = study.once(history_of)
    if history is None or not len(history.curves):
        return None
    last = history.curves[-1]
    return {"last": last, "validated": np.isfinite(last[3])}


@figure("Two axes", values=_last_row, study=WITH_HISTORY)
def learning_curve(study: Study, ax: Target = None) -> "Figure":
    """Draw loss on a logarithmic axis above, accuracy below, of training and validation pairs."""
    history = _history(study)
    with canvas(ax, (6.4, 4.6), 2, columns=1, sharex=True, height_ratios=(3, 2)) as drawn:
        loss, accuracy = drawn.axes
        epochs = history.curves[:, 0] + 1
        for name, column in (("train", 1), ("validation", 3)):
            values, shares = history.curves[:, column], history.curves[:, column + 1]
            if not np.isfinite(values).any():
                continue
            loss.plot(epochs, values, color=CONCEPT_COLOURS[name], lw=1.4, label=name)
            accuracy.plot(epochs, 100 * shares, color=CONCEPT_COLOURS[name], lw=1.4, label=name)
        loss.set(yscale="log", xscale="log", ylabel="loss (cross-entropy)")
        accuracy.set(xscale="log", xlabel="epoch", ylabel="accuracy, %", ylim=(-3, 103))
        loss.legend()
        return drawn.figure


def _survivors(study: Study) -> Values | None:
    history = study.once(history_of)
    if history is None or not len(history.spectrum_epochs):
        return None
    return {
        "history": history,
        "first": _first_share(history),
        "survivors": surviving(history),
        "named": NAMED_SHARE,
    }


@figure("Two axes", values=_survivors, study=WITH_HISTORY)
def frequencies_over_training(study: Study, ax: Target = None) -> "Figure":
    """Draw the share of the neurons' power at each frequency over training.

    Frequencies that survive are named.

    A survivor that is no key (usually a key's double) is drawn dashed, in the colour of the key it
    doubles.
    """
    history = _history(study)
    with canvas(ax, (6.4, 5.0), 2, columns=1, sharex=True) as drawn:
        epochs = np.maximum(history.spectrum_epochs, 1)
        survivors = surviving(history)
        keys = study.once(keys_of) or survivors
        halved = {doubled(k, study.p): k for k in keys}
        powers = (history.input_power, history.output_power)
        for axis, power, side in zip(
            drawn.axes, powers, ("input, (U_a + U_b)/2", "output, W_L"), strict=True
        ):
            share = _shares(power)
            for k in range(1, share.shape[1] + 1):
                if k not in survivors:
                    axis.plot(epochs, 100 * share[:, k - 1], color=QUIET_COLOUR, lw=0.7, zorder=1)
            for k in survivors:
                is_key = k in keys
                colour = frequency_colour(k if is_key else halved.get(k, k), keys)
                name = f"k = {k}" if is_key or k not in halved else f"{k} = 2·{halved[k]}"
                dash = "-" if is_key else "--"
                axis.plot(
                    epochs, 100 * share[:, k - 1], dash, color=colour, lw=1.8, zorder=2, label=name
                )
            axis.set(xscale="log", ylabel="share of power, %", ylim=(0, None))
            axis.set_title(side, loc="left", fontsize=10)
        drawn.axes[1].set_xlabel("epoch")
        drawn.axes[0].legend(ncols=2, loc="upper left")
        return drawn.figure


def surviving(history: History) -> tuple[int, ...]:
    """Frequencies that end with at least `NAMED_SHARE` of the power on either side."""
    last = [_shares(power)[-1] for power in (history.input_power, history.output_power)]
    return tuple(
        sorted({int(k) for share in last for k in np.flatnonzero(share >= NAMED_SHARE) + 1})
    )


def _first_share(history: History) -> float:
    """The largest share of one frequency at the first moment recorded, on either side."""
    return max(
        float(_shares(power)[0].max()) for power in (history.input_power, history.output_power)
    )


def _shares(power: np.ndarray) -> np.ndarray:
    return power / np.maximum(power.sum(axis=1, keepdims=True), np.finfo(float).tiny)
