"""A stopped proof states what is proved so far; long work reports its progress."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import quadlens
from any_model import network
from cli_runner import quadlens as command
from quadlens.base.errors import BadConfig
from quadlens.network.evaluate import margins
from quadlens.proofs import long_work
from quadlens.proofs.long_work import TIME_LIMIT, watched
from quadlens.proofs.pairs import STRATEGIES
from quadlens.proofs.sequences.certificate import certify_sequence
from quadlens_checker.verdict import verify
from sequence_oracle import any_network, check


class Clock:
    """A clock that goes on by one second whenever somebody looks at it."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(long_work, "time", made)
    return made


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("seconds", [0.0, 2.0, 5.0, 9.0, 1000.0])
def test_of_pairs_only_right_answers_are_claimed(
    clock: Clock, seed: int, seconds: float, tmp_path: Path
) -> None:
    model = network(np.random.default_rng(seed))
    right = margins(model.collapse()) > 0
    for strategy in STRATEGIES if model.config.no_tables is None else ("brute",):
        with watched(seconds):
            certificate = quadlens.study(model).certify(strategy)
        assert not (certificate.proof.certified & ~right).any()
        listed = {(a, b): c for a, b, c in certificate.proof.witnesses}
        assert not any(right[a, b] for a, b in listed)
        assert certificate.wrong == [
            [a, b, c, int(model.config.task.answers[a, b])] for (a, b), c in listed.items()
        ]
        assert not any(right[a, b] for a, b, _ in certificate.proof.tied)
        if certificate.proof.reason == TIME_LIMIT:
            assert certificate.verdict in ("PARTLY", "UNPROVED")
            assert not certificate.proof.exact
        if certificate.certified_inputs and certificate.checkable:
            path = quadlens.save(model, tmp_path / "model.safetensors")
            verify(json.loads(certificate.to_bytes()), path.read_bytes(), lambda operations: None)


def test_brute_force_keeps_the_rows_that_it_reached(clock: Clock) -> None:
    for model in (quadlens.build(7, (1, 2), 40), network(np.random.default_rng(3))):
        certificates = []
        for seconds in (0.0, 3.0, 6.0, 9.0):
            with watched(seconds):
                certificates.append(quadlens.study(model).certify("brute"))
        counts = [certificate.certified_inputs for certificate in certificates]
        assert counts == sorted(counts)
        assert counts[0] == 0
        assert certificates[0].proof.reason == TIME_LIMIT
    with watched(5.0):
        partly = quadlens.study(quadlens.build(7, (1, 2), 40)).certify("brute")
    assert partly.verdict == "PARTLY"
    assert 0 < partly.certified_inputs < 49


@pytest.mark.parametrize("seed", range(21))
def test_of_sequences_every_count_holds(clock: Clock, seed: int) -> None:
    """Whenever it is stopped; the oracle tries every word."""
    for seconds in (0.0, 3.0, 8.0, 20.0, 50.0):
        with watched(seconds):
            certificate = certify_sequence(any_network(seed))
        check(certificate)
        assert certificate.reason in (None, TIME_LIMIT)
        example = certificate.counter_example
        assert certificate.wrong == ([] if example is None else [list(example.values())])


def test_sequences_that_are_stopped_at_once(clock: Clock) -> None:
    stopped = []
    for seed in range(21):
        with watched(0.0):
            certificate = certify_sequence(any_network(seed))
        assert certificate.summary()["reason"] == certificate.reason
        stopped.append(certificate.reason)
    assert TIME_LIMIT in stopped


def test_a_proof_that_was_stopped_is_not_kept() -> None:
    study = quadlens.study(quadlens.build(7, (1, 2), 40))
    assert quadlens.certify(study, "brute", time_limit=0.0).verdict == "UNPROVED"
    assert quadlens.certify(study, "brute").verdict == "CERTIFIED"
    assert (
        quadlens.certify(study, "brute", time_limit=0.0).verdict == "CERTIFIED"
    )  # it is there already
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(BadConfig, match=r"a time limit of .* expected a finite number"):
            quadlens.certify(study, time_limit=wrong)


def test_python_is_told_of_the_work() -> None:
    told: list[str] = []
    quadlens.certify(quadlens.build(7, (1, 2), 40), "brute", progress=told.append)
    assert told[:2] == ["proving by brute", "rows 1/7"]
    told.clear()
    quadlens.certify("adder", time_limit=0.0, progress=told.append)
    assert told[0] == "bounding what attention brings"


def test_a_check_says_how_long_it_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from quadlens_checker import guard

    monkeypatch.setattr(guard, "PROGRESS_SECONDS", 0.02)
    told: list[str] = []
    certificate = quadlens.study("pizza").certify()
    assert quadlens.check(certificate, "pizza", progress=told.append).verdict == "VERIFIED"
    assert re.match(r"checking: \d+ s of at most 600 s", told[0])
    assert (
        quadlens.check(certificate, "pizza", max_seconds=0.01, progress=told.append).verdict
        == "TIMEOUT"
    )

    def stop(words: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quadlens.check(certificate, "pizza", progress=stop)


def test_the_command_line_takes_a_limit(tmp_path: Path) -> None:
    run = command(
        "certify",
        "pizza",
        "--strategy",
        "brute",
        "--time-limit",
        "0",
        "--json",
        "-o",
        tmp_path / "c.json",
    )
    assert run.code == 1
    assert (run.document["verdict"], run.document["reason"]) == ("UNPROVED", "time limit")
    assert not (tmp_path / "c.json").exists()
    run = command("certify", "adder", "--time-limit", "0", "--json")
    assert (run.code, run.document["verdict"], run.document["reason"]) == (
        1,
        "UNPROVED",
        "time limit",
    )
    assert command("certify", "pizza", "-o", tmp_path / "c.json").code == 0
    for flag in ("--time-limit", "--max-seconds"):
        assert (
            command("check", tmp_path / "c.json", "pizza", flag, "0", "--json").document["verdict"]
            == "TIMEOUT"
        )
