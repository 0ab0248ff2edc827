"""`quadlens figures`: figure files of a model."""

from pathlib import Path
from typing import Annotated

import typer

from quadlens.cli.options import ModelArgument
from quadlens.cli.output import Output


def command(
    out: Output,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where the figures go.")],
    model: ModelArgument = "mainline",
    format: Annotated[
        str, typer.Option("--format", help="File formats, separated by commas: {figure_formats}.")
    ] = "svg,pdf,png",
    only: Annotated[
        str | None,
        typer.Option(
            "--only",
            metavar="NAMES",
            help="Only these, separated by commas: a file name, a label of the paper, or a family such as quadrature.",
        ),
    ] = None,
) -> None:
    """Write the figures of a model: every figure of the paper and ours, or some by name."""
    from rich.console import Console

    from quadlens.errors import BadConfig, BadFile
    from quadlens.figures.registry import all_pictures, chosen_pictures, needs_proofs
    from quadlens.figures.style import FIGURE_FORMATS, write_figure
    from quadlens.model.atomic import check_directory
    from quadlens.model.bundled import resolve
    from quadlens.studies import study_of

    kinds = tuple(known for known in FIGURE_FORMATS if known in format.split(","))
    if len(kinds) != len(format.split(",")):
        raise BadConfig(f"--format {format!r}; expected some of {','.join(FIGURE_FORMATS)}")
    names = only.split(",") if only else None
    proofs = names is None or needs_proofs(names)
    path = resolve(model)
    check_directory(output)
    with out.step_line() as step:
        study = study_of(path) if proofs else study_of(path).without_proofs()
        if names is None:
            study.prepare(step)
        # By name, only what the figures asked for need is computed.
        pictures = all_pictures(study) if names is None else chosen_pictures(study, names)
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadFile(f"cannot make the directory {output}: {error.strerror}") from None
        written = []
        for number, picture in enumerate(pictures, start=1):
            step(f"figures {number}/{len(pictures)}")
            written += write_figure(picture.draw(), output, picture.name, kinds)

    def render(console: Console) -> None:
        for path in written:
            console.print(str(path))

    out.emit({"files": [str(path) for path in written]}, render)
