"""`quadlens check`: prove a certificate again, without the program that wrote it."""

import os
from pathlib import Path
from typing import Literal

import typer

from quadlens.cli.options import NameArgument, Positive, Seconds
from quadlens.cli.output import PATIENCE, Output

# Claims that are rationals, and to which side the digits shown are rounded.
SAFE_SIDES: dict[str, Literal["down", "up"]] = {"margin": "down", "float32_error": "up"}


def bundled_models() -> dict[str, Path]:
    """Return name → file of the bundled models.

    They are found here, because reading models is the producer's, and none of it is loaded.
    """
    from importlib.resources import files

    return {
        path.stem: path
        for path in sorted(
            (Path(str(files(__name__.partition(".")[0]))) / "data").glob("*.safetensors")
        )
    }


def command(
    out: Output,
    certificate: NameArgument,
    model: NameArgument,
    max_seconds: Seconds = 600,
    max_memory: Positive = 2000,
    proved: bool = False,
) -> None:
    """Check a certificate against a model file, from scratch.

    The arithmetic is exact, and nothing but the standard library takes part.

    Verdict and exit code: VERIFIED 0 (1 if it leaves inputs open), REJECTED 1, TIMEOUT 1.

    Options:
        certificate (CERT): A certificate that `quadlens certify` wrote.
        model (MODEL): The model it is about: a file or a bundled name.
        max_seconds (--time-limit --max-seconds S): Give up after S s: TIMEOUT.
        max_memory (MB): Reject what needs more.
        proved: By the checker that Coq proved sound; page `trust` of the docs says of which
            networks.
    """
    from dataclasses import asdict
    from fractions import Fraction

    from rich.console import Console

    from quadlens.base.errors import BadFile, refusals_of_a_check
    from quadlens.base.numbers import significant
    from quadlens.cli.output import key_value_table
    from quadlens_checker import check

    run = check
    if proved:
        from quadlens.proofs.proved import check_proved as run

    models = bundled_models()
    path = models.get(model, Path(model))
    if not os.path.exists(path):  # also of names that no file can have
        raise BadFile(f"{model}: no such file; bundled models are: {', '.join(models)}")
    out.note(f"checking {certificate} against {path}")
    with refusals_of_a_check(str(path)), out.step_line(PATIENCE) as step:
        report = run(certificate, str(path), max_seconds, max_memory * 10**6, step)

    def render(console: Console) -> None:
        if report.verdict != "VERIFIED":
            console.print(f"{report.verdict}: {report.reason}", markup=False)
            return
        console.print(f"VERIFIED: {report.inputs}. {report.statement}", markup=False)
        if report.float32:
            console.print(
                f"Nothing is claimed about float32 execution: {report.float32}.", markup=False
            )
        if report.cost_words:
            console.print(report.cost_words, markup=False)
        rows = dict(report.claims)
        for name, towards in SAFE_SIDES.items():
            if isinstance(rows.get(name), str):
                rows[name] = (
                    f"{significant(Fraction(rows[name]), towards)} (rounded {towards}; exactly "
                    "with --json)"
                )
        key_value_table(
            console, "claims proved again", {**rows, "seconds": f"{report.seconds:.1f}"}
        )

    out.emit(asdict(report), render)
    if report.exit_code:
        raise typer.Exit(report.exit_code)
