"""What commands share: common flags, settings of a training run as flags, options that several commands have."""

import dataclasses
import functools
import importlib
import inspect
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from quadlens.cli.output import Output
from quadlens.errors import BadConfig
from quadlens.training.config import PRESETS, TrainConfig

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="A quadlens safetensors file, or the name of a bundled model.")
]
OutputFile = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write; replaced whole or not at all.")
]
PresetOption = Annotated[str, typer.Option("--preset", metavar="|".join(PRESETS), help="Which settings to start from.")]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="TOML", help="Settings that override the preset's.")
]
CheckpointOption = Annotated[int, typer.Option("--checkpoint-every", min=1, help="Epochs between two checkpoints.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="One JSON document on stdout and nothing else there.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes on stderr.")]
DebugFlag = Annotated[bool, typer.Option("--debug", help="Show the stack trace when something fails.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any setting by its name; may be repeated.")
]
# Lists of names that a help text may hold in braces, and the registry each comes from; loaded when help is asked for.
REGISTRIES = {
    "strategies": ("quadlens.proofs", "STRATEGIES"),
    "readers": ("quadlens.model.formats", "READERS"),
    "writers": ("quadlens.model.formats", "WRITERS"),
    "figure_formats": ("quadlens.figures.style", "FIGURE_FORMATS"),
}


def flags_without_type(params: Any) -> Any:
    """The parameters; a flag takes no value, so none is shown."""
    for one in params:
        if getattr(one, "is_flag", False):
            one.metavar = ""
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
        for one in self.params:
            for word, (module, name) in REGISTRIES.items():
                text = getattr(one, "help", None) or ""
                if f"{{{word}}}" in text:
                    names = ", ".join(getattr(importlib.import_module(module), name))
                    one.help = text.replace(f"{{{word}}}", names)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


def with_common_flags(function: Callable[..., None]) -> Callable[..., None]:
    """The command with `--json`, `--quiet` and `--debug`: it takes an `Output` that knows the first two.

    `--debug` is read where errors are caught, in `main`.
    """
    own = inspect.signature(function, eval_str=True).parameters

    def command(*, json: bool, quiet: bool, debug: bool, **others: Any) -> None:
        function(out=Output(json, quiet), **others)

    flags: dict[str, Any] = {"json": JsonFlag, "quiet": QuietFlag, "debug": DebugFlag}
    return _with_signature(command, function, [one for one in own.values() if one.name != "out"], flags, False)


def takes_settings(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with one flag for every setting of a training run, and `--set` for all of them.

    The command takes `settings`, what was given of them.

    Args:
        without: Settings that the command has in a form of its own.
    """
    hints, words = get_type_hints(TrainConfig), attribute_words(TrainConfig)
    names = [field.name for field in dataclasses.fields(TrainConfig) if field.name not in without]
    flags: dict[str, Any] = {}
    for name in names:
        flag = f"--{name.replace('_', '-')}"
        flag += f"/--no-{flag[2:]}" if hints[name] is bool else ""
        option = typer.Option(flag, help=words.get(name, ""), rich_help_panel="Settings")
        flags[name] = Annotated[hints[name] | None, option]
    flags["set_"] = SetOption

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(function, eval_str=True).parameters

        def command(*, set_: list[str] | None, **others: Any) -> None:
            given = {name: others.pop(name) for name in names}
            function(settings=parse_settings(set_ or [], given), **others)

        return _with_signature(command, function, [one for one in own.values() if one.name != "settings"], flags, None)

    return decorate


def _with_signature(
    wrapper: Callable[..., None],
    function: Callable[..., None],
    own: Sequence[inspect.Parameter],
    flags: Mapping[str, Any],
    default: bool | None,
) -> Callable[..., None]:
    """`wrapper` under the name and words of `function`, with a signature from which typer makes the flags."""
    functools.update_wrapper(wrapper, function)
    named = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
    named += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=flag)
        for name, flag in flags.items()
    ]
    wrapper.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {one.name: one.annotation for one in named}
    return wrapper


def attribute_words(cls: type) -> dict[str, str]:
    """Attribute → what its class's docstring says of it.

    >>> attribute_words(TrainConfig)["d_mlp"]
    'Number of neurons.'
    """
    section = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:\n")[2]
    words: dict[str, str] = {}
    for line in section.splitlines():
        name, colon, text = line.strip().partition(": ")
        if colon and name.isidentifier():
            words[name] = text
        elif words:  # the text goes on in the next line
            words[list(words)[-1]] += f" {line.strip()}"
    return words


def parse_settings(words: Sequence[str], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that were given.

    Args:
        words: `NAME=VALUE` each, values written as in TOML; a bare word is a string.
        flags: Settings that have a flag of their own; None where it was not given.

    Raises:
        BadConfig: when a word is not of that form, or a setting is given twice.
    """
    settings = {name: value for name, value in flags.items() if value is not None}
    for word in words:
        name, equals, value = (part.strip() for part in word.partition("="))
        if not equals or not name.isidentifier():
            raise BadConfig(f"--set {word!r}; expected NAME=VALUE, for example --set d_mlp=256")
        if name in settings:
            raise BadConfig(f"--set {word!r}: {name} was already given as {settings[name]}; give it once")
        settings[name] = _value(value, word)
    return settings


def parse_seeds(text: str) -> list[int]:
    """Seeds from `A:B`, without B."""
    try:
        first, last = (int(word) for word in text.split(":"))
    except ValueError:
        raise BadConfig(f"--seeds {text!r}; expected A:B, for example 0:8 for seeds 0 … 7") from None
    if last <= first:
        raise BadConfig(f"--seeds {text!r} names no seed; expected A:B with A below B")
    return list(range(first, last))


def parse_integers(flag: str, text: str) -> tuple[int, ...]:
    """Integers separated by commas; none where there is no text."""
    try:
        return tuple(int(word) for word in text.split(",")) if text.strip() else ()
    except ValueError:
        raise BadConfig(f"{flag} {text!r} is not a list of integers; expected for example 3,5,7") from None


def _value(text: str, word: str) -> Any:
    for toml in (f"value = {text}", f'value = "{text}"'):
        try:
            document = tomllib.loads(toml)
        except tomllib.TOMLDecodeError:
            continue
        if list(document) == ["value"]:
            return document["value"]
    raise BadConfig(f"--set {word!r}; expected NAME=VALUE, for example --set d_mlp=256")
