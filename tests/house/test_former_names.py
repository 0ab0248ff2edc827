"""`mainline`, the name that `pizza` had: taken wherever a bundled name is, with one sentence on stderr."""

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import quadlens
from cli_runner import quadlens as command
from quadlens.base import former_names
from quadlens.base.former_names import FORMER_NAMES, current_name
from quadlens.cli import main
from quadlens.cli.options import metavar
from quadlens.network.bundled import bundled_names

NOTE = "the bundled model `mainline` is now called `pizza`: it is not the mainline model of the paper; `original` is"


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(former_names, "_told", set())


def test_old_names_stand_for_bundled_models_and_are_none_themselves() -> None:
    for old, (new, _) in FORMER_NAMES.items():
        assert new in bundled_names()
        assert old not in bundled_names()


@pytest.mark.slow
def test_once_per_process_and_only_on_stderr() -> None:
    program = """
import quadlens
study = quadlens.study("mainline")
print(study.name, quadlens.load("mainline").config.p, quadlens.evaluate("mainline").correct)
print(quadlens.history("mainline").name, quadlens.edit.resample("mainline", 5).config.d_mlp)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "pizza 59 3481\npizza 5\n"
    assert done.stderr.startswith(NOTE)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.usefixtures("new_process")
@pytest.mark.slow
def test_every_kind_of_argument(capsys: pytest.CaptureFixture[str]) -> None:
    certificate = quadlens.certify("pizza")
    assert capsys.readouterr().err == ""
    assert quadlens.load(Path("mainline")).config == quadlens.load("pizza").config
    assert quadlens.study(Path("mainline")).name == "pizza"
    assert quadlens.check(certificate, "mainline").verdict == "VERIFIED"
    assert quadlens.figures.freqcount("mainline").axes
    shown = capsys.readouterr()
    assert (shown.out, len(shown.err.splitlines())) == ("", 1)


def without_times(text: str) -> str:
    """Output, but for the seconds it took."""
    return re.sub(r"seconds\W+[\d.]+", "seconds", text)


COMMANDS: dict[str, tuple[str, ...]] = {
    "evaluate": ("--json",),
    "explain": ("--no-logits",),
    "check": (),
    "history": (),
    "ablate": ("--frequencies", "5", "-o", "a.safetensors"),
    "export": ("--format", "transformer-lens", "-o", "c.safetensors"),
}


@pytest.mark.usefixtures("new_process")
@pytest.mark.parametrize(
    "word",
    [pytest.param(word, marks=pytest.mark.slow) if word == "check" else word for word in COMMANDS],
)
def test_every_command_prints_the_same(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rest = COMMANDS[word]
    if word == "check":
        quadlens.certify("pizza").save(tmp_path / "cert.json")
    before = ("cert.json",) if word == "check" else ()
    new, old = (command(word, *before, name, *rest) for name in ("pizza", "mainline"))
    assert new.code == old.code == 0
    assert without_times(new.out) == without_times(old.out)
    assert NOTE not in new.err
    assert old.err.count(NOTE) == 1


def test_no_command_is_forgotten() -> None:
    """Wherever the command line takes a model its argument is called MODEL, which is how the old name is found."""
    found = set()
    for word, (module, name, _) in main.COMMANDS.items():
        own = inspect.signature(
            getattr(import_module(f"quadlens.cli.{module}"), name), eval_str=True
        ).parameters
        for one in own.values():
            assert (one.name in ("model", "a", "b", "run")) == metavar(one).startswith("MODEL"), (
                word,
                one,
            )
            found |= {word} if metavar(one) else set()
    assert found >= {
        *COMMANDS,
        "bounds",
        "lens",
        "certify",
        "explore",
        "report",
        "compare",
        "build",
    }


@pytest.mark.usefixtures("new_process")
def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("evaluate", "mainline", "-q").err == ""
    assert current_name("mainline") == "pizza"
    assert capsys.readouterr().err == ""
