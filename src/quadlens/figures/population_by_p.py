"""How the number of frequencies, the exact error and the cost of a proof depend on the modulus, model by model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quadlens.figures.frontier import EXACT_STRATEGIES, STRATEGY_MARKERS
from quadlens.figures.style import CONCEPT_COLOURS, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "population-by-p"
# Brute force itself is 1 everywhere, and arcs-bounded is close to arcs.
COSTS = ("arcs", "moments", "lipschitz")
# Models of one modulus stand side by side: as a share of p, so that they do on a logarithmic axis.
SPREAD = 0.03


def draw(rows: Sequence[dict[str, Any]]) -> "Figure":
    """Three panels over p; dots are models without, rings models with an '=' token.

    Args:
        rows: As `population.tables.by_model` gives them.
    """
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.2, 3.4))
        frequencies, errors, costs = figure.subplots(1, 3)
        _models(frequencies, rows, [float(len(row["key_frequencies"])) for row in rows])
        frequencies.set(ylabel="key frequencies of a model", ylim=(0, None))
        frequencies.locator_params(axis="y", integer=True)
        _models(errors, rows, [row["largest_relative_exact_error"] for row in rows])
        errors.set(ylabel="largest exact error / baseline", yscale="log")
        for strategy in COSTS:
            mine = [row for row in rows if f"cost_{strategy}" in row]
            exact = strategy in EXACT_STRATEGIES
            costs.plot(
                [row["p"] for row in mine],
                [row[f"cost_{strategy}"] for row in mine],
                STRATEGY_MARKERS[strategy],
                mfc="none",
                color=CONCEPT_COLOURS["exact" if exact else "bound"],
                label=strategy,
            )
        costs.set(ylabel="operations / brute force", yscale="log")
        costs.legend(fontsize=8)
        moduli = sorted({row["p"] for row in rows})
        for axis in (frequencies, errors, costs):
            axis.set(xscale="log", xlabel="modulus p", xlim=(moduli[0] / 1.25, moduli[-1] * 1.25))
            axis.set_xticks(moduli, [str(p) for p in moduli])
            axis.set_xticks([], minor=True)
        return figure


def _models(axis: "Axes", rows: Sequence[dict[str, Any]], values: Sequence[float | None]) -> None:
    for equals, face, label in ((False, CONCEPT_COLOURS["ours"], "no '='"), (True, "none", "with '='")):
        chosen = [(row, y) for row, y in zip(rows, values, strict=True) if row["equals"] == equals and y is not None]
        seen: dict[int, int] = {}
        x = []
        for row, _ in chosen:
            place = seen[row["p"]] = seen.get(row["p"], 0) + 1
            x.append(row["p"] * (1 + SPREAD * (place - 1) * (-1 if equals else 1) + (-SPREAD if equals else SPREAD)))
        axis.plot(x, [y for _, y in chosen], "o", ms=5, mfc=face, mec=CONCEPT_COLOURS["ours"], label=label)
    axis.legend(fontsize=8)
