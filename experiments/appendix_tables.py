#!/usr/bin/env python3
"""The tables and figures of docs/appendix.md: networks of few numbers, and what they leave out.

    python experiments/appendix_tables.py [DIR …] [--only NAME …] [--write docs/appendix.md]
    [--pictures docs/pictures]

The bundled models and every checkpoint below each DIR whose attention is constant, one layer. With
--write the tables replace those between `<!-- table: NAME -->` and `<!-- end of table -->`.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ladder import Rung, ladder
from noise_bounds import LINEAR, SLOPES, bounds, linear_rows
from noise_bounds import Row as BoundRow
from noise_terms import Expansion, expand
from quadlens.analysis.parameterisation import parameterise
from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.base.errors import QuadlensError
from quadlens.base.numbers import at_least, at_most, significant
from quadlens.base.table import Table
from quadlens.network.bundled import bundled_on_pairs, load
from quadlens.network.handmade import Recipe, build_transformer
from quadlens.network.weights import Weights
from quadlens.proofs.pairs.thin import Thin, ThinHints
from quadlens.proofs.pairs.thin_cost import saved_by_words, thin_items
from quadlens.readers import import_file
from quadlens.readers.registry import checkpoints_in
from quadlens.show.figures.canvas import canvas
from quadlens.show.figures.style import write_figures

BLOCK = re.compile(r"<!-- table: (\S+) -->\n.*?<!-- end of table -->", re.DOTALL)
SHOWN = 12
# Terms whose bounds are shown.
BOUNDED = 4
# Sizes of hand-built networks (p and neurons) on which noise is turned up.
DIAL = ((13, 512), (29, 512), (59, 128), (59, 512), (59, 2048), (113, 512))
DIAL_KEYS = (2, 3, 5)
# The model whose proof by `thin` is itemised.
MODEL = "pizza"


@dataclass(frozen=True)
class Row:
    """One model: its ladder, its parameterised network, and the terms of what that leaves out."""

    name: str
    rungs: tuple[Rung, ...]
    expansion: Expansion
    bounds: tuple[BoundRow, ...]
    weights: int

    @property
    def network(self) -> Rung:
        """The rung that `quadlens build --from` writes."""
        return next(rung for rung in self.rungs if rung.name.startswith("as a network"))


def row_of(name: str, network: Weights) -> Row:
    """Everything about one model."""
    anatomy = Anatomy(network)
    small = parameterise(anatomy)
    proved = bounds(network, small.model) if network.config.activation in SLOPES else ()
    rungs = tuple(ladder(anatomy, small))
    return Row(
        name,
        rungs,
        expand(network, small.model),
        proved,
        sum(x.size for x in network.tensors.values()),
    )


def steps(rows: Sequence[Row]) -> Table:
    """The ladder of every model; how many numbers, of the first."""
    header = ("ingredients", f"numbers ({rows[0].name})", *(row.name for row in rows))
    names = [(one.name, f"{one.numbers:,}") for one in rows[0].rungs]
    lines = [[*name, *(row.rungs[i].cell for row in rows)] for i, name in enumerate(names)]
    return Table("The ladder", header, lines)


def largest(rows: Sequence[Row]) -> Table:
    """The terms of the first model with the largest worst cases, and all others together."""
    terms = rows[0].expansion.terms
    lines = [
        [
            " · ".join(one.noise),
            one.part,
            at_most(one.worst, 2),
            ", ".join(map(str, one.at)),
            f"{100 * one.share:.1f} %",
        ]
        for one in terms[:SHOWN]
    ]
    rest = terms[SHOWN:]
    worst, share = sum(one.worst for one in rest), 100 * sum(one.share for one in rest)
    lines.append(
        [f"{len(rest)} others", "all", f"{at_most(worst, 2)} (added up)", "–", f"{share:.1f} %"]
    )
    return Table("Largest terms", ("noise in", "part", "worst case", "at a, b, c", "share"), lines)


def orders(rows: Sequence[Row]) -> Table:
    """Tabulate worst cases by how many matrices are noise, beside the difference's own."""
    lines = []
    for row in rows:
        sums = [0.0, 0.0, 0.0]
        for one in row.expansion.terms:
            sums[min(len(one.noise), 3) - 1] += one.worst
        cells = (*sums, sum(sums), row.expansion.worst)
        margin = at_least(row.network.margin, 2)
        lines.append(
            [
                row.name,
                *(at_most(x, 2) for x in cells),
                margin,
                "yes" if sum(sums) < row.network.margin else "no",
            ]
        )
    header = (
        "model",
        "one noise",
        "two",
        "three and more",
        "all terms, added up",
        "the difference itself",
    )
    return Table("By order", (*header, "margin of the few numbers", "below it"), lines)


def complexities(rows: Sequence[Row]) -> Table:
    """Every complexity, of the first model."""
    first = rows[0]
    names = [" · ".join(term.noise) + f", {term.part}" for term in first.expansion.terms[:BOUNDED]]
    lines = []
    for row in first.bounds:
        each = [
            at_most(row.terms[term.part, term.noise], 2) for term in first.expansion.terms[:BOUNDED]
        ]
        cost = (f"{row.operations / first.weights:,.0f}", f"{row.seconds[1]:.3f}")
        lines.append(
            [
                row.name,
                *cost,
                *each,
                at_most(row.added, 2),
                at_most(row.together, 2),
                f"{row.proved:,}",
            ]
        )
    header = (
        "row",
        "operations per weight",
        "seconds",
        *names,
        "all terms, added up",
        "together",
        "inputs proved",
    )
    return Table("Complexities", header, lines)


def together(rows: Sequence[Row]) -> Table:
    """The bound on the whole difference, and inputs proved, of every model."""
    rows = [row for row in rows if row.bounds]
    names = [row.name for row in rows[0].bounds]
    lines = [
        [
            row.name,
            at_least(row.network.margin, 2),
            *(f"{at_most(one.together, 2)}; {one.proved:,}" for one in row.bounds),
        ]
        for row in rows
    ]
    return Table("Together", ("model", "margin of the few numbers", *names), lines)


def dial(_: Sequence[Row]) -> Table:
    """Find by halving the largest noise (`build --noise`) at which each row proves every input."""
    lines = []
    for p, neurons in DIAL:
        perfect, found = build_transformer(Recipe(p, DIAL_KEYS, neurons)), []
        # Twice the noise is nearly twice the bound: from the bound at a small noise to the one
        # where a row fails.
        for at in range(len(LINEAR)):
            low, high = 0.0, 0.1
            while high > 1.05 * low:
                middle = (low * high) ** 0.5 if low else high / 10
                noisy = build_transformer(Recipe(p, DIAL_KEYS, neurons, noise=middle))
                if linear_rows(noisy, perfect)[at].proved == p * p:
                    low = middle
                else:
                    high = middle
            found.append(significant(low, "down", 2))
        weights = sum(x.size for x in perfect.tensors.values())
        lines.append([f"{p}", f"{neurons:,}", f"{weights:,}", *found])
    return Table("Dial", ("p", "neurons", "weights", *(name for name, _ in LINEAR)), lines)


def thin_table(_: Sequence[Row]) -> Table:
    """What a proof by `thin` takes, item by item."""
    model = load(MODEL)
    proof = Thin().prove(model)
    if not isinstance(proof.hints, ThinHints):
        raise TypeError("thin has its own hints")
    found, weights = proof.hints.counted, sum(x.size for x in model.tensors.values())
    per = weights / (2 * model.config.d_model * model.config.d_mlp)
    why = {
        "attention from the directions": f"{found.r} columns through W_O and W_V, then the tokens",
        "what attention leaves out": (
            f"{found.q} rows through W_V and W_O: the tokens' plane; norms"
        ),
        "skip terms": "along the directions that W_out writes to",
        "W_in along directions": (
            f"{found.r} directions, {at_most(1 / per, 2)} each; norms, and the constant row"
        ),
        "inputs of neurons": (
            f"{2 * model.config.p} tokens, {found.added} directions, {model.config.d_mlp} neurons"
        ),
        "W_out, W_U along directions": (
            f"{found.r_out} directions, {at_most(1 / per, 2)} each; norms"
        ),
        "signs": (
            "each neuron's tokens sorted from its neighbour's order (counted); "
            "sets of tokens, each sign counted"
        ),
        "sums over neurons": (
            f"running sums for each token, {found.r_out} coordinates; "
            "arc ends, mispredicted neurons"
        ),
        "scores and margins": (
            "once for each a - b; "
            f"{at_most(100 * found.answers / model.config.p**3, 1)} % of all answers one by one"
        ),
    }
    lines = [
        [name, at_most(count / weights, 1), why[name]]
        for name, count in thin_items(model.config, found).items()
    ]
    lines.append(
        [
            "all",
            at_most(proof.operations / weights, 1),
            f"margin proved {at_least(proof.margin or 0, 2)}",
        ]
    )
    words = proof.operations - saved_by_words(model.config.p, model.config.d_mlp)
    lines.append(
        ["with 64 signs as one operation", at_most(words / weights, 1), "as certificates count"]
    )
    return Table("Thin", ("item of `thin`", "operations per weight", "why"), lines)


TABLES = {
    "ladder": steps,
    "terms": largest,
    "orders": orders,
    "complexities": complexities,
    "together": together,
    "dial": dial,
    "thin": thin_table,
}
# Tables that are about other models than those of the ladder.
APART = ("dial", "thin")


def draw_bounds(rows: Sequence[Row]) -> Figure:
    """The first model's bounds against operations, terms among them, and against seconds."""
    first = rows[0]
    costs = {
        "operations per weight": [one.operations / first.weights for one in first.bounds],
        "seconds (float64, one thread)": [one.seconds[1] for one in first.bounds],
    }
    totals = [one.together for one in first.bounds]
    proved = [at for at, one in enumerate(first.bounds) if one.proved == first.network.inputs]
    with canvas(None, (10.0, 4.6), 2) as drawn:
        for panel, (words, cost) in zip(drawn.axes, costs.items(), strict=True):
            line = "-" if panel is drawn.axes[0] else ""
            for term in first.expansion.terms[:BOUNDED] if line else ():
                sizes = [one.terms[term.part, term.noise] for one in first.bounds]
                panel.plot(cost, sizes, "-", lw=1, label=f"{' · '.join(term.noise)}, {term.part}")
            if line:
                panel.plot(
                    cost,
                    [one.added for one in first.bounds],
                    "s--",
                    color="0.5",
                    ms=4,
                    label="terms, added up",
                )
            panel.plot(cost, totals, f"o{line}", color="black", ms=5, label="all terms together")
            at = [cost[place] for place in proved], [totals[place] for place in proved]
            panel.plot(*at, "o", ms=11, mfc="none", mec="C2", mew=1.5, label="every input proved")
            panel.axhline(
                first.network.margin, color="0.2", lw=1, ls=":", label="margin of the few numbers"
            )
            for where, size, one in zip(cost, totals, first.bounds, strict=True):
                panel.annotate(
                    one.name,
                    (where, size),
                    xytext=(-6, -4),
                    textcoords="offset points",
                    fontsize=7,
                    ha="right",
                )
            panel.set(xscale="log", yscale="log", xlabel=words)
            panel.set_xlim(min(cost) / 3, max(cost) * 1.5)
        drawn.axes[0].set_ylabel("bound on what a margin can lose, logits")
        drawn.legend(4)
    return drawn.figure


def draw(rows: Sequence[Row]) -> Figure:
    """R² and answers right against numbers used."""
    with canvas(None, (9.0, 3.8), 2) as drawn:
        fits, right = drawn.axes
        for number, row in enumerate(rows):
            # Integrals, open marks, are another kind of thing than networks: no line joins them.
            for some, mark, name in ((row.rungs[:4], "s--", None), (row.rungs[4:], "o-", row.name)):
                numbers = [one.numbers for one in some]
                look: dict[str, Any] = {"markersize": 4, "color": f"C{number}", "label": name}
                if name is None:
                    look["markerfacecolor"] = "none"
                fits.plot(numbers, [max(1 - one.r2, 1e-4) for one in some], mark, **look)
                right.plot(numbers, [one.right / one.inputs for one in some], mark, **look)
        fits.set(
            xscale="log",
            yscale="log",
            xlabel="numbers used",
            ylabel="1 - R² of all logits (1e-4: or less)",
        )
        right.set(xscale="log", xlabel="numbers used", ylabel="share of inputs answered right")
        drawn.legend(6)
    return drawn.figure


def models(directories: Iterable[Path]) -> Iterable[tuple[str, Weights]]:
    """Names and weights: `pizza`, the other bundled ones, and checkpoints."""
    for name in sorted(bundled_on_pairs(), key=lambda one: (one != "pizza", one)):
        yield name, load(name)
    for directory in directories:
        for path in checkpoints_in(directory):
            try:
                yield path.stem.removeprefix("model_"), import_file(path).model
            except QuadlensError as error:
                print(f"{path.name} is left out: {error}", file=sys.stderr)


def main() -> None:
    """Every model, then the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directories", type=Path, nargs="*")
    parser.add_argument("--write", type=Path, default=None)
    parser.add_argument(
        "--pictures", type=Path, default=None, help="directory for the figures, .svg"
    )
    parser.add_argument(
        "--only", nargs="*", choices=tuple(TABLES), default=tuple(TABLES), help="tables to make"
    )
    options = parser.parse_args()
    rows = []
    for name, network in models(options.directories) if set(options.only) - set(APART) else ():
        try:
            rows.append(row_of(name, network))
        except QuadlensError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    tables = {
        name: make(rows).to_markdown() for name, make in TABLES.items() if name in options.only
    }
    if options.pictures is not None:
        figures = [("appendix-ladder", draw(rows)), ("appendix-bounds", draw_bounds(rows))]
        write_figures(figures, options.pictures, ("svg",))
    if options.write is None:
        print("\n\n".join(f"{name}\n\n{text}" for name, text in tables.items()))
        return
    text = options.write.read_text(encoding="utf-8")
    put = BLOCK.sub(
        lambda old: (
            f"<!-- table: {old[1]} -->\n\n{tables[old[1]]}\n\n<!-- end of table -->"
            if old[1] in tables
            else old[0]
        ),
        text,
    )
    options.write.write_text(put, encoding="utf-8")


if __name__ == "__main__":
    main()
