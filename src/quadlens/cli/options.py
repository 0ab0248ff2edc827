"""What commands share: common flags, and options that several commands have."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from quadlens.base.door import DOOR
from quadlens.base.errors import BadConfig
from quadlens.base.reading import keeping_inputs
from quadlens.cli.output import Output

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A quadlens safetensors file, or the name of a bundled model."
    ),
]
OutputFile = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Where to write; replaced whole or not at all."
    ),
]
JsonFlag = Annotated[
    bool, typer.Option("--json", help="One JSON document on stdout and nothing else there.")
]
QuietFlag = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no notes on stderr.")
]
DebugFlag = Annotated[
    bool, typer.Option("--debug", help="Show the stack trace when something fails.")
]
# Lists of names that a help text may hold in braces, and the registry each comes from; loaded when
# help is asked for.
REGISTRIES = {
    "strategies": ("quadlens.proofs.pairs", "STRATEGIES"),
    "readers": ("quadlens.readers", "READERS"),
    "writers": ("quadlens.readers", "WRITERS"),
    "figure_formats": ("quadlens.show.figures.style", "FIGURE_FORMATS"),
}


def flags_without_type(params: Any) -> Any:
    """The parameters; a flag takes no value, so none is shown."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class Commands(TyperGroup):
    """The whole program, whose help shows flags as flags."""

    def get_params(self, ctx: Any) -> Any:
        """Options before the command."""
        return flags_without_type(super().get_params(ctx))


class Command(TyperCommand):
    """A command whose help shows flags as flags, without a type, and names from the registries."""

    def get_params(self, ctx: Any) -> Any:
        """Options of the command."""
        return flags_without_type(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Help, with every list of names filled in."""
        for param in self.params:
            for word, (module, name) in REGISTRIES.items():
                text = getattr(param, "help", None) or ""
                if f"{{{word}}}" in text:
                    names = ", ".join(getattr(DOOR.load(module), name))
                    param.help = text.replace(f"{{{word}}}", names)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


# How the help names an argument that is a file to be read.
READ = ("MODEL", "MODEL|DIR", "SRC", "CERT", "TOML", "JSON", "FILE|model")


def with_common_flags(
    function: Callable[..., None], *, continues: bool = False
) -> Callable[..., None]:
    """The command with `--json`, `--quiet` and `--debug`: it takes an `Output` that knows the first two.

    `--debug` is read where errors are caught, in `main`. No command replaces a file that it is
    given or that it reads.

    Args:
        function: The command.
        continues: Whether it replaces what it has read of its own output, to go on where it
            stopped.
    """
    own = inspect.signature(function, eval_str=True).parameters
    read = [name for name, param in own.items() if metavar(param) in READ]

    def command(*, json: bool, quiet: bool, debug: bool, **others: Any) -> None:
        inputs = [Path(others[name]) for name in read if others[name] is not None]
        with keeping_inputs(*inputs, recorded=not continues):
            function(out=Output(json, quiet), **others)

    flags: dict[str, Any] = {"json": JsonFlag, "quiet": QuietFlag, "debug": DebugFlag}
    return with_signature(
        command, function, [param for param in own.values() if param.name != "out"], flags, False
    )


def metavar(parameter: inspect.Parameter) -> str:
    """How the help names what an argument takes; "" where it says nothing of its own."""
    (info, *_) = getattr(parameter.annotation, "__metadata__", (None,))
    return getattr(info, "metavar", None) or ""


def with_signature(
    wrapper: Callable[..., None],
    function: Callable[..., None],
    own: Sequence[inspect.Parameter],
    flags: Mapping[str, Any],
    default: bool | None,
) -> Callable[..., None]:
    """`wrapper` under the name and words of `function`, with a signature from which typer makes the flags."""
    functools.update_wrapper(wrapper, function)
    named = [param.replace(kind=inspect.Parameter.KEYWORD_ONLY) for param in own]
    named += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=flag)
        for name, flag in flags.items()
    ]
    wrapper.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {param.name: param.annotation for param in named}
    return wrapper


def parse_integers(flag: str, text: str) -> tuple[int, ...]:
    """Integers separated by commas; none where there is no text."""
    try:
        return tuple(int(word) for word in text.split(",")) if text.strip() else ()
    except ValueError:
        raise BadConfig(
            f"{flag} {text!r} is not a list of integers; expected for example 3,5,7"
        ) from None
