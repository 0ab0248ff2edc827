"""README quotes what its commands print; `…` stands for lines left out."""

import re
from pathlib import Path

import pytest

from cli_runner import quadlens
from places import ROOT

pytestmark = pytest.mark.slow

BLOCK = re.compile(r"^```console\n(.*?)^```", re.M | re.S)


def quoted(text: str) -> list[tuple[list[str], list[str]]]:
    """The words of each command, and the lines below it."""
    found: list[tuple[list[str], list[str]]] = []
    for block in BLOCK.findall(text):
        for line in block.splitlines():
            if line.startswith("$ quadlens "):
                found.append((line.split()[2:], []))
            elif found:
                found[-1][1].append(line.rstrip())
    return found


def stands_in(lines: list[str], printed: list[str]) -> bool:
    """Return whether lines follow one another in what was printed, but for those that `…` is."""
    place, anywhere = 0, False
    for line in lines:
        if line == "…":
            anywhere = True
            continue
        places = (
            range(place, len(printed)) if anywhere else range(place, min(place + 1, len(printed)))
        )
        hit = next((i for i in places if printed[i] == line), None)
        if hit is None:
            return False
        place, anywhere = hit + 1, False
    return anywhere or place == len(printed)


def test_what_is_quoted_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = quoted((ROOT / "README.md").read_text(encoding="utf-8"))
    with_output = [(words, lines) for words, lines in commands if lines]
    assert len(with_output) >= 2
    for words, lines in with_output:
        run = quadlens(*words)
        assert run.code == 0, run.err
        printed = [line.rstrip() for line in run.out.splitlines()]
        assert stands_in(lines, printed), (words, lines, printed)


def test_a_line_that_is_not_printed_is_found() -> None:
    printed = ["first", "second", "third"]
    assert stands_in(["first", "…"], printed)
    assert stands_in(["…", "third"], printed)
    assert stands_in(printed, printed)
    assert not stands_in(["first"], printed)
    assert not stands_in(["first", "third"], printed)
    assert not stands_in(["…", "fourth", "…"], printed)
    assert quoted("```console\n$ quadlens a b\nx\n$ quadlens c\n```\n") == [
        (["a", "b"], ["x"]),
        (["c"], []),
    ]
