"""The settings of a training run as flags.

The module is apart, so that commands that train nothing need not load it.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from quadlens.base.errors import BadConfig, BadFile
from quadlens.base.reading import parse_toml
from quadlens.cli.options import declared_options, described_names, with_signature
from quadlens.training.config import PRESETS, TrainConfig

PresetOption = Annotated[
    str, typer.Option("--preset", metavar="|".join(PRESETS), help="Which settings to start from.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="TOML", help="Settings that override the preset's."),
]
CheckpointOption = Annotated[
    int, typer.Option("--checkpoint-every", min=1, help="Epochs between two checkpoints.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting by its name; may be repeated."),
]


def takes_settings(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with one flag for every setting of a training run, and `--set` for all of them.

    The command takes `settings`, what was given of them.

    Args:
        without: Settings that the command has in a form of its own.
    """
    hints, words = get_type_hints(TrainConfig), described_names(TrainConfig, "Attributes")
    names = [field.name for field in dataclasses.fields(TrainConfig) if field.name not in without]
    flags: dict[str, Any] = {}
    for name in names:
        flag = f"--{name.replace('_', '-')}"
        flag += f"/--no-{flag[2:]}" if hints[name] is bool else ""
        option = typer.Option(flag, help=words.get(name, ([], ""))[1], rich_help_panel="Settings")
        flags[name] = Annotated[hints[name] | None, option]
    flags["set_"] = SetOption

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def command(*, set_: list[str] | None, **others: Any) -> None:
            given = {name: others.pop(name) for name in names}
            function(settings=parse_settings(set_ or [], given), **others)

        return with_signature(command, function, declared_options(function), flags, None)

    return decorate


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
            raise BadConfig(
                f"--set {word!r}: {name} was already given as {settings[name]}; give it once"
            )
        settings[name] = _value(value, word)
    return settings


def parse_seeds(text: str) -> list[int]:
    """Seeds from `A:B`, without B."""
    try:
        first, last = (int(word) for word in text.split(":"))
    except ValueError:
        raise BadConfig(
            f"--seeds {text!r}; expected A:B, for example 0:8 for seeds 0 … 7"
        ) from None
    if last <= first:
        raise BadConfig(f"--seeds {text!r} names no seed; expected A:B with A below B")
    return list(range(first, last))


def _value(text: str, word: str) -> Any:
    for toml in (f"value = {text}", f'value = "{text}"'):
        try:
            document = parse_toml(toml, "it")
        except BadFile:
            continue
        if list(document) == ["value"]:
            return document["value"]
    raise BadConfig(f"--set {word!r}; expected NAME=VALUE, for example --set d_mlp=256")
