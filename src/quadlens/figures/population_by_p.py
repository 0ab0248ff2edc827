"""How the number of frequencies, the exact error and the cost of a proof depend on the modulus, model by model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quadlens.figures.style import CONCEPT_COLOURS, style
from quadlens.proofs.produce import STRATEGIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "population-by-p"
# Brute force itself is 1 everywhere.
COSTS = ("arcs", "moments", "lipschitz")
# Moduli stand at equal distances, 1; models of one modulus side by side, this far apart.
SPREAD = 0.1


def draw(rows: Sequence[dict[str, Any]]) -> "Figure":
    """Three panels over p; dots are models without, rings models with an '=' token.

    Args:
        rows: As `population.tables.by_model` gives them.
    """
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.2, 3.4))
        frequencies, errors, costs = figure.subplots(1, 3)
        moduli = sorted({row["p"] for row in rows})
        _models(frequencies, rows, [float(len(row["key_frequencies"])) for row in rows])
        frequencies.set(ylabel="key frequencies of a model", ylim=(0, None))
        frequencies.locator_params(axis="y", integer=True)
        _models(errors, rows, [row["largest_relative_exact_error"] for row in rows])
        errors.set(ylabel="largest exact error / baseline", yscale="log")
        for strategy in COSTS:
            mine = [row for row in rows if f"cost_{strategy}" in row]
            mark = STRATEGIES[strategy].facts.mark
            costs.plot(
                [moduli.index(row["p"]) for row in mine],
                [row[f"cost_{strategy}"] for row in mine],
                mark.shape,
                mfc="none",
                color=CONCEPT_COLOURS[mark.concept],
                label=strategy,
            )
        costs.set(ylabel="operations / brute force", yscale="log")
        costs.legend(fontsize=8)
        for axis in (frequencies, errors, costs):
            axis.set(xlabel="modulus p", xlim=(-0.6, len(moduli) - 0.4))
            axis.set_xticks(range(len(moduli)), [str(p) for p in moduli])
        return figure


def _models(axis: "Axes", rows: Sequence[dict[str, Any]], values: Sequence[float | None]) -> None:
    moduli = sorted({row["p"] for row in rows})
    for equals, face, label in ((False, CONCEPT_COLOURS["ours"], "no '='"), (True, "none", "with '='")):
        chosen = [(row, y) for row, y in zip(rows, values, strict=True) if row["equals"] == equals and y is not None]
        seen: dict[int, int] = {}
        x = []
        for row, _ in chosen:
            place = seen[row["p"]] = seen.get(row["p"], 0) + 1
            x.append(moduli.index(row["p"]) + (-SPREAD if equals else SPREAD) * (place - 0.5))
        axis.plot(x, [y for _, y in chosen], "o", ms=5, mfc=face, mec=CONCEPT_COLOURS["ours"], label=label)
    axis.legend(fontsize=8)
