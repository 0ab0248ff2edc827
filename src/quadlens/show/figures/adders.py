"""The certificate as a picture of the algorithm.

It shows the axis of s, coloured by the digit that wins, and where s lies.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from quadlens.base.errors import BadConfig
from quadlens.network.study import Study
from quadlens.proofs.sequences.explain import Axis
from quadlens.proofs.sequences.steps import steps_of
from quadlens.show.figures.canvas import Target, boxes, canvas
from quadlens.show.figures.picture import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Ten digits, and what is no digit at the end; neighbours differ with every common colour vision
# (Tol, Okabe and Ito).
DIGIT_COLOURS = (
    "#332288", "#88CCEE", "#117733", "#DDCC77", "#CC6677", "#44AA99",
    "#AA4499", "#E69F00", "#0072B2", "#999999", "#FFFFFF",
)  # fmt: skip
BAND_ALPHA = 0.42
# Of a row of height 1: the band of colours, and the intervals on it.
BAND = (0.06, 0.94)
INTERVAL = (0.27, 0.73)
# Two labels nearer than this share of the width are not both written.
NEAR = 0.024


def _axis_of(study: Study) -> dict[str, Axis] | None:
    axis = study.once(steps_of).axis
    return None if axis is None else {"axis": axis}


@figure(values=_axis_of, on_sequences=True)
def sequence_axis(study: Study, ax: Target = None) -> "Figure":
    """Draw where s lies for every value of x + y + carry.

    Colours are the digits that win; there is one row per own digit.
    """
    axis = (_axis_of(study) or {}).get("axis")
    if axis is None:
        raise BadConfig("only additions that answer the lowest digit first are drawn on an axis")
    rows = len(axis.own)
    with canvas(ax, (10.5, 0.47 * rows + 1.6)) as drawn:
        (panel,) = drawn.axes
        for row in range(rows):
            _row(panel, axis, row)
        low, high = float(axis.points[0]), float(axis.points[-1])
        i = axis.step
        panel.set(xlim=(low, high), ylim=(rows, 0), yticks=np.arange(rows) + 0.5)
        panel.set_yticklabels(
            [f"z{i - 1} = {token}" if rows > 1 else "first" for token in axis.own]
        )
        panel.tick_params(axis="y", length=0)
        panel.grid(visible=False)
        panel.spines["left"].set_visible(False)
        panel.set_xlabel(f"s, what attention brings to the step that answers z{i}")
        panel.set_title(
            f"Each interval holds s for one value of x{i} + y{i} + carry (its number) on all "
            "inputs; its colour is the right digit, the band's the digit that wins",
            loc="left", fontsize=9.5,
        )  # fmt: skip
        _legend(drawn.figure, panel, drawn.ours)
        return drawn.figure


def _row(panel: "Axes", axis: Axis, row: int) -> None:
    """One own digit: bands of the digits that win, and the intervals on them."""
    winner, points = axis.winner[row], axis.points
    edges = np.flatnonzero(np.diff(winner)) + 1
    ends = np.concatenate([points[:1], (points[edges - 1] + points[edges]) / 2, points[-1:]])
    digits = winner[np.concatenate([[0], edges])]
    base = axis.low.shape[1] // 2
    for digit in np.unique(digits).tolist():
        here = digits == digit
        low, high = (np.full(here.sum(), row + level) for level in BAND)
        boxes(
            panel,
            (ends[:-1][here], ends[1:][here]),
            (low, high),
            color=DIGIT_COLOURS[digit],
            alpha=BAND_ALPHA,
            lw=0,
        )
    width = points[-1] - points[0]
    taken = points[0] - width
    there = [value for value in range(2 * base) if axis.low[row, value] <= axis.high[row, value]]
    for value in sorted(there, key=lambda column: axis.low[row, column] + axis.high[row, column]):
        low, high = axis.low[row, value], axis.high[row, value]
        least = 0.0018 * width  # an interval thinner than a line would not be seen
        low, high = min(low, (low + high - least) / 2), max(high, (low + high + least) / 2)
        bottom, top = (np.array([row + level]) for level in INTERVAL)
        boxes(
            panel,
            (np.array([low]), np.array([high])),
            (bottom, top),
            facecolor=DIGIT_COLOURS[value % base],
            edgecolor="black",
            lw=0.6,
        )
        middle = (low + high) / 2
        if middle - taken > NEAR * width:
            label = panel.text(
                float(middle), row + BAND[0] + 0.01, str(value), ha="center", va="top", fontsize=6
            )
            label.set_clip_on(True)
            taken = middle


def _legend(whole: "Figure", panel: "Axes", ours: bool) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(color=colour, label=str(digit)) for digit, colour in enumerate(DIGIT_COLOURS[:-1])
    ]
    look: dict[str, Any] = {"ncols": len(handles), "title": "digit", "fontsize": 8}
    if ours:
        whole.legend(handles=handles, loc="outside lower center", **look)
    else:
        panel.legend(handles=handles, **look)
