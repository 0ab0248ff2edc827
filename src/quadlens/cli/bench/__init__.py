"""`quadlens bench …`: side-by-side measurements in one run. One file a benchmark."""

import typer

from quadlens.cli.bench import analysis, certify, train

app = typer.Typer(
    help="Measure speed, side by side in one run.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("analysis", epilog="Example: quadlens bench analysis --json")(analysis.command)
app.command("train", epilog="Example: quadlens bench train --json")(train.command)
app.command("certify", epilog="Example: quadlens bench certify --moduli 59,113 --json")(certify.command)
