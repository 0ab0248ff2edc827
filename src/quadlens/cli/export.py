"""`quadlens export`: a model as another program's file."""

from typing import Annotated

import typer

from quadlens.cli.options import ModelArgument, OutputFile
from quadlens.cli.output import Output


def command(
    out: Output,
    model: ModelArgument,
    output: OutputFile,
    format_name: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="F",
            help="Whose file: {writers}.",
        ),
    ],
) -> None:
    """Write a model as another program's file; where the format needs a config, config_<id>.json goes beside it."""
    from rich.console import Console

    from quadlens.model import load
    from quadlens.model.formats import export_file

    files, notes = export_file(load(model), format_name, output)
    value = {"model": model, "format": format_name, "files": [str(path) for path in files], "notes": list(notes)}

    def render(console: Console) -> None:
        for path in files:
            console.print(f"wrote {path}", markup=False, soft_wrap=True)
        for line in notes:
            console.print(f"  {line}", markup=False, soft_wrap=True)

    out.emit(value, render)
