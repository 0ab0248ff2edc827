"""Training settings from the command line: flags of their own, and `--set NAME=VALUE` for any setting."""

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from quadlens.errors import BadConfig


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


def _value(text: str, word: str) -> Any:
    for toml in (f"value = {text}", f'value = "{text}"'):
        try:
            document = tomllib.loads(toml)
        except tomllib.TOMLDecodeError:
            continue
        if list(document) == ["value"]:
            return document["value"]
    raise BadConfig(f"--set {word!r}; expected NAME=VALUE, for example --set d_mlp=256")
