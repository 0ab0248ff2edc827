"""What reaches a terminal: names from outside move no cursor, clear no line and hide no text."""

import io
import json
import re
from collections import OrderedDict
from pathlib import Path

import pytest

import quadlens as package
from cli_runner import quadlens
from quadlens.cli.output import Output, safe_console, surviving_streams

EVIL = "a\x1b[2J\x9b1A\x07\u202eb"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Terminal(io.StringIO):
    """A terminal that remembers all it is sent."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    package.save(package.build(5, (1,), 8), Path("in") / f"{EVIL}.safetensors")
    (Path("in") / f"{EVIL}2.safetensors").write_bytes(b"nothing")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", f"in/{EVIL}.safetensors"),
        ("evaluate", f"in/{EVIL}3.safetensors"),
        ("certify", f"in/{EVIL}.safetensors", "-o", f"{EVIL}.json"),
        ("certify", f"in/{EVIL}.safetensors", "--strategy", EVIL),
        ("import", "in"),
        ("import", f"in/{EVIL}.safetensors", "-o", f"{EVIL}.safetensors"),
        ("import", f"in/{EVIL}2.safetensors", "-o", f"{EVIL}.safetensors"),
        ("build", "--p", "5", "--keys", "1", "--neurons", "8", "-o", f"{EVIL}.safetensors"),
        ("check", f"{EVIL}.json", f"in/{EVIL}.safetensors"),
        (EVIL,),
    ],
)
@pytest.mark.parametrize("json_flag", [(), ("--json",)])
def test_no_command_sends_control_characters(
    folder: Path, words: tuple[str, ...], json_flag: tuple[str, ...]
) -> None:
    run = quadlens(*words, *json_flag)
    assert not CONTROLS.search(run.out + run.err), run
    if run.code == 0 and json_flag:
        assert json.loads(run.out)


def test_styles_of_a_table_reach_a_terminal_and_names_in_it_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rich.table import Table
    from rich.text import Text

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    with surviving_streams():
        table = Table("name")
        table.add_row(Text(EVIL + "\x1b[31m", style="bold"))
        safe_console().print(table)
    assert "\x1b[1m" in screen.getvalue()
    assert not CONTROLS.search(re.sub(r"\x1b\[[0-3;]*m", "", screen.getvalue()))


def test_a_line_of_progress_is_drawn_over(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with surviving_streams(), Output(json=False, quiet=False).step_line() as step:
        step(f"reading {EVIL}")
    begin, line, end = screen.getvalue().split("\r\x1b[K")
    assert (begin, end) == ("", "")
    assert line == "reading a\\u001b[2J\\u009b1A\\u0007\\u202eb …"


def test_what_python_prints_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    nn = pytest.importorskip("torch.nn")
    parts = OrderedDict({EVIL: nn.Linear(10, 6), "s": nn.ReLU(), f"{EVIL}2": nn.Linear(6, 5)})
    study = package.from_module(nn.Sequential(parts), inputs="one-hot")
    told = capsys.readouterr().out
    assert "u001b" in told
    assert not CONTROLS.search(told + repr(study))
    with pytest.raises(package.QuadlensError) as error:
        package.from_module(
            nn.Sequential(OrderedDict({EVIL: nn.BatchNorm1d(10)})), inputs="one-hot"
        )
    assert "u001b" in str(error.value)
    assert not CONTROLS.search(str(error.value))
