"""`quadlens bounds`: the paper's three tables for a model, and the exact errors beside them."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from quadlens.cli.options import ModelArgument
from quadlens.cli.output import Output

if TYPE_CHECKING:
    from quadlens.quadrature import Convergence


def command(
    out: Output,
    model: ModelArgument = "mainline",
    moments: Annotated[
        int, typer.Option("--moments", metavar="M", min=1, help="Harmonics used by the moment bound.")
    ] = 20,
    table_format: Annotated[
        Literal["text", "csv", "latex"], typer.Option("--format", help="How to print the tables.")
    ] = "text",
    convergence: Annotated[
        bool, typer.Option("--convergence", help="Also thin each cluster and see how the error falls with neurons.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the thinning.")] = 0,
) -> None:
    """Show the error of each cluster as a quadrature rule: the paper's bounds, and the exact value."""
    import numpy as np
    from rich.console import Console

    from quadlens.model import load
    from quadlens.numbers import counted
    from quadlens.quadrature import bounds, tables, text_table, thinning_study, to_json

    result = bounds(load(model), moments)
    value, views = to_json(result), tables(result)
    studies: list[Convergence] = []
    if convergence:
        rng = np.random.default_rng(seed)
        studies = [thinning_study(cluster.scheme, 8, rng) for cluster in result.bounded]
        value["convergence"] = [_study_json(study) for study in studies]

    def render(console: Console) -> None:
        for table in views if result.bounded else ():
            if table_format == "text":
                text_table(table).print(console)
                console.print()
            else:
                text = (
                    text_table(table, None).to_csv()
                    if table_format == "csv"
                    else text_table(table, 2, marks=False).to_latex()
                )
                console.print(text, soft_wrap=True, markup=False)
        if result.bounded and table_format == "text":
            console.print("= exact (enclosed)   ≤ proved upper bound   ≈ float64 estimate; proofs: docs/quadrature.md")
        for none in result.unbounded:
            console.print(f"k = {none.k} ({counted(none.neurons, 'neuron')}): no bound: {none.reason}", markup=False)
        if not result.clusters:
            console.print("no cluster: no neuron reads and writes the same frequency, so there is no quadrature rule")
        for study in studies:
            console.print(study.statement())

    out.emit(value, render)


def _study_json(study: "Convergence") -> dict[str, object]:
    return {
        "name": study.name,
        "exponent": study.exponent,
        "points": [
            {"neurons": point.neurons, "error": point.median, "equally_spaced": point.equally_spaced}
            for point in study.points
        ],
    }
