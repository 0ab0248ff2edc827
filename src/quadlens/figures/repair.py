"""What the secondary frequency repairs: strength of the answer against |cos u| (beyond the paper)."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.explanation import LogitExplanation
from quadlens.figures.picture import Picture
from quadlens.figures.style import CONCEPT_COLOURS, style
from quadlens.logits import cos_u
from quadlens.studies import MAX_FREQUENCIES, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "secondary-repair"


def draw(logits: LogitExplanation, keys: tuple[int, ...]) -> "Figure":
    """Coefficient of cos(kw(a+b-c)) for every a - b, split into the parts of the activation; lines the closed form."""
    with style():
        from matplotlib.figure import Figure

        columns = min(3, len(keys))
        rows = -(-len(keys) // columns)
        figure = Figure(figsize=(2.6 * columns + 0.8, 2.5 * rows + 0.5))
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
        for axis in axes[len(keys) :]:
            axis.set_visible(False)
        parts, form = logits.parts, logits.forms.by_parts
        fine = np.linspace(0, 1, 101)
        for index, (axis, k) in enumerate(zip(axes, keys, strict=False)):
            row = parts.keys.index(k)
            x = cos_u(parts.p, (k,))[0]
            series = (
                ("all logits", parts.all_logits, "truth", "o"),
                ("absolute part", parts.abs_component, "absolute", "s"),
                ("identity part", parts.identity_component, "identity", "^"),
            )
            for name, part, concept, marker in series:
                axis.plot(x, part.profile[row], marker, ms=3, color=CONCEPT_COLOURS[concept], label=name)
            axis.plot(fine, form.C[row] * fine, color=CONCEPT_COLOURS["absolute"], lw=1, label="C |cos u|")
            # cos 2u = 2 cos² u - 1.
            axis.plot(fine, form.D[row] * (2 * fine**2 - 1), color=CONCEPT_COLOURS["identity"], lw=1, label="D cos 2u")
            axis.set_title(f"k = {k}", loc="left")
            axis.set(xlim=(-0.03, 1.03))
            if index % columns == 0:
                axis.set_ylabel("strength of the answer")
            if index >= len(keys) - columns:
                axis.set_xlabel("|cos u|")
                axis.tick_params(labelbottom=True)
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=5, fontsize=8)
        return figure


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, where there are key frequencies."""
    logits = results.explanation.logits
    if logits is None or not results.keys:
        return ()
    keys = results.keys[:MAX_FREQUENCIES]
    spots = [spot for spot in logits.weak_spots if spot.k in keys]
    parts = [
        f"k = {spot.k}: {spot.abs_component:.1f} from the absolute part, {spot.identity_component:+.1f} from the "
        "identity part"
        for spot in spots
    ]
    finding = "Where |cos u| is nearly 0, the strength of the right answer is made of: " + "; ".join(parts) + "."
    how = (
        "A dot a distance a - b; up, the coefficient of cos(kw(a+b-c)) in the logits, which is what makes the right "
        "answer win. The absolute part alone would fall towards 0 on the left, where the two tokens nearly cancel; "
        "the identity part, carried by the secondary frequency, is largest exactly there."
    )
    title = "What the secondary frequencies repair"
    return (Picture(NAME, None, title, finding, how, "data/explanation.json", lambda: draw(logits, keys)),)
