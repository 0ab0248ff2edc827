"""The door: `quadlens COMMAND …`. Each command is one file in this folder."""

import io
import os
import signal
import sys
from collections.abc import Callable

import typer

from quadlens import __version__
from quadlens.cli import (
    bounds,
    build,
    certify,
    check,
    evaluate,
    explain,
    explore,
    export,
    figures,
    frontier,
    import_,
    info,
    population,
    report,
    sweep,
    train,
)
from quadlens.errors import QuadlensError

app = typer.Typer(
    name="quadlens",
    help="Opens up small transformers that add modulo p: their ReLU MLP is a numerical integral.",
    epilog="Start with: quadlens report -o out/report. Every command has --help with an example, and --json.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> bool:
    if show:
        typer.echo(f"quadlens {__version__}")
        raise typer.Exit
    return show


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Options before the command."""


# In the order a newcomer meets them; the example is the last line of each command's help.
COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("report", report.command, "quadlens report mainline -o out/report"),
    ("explore", explore.command, "quadlens explore mainline -o explorer.html"),
    ("info", info.command, "quadlens info mainline"),
    ("evaluate", evaluate.command, "quadlens evaluate mainline --json"),
    ("explain", explain.command, "quadlens explain mainline --neurons neurons.csv"),
    ("bounds", bounds.command, "quadlens bounds mainline --json"),
    ("certify", certify.command, "quadlens certify mainline -o mainline.cert.json"),
    ("check", check.command, "quadlens check mainline.cert.json mainline"),
    ("frontier", frontier.command, "quadlens frontier mainline -o frontier"),
    ("train", train.command, "quadlens train --seed 0 -o model.safetensors   (after a stop: add --resume)"),
    ("sweep", sweep.command, "quadlens sweep --seeds 0:151 -o sweep   (after anything: the same command again)"),
    ("population", population.command, "quadlens population sweep --where p=59 --figures figures"),
    ("build", build.command, "quadlens build --p 59 --keys 3,5,7 --neurons 512 -o pizza.safetensors"),
    ("import", import_.command, "quadlens import model.pt --attention 0.5,0.5 -o model.safetensors"),
    ("export", export.command, "quadlens export mainline --format transformer-lens -o model.pt"),
    ("figures", figures.command, "quadlens figures mainline -o figures --format svg,png"),
)
for _name, _command, _example in COMMANDS:
    app.command(_name, epilog=f"Example: {_example}")(_command)


def _stop(number: int, frame: object) -> None:
    """Ctrl-C outside of work that has its own way to stop."""
    sys.stderr.write("stopped\n")
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line; exit 0 done, 1 the answer is no, 2 usage or bad input."""
    debug = "--debug" in sys.argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show must not cost the result
            stream.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGINT, _stop)
    try:
        app()
    except QuadlensError as error:
        if debug:
            raise
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output left (quadlens … | head); keep Python from complaining while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if debug:
            raise
        sys.stderr.write(
            f"internal error: {type(error).__name__}: {error}\n"
            "This is a bug in quadlens; run again with --debug and report what it prints.\n"
        )
        sys.exit(2)
