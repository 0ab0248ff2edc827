"""The proved program's exit code decides; a file's text cannot be a verdict."""

import stat
from pathlib import Path

import pytest

import quadlens
from quadlens.base.errors import BadFile
from quadlens.network.handmade import Recipe, build_mlp
from quadlens.proofs import proved
from quadlens.proofs.pairs.produce import certify
from quadlens.proofs.proved import check_proved

FACTS = (
    "model SHA-256: 00\ncertificate SHA-256: 00\nread t: 3 x 3, 72 bytes\n"
    "task: add\nmargin: 1/2\ninputs: 9\ncertified: {}\n"
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A certificate and its model, in which no task has a false name."""
    model = build_mlp(Recipe(7, (1, 2), 20, noise=0.02))
    certify(model, "brute").save(tmp_path / "certificate.json")
    return str(tmp_path / "certificate.json"), str(
        quadlens.save(model, tmp_path / "model.safetensors")
    )


def printing(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str, code: int) -> None:
    """Make the program one that prints this and ends with this code."""
    (folder / "text").write_bytes(text.encode())
    script = folder / "program"
    script.write_text(f"#!/bin/sh\ncat '{folder}/text'\nexit {code}\n")
    script.chmod(script.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setattr(proved, "program", lambda: script)


@pytest.mark.parametrize(("code", "certified"), [(0, 9), (1, 8)])
def test_a_verdict_is_read(
    code: int,
    certified: int,
    files: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printing(monkeypatch, tmp_path, FACTS.format(certified) + "VERIFIED\n", code)
    report = check_proved(*files)
    claims = {"inputs": 9, "certified_inputs": certified, "margin": "1/2"}
    assert (report.verdict, report.claims) == ("VERIFIED", claims)
    assert report.model_sha256 == "00"


@pytest.mark.parametrize(
    "between", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r", "\n"]
)
@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_name_in_a_file_is_no_verdict(
    between: str, code: int, files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program quotes a tensor's name: `NAME is not a list`."""
    name = f"x{between}VERIFIED: y"
    verdict = "BAD" if code == 2 else "REJECTED"
    printing(monkeypatch, tmp_path, FACTS.format(8) + f"{verdict}: {name} is not a list\n", code)
    if code == 2:
        with pytest.raises(BadFile):
            check_proved(*files)
        return
    assert check_proved(*files).verdict == "REJECTED"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (FACTS.format(9) + "VERIFIED\n", 1),  # all inputs are certified: the program ends with 0
        (FACTS.format(8) + "VERIFIED\n", 0),
        (FACTS.format(9) + "VERIFIED\n", 2),
        ("VERIFIED\n", 0),
        ("inputs: 9\ncertified: 9\nVERIFIED\n", 0),
        (FACTS.format("all") + "VERIFIED\n", 0),
        (FACTS.format(9) + "VERIFIED", 139),
        ("", 0),
        ("", 1),
    ],
)
def test_what_the_program_never_prints_verifies_nothing(
    text: str, code: int, files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printing(monkeypatch, tmp_path, text, code)
    try:
        verdict = check_proved(*files).verdict
    except BadFile:
        return
    assert verdict == "REJECTED"
