"""Flags are the command line's: no message of the package names one, and errors carry the settings
they are about.
"""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import quadlens as package
from quadlens.base.errors import BadConfig
from quadlens.cli.main import COMMANDS as KNOWN
from quadlens.cli.main import flags_of
from quadlens.cli.options import declared_options, described_names

SOURCE = Path(package.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-z]")
# Commands that are recorded as they were, or are another program's; no messages.
COMMANDS = {
    "training/outputs.py": ("--preset", "--seed", "--threads", "--set"),
    "show/pages/write.py": (" --no-proofs",),
    "training/population/backends.py": ("ray start --head",),
}


def strings(tree: ast.Module) -> list[str]:
    """Every string in a module but docstrings."""
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    constants = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and id(node) not in documented
    ]
    return [node.value for node in constants if isinstance(node.value, str)]


def test_no_message_outside_the_command_line_names_a_flag() -> None:
    named = {}
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith("cli/"):
            continue
        known = COMMANDS.get(name, ())
        texts = [text for text in strings(ast.parse(path.read_text("utf-8"))) if FLAG.search(text)]
        if unknown := [text for text in texts if not any(words in text for words in known)]:
            named[name] = unknown
    assert not named, "name the setting, as activation=NAME, and give it to the error's `settings`"


def test_the_command_line_says_which_flags_an_error_is_about() -> None:
    assert flags_of(BadConfig("no", settings=("activation", "max_seconds", "logits"))) == [
        *("--activation", "--max-seconds", "--no-logits"),
    ]
    with pytest.raises(BadConfig, match=r"strategy=auto is for") as caught:
        raise BadConfig("strategy=auto is for", settings=("strategy",))
    assert caught.value.settings == ("strategy",)


@pytest.mark.parametrize("word", KNOWN)
def test_every_option_is_described_and_no_description_is_of_none(word: str) -> None:
    module, name, _ = KNOWN[word]
    function = getattr(import_module(f"quadlens.cli.{module}"), name)
    for option in declared_options(function):
        (info,) = option.annotation.__metadata__
        assert info.help, option.name
    described = described_names(inspect.unwrap(function), "Options")
    assert set(described) <= set(inspect.signature(inspect.unwrap(function)).parameters)
