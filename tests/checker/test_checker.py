"""The checker accepts what is proved and rejects everything else, however it is broken."""

import ast
import hashlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from examples import examples
from places import TESTS
from quadlens.cli.check import command
from quadlens.network.config import Config
from quadlens.network.exact import exact_logits
from quadlens.network.handmade import Recipe, build_mlp, build_transformer
from quadlens.network.native import save, sha256, to_bytes
from quadlens.network.weights import Weights
from quadlens.proofs import pairs as proofs
from quadlens.proofs.pairs import certify
from quadlens_checker import CheckReport, check, limits
from quadlens_checker.archive import archive
from quadlens_checker.direct import by_brute_force, read_layers
from quadlens_checker.model_file import read_model
from quadlens_checker.reading import Rejected
from quadlens_checker.verdict import check_here, statement, verify
from small_models import random_transformers, small_models
from soundness import true_margins
from strategies import mlps

STRATEGIES = ["arcs", "brute", "moments", "thin"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that adds modulo 11 with noise, its certificates, and one that is wrong somewhere."""
    folder = tmp_path_factory.mktemp("certificates")
    for name, noise in (("good", 0.02), ("wrong", 0.6)):
        model = build_transformer(Recipe(11, (1, 2, 4), 48, jitter=0.05, noise=noise, seed=3))
        save(model, folder / f"{name}.safetensors")
        for strategy in STRATEGIES:
            certify(model, strategy).save(folder / f"{name}.{strategy}.json")
    return folder


def run(folder: Path, certificate: object, model: str = "good") -> CheckReport:
    """Check a certificate given as a value or as text."""
    path = folder / "tampered.json"
    path.write_text(certificate if isinstance(certificate, str) else json.dumps(certificate))
    return check(str(path), str(folder / f"{model}.safetensors"), 60.0)


def load(folder: Path, name: str = "good.arcs") -> Any:
    return json.loads((folder / f"{name}.json").read_text())


def restated(certificate: Any) -> Any:
    """Make the words fit the claims again, so that a rejection is about the claims themselves."""
    claims = certificate["claims"]
    margin, error = (
        Fraction(claims["margin"]),
        claims["float32_error"] and Fraction(claims["float32_error"]),
    )
    claims["float32_certified"] = bool(error is not None and margin > 2 * error)
    p = certificate["model"]["p"]
    certificate["statement"] = statement(
        p, claims["certified_inputs"], margin, error, f"a + b mod {p}"
    )
    return certificate


@pytest.mark.parametrize(
    "name",
    [
        "good.arcs",
        "good.brute",
        "good.moments",
        "good.thin",
        "wrong.arcs",
        "wrong.brute",
        "wrong.moments",
    ],
)
def test_true_certificates_are_verified(folder: Path, name: str) -> None:
    certificate = load(folder, name)
    report = run(folder, certificate, name.split(".", 1)[0])
    assert report.verdict == "VERIFIED", report.reason
    assert report.claims == certificate["claims"]
    assert report.cost == certificate["cost"]
    assert str(report.cost_words).startswith("Cost, not checked: ")
    assert report.exit_code == int(name.startswith("wrong"))
    assert certificate["verdict"] == ("CERTIFIED" if name.startswith("good") else "PARTLY")
    assert bool(certificate["witnesses"]) == (name in ("wrong.arcs", "wrong.brute"))


STORED = TESTS / "data" / "certificates"
# What a certificate of version 3 with a line about float32 must name.
HYPOTHESES = (
    "IEEE binary32", "rounded to nearest", "gradual underflow (of operands too)",
    "weights first rounded",
    "layer after layer", "a sum of products in any order", "no Strassen",
    "no TF32 or bfloat16 inputs or accumulation",
    "no layers multiplied out",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(STORED.glob("*.json")), ids=lambda path: path.stem)
def test_stored_certificates_of_every_version_are_verified_with_their_own_words(path: Path) -> None:
    version, name, _ = path.stem.split(".")
    model = STORED / f"{name}.safetensors"
    report = check(str(path), str(model), 60.0)
    assert report.verdict == "VERIFIED", report.reason
    assert report.statement is not None
    assert ("Float32 execution" in report.statement) == (name != "gated")
    assert ("Float32 execution in any order" in report.statement) == (
        version != "version3" and name != "gated"
    )
    assert all(
        (words in report.statement) == (version == "version3" and name != "gated")
        for words in HYPOTHESES
    )
    certificate = json.loads(path.read_text())
    assert certificate["version"] == int(version.removeprefix("version"))
    for other in {1, 2, 3} - {certificate["version"]}:
        with pytest.raises(Rejected):
            verify({**certificate, "version": other}, model.read_bytes(), lambda operations: None)


@examples(50)
@given(st.one_of(small_models, random_transformers(), mlps()), st.sampled_from(STRATEGIES))
def test_what_the_producer_proves_the_checker_verifies(model: Weights, strategy: str) -> None:
    certificate = certify(model, strategy)
    claims = json.loads(certificate.to_bytes())
    assume(certificate.proof.margin is not None)
    content = to_bytes(model)
    verify(claims, content, lambda operations: None)


Tamper = Callable[[Any], Any]


def _margin(factor: Fraction) -> Tamper:
    def tamper(certificate: Any) -> Any:
        margin = Fraction(certificate["claims"]["margin"]) + factor
        certificate["claims"]["margin"] = f"{margin.numerator}/{margin.denominator}"
        return restated(certificate)

    return tamper


def _error(certificate: Any) -> Any:
    error = Fraction(certificate["claims"]["float32_error"]) - Fraction(1, 10**9)
    certificate["claims"]["float32_error"] = f"{error.numerator}/{error.denominator}"
    return restated(certificate)


def _words(old: str, new: str) -> Tamper:
    def tamper(certificate: Any) -> Any:
        certificate["statement"] = certificate["statement"].replace(old, new)
        return certificate

    return tamper


def _swap(certificate: Any) -> Any:
    neurons = certificate["hints"]["clusters"][0]["neurons"]
    neurons[0], neurons[len(neurons) // 2] = neurons[len(neurons) // 2], neurons[0]
    return certificate


def _at(*path: str | int, value: Any) -> Tamper:
    def tamper(certificate: Any) -> Any:
        place = certificate
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return certificate

    return tamper


def _without(*path: str) -> Tamper:
    def tamper(certificate: Any) -> Any:
        place = certificate
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]
        return certificate

    return tamper


TAMPERED: dict[str, tuple[Tamper, str]] = {
    "margin strengthened by 1e-9": (_margin(Fraction(1, 10**9)), "margin claimed is not proved"),
    "float32 error strengthened by 1e-9": (_error, "float32 error claimed is smaller"),
    "words strengthened": (
        lambda c: {**c, "statement": c["statement"].replace("0", "9", 3)},
        "statement does not fit",
    ),
    "a neuron dropped": (
        lambda c: c["hints"]["clusters"][0]["neurons"].pop() and c,
        "every neuron exactly once",
    ),
    "a neuron twice": (
        lambda c: (
            c["hints"]["clusters"][0]["neurons"].append(c["hints"]["clusters"][0]["neurons"][0])
            or c
        ),
        "every neuron exactly once",
    ),
    "a cluster dropped": (
        lambda c: c["hints"]["clusters"].pop() and c,
        "every neuron exactly once",
    ),
    "an input's arcs dropped": (
        lambda c: c["hints"]["arcs"].pop() and c,
        "one list of arcs per input",
    ),
    "arcs out of order": (_at("hints", "arcs", 0, value=[3, 1]), "ascending"),
    "arcs out of range": (_at("hints", "arcs", 0, value=[1, 10**6]), "outside"),
    "half an arc": (_at("hints", "arcs", 0, value=[1]), "ascending"),
    "the float32 line dropped": (_without("claims", "float32_error"), "claims has keys"),
    "the witnesses dropped": (_without("witnesses"), "the certificate has keys"),
    "an unknown key": (_at("note", value="trust me"), "the certificate has keys"),
    "a false witness": (
        _at("witnesses", value=[[1, 2, 4]]),
        "not shown that a = 1, b = 2 is answered 4",
    ),
    "the right answer as witness": (_at("witnesses", value=[[1, 2, 3]]), "not shown"),
    "more inputs": (_at("claims", "inputs", value=122), "counted wrongly"),
    "more certified inputs": (_at("claims", "certified_inputs", value=122), "counted wrongly"),
    "no cost": (_at("cost", value={}), "cost has keys"),
    "a cost that is no number": (_at("cost", "flops", value="few"), "not a list of integers"),
    "a negative cost": (_at("cost", "flops", value=-1), "cost has an entry outside"),
    "another model": (_at("model", "sha256", value="0" * 64), "another model file"),
    "another p": (_at("model", "p", value=13), "certificate's p"),
    "another activation": (_at("model", "activation", value="abs"), "certificate's activation"),
    "verdict for less": (_at("verdict", value="PARTLY"), "verdict does not fit"),
    "unknown strategy": (_at("strategy", value="faith"), "unknown strategy"),
    "brute with arcs' hints": (_at("strategy", value="brute"), "hints has keys"),
    "another version": (_at("version", value=4), "unknown format"),
    "the version of other models": (_at("version", value=2), "have version 3, or 1"),
    "a version that says less": (_at("version", value=1), "model has keys"),
    "a version that is true": (_at("version", value=True), "unknown format"),
    "a version that is text": (_at("version", value="3"), "unknown format"),
    "words that forget a hypothesis": (
        _words(" (of operands too)", ""),
        "the statement does not fit",
    ),
    "words of version 1": (
        _words("Float32 execution", "Float32 execution in any order"),
        "the statement does not fit",
    ),
    "an unknown key in the claims": (_at("claims", "note", value=1), "claims has keys"),
    "an unknown key in the hints": (_at("hints", "note", value=1), "hints has keys"),
    "an unknown key in a cluster": (
        _at("hints", "clusters", 0, "note", value=1),
        "a cluster has keys",
    ),
    "an unknown key about the model": (_at("model", "note", value=1), "model has keys"),
    "an unknown key in the cost": (_at("cost", "note", value=1), "cost has keys"),
    "a margin of 0": (_at("claims", "margin", value="0/1"), "not a positive rational"),
    "a negative margin": (_at("claims", "margin", value="-1/2"), "not a positive rational"),
    "a margin over 0": (_at("claims", "margin", value="1/0"), "not a positive rational"),
    "no margin": (_at("claims", "margin", value=None), "claims nothing"),
    "a margin as a number": (_at("claims", "margin", value=1), "not a rational"),
    "an endless margin": (_at("claims", "margin", value="9" * 10**6 + "/1"), "sensible length"),
    "hints of the wrong type": (_at("hints", value=[]), "hints is not an object"),
    "clusters of the wrong type": (_at("hints", "clusters", value=7), "malformed"),
    "booleans for neurons": (
        _at("hints", "clusters", 0, "neurons", value=[True]),
        "not a list of integers",
    ),
    "uncertified listed twice": (_at("uncertified", value=[[0, 0], [0, 0]]), "distinct pairs"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_tampered_certificates_are_rejected(folder: Path, what: str) -> None:
    tamper, reason = TAMPERED[what]
    report = run(folder, tamper(load(folder)))
    assert report.verdict == "REJECTED"
    assert re.search(reason, report.reason), report.reason


def _scaled_basis(certificate: Any) -> Any:
    certificate["hints"]["basis"] = [[2 * x for x in row] for row in certificate["hints"]["basis"]]
    return certificate


def _dropped_function(certificate: Any) -> Any:
    """A dropped term."""
    certificate["hints"]["basis"].pop(0)
    certificate["hints"]["coefficients"].pop(0)
    return certificate


TAMPERED_MOMENTS: dict[str, tuple[Tamper, str]] = {
    "margin strengthened by 1e-9": (_margin(Fraction(1, 10**9)), "margin claimed is not proved"),
    "a dropped term": (_dropped_function, "margin claimed is not proved"),
    "a basis without coefficients": (
        lambda c: c["hints"]["coefficients"].pop() and c,
        "do not fit",
    ),
    "a short basis": (lambda c: c["hints"]["basis"][0].pop() and c, "basis has 10 entries"),
    "another basis": (_scaled_basis, "margin claimed is not proved"),
    "another scale": (_at("hints", "shift", value=3), "margin claimed is not proved"),
    "an endless shift": (_at("hints", "shift", value=10**9), "outside"),
    "a negative shift": (_at("hints", "shift", value=-1), "outside"),
    "a basis of words": (_at("hints", "basis", 0, value=["a"] * 11), "not a list of integers"),
    "no remainder": (_without("hints", "coefficients"), "hints has keys"),
    "a swapped neuron": (_swap, "margin claimed is not proved"),
}


@pytest.mark.parametrize("what", TAMPERED_MOMENTS)
def test_tampered_moments_are_rejected(folder: Path, what: str) -> None:
    tamper, reason = TAMPERED_MOMENTS[what]
    report = run(folder, tamper(load(folder, "good.moments")))
    assert report.verdict == "REJECTED"
    assert re.search(reason, report.reason), report.reason


def _each_direction(change: Callable[[int], int]) -> Tamper:
    def tamper(certificate: Any) -> Any:
        rows = certificate["hints"]["directions"]
        certificate["hints"]["directions"] = [[change(x) for x in row] for row in rows]
        return certificate

    return tamper


def _dropped_direction(certificate: Any) -> Any:
    """One direction less on the reading side."""
    certificate["hints"]["directions"] = [row[1:] for row in certificate["hints"]["directions"]]
    return certificate


def above(folder: Path, strategy: str) -> Fraction:
    """What makes a claimed margin too large by 1e-9.

    Of `thin` the checker's bounds are sharper than the producer's, so that what it cannot prove
    begins above what is claimed; what is above the true margin, which brute force claims, nobody
    proves.
    """
    true, claimed = (
        Fraction(load(folder, f"good.{name}")["claims"]["margin"]) for name in ("brute", strategy)
    )
    return Fraction(1, 10**9) + (true - claimed if strategy == "thin" else 0)


def test_a_margin_of_thin_above_the_truth_is_rejected(folder: Path) -> None:
    report = run(folder, _margin(above(folder, "thin"))(load(folder, "good.thin")))
    assert (report.verdict, "margin claimed is not proved" in report.reason) == ("REJECTED", True)


TAMPERED_THIN: dict[str, tuple[Tamper, str]] = {
    "longer directions": (_each_direction(lambda x: 2 * x), "margin claimed is not proved"),
    "no directions at all": (_each_direction(lambda x: 0), "margin claimed is not proved"),
    "a dropped direction": (_dropped_direction, "margin claimed is not proved"),
    "another mean": (
        lambda c: (
            c["hints"]["means"].__setitem__(0, [10**9 * x for x in c["hints"]["means"][0]]) or c
        ),
        "margin claimed is not proved",
    ),
    "one mean": (lambda c: c["hints"]["means"].pop() and c, "means are not two rows"),
    "three means": (
        lambda c: c["hints"]["means"].append(c["hints"]["means"][0]) or c,
        "means are not two rows",
    ),
    "a short mean": (lambda c: c["hints"]["means"][1].pop() and c, "means is not"),
    "a direction of words": (_at("hints", "directions", 0, value=["a"]), "not a list of integers"),
    "a ragged matrix": (lambda c: c["hints"]["directions_out"][1].pop() and c, "entries, expected"),
    "a row too few": (lambda c: c["hints"]["directions"].pop() and c, "directions is not"),
    "more directions than there are": (
        lambda c: c["hints"].update(directions=[row * 99 for row in c["hints"]["directions"]]) or c,
        "columns, expected 1…",
    ),
    "no columns": (
        lambda c: c["hints"].update(directions=[[] for _ in c["hints"]["directions"]]) or c,
        "0 columns",
    ),
    "moments' name": (_at("strategy", value="moments"), "hints has keys"),
}


@pytest.mark.parametrize("what", TAMPERED_THIN)
def test_tampered_thin_proofs_are_rejected(folder: Path, what: str) -> None:
    tamper, reason = TAMPERED_THIN[what]
    report = run(folder, tamper(load(folder, "good.thin")))
    assert report.verdict == "REJECTED"
    assert re.search(reason, report.reason), report.reason


OTHER_HINTS: dict[str, tuple[str, Tamper]] = {
    "a swapped neuron": ("arcs", _swap),
    "arcs moved": ("arcs", _at("hints", "arcs", 0, value=[0, 48])),
    "a cheaper cost": ("arcs", _at("cost", "flops", value=1)),
    "a dearer yardstick": ("arcs", _at("cost", "brute_force_flops", value=10**9)),
    "a swapped neuron of thin": ("thin", _swap),
    "a cheaper cost of thin": ("thin", _at("cost", "flops", value=1)),
    "the full collapse in the cost of thin": ("thin", _at("cost", "collapse_flops", value=10**6)),
}


@pytest.mark.parametrize("what", OTHER_HINTS)
def test_the_cost_is_no_claim_and_not_checked(folder: Path, what: str) -> None:
    """Other hints than the producer's prove the same theorem at another cost."""
    strategy, tamper = OTHER_HINTS[what]
    certificate = tamper(load(folder, f"good.{strategy}"))
    report = run(folder, certificate)
    assert (report.verdict, report.cost, report.exit_code) == ("VERIFIED", certificate["cost"], 0)


JUNK = [None, True, False, 0, 1, -1, 3, 10**17, "", "1/3", "x", [], [0], [[0, 0]], {}, {"k": 1}]


def _places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every path into a JSON value but its root."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [place for key, item in inside for place in [(*path, key), *_places(item, (*path, key))]]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_mutant_is_rejected_or_true(tmp_path: Path, strategy: str) -> None:
    """Change anything in a certificate: the checker answers, and what it verifies is true."""
    model = build_transformer(Recipe(7, (1, 2), 16, jitter=0.05, noise=0.03, seed=1))
    truth, rng, verified = true_margins(model), np.random.default_rng(0), 0
    save(model, tmp_path / "m.safetensors")
    original = certify(model, strategy).to_bytes()
    for _ in range(120):
        certificate = json.loads(original)
        places = _places(certificate)
        for _ in range(rng.integers(1, 3)):
            # Half of the places near the top, where most of the meaning is.
            near = [place for place in places if len(place) <= 2] if rng.random() < 0.5 else places
            *path, last = near[rng.integers(len(near))]
            place = certificate
            try:
                for key in path:
                    place = place[key]
                old = place[last]
                steps = [old + 1, old - 1, -old] if type(old) is int else []
                place[last] = [*JUNK, *steps * 4][rng.integers(len(JUNK) + 4 * len(steps))]
            except (LookupError, TypeError):
                continue  # the first change took away the place of the second
        (tmp_path / "c.json").write_text(json.dumps(certificate))
        report = check_here(str(tmp_path / "c.json"), str(tmp_path / "m.safetensors"), 60.0)
        assert report.verdict in ("VERIFIED", "REJECTED")
        if report.verdict == "VERIFIED":
            verified += 1
            margin, open_inputs = Fraction(report.claims["margin"]), certificate["uncertified"]
            for a, b in ((n // 7, n % 7) for n in range(49)):
                assert [a, b] in open_inputs or truth[a][b] >= margin
    assert 0 < verified < 120


def test_thin_is_for_transformers(folder: Path) -> None:
    model = build_mlp(Recipe(11, (1, 2, 4), 48))
    save(model, folder / "mlp.safetensors")
    certificate = load(folder, "good.thin")
    certificate["model"]["sha256"] = sha256(model)
    assert "relu transformers" in run(folder, certificate, "mlp").reason


def test_a_weaker_claim_is_verified(folder: Path) -> None:
    """A smaller margin is also true: hints and claims need not be the producer's."""
    assert run(folder, _margin(Fraction(-1, 10**9))(load(folder))).verdict == "VERIFIED"


def test_wrong_inputs_cannot_be_certified(folder: Path) -> None:
    certificate = load(folder, "wrong.arcs")
    certificate["uncertified"].pop()
    certificate["claims"]["certified_inputs"] += 1
    if not certificate["uncertified"]:
        certificate["verdict"] = "CERTIFIED"
    report = run(folder, restated(certificate), "wrong")
    assert (report.verdict, "not proved for" in report.reason) == ("REJECTED", True)


@pytest.mark.parametrize("strategy", ["brute", "arcs"])
def test_an_exact_tie_is_no_witness(tmp_path: Path, strategy: str) -> None:
    """0 + 0 is answered 0 or 1: it is not proved wrong, as it was before version 3."""
    W_a, W_out = np.array([[1.0, 0], [0, 1], [0, 0]]), np.array([[1.0, 1, 0], [0, 1, 0]])
    model = Weights.mlp(Config.mlp(3, 2), W_a, np.zeros((3, 2)), W_out)
    save(model, tmp_path / "tied.safetensors")
    one = certify(model, strategy)
    assert (0, 0, 1) in one.proof.tied
    certificate = one.to_json()
    assert run(tmp_path, certificate, "tied").verdict == "VERIFIED"
    certificate["witnesses"].append([0, 0, 1])
    report = run(tmp_path, certificate, "tied")
    assert report.verdict == "REJECTED"
    assert report.reason == "it is not shown that a = 0, b = 0 is answered 1"
    certificate |= {"version": 1}
    certificate["model"] = {
        k: v for k, v in certificate["model"].items() if k not in ("task", "attention")
    }
    claims = certificate["claims"]
    margin, error = Fraction(claims["margin"]), Fraction(claims["float32_error"])
    certificate["statement"] = statement(
        3, claims["certified_inputs"], margin, error, "a + b mod 3", version=1
    )
    assert run(tmp_path, certificate, "tied").verdict == "VERIFIED"


def test_a_certificate_of_another_model_is_rejected(folder: Path) -> None:
    assert "another model" in run(folder, load(folder), "wrong").reason
    certificate = load(folder)
    certificate["model"]["sha256"] = load(folder, "wrong.arcs")["model"]["sha256"]
    assert run(folder, certificate, "wrong").verdict == "REJECTED"


@pytest.mark.parametrize("place", [0.05, 0.3, 0.6, 0.99])
def test_one_flipped_bit_of_the_model_is_rejected(folder: Path, place: float) -> None:
    content = bytearray((folder / "good.safetensors").read_bytes())
    content[int(place * len(content))] ^= 1
    (folder / "flipped.safetensors").write_bytes(content)
    assert "another model" in run(folder, load(folder), "flipped").reason


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_cut_files_are_rejected(folder: Path, share: float) -> None:
    text = (folder / "good.arcs.json").read_text()
    assert "JSON" in run(folder, text[: int(share * len(text))]).reason
    content = (folder / "good.safetensors").read_bytes()
    (folder / "cut.safetensors").write_bytes(content[: int(share * len(content))])
    certificate = load(folder)
    certificate["model"]["sha256"] = hashlib.sha256(
        content[: int(share * len(content))]
    ).hexdigest()
    report = run(folder, certificate, "cut")
    assert (report.verdict, "cut" in report.reason or "malformed" in report.reason) == (
        "REJECTED",
        True,
    )


MALFORMED = {
    "a duplicate key": ('{"format":1,"format":2}', "twice"),
    "a billion-digit number": ('{"format":' + "9" * 10**7 + "}", "an integer with"),
    "an exponent": ('{"format":1e999999999}', "exact integers"),
    "infinity": ('{"format":Infinity}', "exact integers"),
    "not a number": ('{"format":NaN}', "exact integers"),
    "a deep nest": ("[" * 10**6, "JSON"),
    "nothing": ("", "JSON"),
    "a list": ("[]", "not an object"),
    "no claims": ("{}", "has keys"),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_files_are_rejected_at_once(folder: Path, what: str) -> None:
    text, reason = MALFORMED[what]
    report = run(folder, text)
    assert report.verdict == "REJECTED"
    assert reason in report.reason


def test_bytes_that_are_not_text_are_rejected(folder: Path) -> None:
    path = folder / "binary.json"
    path.write_bytes(b"\xff\xfe\x00")
    assert check(str(path), str(folder / "good.safetensors")).verdict == "REJECTED"


def test_large_files_are_rejected(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CERTIFICATE_BYTES", 10)
    report = check_here(str(folder / "good.arcs.json"), str(folder / "good.safetensors"), 60.0)
    assert (report.verdict, "larger than 10 bytes" in report.reason) == ("REJECTED", True)


def test_the_time_limit_is_kept(folder: Path) -> None:
    path, model = folder / "good.arcs.json", folder / "good.safetensors"
    for report in (check(str(path), str(model), 0.0), check_here(str(path), str(model), 0.0)):
        assert (report.verdict, report.reason, report.exit_code) == (
            "TIMEOUT",
            "not verified within 0 seconds",
            1,
        )
        assert (report.claims, report.statement, report.cost) == ({}, None, {})


@pytest.mark.parametrize("limit", [-1.0, float("nan"), float("inf")])
def test_a_limit_that_is_none_is_refused(folder: Path, limit: float) -> None:
    names = str(folder / "good.arcs.json"), str(folder / "good.safetensors")
    with pytest.raises(ValueError, match="a time limit of"):
        check(*names, limit)
    with pytest.raises(ValueError, match="a memory limit of 0 bytes"):
        check(*names, 1.0, 0)


def test_a_model_too_large_for_the_time_is_refused_before_the_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OPERATIONS_PER_SECOND", 1)
    report = check_here(str(folder / "good.arcs.json"), str(folder / "good.safetensors"), 60.0)
    assert (report.verdict, report.reason) == ("TIMEOUT", "not verified within 60 seconds")


def _in_header(change: Callable[[str], str]) -> Callable[[bytes], bytes]:
    """The model file with the text of its header changed."""

    def rewrite(content: bytes) -> bytes:
        size = int.from_bytes(content[:8], "little")
        text = content[8 : 8 + size].decode()
        assert change(text) != text
        header = change(text).encode()
        return len(header).to_bytes(8, "little") + header + content[8 + size :]

    return rewrite


def _in_metadata(change: Callable[[str], str]) -> Callable[[bytes], bytes]:
    """The model file with the text of its metadata changed."""

    def rewrite(text: str) -> str:
        header = json.loads(text)
        before = header["__metadata__"]["quadlens"]
        header["__metadata__"]["quadlens"] = change(before)
        assert header["__metadata__"]["quadlens"] != before
        return json.dumps(header)

    return _in_header(rewrite)


# What a lenient reader of the model file would let pass, each with the reason for which a strict
# one does not.
LENIENT: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "an activation twice": (
        _in_metadata(lambda x: x.replace('"activation"', '"activation": "abs", "activation"')),
        "appears twice",
    ),
    "a format twice": (
        _in_metadata(lambda x: x.replace('"format"', '"format": 1, "format"')),
        "appears twice",
    ),
    "a format that is true": (
        _in_metadata(lambda x: x.replace('"format": 1', '"format": true')),
        "unknown version",
    ),
    "a format that is 1.0": (
        _in_metadata(lambda x: x.replace('"format": 1', '"format": 1.0')),
        "unknown version",
    ),
    "a format that is 2": (
        _in_metadata(lambda x: x.replace('"format": 1', '"format": 2')),
        "unknown version",
    ),
    "an unknown key": (
        _in_metadata(lambda x: x.replace('"format"', '"note": 1, "format"')),
        "metadata has keys",
    ),
    "an unknown key in the config": (
        _in_metadata(lambda x: x.replace('"activation"', '"rotary": 1, "activation"')),
        "unknown or missing keys",
    ),
    "a config of a list": (
        _in_metadata(lambda x: '{"format": 1, "config": [], "checksum": ""}'),
        "malformed",
    ),
    "another architecture": (
        _in_metadata(lambda x: x.replace("transformer", "rnn")),
        "unknown or missing keys",
    ),
    "attention that is not a number": (
        _in_metadata(lambda x: x.replace("0.5", "NaN", 1)),
        "the number NaN",
    ),
    "attention without end": (
        _in_metadata(lambda x: x.replace("0.5", "1e999", 1)),
        "the number 1e999",
    ),
    "an offset that is false": (
        _in_metadata(lambda x: re.sub(r'"b_token_offset": \d+', '"b_token_offset": false', x)),
        "not a list of integers",
    ),
    "a position that is true": (
        _in_metadata(lambda x: re.sub(r'"read_position": \d+', '"read_position": true', x)),
        "not a list of integers",
    ),
    "a p of 1": (_in_metadata(lambda x: x.replace('"p": 11', '"p": 1')), "p is not in 2…720"),
    "a p beyond the limit": (
        _in_metadata(lambda x: x.replace('"p": 11', '"p": 721')),
        "p is not in 2…720",
    ),
    "fewer tokens than p": (
        _in_metadata(lambda x: re.sub(r'"d_vocab": \d+', '"d_vocab": 5', x)),
        "names weights that do not exist",
    ),
    "a second note beside the config": (
        _in_header(lambda x: x.replace('"__metadata__":{', '"__metadata__":{"x":"y",')),
        "__metadata__ has keys",
    ),
    "a tensor twice": (
        _in_header(lambda x: x.replace('"embed.W_E":', '"embed.W_E":0,"embed.W_E":')),
        "appears twice",
    ),
    "a tensor of another name": (
        _in_header(lambda x: x.replace("embed.W_E", "embed.W_F")),
        "do not fit the config",
    ),
    "a tensor with a note": (
        _in_header(lambda x: x.replace('"dtype"', '"note":1,"dtype"', 1)),
        "has keys",
    ),
    "half floats": (
        _in_header(lambda x: x.replace("F32", "F16").replace("F64", "F16")),
        "malformed",
    ),
}


@pytest.mark.parametrize("what", LENIENT)
def test_model_files_are_read_strictly(folder: Path, what: str) -> None:
    rewrite, reason = LENIENT[what]
    content = rewrite((folder / "good.safetensors").read_bytes())
    (folder / "lenient.safetensors").write_bytes(content)
    certificate = load(folder)
    certificate["model"]["sha256"] = hashlib.sha256(content).hexdigest()
    report = run(folder, certificate, "lenient")
    assert (report.verdict, reason in report.reason) == ("REJECTED", True), report.reason


def test_weights_that_are_not_finite_are_rejected(folder: Path) -> None:
    content = bytearray((folder / "good.safetensors").read_bytes())
    content[-4:] = np.float32(np.nan).tobytes()
    (folder / "nan.safetensors").write_bytes(content)
    certificate = load(folder)
    certificate["model"]["sha256"] = hashlib.sha256(content).hexdigest()
    assert "not finite" in run(folder, certificate, "nan").reason


Words = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Words:
    """The checker as one file in an empty directory, isolated with -I -S."""
    package, elsewhere = tmp_path_factory.mktemp("package"), tmp_path_factory.mktemp("empty")
    source = [sys.executable, "-m", "quadlens_checker", "--write"]
    for name in ("checker.pyz", "again.pyz"):
        subprocess.run([*source, str(package / name)], check=True)
    assert (package / "checker.pyz").read_bytes() == (package / "again.pyz").read_bytes()

    def run_alone(*words: object) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-I", "-S", str(package / "checker.pyz"), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=elsewhere)

    return run_alone


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_file_verifies_every_kind_of_certificate(
    folder: Path, alone: Words, strategy: str
) -> None:
    good, model = folder / f"good.{strategy}.json", folder / "good.safetensors"
    done = alone(good, model)
    assert (done.returncode, done.stdout.startswith("VERIFIED: "), done.stderr) == (0, True, "")
    assert done.stdout.startswith("VERIFIED: 121 of 121 inputs; ")
    other = alone(good, folder / "wrong.safetensors")
    assert (other.returncode, other.stdout.startswith("REJECTED: "), other.stderr) == (1, True, "")
    tampered = folder / f"tampered.{strategy}.json"
    tampered.write_text(
        json.dumps(_margin(above(folder, strategy))(load(folder, f"good.{strategy}")))
    )
    done = alone(tampered, model)
    assert (
        done.returncode,
        done.stdout.startswith("REJECTED: the margin claimed is not proved"),
    ) == (1, True)


@pytest.mark.slow
def test_one_file_has_the_verdicts_and_exit_codes_of_quadlens_check(
    folder: Path, alone: Words
) -> None:
    partly = alone(folder / "wrong.arcs.json", folder / "wrong.safetensors")
    count = load(folder, "wrong.arcs")["claims"]["certified_inputs"]
    assert (partly.returncode, partly.stdout.split(";")[0]) == (
        1,
        f"VERIFIED: {count} of 121 inputs",
    )
    late = alone(
        folder / "good.arcs.json", folder / "good.safetensors", "--max-seconds", 0, "--json"
    )
    assert (late.returncode, json.loads(late.stdout)["verdict"]) == (1, "TIMEOUT")
    counted = folder / "counted.json"
    counted.write_text(json.dumps(_at("cost", "flops", value=1)(load(folder))))
    told = alone(counted, folder / "good.safetensors")
    assert (told.returncode, "\nCost, not checked: 1 operations" in told.stdout) == (0, True)


def test_one_file_writes_itself(alone: Words, tmp_path: Path) -> None:
    assert alone("--write", tmp_path / "copy.pyz").returncode == 0
    assert (tmp_path / "copy.pyz").read_bytes() == archive()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["-h"], 0),
        ([], 2),
        (["one"], 2),
        (["1", "2", "3"], 2),
        (["no", "file"], 2),
    ],
)
def test_one_file_says_how_it_is_used(alone: Words, words: list[str], code: int) -> None:
    done = alone(*words)
    assert (done.returncode, bool(done.stdout), bool(done.stderr)) == (code, code == 0, code != 0)
    assert "usage: quadlens_checker " in done.stdout + done.stderr


# Wings of quadlens that the command line itself is made of; none reads a model or proves anything.
COMMAND_LINE = {"base", "cli", "training"}


@pytest.mark.slow
def test_quadlens_check_loads_nothing_of_the_producer(folder: Path) -> None:
    """The command loads the checker, no NumPy, and no reader, analysis or prover."""
    program = (
        "import atexit, sys; atexit.register(lambda: sys.stderr.write(' '.join(sys.modules)))\n"
    )
    program += "from quadlens.cli.main import main; main()"
    names = [str(folder / "good.arcs.json"), str(folder / "good.safetensors")]
    for words in (names, [*names, "--json"], [names[0], "pizza"]):
        command = [sys.executable, "-c", program, "check", *words, "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ("VERIFIED" if words[1] == names[1] else "REJECTED") in done.stdout
        loaded = done.stderr.split()
        assert "quadlens_checker.verdict" in loaded
        ours = [name for name in loaded if name.startswith("quadlens.")]
        assert {name.split(".")[1] for name in ours} <= COMMAND_LINE
        # The flags of `train` and `sweep` are made from one dataclass; no other module of training.
        training = {name for name in ours if name.startswith("quadlens.training")}
        assert training <= {"quadlens.training", "quadlens.training.config"}
        assert not {
            "numpy",
            "scipy",
            "safetensors",
            "flint",
            "polars",
            "matplotlib",
            "torch",
        } & set(loaded)


def test_the_checker_imports_only_the_standard_library_and_itself() -> None:
    for file in Path(str(limits.__file__)).parent.glob("*.py"):
        tree = ast.parse(file.read_text())
        names = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert {name.split(".")[0] for name in names} <= set(sys.stdlib_module_names) | {
            "quadlens_checker"
        }


def test_the_producer_takes_the_checkers_limits_and_nothing_else_of_it() -> None:
    for file in Path(str(proofs.__file__)).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "quadlens_checker"
            ):
                named = (
                    {alias.name for alias in node.names}
                    if node.module == "quadlens_checker"
                    else {node.module}
                )
                assert named <= {"limits", "quadlens_checker.limits"}, file.name
            elif isinstance(node, ast.Import):
                assert not [
                    alias for alias in node.names if alias.name.startswith("quadlens_checker")
                ], file.name


def test_the_command_has_the_checkers_own_limits() -> None:
    defaults = {
        name: value.default for name, value in inspect.signature(command).parameters.items()
    }
    assert defaults["max_seconds"] == limits.DEFAULT_SECONDS
    assert defaults["max_memory"] * 10**6 == limits.DEFAULT_MEMORY_BYTES


def test_certificates_have_deterministic_bytes_and_the_models_hash(folder: Path) -> None:
    model = build_mlp(Recipe(7, (1, 2), 20, noise=0.02))
    first, second = certify(model), certify(model.replace())
    assert first.to_bytes() == second.to_bytes()
    assert first.model_sha256 == sha256(model)


def test_the_checker_agrees_with_exact_logits(folder: Path) -> None:
    """The checker's collapse is its own; compare its logits with the model room's."""
    model = build_transformer(Recipe(7, (1, 2), 16, noise=0.1))
    exact = exact_logits(model)
    mine = read_layers(*read_model(to_bytes(model)), {}, lambda operations: None)
    bounds = by_brute_force(mine, {}, lambda operations: None)
    for n, (row, _) in enumerate(bounds.rows):
        assert [Fraction(x, 1 << mine.shift) for x in row] == [
            exact.logit(n // 7, n % 7, c) for c in range(7)
        ]


def test_true_is_no_number(tmp_path: Path) -> None:
    """A model with one neuron: `true` equals 1 in Python but is no number here."""
    model = build_mlp(Recipe(3, (1,), 1))
    save(model, tmp_path / "model.safetensors")
    certificate = certify(model, "brute").to_json()
    certificate["model"]["d_mlp"] = True
    (tmp_path / "certificate.json").write_text(json.dumps(certificate))
    report = check(str(tmp_path / "certificate.json"), str(tmp_path / "model.safetensors"))
    assert (report.verdict, report.reason) == (
        "REJECTED",
        "the certificate's d_mlp is not the model's",
    )
