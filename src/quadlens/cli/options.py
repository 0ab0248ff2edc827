"""Options that every command has, declared once."""

from pathlib import Path
from typing import Annotated

import typer

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="A quadlens safetensors file, or the name of a bundled model.")
]
OutputFile = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write; replaced whole or not at all.")
]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any other setting; may be repeated.")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="One JSON document on stdout and nothing else there.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes on stderr.")]
DebugFlag = Annotated[bool, typer.Option("--debug", help="Show the stack trace when something fails.")]
