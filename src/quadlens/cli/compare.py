"""`quadlens compare`: two models side by side."""

from pathlib import Path
from typing import Annotated

import typer

from quadlens.cli.output import Output

Other = typer.Argument(metavar="MODEL", help="A quadlens safetensors file, or the name of a bundled model.")


def command(
    out: Output,
    a: Annotated[str, Other],
    b: Annotated[str, Other],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Also write a page (HTML) with figures.")
    ] = None,
) -> None:
    """Set two models side by side: answers, frequencies, lens, bounds and proofs."""
    import quadlens
    from quadlens.model.atomic import check_writable, write_atomic

    if output is not None:
        check_writable(output)
    comparison = quadlens.compare(a, b)
    if output is not None:
        write_atomic(output, comparison.to_html().encode())
        out.note(f"wrote {output}")
    out.emit(comparison.to_dict() if out.json else {}, comparison.render)
