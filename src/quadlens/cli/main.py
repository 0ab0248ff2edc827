"""The door: `quadlens COMMAND …`.

Each command is a function in this folder, related ones in one module.
"""

import re
import signal
import sys
import warnings
from collections.abc import Iterable

import typer

from quadlens.base.door import DOOR
from quadlens.base.errors import QuadlensError
from quadlens.base.version import VERSION
from quadlens.cli.interrupts import INTERRUPTED
from quadlens.cli.options import Command, Commands, with_common_flags
from quadlens.cli.output import surviving_streams


def _version(show: bool) -> bool:
    if show:
        typer.echo(f"quadlens {VERSION}")
        raise typer.Exit
    return show


def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options before the command."""


# Name: module of this folder, function, and the example that ends its help; in the order a newcomer
# meets them.
COMMANDS = {
    "report": ("pictures", "report", "quadlens report pizza -o out/report"),
    "explore": ("pictures", "explore", "quadlens explore pizza -o explorer.html"),
    "evaluate": ("reading", "evaluate", "quadlens evaluate pizza --json"),
    "explain": ("reading", "explain", "quadlens explain pizza --neurons neurons.csv"),
    "bounds": ("reading", "bounds", "quadlens bounds pizza --json"),
    "lens": ("reading", "lens", "quadlens lens pizza --json"),
    "certify": ("certify", "command", "quadlens certify pizza -o pizza.cert.json"),
    "check": ("check", "command", "quadlens check pizza.cert.json pizza"),
    "train": (
        "train",
        "command",
        "quadlens train --seed 0 -o model.safetensors   (after a stop: add --resume)",
    ),
    "history": ("history", "command", "quadlens history model.safetensors -o history.parquet"),
    "sweep": (
        "sweep",
        "command",
        "quadlens sweep --seeds 0:151 -o sweep   (after anything: the same command again)",
    ),
    "population": (
        "population",
        "command",
        "quadlens population sweep --where p=59 --figures figures",
    ),
    "compare": ("interventions", "compare", "quadlens compare pizza mismatched"),
    "ablate": (
        "interventions",
        "ablate",
        "quadlens ablate pizza --frequencies 5 -o without-5.safetensors",
    ),
    "build": (
        "build",
        "command",
        "quadlens build --p 59 --keys 3,5,7 --neurons 512 -o pizza.safetensors",
    ),
    "import": (
        "files",
        "import_",
        "quadlens import model.pt --attention 0.5,0.5 -o model.safetensors",
    ),
    "export": (
        "files",
        "export",
        "quadlens export pizza --format transformer-lens -o theirs.safetensors",
    ),
}
# Commands that go on where they stopped, and so replace what they have read of their own output.
CONTINUING = ("train", "sweep", "population")


def program(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command line with these commands: each costs time to load, and only one is run."""
    app = typer.Typer(
        name="quadlens",
        cls=Commands,
        help=(
            "Explains small networks that learned an operation such as addition modulo p; proves "
            "what they answer."
        ),
        epilog=(
            "Start with: quadlens report -o out/report. Every command has --help with an "
            "example, and --json."
        ),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name in names:
        module, function, example = COMMANDS[name]
        loaded = DOOR.load(f"quadlens.cli.{module}")
        help_class = getattr(loaded, "Help", Command)
        app.command(name, cls=help_class, epilog=f"Example: {example}")(
            with_common_flags(getattr(loaded, function), continues=name in CONTINUING)
        )
    return app


# How a message that does not know the command calls it.
ASKED = "what is asked"
# Settings whose flags say the opposite.
FLAGS = {"logits": "--no-logits", "proofs": "--no-proofs"}


def flags_of(error: QuadlensError) -> list[str]:
    """The flags of the settings that an error is about."""
    return list(
        dict.fromkeys(FLAGS.get(name, f"--{name.replace('_', '-')}") for name in error.settings)
    )


def in_flags(error: QuadlensError, command: str) -> str:
    """Return the message with Python's `name=value` as flags.

    Flags that it does not name follow in a line below.

    >>> in_flags(QuadlensError("say so with format=NAME", settings=("format",)), "import").strip()
    'error: say so with --format NAME'
    >>> in_flags(QuadlensError("check with proved=False", settings=("proved",)), "check").strip()
    'error: check without --proved'
    """
    words = str(error).replace(
        "map={'embed': …, 'hidden': …, 'out': …}", "map=embed=…,hidden=…,out=…"
    )
    for name, flag in zip(dict.fromkeys(error.settings), flags_of(error), strict=True):
        words = words.replace(f"with {name}=False", f"without {flag}")
        words = re.sub(rf"\b{name}=(?=\S)", f"{flag} ", words)
    words = words.replace(ASKED, f"`quadlens {command}`")
    left = [flag for flag in flags_of(error) if flag not in words]
    return f"error: {words}\n" + (f"flags: {', '.join(left)}\n" if left else "")


def _asked_for() -> Iterable[str]:
    """Return the command that is to be run.

    Help, completion or a name that is none needs all of them.
    """
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    return (name,) if name in COMMANDS else COMMANDS


def main() -> None:
    """Run the command line.

    Exit codes: 0 done, 1 the answer is no, 2 usage or bad input, 130 after Ctrl-C.
    """
    stopped = False

    def stop(number: int, frame: object) -> None:
        """Ctrl-C outside of work that has its own way to stop."""
        nonlocal stopped
        stopped = True
        sys.stderr.write("stopped\n")
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    with surviving_streams(), warnings.catch_warnings():
        if "--debug" not in sys.argv:
            # Whoever meets a number that overflowed says so in words; NumPy's lines beside them do
            # not help.
            warnings.simplefilter("ignore", RuntimeWarning)
        try:
            program(_asked_for())()
        except Exception as error:
            if stopped:  # a library made another error of the interrupt
                sys.exit(INTERRUPTED)
            if "--debug" in sys.argv:
                raise
            if isinstance(error, QuadlensError):
                sys.stderr.write(in_flags(error, "".join(sys.argv[1:2])))
            else:
                sys.stderr.write(
                    f"internal error: {type(error).__name__}: {error}\n"
                    "This is a bug in quadlens; run again with --debug and report what it prints.\n"
                )
            sys.exit(2)
