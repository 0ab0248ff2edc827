"""The four steps of the algorithm on one example: embed, average, double, score."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.figures.picture import Picture
from quadlens.figures.style import CONCEPT_COLOURS, QUIET_COLOUR, frequency_colour, style
from quadlens.model.collapsed import Collapsed
from quadlens.model.evaluate import pair_logits
from quadlens.studies import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "algorithm"
# Where the two tokens should stand on the circle: far enough apart to see two arrows, their mean away from the axes.
WANTED = (0.1, 1.3)


def example(p: int, k: int) -> tuple[int, int]:
    """A pair (a, b), a ≠ b, whose angles k w a and k w b are near `WANTED`."""
    turns = np.exp(2j * np.pi * k * np.arange(p) / p)
    a, other = (np.argsort(np.abs(np.angle(turns * np.exp(-1j * angle))), kind="stable") for angle in WANTED)
    return int(a[0]), int(other[other != a[0]][0])


def draw(collapsed: Collapsed, k: int, keys: tuple[int, ...], pair: tuple[int, int]) -> "Figure":
    """Steps 1 to 3 as arrows in the plane of frequency k, step 4 as the model's own logits."""
    with style():
        from matplotlib.figure import Figure

        p, (a, b) = collapsed.p, pair
        figure = Figure(figsize=(7.2, 5.6))
        embed, mean, double, score = figure.subplots(2, 2).ravel()
        colour = frequency_colour(k, keys)
        turn = 2 * np.pi * k / p
        tips = [np.exp(1j * turn * x) for x in (a, b)]
        middle = sum(tips) / 2
        # |cos u| e^{2is}: the mean's length with twice its angle.
        doubled = middle**2 / abs(middle) if abs(middle) > 0 else 0j
        for axis, title in (
            (embed, "1  embed: k·w·a and k·w·b"),
            (mean, "2  average: cos u at angle s"),
            (double, "3  double the angle: |cos u| at 2s"),
        ):
            _circle(axis, p)
            axis.set_title(title, loc="left")
        for tip, name in zip(tips, (f"a = {a}", f"b = {b}"), strict=True):
            _arrow(embed, tip, CONCEPT_COLOURS["input"], name)
            _arrow(mean, tip, QUIET_COLOUR, "")
        _arrow(mean, middle, colour, "mean")
        _arrow(double, middle, QUIET_COLOUR, "")
        _arrow(double, doubled, CONCEPT_COLOURS["output"], "MLP")
        logits = pair_logits(collapsed, np.array([[a, b]]))[0]
        right = (a + b) % p
        score.vlines(np.arange(p), 0, logits, color=QUIET_COLOUR, lw=1)
        score.plot(np.arange(p), logits, "o", ms=3, color=CONCEPT_COLOURS["output"])
        score.plot([right], logits[[right]], "o", ms=8, mfc="none", mew=1.6, color=CONCEPT_COLOURS["exact"])
        score.set(xlabel="answer c", ylabel="logit")
        score.locator_params(axis="x", integer=True)
        score.set_title(f"4  score: a + b = {right} wins", loc="left")
        if logits.argmax() != right:
            score.set_title(f"4  score: {logits.argmax()} wins, not {right}", loc="left")
        return figure


def _circle(axis: "Axes", p: int) -> None:
    angle = np.linspace(0, 2 * np.pi, 181)
    axis.plot(np.cos(angle), np.sin(angle), color=QUIET_COLOUR, lw=0.8)
    tokens = 2 * np.pi * np.arange(p) / p
    axis.plot(np.cos(tokens), np.sin(tokens), ".", ms=2.5, color=QUIET_COLOUR)
    axis.set(xlim=(-1.5, 1.5), ylim=(-1.25, 1.25), aspect="equal", xticks=[], yticks=[])
    axis.grid(visible=False)
    for side in axis.spines.values():
        side.set_visible(False)


def _arrow(axis: "Axes", tip: complex, colour: str, name: str) -> None:
    axis.annotate(
        "", (tip.real, tip.imag), (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2, "shrinkA": 0}
    )
    if name:
        # Always outside the circle, where no arrow and no token is.
        outside = tip / abs(tip) * 1.17 if abs(tip) > 0 else 1.17
        side = "left" if outside.real > 0.3 else "right" if outside.real < -0.3 else "center"
        axis.text(outside.real, outside.imag, name, color=colour, ha=side, va="center")


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, with the first key frequency; none for a model without key frequencies."""
    if not results.keys:
        return ()
    k = results.keys[0]
    pair = example(results.p, k)
    a, b = pair
    logits = pair_logits(results.collapsed, np.array([pair]))[0]
    right, best = (a + b) % results.p, int(logits.argmax())
    verdict = (
        f"{best} has the highest logit, as it should" if best == right else f"{best} has the highest logit, wrongly"
    )
    finding = (
        f"At frequency {k}, {a} and {b} are two points of a circle; their mean points to half the angle of {a} + {b}; "
        f"the MLP doubles it; of the model's own logits, {verdict}."
    )
    how = (
        f"Panels 1 to 3 show the plane of frequency k = {k} as the interpretation has it: tokens sit at angle k·w·a. "
        "Panel 4 is measured: the logits of this model for this very pair, all frequencies together."
    )
    return (
        Picture(
            NAME,
            None,
            "The algorithm in four steps",
            finding,
            how,
            "data/explanation.json",
            lambda: draw(results.collapsed, k, results.keys, pair),
        ),
    )
