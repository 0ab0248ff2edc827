"""`quadlens figures`: figure files of a model."""

from pathlib import Path
from typing import Annotated

import typer

from quadlens.cli.options import DebugFlag, JsonFlag, ModelArgument, QuietFlag


def command(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where the figures go.")],
    model: ModelArgument = "mainline",
    format: Annotated[str, typer.Option("--format", help="File formats, separated by commas.")] = "svg,pdf,png",
    only: Annotated[
        str | None, typer.Option("--only", metavar="NAMES", help="Only these, separated by commas.")
    ] = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Write a model's figures; so far those of its training history, where the run's files are beside the model."""
    from rich.console import Console

    from quadlens.cli.output import emit
    from quadlens.errors import BadConfig, BadFile
    from quadlens.figures import frequencies_over_training, learning_curve
    from quadlens.figures.style import FIGURE_FORMATS, write_figure
    from quadlens.model.bundled import resolve
    from quadlens.training.history import read_history
    from quadlens.training.outputs import RunFiles

    kinds = tuple(known for known in FIGURE_FORMATS if known in format.split(","))
    if len(kinds) != len(format.split(",")):
        raise BadConfig(f"--format {format!r}; expected some of {','.join(FIGURE_FORMATS)}")
    figures = {module.NAME: module.draw for module in (learning_curve, frequencies_over_training)}
    names = only.split(",") if only else list(figures)
    if unknown := [name for name in names if name not in figures]:
        raise BadConfig(f"no figure is named {', '.join(unknown)}; there are: {', '.join(figures)}")
    files = RunFiles(resolve(model))
    if not (files.history.exists() and files.spectrum.exists()):
        raise BadFile(f"{files.history.name} and {files.spectrum.name} are not beside {model}; train writes them there")
    history = read_history(files.history, files.spectrum)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadFile(f"cannot make the directory {output}: {error.strerror}") from None
    written = [path for name in names for path in write_figure(figures[name](history), output, name, kinds)]

    def render(console: Console) -> None:
        for path in written:
            console.print(str(path))

    emit(json, {"files": [str(path) for path in written]}, render)
