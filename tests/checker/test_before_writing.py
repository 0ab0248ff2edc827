"""What is written as a certificate is verified: the checker's first stage comes before."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadlens
from checker.test_checker_stack import networks
from cli_runner import quadlens as command
from places import TESTS
from proofs.test_degenerate import of_one_letter, plain, several
from quadlens.base.errors import BadConfig, QuadlensError
from quadlens.network import Weights
from quadlens.network.handmade import Recipe, build_mlp
from quadlens.network.native import to_bytes
from quadlens.network.norm import Norm, Norms
from quadlens.network.sequence import SequenceConfig, TaskSpec
from quadlens.network.sequence_forward import sequence_config
from quadlens.proofs import before_writing
from quadlens.proofs.pairs.produce import certify
from quadlens.proofs.sequences.certificate import certify_sequence
from quadlens_checker import check_before_writing, limits
from quadlens_checker.reading import Rejected
from quadlens_checker.verdict import shape_and_limits, verify
from sequence_oracle import any_network
from small_sequences import addition_task, random_config, random_network

MANY = int(os.environ.get("QUADLENS_WRITTEN", "0"))


def no_clock(operations: int) -> None:
    """As much time as it takes."""


def large(**tensors: Any) -> Weights:
    """Ordinary weights behind an MLP of one neuron, but for these."""
    W_U, *_ = tensors.pop("W_U", [[1.0, 0.0]])
    return plain(of_one_letter((0, 0), ((0,), (1,)), d_mlp=1), W_U, **tensors)


REFUSED = {
    "a weight": (large(W_U=[[2.0**25, 0.0]]), "a weight beyond 2^24"),
    "a stream": (large(W_E=[[2.0**42], [1.0]], W_V=[[[0.0]]]), "a stream beyond 2^40"),
    "coordinates": (large(W_V=[[[2.0**42]]]), "beyond 2^40"),
    "scores": (large(W_Q=[[[2.0**45]]], W_K=[[[2.0**30]]]), "attention score"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_weights_beyond_a_limit_are_refused_before_anything_is_written(
    name: str, tmp_path: Path
) -> None:
    weights, reason = REFUSED[name]
    model, path = (
        quadlens.save(weights, tmp_path / "model.safetensors"),
        tmp_path / "certificate.json",
    )
    run = command("certify", model, "-o", path)
    assert (run.code, path.exists()) == (2, False)
    words = run.err.replace("\n", " ")
    assert "no certificate is written, for the checker rejects it" in words
    assert reason in words
    assert "run without -o" in words
    certificate = certify_sequence(weights)
    with pytest.raises(BadConfig, match="the checker rejects it"):
        certificate.save(path)
    assert not path.exists()
    with pytest.raises(
        Rejected, match=reason.replace("^", r"\^")
    ):  # the stage alone: no leaf is looked at
        shape_and_limits(json.loads(certificate.to_bytes()), to_bytes(weights), no_clock)
    assert command("certify", model).code in (0, 1)


def test_more_coordinates_than_the_checker_has_are_refused(tmp_path: Path) -> None:
    """Seventy tokens, each with a direction of its own."""
    config = SequenceConfig(70, 70, 1, 70, 1, 2, 70, 0, TaskSpec("max:1", tokens=70))
    certificate = certify_sequence(random_network(config, 0, share_left_out=0))
    assert sum(map(len, certificate.network.basis)) > limits.MAX_COORDINATES
    with pytest.raises(BadConfig, match=f"more than {limits.MAX_COORDINATES} coordinates"):
        certificate.save(tmp_path / "certificate.json")


@pytest.mark.parametrize(
    "limit", ["MAX_COORDINATES", "LARGEST_HINT", "MAX_CERTIFICATE_BYTES", "MAX_MODEL_BYTES"]
)
def test_every_limit_is_asked_before_a_file_is_written(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = random_network(random_config(1, addition_task(1, 2), 4, 6, d_mlp=3), 1)
    certificate = certify_sequence(weights)
    certificate.save(tmp_path / "certificate.json")
    monkeypatch.setattr(limits, limit, 0)
    with pytest.raises(BadConfig, match="the checker rejects it"):
        certificate.save(tmp_path / "other.json")
    assert not (tmp_path / "other.json").exists()


def test_a_leaf_that_the_checker_cannot_prove_is_no_certificate(tmp_path: Path) -> None:
    weights = random_network(random_config(1, addition_task(1, 2), 4, 6, d_mlp=3), 1)
    certificate = certify_sequence(weights)
    value = json.loads(certificate.to_bytes())
    for step in value["hints"]["steps"]:
        for leaf in step["leaves"]:
            if "box" in leaf:
                leaf["box"] = [[low, low] for low, _ in leaf["box"]]
    shape_and_limits(value, to_bytes(weights), no_clock)
    verdict, reason = check_before_writing(
        json.dumps(value).encode(), to_bytes(weights), 60.0, 1000
    )
    assert (verdict, "is not proved" in reason) == ("REJECTED", True)


def test_a_long_proof_is_said_to_be_unchecked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = random_network(random_config(1, addition_task(1, 2), 4, 6, d_mlp=3), 1)
    model, told = quadlens.save(weights, tmp_path / "model.safetensors"), list[str]()
    for name, value in (("LEAVES", 0), ("SECONDS", 0.0)):
        with monkeypatch.context() as patch:
            patch.setattr(before_writing, name, value)
            certify_sequence(weights).save(tmp_path / f"{name}.json", told.append)
            run = command("certify", model, "-o", tmp_path / "certificate.json")
            assert "not checked in full before it is written" in run.err.replace("\n", " ")
            certify(build_mlp(Recipe(7, (1, 2), 20, noise=0.02)), "brute").save(
                tmp_path / "pairs.json", told.append
            )
    assert len(told) == 3  # a certificate about pairs has no leaves
    assert all("`quadlens check` does it" in words for words in told)
    run = command("certify", model, "-o", tmp_path / "certificate.json")
    assert "not checked in full" not in run.err


def test_the_first_stage_and_the_proof_are_the_whole_check() -> None:
    """`verify` is both, for sequences and pairs, so that neither can be left out."""
    for path in sorted((TESTS / "data" / "certificates").rglob("*.json")):
        name = path.stem.split(".")[1]
        content = (path.parent / f"{name}.safetensors").read_bytes()
        certificate = json.loads(path.read_bytes())
        if path.stem == "version3.several":
            continue
        verify(certificate, content, no_clock)
        shape_and_limits(certificate, content, no_clock)()


# What is written is verified, whatever the weights.


def written_is_verified(certificate: Any, weights: Weights, folder: Path) -> bool:
    """Whether a certificate was written without a note on what is left; it is verified."""
    path, told = folder / "written.json", list[str]()
    path.unlink(missing_ok=True)
    try:
        certificate.save(path, told.append)
    except BadConfig:
        assert not path.exists()
        return False
    if told:
        return False
    verify(json.loads(path.read_bytes()), to_bytes(weights), no_clock)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, MANY or 20, 10))
def test_what_is_written_about_sequences_is_verified(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(before_writing, "SECONDS", 2.0)
    written = 0
    for seed in range(first, first + 10):
        for weights in (any_network(seed), several(seed), odd(seed)):
            try:
                certificate = certify_sequence(weights)
            except QuadlensError:
                continue
            written += certificate.verdict != "UNPROVED" and written_is_verified(
                certificate, weights, tmp_path
            )
    assert written > 5


def odd(seed: int) -> Weights:
    """Ordinary weights except for one or two tensors, and norms with a tiny eps."""
    draw = np.random.default_rng(seed)
    tiny = [float(10.0 ** draw.integers(-30, -2)) for _ in range(4)]
    norms = Norms(*(Norm("rms" if draw.random() < 0.5 else "layer", eps) for eps in tiny))
    config = random_config(seed, addition_task(1, 2), 4, 6)
    config = replace(config, norms=norms if config.d_mlp else replace(norms, mlp=None))
    weights = random_network(config, seed)
    names = [name for name in weights.tensors if name not in ("mask", "rope_cos", "rope_sin")]
    changed = {
        name: weights.tensors[name].astype(np.float64) * 10.0 ** draw.uniform(-12, 12)
        for name in draw.choice(names, 2, replace=False)
    }
    return weights.replace(sequence_config(weights), **changed)


def a_stack(seed: int) -> Weights:
    """Several layers or norms, two tensors being far larger or smaller than the others."""
    draw, configs = np.random.default_rng(seed), networks()
    config = configs[seed % len(configs)]
    tensors = {name: draw.standard_normal(shape) for name, shape in config.shapes.items()}
    for name in draw.choice(sorted(tensors), 2, replace=False):
        tensors[name] = tensors[name] * 10.0 ** draw.uniform(-14, 14)
    return Weights(config, **tensors)


def test_a_margin_that_the_checker_cannot_prove_is_no_certificate(tmp_path: Path) -> None:
    """What float64 bounds by a share of a number, integers bound by a share of 1."""
    weights = a_stack(85)
    certificate = certify(weights, "brute", checkable=True)
    assert certificate.proof.margin is not None
    with pytest.raises(BadConfig, match="the margin claimed is not proved"):
        certificate.save(tmp_path / "certificate.json")
    model = quadlens.save(weights, tmp_path / "model.safetensors")
    run = command("certify", model, "-o", tmp_path / "certificate.json")
    assert (run.code, (tmp_path / "certificate.json").exists()) == (2, False)
    report = quadlens.report(weights, tmp_path / "report")
    assert not (tmp_path / "report" / "data" / "certificate.json").exists()
    assert "quadlens check data/certificate.json" not in report.page.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, MANY or 60, 20))
def test_what_is_written_of_several_layers_and_norms_is_verified(
    first: int, tmp_path: Path
) -> None:
    written = 0
    for seed in range(first, first + 20):
        weights = a_stack(seed)
        certificate = certify(weights, "brute", checkable=True)
        if certificate.proof.margin is not None:
            written += written_is_verified(certificate, weights, tmp_path)
    assert written > 5
