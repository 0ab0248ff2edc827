"""What documents say of the population trained again, from `data/0_*.parquet`.

    python experiments/appendix.py [--write docs/appendix.md docs/lens.md docs/certificates.md]
    [--pictures DIR]

With --write, tables and sentences replace those between `<!-- table: NAME -->` and `<!-- end of
table -->`.
"""

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from beyond_the_paper import failing
from data import measured_models
from quadlens.base.numbers import at_least, at_most, decimals
from quadlens.base.table import Table
from quadlens.proofs.pairs.thin_cost import saved_by_words
from quadlens.show.figures.canvas import canvas
from quadlens.show.figures.style import write_figures
from quadlens.training.population.dataset import lens_values

BLOCK = re.compile(r"<!-- table: (\S+) -->\n.*?<!-- end of table -->", re.DOTALL)
QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)
POPULATION = 151
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
            [
                first["name"],
                f"{numbers[(len(numbers) - 1) // 2]:,}",
                f"{right} of {len(rungs)}",
                *margins,
                *r2,
            ]
        )
    header = (
        "ingredients",
        "numbers, median",
        "all inputs right",
        "margin, 10 %",
        "median",
        "90 %",
    )
    return Table("Ladder", (*header, "R², least", "10 %", "median"), lines)


def bound_table(models: list[dict[str, Any]]) -> Table:
    """Tabulate by complexity what is proved, bounds on the difference, and operations."""
    lines = []
    for at, first in enumerate(models[0]["appendix"]["bounds"]):
        rows = [model["appendix"]["bounds"][at] for model in models]
        inputs = models[0]["p"] ** 2
        proved = sum(row["proved"] == inputs for row in rows)
        some = sum(0 < row["proved"] < inputs for row in rows)
        cost = sorted(
            row["operations"] / model["planes"]["weights"]
            for row, model in zip(rows, models, strict=True)
        )
        middle = f"{cost[(len(cost) - 1) // 2]:,.0f}"
        lines.append(
            [
                first["name"],
                middle,
                *spread([row["together"] for row in rows], up=True),
                f"{proved}",
                f"{some}",
            ]
        )
    thin = [thin_of(model) for model in models]
    per_weight = sorted(
        one["flops"] / model["planes"]["weights"] for one, model in zip(thin, models, strict=True)
    )
    whole = sum(one["verdict"] == "CERTIFIED" for one in thin)
    words = f"`thin`: {at_least(per_weight[0], 1)} to {at_most(per_weight[-1], 1)}"
    lines.append(
        [
            words,
            at_most(per_weight[(len(thin) - 1) // 2], 1),
            *["–"] * 5,
            str(whole),
            str(len(thin) - whole),
        ]
    )
    header = ("row", "operations per weight, median", *WIDE, "all inputs proved", "some")
    return Table("Bounds", header, lines)


def draw(models: list[dict[str, Any]]) -> Figure:
    """Draw each model's bound on the whole difference, over its margin, against operations."""
    rng = np.random.default_rng(0)
    with canvas(None, (8.0, 4.2)) as drawn:
        panel = drawn.axes[0]
        names = [row["name"] for row in models[0]["appendix"]["bounds"]]
        for at in range(len(names)):
            rows = [model["appendix"]["bounds"][at] for model in models]
            margins = [network(model)["margin"] for model in models]
            pairs = [
                (row["together"] / m, row["proved"] == 3481)
                for row, m in zip(rows, margins, strict=True)
                if m > 0
            ]
            for whole, colour, words in (
                (False, "0.6", "not all proved"),
                (True, "C2", "every input proved"),
            ):
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
    return rung_of(model, "as a network, with planes")


def rung_of(model: dict[str, Any], name: str, after: str = "") -> dict[str, Any]:
    """A rung by its name; of several with one name the first after the rung `after`."""
    rungs = model["appendix"]["ladder"]
    first = [rung["name"] for rung in rungs].index(after) if after else 0
    return next(rung for rung in rungs[first:] if rung["name"] == name)


def right(rung: dict[str, Any]) -> bool:
    """Whether every input is answered right."""
    return bool(rung["right"] == rung["inputs"])


def thin_of(model: dict[str, Any]) -> dict[str, Any]:
    """Return what was measured of `thin`, with every sign counted.

    The data have 64 signs as one operation.
    """
    found = model["proofs"]["thin"]
    more = saved_by_words(model["p"], model["d_mlp"])
    whole = found["brute_force_flops"] + found["brute_force_collapse_flops"]
    flops = found["flops"] + more
    return {**found, "flops": flops, "cost_share": flops / whole}


def of(count: int, whole: int) -> str:
    """So many of so many, in words."""
    return f"all {whole}" if count == whole else f"{count} of {whole}"


def seeds(numbers: list[int]) -> str:
    """Seeds in words, at most eight of them."""
    shown = ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")
    return f"seed{'s' if len(numbers) != 1 else ''} {shown}"


def which(models: list[dict[str, Any]]) -> str:
    """Which models a page is about."""
    if len(models) == POPULATION:
        return (
            f"All {POPULATION} models of the [population](population.md) were trained again, "
            "because their weights were not kept"
        )
    return (
        f"The {POPULATION} models of the [population](population.md) are being trained again, "
        f"because their weights were not kept; {len(models)} are measured"
    )


def appendix_words(models: list[dict[str, Any]]) -> str:
    """What follows from the tables."""
    n, inputs = len(models), models[0]["p"] ** 2
    twelve = sum(right(rung_of(model, "+ double wave")) for model in models)
    without = [model["seed"] for model in models if not right(network(model))]
    rows = {
        row["name"]: [one["appendix"]["bounds"][at] for one in models]
        for at, row in enumerate(models[0]["appendix"]["bounds"])
    }
    linear = sum(
        row["proved"] > 0
        for name in ("norms", "operator norms", "planes", "multiplied")
        for row in rows[name]
    )
    before = sum(row["proved"] == inputs for name in ("tables", "inputs") for row in rows[name])
    whole = [row["proved"] == inputs for row in rows["coordinates"]]

    def medians(proved: bool) -> str:
        some = [at for at, one in enumerate(whole) if one == proved]
        if not some:
            return "none"
        by = float(np.median([rows["exact"][at]["together"] for at in some]))
        margin = float(np.median([network(models[at])["margin"] for at in some]))
        return f"by {at_most(by, 1)} logits, margin {at_least(margin, 1)}"

    thin = [thin_of(model) for model in models]
    proved = sum(one["verdict"] == "CERTIFIED" for one in thin)
    in_float32 = sum(bool(one["float32_certified"]) for one in thin)
    weights = models[0]["planes"]["weights"]
    middle = sorted(one["flops"] for one in thin)[(n - 1) // 2] / weights
    least = min(one["margin_lower_bound"] for one in thin if one["margin_lower_bound"] is not None)
    nothing = (
        "No linear row proves an input of any model"
        if not linear
        else f"Linear rows prove some input {linear} times"
    )
    nor = (
        "and no row without coordinates all inputs of one"
        if not before
        else f"rows without coordinates all {before} times"
    )
    failed = f". The file with planes fails on {len(without)} ({seeds(without)})" if without else ""
    return "\n".join(
        [
            "- The integrals alone (four numbers a key) answer every input of "
            f"{of(twelve, n)}. Random numbers do so "
            "too ([control](lens.md#what-answers_right-shows)), so this says little about the "
            "mechanism"
            f"{failed}.",
            f"- {nothing}, {nor}; with coordinates all inputs of {of(sum(whole), n)} are proved. "
            "What networks differ by from their few numbers, and the few numbers' margin, medians: "
            f"where all inputs are proved {medians(True)}; where not, {medians(False)}.",
            "- `thin`, which keeps the network's own directions in place of planes fitted to "
            f"waves, proves all inputs of {of(proved, n)}, in {at_most(middle, 1)} operations per "
            "weight in the median. Its first attempt that proves every input is the one that is "
            f"kept, so that little margin may be left: {at_least(least, 2)} at least; in "
            f"{in_float32} of the {n} it is enough for float32 execution too.",
        ]
    )


def thin_words(models: list[dict[str, Any]]) -> str:
    """What `thin` takes of brute force, everything included."""
    thin = [thin_of(model) for model in models]
    proved = sum(one["verdict"] == "CERTIFIED" for one in thin)
    shares = sorted(100 * one["cost_share"] for one in thin)
    dear = sum(one["flops"] > one["brute_force_collapse_flops"] for one in thin)
    margins = [
        (one["margin_lower_bound"], model["seed"])
        for one, model in zip(thin, models, strict=True)
        if one["margin_lower_bound"]
    ]
    return (
        f"{which(models)}. `thin` proves all inputs of {of(proved, len(models))}, "
        f"for {at_least(shares[0], 1)} – {at_most(shares[-1], 1)} % of brute force, "
        f"{at_most(shares[(len(shares) - 1) // 2], 1)} % in the median (more key frequencies need "
        f"more directions; {dear or 'none'} cost more than the collapse alone), "
        f"with margins from {at_least(min(margins)[0], 2)} (seed {min(margins)[1]}) "
        f"to {at_least(max(margins)[0], 2)} (seed {max(margins)[1]})."
    )


def thin_table(models: list[dict[str, Any]]) -> Table:
    """The first eight seeds."""
    lines = []
    for model in sorted(models, key=lambda one: one["seed"])[:8]:
        one = thin_of(model)
        terms = ", ".join(
            at_most(one["terms"][name], 2) for name in ("output residual", "input residual")
        )
        share, margin = at_most(100 * one["cost_share"], 1), one["margin_lower_bound"]
        per = at_most(one["flops"] / model["planes"]["weights"], 1)
        lines.append(
            [
                str(model["seed"]),
                f"{share} %",
                per,
                "–" if margin is None else at_least(margin, 2),
                terms,
            ]
        )
    header = (
        "seed",
        "`thin`: operations, all included",
        "per weight",
        "margin proved",
        "output residual, input residual",
    )
    return Table("Thin", header, lines)


def lens_words(models: list[dict[str, Any]]) -> str:
    """How many integrate, with and without a chain, and which do not."""
    rows = [{"seed": model["seed"], **lens_values(model["lens"], "")} for model in models]
    chained, others = (
        [row for row in rows if bool(row["lens_chains"]) == chain] for chain in (True, False)
    )
    counts = [sum(row["lens_integrates"] for row in some) for some in (rows, others, chained)]
    text = (
        f"Over the population: {which(models).replace('All', 'all', 1).replace('The', 'the', 1)} "
        "(the same seeds; not the same bits on another machine). "
        f"Of the {len(rows)}, `quadlens population` says, {counts[0]} integrate by the rule, "
        f"{counts[1]} of {len(others)} without a chain and {counts[2]} of {len(chained)} with one."
    )
    for row in rows:
        if not row["lens_integrates"]:
            chains = "; ".join(", ".join(map(str, chain)) for chain in row["lens_chains"])
            values = ", ".join(
                f"`{name}` {decimals(row[f'lens_{name}'], 3)}" for name in failing(row)
            )
            chain = f"with the chain {chains}" if chains else "without a chain"
            text += f" Seed {row['seed']}, {chain}, fails in {values}."
    apart = [row["lens_joint"] - row["lens_shared"] for row in chained if row["lens_integrates"]]
    if apart:
        low, high = -min(apart), max(apart)
        text += (
            f" In the {len(apart)} with a chain that do, `joint` is at most "
            f"{at_most(max(low, 0.0), 3)} below `shared` ({sum(x < 0 for x in apart)} times) "
            f"and at most {at_most(max(high, 0.0), 3)} above it."
        )
    return text


def main() -> None:
    """Models whose appendix was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, nargs="*", default=[])
    parser.add_argument("--pictures", type=Path, default=None)
    options = parser.parse_args()
    models = [one.values for one in measured_models(0)]
    models = [
        model
        for model in models
        if "bounds" in (model.get("appendix") or {}) and "flops" in model["proofs"]["thin"]
    ]
    tables = {
        "population-ladder": ladder_table(models),
        "population-bounds": bound_table(models),
        "population-thin-seeds": thin_table(models),
    }
    words = {name: table.to_markdown() for name, table in tables.items()}
    words["population-which"] = which(models) + (
        " (`experiments/data/0_*.parquet` has each with everything that needs its weights). "
        "Quantiles are models; margins and R² are rounded down, bounds up."
    )
    words |= {"population-words": appendix_words(models), "population-thin": thin_words(models)}
    words["population-lens"] = lens_words([one.values for one in measured_models(0)])
    print(f"{len(models)} models")
    if options.pictures is not None:
        write_figures([("appendix-population", draw(models))], options.pictures, ("svg",))
    if not options.write:
        print("\n\n".join(words.values()))
    for page in options.write:
        put = BLOCK.sub(
            lambda old: (
                f"<!-- table: {old[1]} -->\n\n{words[old[1]]}\n\n<!-- end of table -->"
                if old[1] in words
                else old[0]
            ),
            page.read_text(encoding="utf-8"),
        )
        page.write_text(put, encoding="utf-8")


if __name__ == "__main__":
    main()
