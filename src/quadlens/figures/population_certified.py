"""What each strategy proves of each model, and at what cost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quadlens.figures.style import FREQUENCY_COLOURS, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "population-certified"


def draw(rows: Sequence[dict[str, Any]]) -> "Figure":
    """Cost over brute force against the share of inputs proved, one point a model and strategy.

    Args:
        rows: As `population.tables.by_model` gives them.
    """
    with style():
        from matplotlib.figure import Figure

        figure = Figure()
        axis = figure.subplots()
        strategies = dict.fromkeys(
            name.removeprefix("cost_") for row in rows for name in row if name.startswith("cost_")
        )
        for colour, strategy in zip(FREQUENCY_COLOURS, strategies, strict=False):
            mine = [row for row in rows if f"cost_{strategy}" in row]
            good = [row["good_model"] for row in mine]
            for is_good, marker in ((True, "o"), (False, "x")):
                points = [row for row, flag in zip(mine, good, strict=True) if flag == is_good]
                label = f"{strategy}, {'good' if is_good else 'other'} models: {len(points)}"
                x = [row[f"cost_{strategy}"] for row in points]
                y = [100 * row[f"certified_{strategy}"] for row in points]
                axis.plot(x, y, marker, color=colour, label=label, ms=6)
        axis.set(xscale="log", xlabel="operations over brute force", ylabel="inputs proved, %", ylim=(-5, 105))
        axis.set_title(f"What is proved of {len(rows)} models")
        axis.legend(fontsize=8)
        return figure
