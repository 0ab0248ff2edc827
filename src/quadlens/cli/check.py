"""`quadlens check`: prove a certificate again, without the program that wrote it."""

from typing import Annotated, Literal

import typer

from quadlens.cli.options import DebugFlag, JsonFlag, QuietFlag

# Claims that are rationals, and to which side a person's digits are rounded.
SAFE_SIDES: dict[str, Literal["down", "up"]] = {"margin": "down", "float32_error": "up"}


def command(
    certificate: Annotated[str, typer.Argument(metavar="CERT", help="A certificate that `quadlens certify` wrote.")],
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model it is about: a file or a bundled name.")],
    max_seconds: Annotated[float, typer.Option("--max-seconds", min=0, help="Give up, and reject, after this.")] = 600,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Check a certificate against a model file, from scratch, in exact arithmetic with the standard library only.

    Verdict and exit code: VERIFIED 0, REJECTED 1.
    """
    from fractions import Fraction

    from rich.console import Console

    from quadlens.cli.output import emit, key_value_table, note, rounded
    from quadlens.errors import BadFile
    from quadlens.model.bundled import resolve
    from quadlens_checker import check

    path = resolve(model)
    note(quiet, f"checking {certificate} against {path}")
    try:
        report = check(certificate, str(path), max_seconds)
    except OSError as error:
        raise BadFile(f"{certificate}: {error.strerror}; give a certificate that `quadlens certify` wrote") from None
    value = {
        "verdict": report.verdict,
        "reason": report.reason,
        "seconds": report.seconds,
        "model_sha256": report.model_sha256,
        "statement": report.statement,
        "claims": report.claims,
    }

    def render(console: Console) -> None:
        console.print(f"{report.verdict}: {report.statement or report.reason}", markup=False)
        if report.verdict != "VERIFIED":
            return
        shown = dict(report.claims)
        for name, towards in SAFE_SIDES.items():
            if isinstance(shown.get(name), str):
                shown[name] = f"{rounded(Fraction(shown[name]), towards)} (rounded {towards}; exactly with --json)"
        key_value_table(console, "claims proved again", {**shown, "seconds": f"{report.seconds:.1f}"})

    emit(json, value, render)
    if report.verdict != "VERIFIED":
        raise typer.Exit(1)
