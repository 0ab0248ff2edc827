"""Answers and logits of a network.

Figures of every input's margin, of the algorithm on one example, and of the parts of the logits.
"""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from quadlens.analysis.explanation.of_study import explanation_of, strongest_keys_of
from quadlens.analysis.infinite_width.of_study import integration_of
from quadlens.analysis.logits import cos_u
from quadlens.analysis.logits.of_study import skip_shares_of
from quadlens.analysis.published import read_published
from quadlens.analysis.spectrum.of_study import evaluation_of, keys_of, layer_of, margins_of
from quadlens.base.errors import BadConfig
from quadlens.network.study import Study
from quadlens.network.task import Task
from quadlens.show.figures.canvas import Target, canvas
from quadlens.show.figures.picture import Values, figure
from quadlens.show.figures.style import CONCEPT_COLOURS, QUIET_COLOUR, frequency_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Where the two tokens should stand on the circle: far enough apart to see two arrows, their mean
# away from the axes.
WANTED = (0.1, 1.3)
# The paper's axis is labelled at ten times the heights: its bars add up to 348.1 for the 3,481
# inputs of p = 59.
PAPER_SCALE = 10
# Shares past this quantile are counted in words, not drawn.
SHOWN = 0.99
SKIP_HISTOGRAM = "residual_attention_variance_over_logits"


def _answers(study: Study) -> Values:
    return {"answers": study.once(evaluation_of)}


@figure("Two axes", values=_answers)
def task(study: Study, ax: Target = None) -> "Figure":
    """Draw the margin of every input as a map, wrong answers crossed.

    Beside it stands how the margins are distributed.
    """
    margins = study.once(margins_of)
    with canvas(ax, (7.2, 3.2), 2) as drawn:
        if drawn.ours:
            drawn.figure.set_layout_engine("constrained", wspace=0.08)
        (table, bars), p = drawn.axes, len(margins)
        table.grid(visible=False)
        top = max(float(margins.max()), np.finfo(float).tiny)
        image = table.imshow(
            margins, cmap="cividis", vmin=0, vmax=top, origin="lower", interpolation="nearest"
        )
        wrong = np.argwhere(margins <= 0)
        table.plot(wrong[:, 1], wrong[:, 0], "x", ms=4, color=CONCEPT_COLOURS["wrong"])
        table.set(
            xlabel="b",
            ylabel="a",
            title=f"margin of {study.config.task.words}",
            xlim=(-0.5, p - 0.5),
            ylim=(-0.5, p - 0.5),
        )
        table.locator_params(integer=True)
        drawn.figure.colorbar(image, ax=table, shrink=0.85)
        bars.hist(margins.ravel(), bins=40, color=CONCEPT_COLOURS["exact"])
        bars.axvline(0, color=CONCEPT_COLOURS["wrong"], lw=1.5)
        bars.set(xlabel="margin (right logit - best other)", ylabel="inputs (a, b)")
        return drawn.figure


def example(task: Task, k: int) -> tuple[int, int]:
    """Return an input (a, b) of two different points of the circle.

    The angles k w a and k w b are near `WANTED`.
    """
    angles = [2 * np.pi * k * renamed / task.n for renamed in _renamed(task)]
    a, b = (
        np.argsort(np.abs(np.angle(np.exp(1j * (angle - wanted)))), kind="stable")
        for angle, wanted in zip(angles, WANTED, strict=True)
    )
    of_a, of_b = _renamed(task)
    return int(a[0]), int(b[of_b[b] != of_a[a[0]]][0])


def _renamed(task: Task) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """Return the numbers of a and of b by which the task is addition.

    Without a renaming they are a and b themselves.
    """
    cyclic = task.cyclic
    return (np.arange(task.n),) * 2 if cyclic is None else (cyclic.of_a, cyclic.of_b)


def _example_of(study: Study) -> Values | None:
    """The pair drawn, and the model's answer to it."""
    if not study.once(keys_of):
        return None
    key, of_task = study.once(keys_of)[0], study.config.task
    a, b = example(of_task, key)
    best = int(layer_of(study).pair_logits(np.array([(a, b)]))[0].argmax())
    integration = study.once(integration_of)
    return {"key": key, "task": of_task, "a": a, "b": b, "best": best, "integration": integration}


@figure(
    "Four axes",
    values=_example_of,
    k="The frequency; the first key frequency if None.",
    pair="The two numbers to add; two that can be told apart if None.",
)
def algorithm(
    study: Study, k: int | None = None, pair: tuple[int, int] | None = None, ax: Target = None
) -> "Figure":
    """Draw the four steps (embed, average, double, score) and the logits.

    The steps are arrows in the plane of one frequency.
    """
    p = study.p
    k = (study.once(keys_of) or (None,))[0] if k is None else k
    if k is None:
        raise BadConfig(
            "no key frequency is read off this model by its anatomy; say which one to draw with k"
        )
    of_task = study.config.task
    a, b = example(of_task, k) if pair is None else pair
    if not (0 <= a < p and 0 <= b < p):
        raise BadConfig(f"the pair {a}, {b}; both numbers must be between 0 and {p - 1}")
    with canvas(ax, (7.2, 5.6), 4, columns=2) as drawn:
        embed, mean, double, score = drawn.axes
        turn = 2 * np.pi * k / p
        tips = [
            np.exp(1j * turn * renamed[x])
            for renamed, x in zip(_renamed(of_task), (a, b), strict=True)
        ]
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
        for tip, name in zip(
            tips,
            (f"{letter} = {of_task.element(x)}" for letter, x in (("a", a), ("b", b))),
            strict=True,
        ):
            _arrow(embed, tip, CONCEPT_COLOURS["input"], name)
            _arrow(mean, tip, QUIET_COLOUR, "")
        _arrow(mean, middle, frequency_colour(k, study.once(keys_of)), "mean")
        _arrow(double, middle, QUIET_COLOUR, "")
        _arrow(double, doubled, CONCEPT_COLOURS["output"], "MLP")
        logits = layer_of(study).pair_logits(np.array([[a, b]]))[0]
        right, best = int(of_task.answers[a, b]), int(logits.argmax())
        score.vlines(np.arange(p), 0, logits, color=QUIET_COLOUR, lw=1)
        score.plot(np.arange(p), logits, "o", ms=3, color=CONCEPT_COLOURS["output"])
        score.plot(
            [right], logits[[right]], "o", ms=8, mfc="none", mew=1.6, color=CONCEPT_COLOURS["exact"]
        )
        score.set(xlabel="answer c", ylabel="logit")
        score.locator_params(axis="x", integer=True)
        named, other = of_task.element(right), of_task.element(best)
        won = f"{of_task.symbols} = {named} wins" if best == right else f"{other} wins, not {named}"
        score.set_title(f"4  score: {won}", loc="left")
        return drawn.figure


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
    look = {"arrowstyle": "-|>", "color": colour, "lw": 2, "shrinkA": 0}
    axis.annotate("", (tip.real, tip.imag), (0, 0), arrowprops=look)
    if name:
        # Always outside the circle, where no arrow and no token is.
        outside = tip / abs(tip) * 1.17 if abs(tip) > 0 else 1.17
        side = "left" if outside.real > 0.3 else "right" if outside.real < -0.3 else "center"
        axis.text(outside.real, outside.imag, name, color=colour, ha=side, va="center")


def _paper_inputs(study: Study) -> Values | None:
    total = read_published().population.histogram(SKIP_HISTOGRAM).total
    shares = study.once(skip_shares_of)
    return None if shares is None else {"paper_inputs": PAPER_SCALE * total, "shares": shares}


@figure(values=_paper_inputs)
def residual(study: Study, ax: Target = None) -> "Figure":
    """Draw the skip connection's share of the logits as a histogram.

    The share is taken input by input; the paper's stands beside it.
    """
    shares, paper = (
        study.once(skip_shares_of),
        read_published().population.histogram(SKIP_HISTOGRAM),
    )
    if shares is None:
        raise BadConfig(
            "this model's attention depends on the tokens, or it is an MLP: no skip connection has "
            "a share of its own"
        )
    with canvas(ax, (5.2, 2.9)) as drawn:
        (axis,) = drawn.axes
        high = max(float(np.quantile(shares, SHOWN)), float(paper.edges[-1]))
        bins = min(60, int(np.ceil(high / paper.width)))
        edges = np.linspace(0, high, bins + 1)
        scale = PAPER_SCALE * paper.total / shares.size
        weights = np.full(shares.size, scale * paper.width / (edges[1] - edges[0]))
        axis.hist(
            shares.ravel(),
            bins=list(edges),
            weights=weights,
            color=CONCEPT_COLOURS["ours"],
            label="this model",
        )
        axis.stairs(
            PAPER_SCALE * paper.count,
            paper.edges,
            color=CONCEPT_COLOURS["paper"],
            lw=1.8,
            label="the paper's",
        )
        axis.set(
            xlabel="skip connection's share of variance over c",
            ylabel="inputs (a, b)",
            xlim=(0, high),
        )
        axis.legend(loc="upper right", fontsize=8)
        return drawn.figure


def _weak_spots(study: Study) -> Values | None:
    logits = study.once(explanation_of).logits
    if logits is None or not study.once(keys_of):
        return None
    return {
        "spots": [spot for spot in logits.weak_spots if spot.k in study.once(strongest_keys_of)]
    }


@figure("One axes per key frequency (at most eight)", values=_weak_spots)
def secondary_repair(study: Study, ax: Target = None) -> "Figure":
    """Draw the strength of the answer against |cos u|, by parts of the activation.

    There is one panel per frequency.
    """
    logits, keys = study.once(explanation_of).logits, study.once(strongest_keys_of)
    if logits is None or not keys:
        raise BadConfig("this model has no key frequencies, or its explanation has no logits")
    columns = min(3, len(keys))
    size = (2.6 * columns + 0.8, 2.5 * -(-len(keys) // columns) + 0.5)
    with canvas(ax, size, len(keys), columns=columns, sharex=True) as drawn:
        parts, form = logits.parts, logits.forms.by_parts
        fine = np.linspace(0, 1, 101)
        for axis, k in zip(drawn.axes, keys, strict=True):
            row, x = (
                parts.keys.index(k),
                cos_u(parts.p, parts.keys, parts.shifts)[parts.keys.index(k)],
            )
            for name, part, concept, marker in (
                ("all logits", parts.all_logits, "truth", "o"),
                ("absolute part", parts.abs_component, "absolute", "s"),
                ("identity part", parts.identity_component, "identity", "^"),
            ):
                axis.plot(
                    x, part.profile[row], marker, ms=3, color=CONCEPT_COLOURS[concept], label=name
                )
            axis.plot(
                fine, form.C[row] * fine, color=CONCEPT_COLOURS["absolute"], lw=1, label="C |cos u|"
            )
            # cos 2u = 2 cos² u - 1.
            axis.plot(
                fine,
                form.D[row] * (2 * fine**2 - 1),
                color=CONCEPT_COLOURS["identity"],
                lw=1,
                label="D cos 2u",
            )
            axis.set_title(f"k = {k}", loc="left")
            axis.set(xlim=(-0.03, 1.03))
        drawn.label_outside("|cos u|", "strength of the answer")
        drawn.legend(columns=5)
        return drawn.figure
