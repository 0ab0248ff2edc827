"""The task: what the model answers for every pair, and by how much the right answer wins."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from quadlens.figures.picture import Picture
from quadlens.figures.style import CONCEPT_COLOURS, style
from quadlens.studies import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "task"


def draw(margins: Float[np.ndarray, "p p"]) -> "Figure":
    """The margin of every input as a map, wrong answers crossed, and their distribution."""
    with style():
        from matplotlib.figure import Figure

        p = len(margins)
        figure = Figure(figsize=(7.2, 3.2))
        figure.set_layout_engine("constrained", wspace=0.08)
        table, bars = figure.subplots(1, 2, width_ratios=(1, 1))
        table.grid(visible=False)
        top = max(float(margins.max()), np.finfo(float).tiny)
        image = table.imshow(margins, cmap="cividis", vmin=0, vmax=top, origin="lower", interpolation="nearest")
        wrong = np.argwhere(margins <= 0)
        table.plot(wrong[:, 1], wrong[:, 0], "x", ms=4, color=CONCEPT_COLOURS["wrong"])
        table.set(xlabel="b", ylabel="a", title="margin of a + b mod p", xlim=(-0.5, p - 0.5), ylim=(-0.5, p - 0.5))
        table.locator_params(integer=True)
        figure.colorbar(image, ax=table, shrink=0.85)
        bars.hist(margins.ravel(), bins=40, color=CONCEPT_COLOURS["exact"])
        bars.axvline(0, color=CONCEPT_COLOURS["wrong"], lw=1.5)
        bars.set(xlabel="margin (right logit - best other)", ylabel="inputs (a, b)")
        return figure


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, for every model."""
    answers = results.evaluation
    a, b = answers.min_margin_pair
    finding = (
        f"The model answers {answers.correct:,} of {answers.pairs:,} pairs right. "
        f"Its smallest margin is {answers.min_margin:.2f}, at {a} + {b}; the median is {answers.median_margin:.2f}."
    )
    how = (
        "Left: one square a pair (a, b); brighter means that the right answer's logit is further above every other. "
        "Red crosses, if any, are wrong answers. Right: the same margins counted; everything right of the red line "
        "is right."
    )
    return (
        Picture(
            NAME, None, "Every question and its margin", finding, how, "data/margins.csv", lambda: draw(results.margins)
        ),
    )
