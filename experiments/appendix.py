"""The paper's last appendix over the population: tables and figure of docs/appendix.md, from `data/0_*.parquet`.

python experiments/appendix.py [--write docs/appendix.md] [--pictures docs/pictures]
"""

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np
from data import measured_models
from matplotlib.figure import Figure

from quadlens.figures.canvas import canvas
from quadlens.figures.style import write_figures
from quadlens.numbers import at_least, at_most, decimals
from quadlens.table import Table

BLOCK = re.compile(r"<!-- table: (\S+) -->\n.*?<!-- end of table -->", re.DOTALL)
QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)
WIDE = ("least", "10 %", "median", "90 %", "most")


def spread(values: list[float], up: bool, digits: int = 2) -> list[str]:
    """Quantiles, each one of the values, rounded to the safe side."""
    ordered = sorted(values)
    found = [ordered[round(q * (len(ordered) - 1))] for q in QUANTILES]
    return [(at_most if up else at_least)(value, digits) for value in found]


def ladder_table(models: list[dict[str, Any]]) -> Table:
    """Every ingredient: models that answer all inputs, margins, R²."""
    lines = []
    for at, first in enumerate(models[0]["appendix"]["ladder"]):
        rungs = [model["appendix"]["ladder"][at] for model in models]
        right = sum(rung["right"] == rung["inputs"] for rung in rungs)
        margins = spread([rung["margin"] for rung in rungs], up=False)[1:4]
        r2 = spread([rung["r2"] for rung in rungs], up=False, digits=3)[:3]
        numbers = sorted(rung["numbers"] for rung in rungs)
        lines.append(
            [first["name"], f"{numbers[(len(numbers) - 1) // 2]:,}", f"{right} of {len(rungs)}", *margins, *r2]
        )
    header = ("ingredients", "numbers, median", "all inputs right", "margin, 10 %", "median", "90 %")
    return Table("Ladder", (*header, "R², least", "10 %", "median"), lines)


def bound_table(models: list[dict[str, Any]]) -> Table:
    """Every complexity: models of which all inputs are proved, bounds on the whole difference, operations."""
    lines = []
    for at, first in enumerate(models[0]["appendix"]["bounds"]):
        rows = [model["appendix"]["bounds"][at] for model in models]
        inputs = models[0]["p"] ** 2
        proved = sum(row["proved"] == inputs for row in rows)
        some = sum(0 < row["proved"] < inputs for row in rows)
        cost = sorted(row["operations"] / model["planes"]["weights"] for row, model in zip(rows, models, strict=True))
        middle = f"{cost[(len(cost) - 1) // 2]:,.0f}"
        lines.append(
            [first["name"], middle, *spread([row["together"] for row in rows], up=True), f"{proved}", f"{some}"]
        )
    thin = [model["proofs"]["thin"] for model in models]
    per_weight = sorted(one["flops"] / model["planes"]["weights"] for one, model in zip(thin, models, strict=True))
    whole = sum(one["verdict"] == "CERTIFIED" for one in thin)
    words = f"`thin`: {at_least(per_weight[0], 1)} to {at_most(per_weight[-1], 1)}"
    lines.append([words, at_most(per_weight[(len(thin) - 1) // 2], 1), *["–"] * 5, str(whole), str(len(thin) - whole)])
    header = ("row", "operations per weight, median", *WIDE, "all inputs proved", "some")
    return Table("Bounds", header, lines)


def draw(models: list[dict[str, Any]]) -> Figure:
    """Each model's bound on the whole difference, over its parameterised margin, against operations."""
    rng = np.random.default_rng(0)
    with canvas(None, (8.0, 4.2)) as drawn:
        panel = drawn.axes[0]
        names = [row["name"] for row in models[0]["appendix"]["bounds"]]
        for at, name in enumerate(names):
            rows = [model["appendix"]["bounds"][at] for model in models]
            margins = [network(model)["margin"] for model in models]
            pairs = [
                (row["together"] / m, row["proved"] == 3481) for row, m in zip(rows, margins, strict=True) if m > 0
            ]
            for whole, colour, words in ((False, "0.6", "not all proved"), (True, "C2", "every input proved")):
                sizes = [size for size, proved in pairs if proved == whole]
                places = at + rng.uniform(-0.25, 0.25, len(sizes))
                panel.plot(places, sizes, ".", color=colour, ms=5, label=words if at == 0 else None)
        panel.axhline(1, color="0.2", lw=1, ls=":", label="the margin")
        panel.set_xticks(range(len(names)), names, rotation=20, fontsize=8)
        panel.set(yscale="log", ylabel="bound / margin of the few numbers")
        drawn.legend(3)
    return drawn.figure


def network(model: dict[str, Any]) -> dict[str, Any]:
    """The rung that is a network with planes."""
    return next(rung for rung in model["appendix"]["ladder"] if rung["name"].startswith("as a network"))


def main() -> None:
    """Models whose appendix was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, default=None)
    parser.add_argument("--pictures", type=Path, default=None)
    options = parser.parse_args()
    models = [one.values for one in measured_models(0)]
    models = [
        model for model in models if "bounds" in (model.get("appendix") or {}) and "flops" in model["proofs"]["thin"]
    ]
    tables = {"population-ladder": ladder_table(models), "population-bounds": bound_table(models)}
    words = {name: table.to_markdown() for name, table in tables.items()}
    shown = decimals(float(np.median([network(model)["margin"] for model in models])), 2)
    print(f"{len(models)} models, seeds {sorted(model['seed'] for model in models)}; median margin {shown}")
    if options.pictures is not None:
        write_figures([("appendix-population", draw(models))], options.pictures, ("svg",))
    if options.write is None:
        print("\n\n".join(words.values()))
        return
    text = options.write.read_text(encoding="utf-8")
    put = BLOCK.sub(
        lambda old: (
            f"<!-- table: {old[1]} -->\n\n{words[old[1]]}\n\n<!-- end of table -->" if old[1] in words else old[0]
        ),
        text,
    )
    options.write.write_text(put, encoding="utf-8")


if __name__ == "__main__":
    main()
