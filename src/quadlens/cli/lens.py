"""`quadlens lens`: the infinite-width reading of the hidden layer."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from quadlens.cli.options import ModelArgument
from quadlens.cli.output import Output

if TYPE_CHECKING:
    from rich.console import Console


def command(
    out: Output,
    model: ModelArgument = "mainline",
    exact: Annotated[
        bool, typer.Option("--exact", help="Also the exact error of each finite sum against its integral (relu, abs).")
    ] = False,
    swap: Annotated[
        bool, typer.Option("--swap", help="Also put other activations in, predicted from λ₂ and measured.")
    ] = False,
) -> None:
    """Read the hidden layer as integrals: what the neurons share, what the integral explains, and what is left."""
    from quadlens.studies import study_of

    study = study_of(model)
    value: dict[str, Any] = {"model": model, **study.lens.to_dict()}
    extra = []
    if exact:
        from quadlens.infinite_width.exact_error import error_table, shared_errors
        from quadlens.quadrature.claims import claim_to_dict

        errors = shared_errors(study.lens)
        value["exact_errors"] = [
            {"k": one.k, "error": claim_to_dict(one.error), "relative": one.relative.value} for one in errors
        ]
        extra.append(error_table(errors))
    if swap:
        from quadlens.infinite_width.swap import swap_activations, swap_table

        swaps = swap_activations(study.anatomy.layer)
        value["swaps"] = [vars(one) for one in swaps]
        extra.append(swap_table(swaps))

    def render(console: "Console") -> None:
        study.lens.render(console)
        for table in extra:
            console.print()
            table.print(console)

    out.emit(value, render)
