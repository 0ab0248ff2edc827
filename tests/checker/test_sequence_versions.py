"""The words of certificates about sequences, and which versions of them are verified."""

import json
from pathlib import Path
from typing import Any

import pytest

import quadlens
from cli_runner import quadlens as command
from places import TESTS
from quadlens_checker.automata import read_automaton
from quadlens_checker.reading import Rejected
from quadlens_checker.sequence_verdict import one_right_token
from quadlens_checker.verdict import verify

STORED = TESTS / "data" / "certificates" / "sequences"


def stored(name: str) -> tuple[Any, bytes]:
    """A certificate of version 3 as it was written, and its network."""
    return json.loads((STORED / f"version3.{name}.json").read_text()), (
        STORED / f"{name}.safetensors"
    ).read_bytes()


def test_old_words_are_verified_where_one_token_is_right() -> None:
    certificate, content = stored("sole")
    assert certificate["version"] == 3
    assert "exceeds that of every other token, by" in certificate["statement"]
    verify(certificate, content, lambda operations: None)


def test_old_words_are_rejected_where_several_tokens_are_right() -> None:
    """Tokens 0 and 1 tie: neither exceeds every other token."""
    certificate, content = stored("several")
    assert certificate["version"] == 3
    with pytest.raises(
        Rejected, match=r"step 0 has several right tokens.*quadlens certify MODEL -o CERT"
    ):
        verify(certificate, content, lambda operations: None)


@pytest.mark.parametrize("name", ["sole", "several"])
def test_new_words_are_true_of_both(name: str, tmp_path: Path) -> None:
    path, model = tmp_path / "new.json", STORED / f"{name}.safetensors"
    assert command("certify", model, "-o", path).code == 0
    certificate = json.loads(path.read_text())
    assert certificate["version"] == 4
    assert (
        "the logit of a right token exceeds that of every token that is not right, by"
        in certificate["statement"]
    )
    report = quadlens.check(path, model)
    assert (report.verdict, report.statement) == ("VERIFIED", certificate["statement"])


@pytest.mark.parametrize("version", [1, 2, 3, 5, True, "4", None])
def test_words_and_version_belong_together(version: object) -> None:
    certificate, content = stored("sole")
    new = json.loads(quadlens.certify(STORED / "sole.safetensors").to_bytes())
    with pytest.raises(Rejected):
        verify({**new, "version": version}, content, lambda operations: None)
    with pytest.raises(Rejected, match="the statement does not fit"):
        verify({**certificate, "version": 4}, content, lambda operations: None)


def test_what_no_input_reaches_does_not_count() -> None:
    """A set of right tokens in an unreachable state keeps the old words true."""
    tables: dict[str, Any] = {
        "next": [[[0, 2]], [[0, 0], [0, 0], [0, 0]]],
        "positions": [{"letter": 0, "tokens": [[0, 1]]}],
        "steps": [{"query": 0, "letter": 1, "right": [[0, 0], [1, 1], [0, 0]]}],
        "answers": [[0], [1, 2]],
    }
    task = read_automaton({"name": "unreached", "automaton": tables}, 2, 3, 1)
    assert [one_right_token(task, step) for step in task.steps] == [True]
    tables["steps"][0]["right"][2][1] = 1
    task = read_automaton({"name": "reached", "automaton": tables}, 2, 3, 1)
    assert [one_right_token(task, step) for step in task.steps] == [False]
