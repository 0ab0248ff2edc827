"""`quadlens report`: one page with every figure and table of the paper, for any model."""

from pathlib import Path
from typing import Annotated

import typer

from quadlens.cli.options import ModelArgument
from quadlens.cli.output import Output

MOST_WORKERS = 4


def command(
    out: Output,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Where the report goes; a previous report is replaced."),
    ],
    model: ModelArgument = "mainline",
    no_proofs: Annotated[bool, typer.Option("--no-proofs", help="Leave out the proofs (a few seconds).")] = False,
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", min=1, help="Processes that draw; all cores, at most 4.")
    ] = None,
) -> None:
    """Write one self-contained page with every figure and table, and figure files, tables and data beside it."""
    import os
    import time

    from rich.console import Console

    from quadlens.pages import report

    began = time.perf_counter()
    with out.step_line() as step:
        made = report(model, output, workers or min(MOST_WORKERS, os.cpu_count() or 1), not no_proofs, step)
    seconds = time.perf_counter() - began
    certificate = made.results.certificate
    value = {
        "directory": str(made.directory),
        "page": str(made.page),
        "page_bytes": made.page_bytes,
        "files": list(made.files),
        "p": made.results.p,
        "key_frequencies": list(made.results.keys) if made.results.no_waves is None else None,
        "verdict": certificate.verdict if certificate else None,
        "model_sha256": made.results.sha256,
        "seconds": seconds,
    }

    def render(console: Console) -> None:
        size = f"{made.page_bytes / 1e6:.1f} MB"
        console.print(
            f"{made.page}: open it in a browser ({size}, {len(made.files)} files, {seconds:.0f} s)", soft_wrap=True
        )

    out.emit(value, render)
