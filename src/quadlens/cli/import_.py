"""`quadlens import`: other people's checkpoints, in."""

from pathlib import Path
from typing import Annotated

import typer

from quadlens.cli.options import DebugFlag, JsonFlag, OutputFile, QuietFlag


def command(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A .pt, .pth or .safetensors checkpoint.")],
    output: OutputFile,
    format_name: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="F",
            help="auto, transformer-lens, transformer-lens-4-raw, transformer-lens-4-bridge, gbmi, zhong, nanda, he, "
            "gromov, quadlens.",
        ),
    ] = "auto",
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="The checkpoint's config (JSON); config_<id>.json beside it is found."
        ),
    ] = None,
    attention: Annotated[
        str | None,
        typer.Option(
            "--attention",
            metavar="W,W",
            help="Constant attention weight on each position, as 0.5,0.5 or 1/3,1/3,1/3; or softmax: compute it.",
        ),
    ] = None,
    p: Annotated[int | None, typer.Option("--p", help="The modulus, when the shapes do not say.")] = None,
    activation: Annotated[
        str | None, typer.Option("--activation", metavar="A", help="relu, abs or square, when no config says.")
    ] = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Read someone else's checkpoint and write it as a quadlens model; nothing in it is executed."""
    from rich.console import Console

    from quadlens.cli.output import check_model_name, emit, key_value_table
    from quadlens.model import save, sha256
    from quadlens.model.config import config_to_dict
    from quadlens.model.formats import Hints, import_file, parse_attention

    check_model_name(output)
    hints = Hints(None if attention is None else parse_attention(attention), p, activation)
    imported = import_file(source, format_name, hints, config)
    save(imported.model, output)
    value = {
        "source": str(source),
        "output": str(output),
        "format": imported.format,
        "sha256": sha256(imported.model),
        "config": config_to_dict(imported.model.config),
        "notes": list(imported.notes),
    }

    def render(console: Console) -> None:
        key_value_table(console, f"wrote {output}", {"read as": imported.format, "sha256": value["sha256"]})
        for line in imported.notes:
            console.print(f"  {line}", markup=False, soft_wrap=True)

    emit(json, value, render)
