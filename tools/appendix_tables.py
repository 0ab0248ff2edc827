#!/usr/bin/env python3
"""The tables and the figure of docs/appendix.md: how well few numbers say what a network does, and what is left.

    python tools/appendix_tables.py [DIR …] [--write docs/appendix.md] [--picture docs/pictures/appendix-ladder.svg]

The bundled models and every checkpoint below each DIR whose attention is constant, one layer. With --write the tables
replace those between `<!-- table: NAME -->` and `<!-- end of table -->`.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from quadlens.errors import QuadlensError
from quadlens.figures.canvas import canvas
from quadlens.figures.style import write_figures
from quadlens.model.bundled import bundled_on_pairs, load
from quadlens.model.formats import import_file
from quadlens.model.formats.registry import checkpoints_in
from quadlens.model.weights import Weights
from quadlens.numbers import at_least, at_most
from quadlens.parameterisation import Expansion, expand, parameterise
from quadlens.parameterisation.ladder import Rung, ladder
from quadlens.spectrum.anatomy import Anatomy
from quadlens.table import Table

BLOCK = re.compile(r"<!-- table: (\S+) -->\n.*?<!-- end of table -->", re.DOTALL)
SHOWN = 12


@dataclass(frozen=True)
class Row:
    """One model: its ladder, its parameterised network, and the terms of what that leaves out."""

    name: str
    rungs: tuple[Rung, ...]
    expansion: Expansion

    @property
    def network(self) -> Rung:
        """The rung that `quadlens parameterise` writes."""
        return next(rung for rung in self.rungs if rung.name.startswith("as a network"))


def row_of(name: str, network: Weights) -> Row:
    """Everything about one model."""
    anatomy = Anatomy(network)
    small = parameterise(anatomy)
    return Row(name, tuple(ladder(anatomy, small)), expand(network, small.model))


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
    lines.append([f"{len(rest)} others", "all", f"{at_most(worst, 2)} (added up)", "–", f"{share:.1f} %"])
    return Table("Largest terms", ("noise in", "part", "worst case", "at a, b, c", "share"), lines)


def orders(rows: Sequence[Row]) -> Table:
    """Worst cases added up by how many matrices are noise, beside the worst case of the difference itself."""
    lines = []
    for row in rows:
        sums = [0.0, 0.0, 0.0]
        for one in row.expansion.terms:
            sums[min(len(one.noise), 3) - 1] += one.worst
        cells = (*sums, sum(sums), row.expansion.worst)
        margin = at_least(row.network.margin, 2)
        lines.append(
            [row.name, *(at_most(x, 2) for x in cells), margin, "yes" if sum(sums) < row.network.margin else "no"]
        )
    header = ("model", "one noise", "two", "three and more", "all terms, added up", "the difference itself")
    return Table("By order", (*header, "margin of the few numbers", "below it"), lines)


TABLES = {"ladder": steps, "terms": largest, "orders": orders}


def draw(rows: Sequence[Row]) -> Figure:
    """R² and answers right against numbers used."""
    with canvas(None, (9.0, 3.8), 2) as drawn:
        fits, right = drawn.axes
        for number, row in enumerate(rows):
            # Integrals, open marks, are another kind of thing than networks: no line joins them.
            for some, mark, name in ((row.rungs[:4], "s--", None), (row.rungs[4:], "o-", row.name)):
                numbers, look = [one.numbers for one in some], {"markersize": 4, "color": f"C{number}", "label": name}
                look |= {"markerfacecolor": "none"} if name is None else {}
                fits.plot(numbers, [max(1 - one.r2, 1e-4) for one in some], mark, **look)
                right.plot(numbers, [one.right / one.inputs for one in some], mark, **look)
        fits.set(xscale="log", yscale="log", xlabel="numbers used", ylabel="1 - R² of all logits (1e-4: or less)")
        right.set(xscale="log", xlabel="numbers used", ylabel="share of inputs answered right")
        drawn.legend(6)
    return drawn.figure


def models(directories: Iterable[Path]) -> Iterable[tuple[str, Weights]]:
    """Names and weights: `mainline`, the other bundled ones, and checkpoints."""
    for name in sorted(bundled_on_pairs(), key=lambda one: (one != "mainline", one)):
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
    parser.add_argument("--picture", type=Path, default=None, help="R² and answers right against numbers used, .svg")
    options = parser.parse_args()
    rows = []
    for name, network in models(options.directories):
        try:
            rows.append(row_of(name, network))
        except QuadlensError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    tables = {name: make(rows).to_markdown() for name, make in TABLES.items()}
    if options.picture is not None:
        write_figures([(options.picture.stem, draw(rows))], options.picture.parent, ("svg",))
    if options.write is None:
        print("\n\n".join(f"{name}\n\n{text}" for name, text in tables.items()))
        return
    text = options.write.read_text(encoding="utf-8")
    put = BLOCK.sub(lambda old: f"<!-- table: {old[1]} -->\n\n{tables[old[1]]}\n\n<!-- end of table -->", text)
    options.write.write_text(put, encoding="utf-8")


if __name__ == "__main__":
    main()
