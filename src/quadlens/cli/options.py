"""Options of commands: made from signatures and docstrings, and those that several commands share.

A command is a function. Its signature holds the types, the choices and the defaults of its options,
and the section "Options" of its docstring the rest: `name (--flag METAVAR): help`. A name without
flags has the flag of its own name.
"""

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo

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
# Types of options that have a least value, and of arguments without a flag.
Positive = Annotated[int, typer.Option(min=1)]
Natural = Annotated[int, typer.Option(min=0)]
Seconds = Annotated[float, typer.Option(min=0)]
PathArgument = Annotated[Path, typer.Argument()]
NameArgument = Annotated[str, typer.Argument()]
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


# Parameters of commands that are no options.
PASSED = ("out", "settings")
# How the help names an argument that is a file to be read.
READ = ("MODEL", "MODEL|DIR", "SRC", "CERT", "TOML", "JSON", "FILE|model")


def with_common_flags(
    function: Callable[..., None], *, continues: bool = False
) -> Callable[..., None]:
    """Return the command with `--json`, `--quiet` and `--debug`.

    The function takes an `Output` that knows the first two.

    `--debug` is read where errors are caught, in `main`. No command replaces a file that it is
    given or that it reads.

    Args:
        function: The command.
        continues: Whether it replaces what it has read of its own output, to go on where it
            stopped.
    """
    options = declared_options(function)
    read = [param.name for param in options if metavar(param) in READ]

    def command(*, json: bool, quiet: bool, debug: bool, **others: Any) -> None:
        inputs = [Path(others[name]) for name in read if others[name] is not None]
        with keeping_inputs(*inputs, recorded=not continues):
            function(out=Output(json, quiet), **others)

    flags: dict[str, Any] = {"json": JsonFlag, "quiet": QuietFlag, "debug": DebugFlag}
    return with_signature(command, function, options, flags, False)


def described_names(function_or_class: object, section: str) -> dict[str, tuple[list[str], str]]:
    """Read a section of a docstring: name → words in brackets behind it, and what is said of it.

    >>> described_names(Output, "Attributes")["quiet"]
    ([], 'Nothing on stderr but errors.')
    """
    text = inspect.cleandoc(function_or_class.__doc__ or "").partition(f"{section}:\n")[2]
    entries = re.findall(r"^ {4}(\w+)(?: \((.+?)\))?: (.*(?:\n {5,}.*)*)", text, re.MULTILINE)
    return {name: (marks.split(), re.sub(r"\n +", " ", words)) for name, marks, words in entries}


def declared_options(function: Callable[..., None]) -> list[inspect.Parameter]:
    """Return the parameters that typer makes options of, in order, each with its flags and help."""
    described = described_names(function, "Options")
    parameters = inspect.signature(function, eval_str=True).parameters
    return [
        _declared(parameter, *described[name]) if name in described else parameter
        for name, parameter in parameters.items()
        if name not in PASSED
    ]


def _declared(parameter: inspect.Parameter, marks: list[str], words: str) -> inspect.Parameter:
    """Return the parameter with the flags and the metavar of `marks`, and with its help."""
    kind, limit = parameter.annotation, typer.Option()
    for part in (kind, *get_args(kind)):
        if hasattr(part, "__metadata__"):
            (limit,) = part.__metadata__
            kind = part.__origin__ if part is kind else part.__origin__ | None
    flags = [mark for mark in marks if mark.startswith("-")]
    shown = next((mark for mark in marks if not mark.startswith("-")), None)
    if isinstance(limit, ArgumentInfo):
        info = typer.Argument(metavar=shown, help=words)
    else:
        # A switch that is neither on nor off where it is left out has a flag for each.
        two_flags = kind == bool | None
        flags = flags or ([] if two_flags else [f"--{parameter.name.replace('_', '-')}"])
        info = typer.Option(*flags, metavar=shown, min=limit.min, help=words)
    return parameter.replace(annotation=Annotated[kind, info])


def metavar(parameter: inspect.Parameter) -> str:
    """How the help names what an argument takes; "" where it says nothing of its own."""
    (info, *_) = getattr(parameter.annotation, "__metadata__", (None,))
    return getattr(info, "metavar", None) or ""


def with_signature(
    wrapper: Callable[..., None],
    function: Callable[..., None],
    options: Sequence[inspect.Parameter],
    flags: Mapping[str, Any],
    default: bool | None,
) -> Callable[..., None]:
    """Return `wrapper` under the name and words of `function`.

    Typer makes the flags from the signature that it gets.
    """
    functools.update_wrapper(wrapper, function)
    wrapper.__doc__ = inspect.cleandoc(function.__doc__ or "").partition("\n\nOptions:\n")[0]
    named = [param.replace(kind=inspect.Parameter.KEYWORD_ONLY) for param in options]
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
