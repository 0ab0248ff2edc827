"""Claims that were once false and limits that once failed, each with its model."""

import dataclasses
import hashlib
import json
import os
import struct
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quadlens.analysis.quadrature import bounds
from quadlens.analysis.quadrature.exact import exact_abs_error
from quadlens.analysis.quadrature.scheme import Scheme
from quadlens.base.numbers import double_above
from quadlens.network import load
from quadlens.network.config import Config
from quadlens.network.evaluate import all_pairs
from quadlens.network.exact import exact_logits
from quadlens.network.handmade import Recipe, build_mlp, build_transformer
from quadlens.network.native import save, to_bytes
from quadlens.network.study import study_of
from quadlens.network.weights import Weights
from quadlens.proofs.pairs import certify
from quadlens.proofs.pairs.certificate import summary
from quadlens.proofs.pairs.produce import strategies
from quadlens.show.figures.proved import rule_points
from quadlens_checker import check

f = np.float32


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, dtype=f)


def adder(
    heads: int, width: int, extra_outputs: int = 0, lost: int = 0, size: float = 1.0
) -> Weights:
    """An exact network for p = 3 with one neuron per pair.

    `lost` terms of just under half an ulp of 1 reach the logits through attention.

    A float32 program that adds them to b_O = 1 one by one loses them all.
    """
    p, d = 3, 10
    config = Config(
        p=p, d_model=d, d_mlp=9, n_heads=heads, d_head=width, d_vocab=2 * p + 1,
        d_vocab_out=p + extra_outputs, n_ctx=3,
        attention=(1.0, 1.0, 1.0), read_position=1, b_token_offset=p,
    )  # fmt: skip
    W_E, tiny = zeros(7, d), f(2.0**-24) * f(1 - 2.0**-20)
    W_E[np.arange(6), np.arange(6)] = 1
    W_E[:, 9] = tiny
    W_V, W_O = zeros(heads, d, width), zeros(heads, width, d)
    slots = [(head, k) for head in range(heads) for k in range(width)]
    for j, (head, k) in enumerate(slots[: 3 + lost]):
        dimension = j if j < 3 else 9
        W_V[head, dimension, k] = W_O[head, k, dimension] = 1
    b_O, W_in, b_in, W_out = zeros(d), zeros(d, 9), np.full(9, -1, dtype=f), zeros(9, d)
    b_O[9] = 1
    for n in range(9):
        W_in[n // 3, n] = W_in[3 + n % 3, n] = 1
        W_out[n, 6 + (n // 3 + n % 3) % 3] = size
    W_U, b_U = zeros(d, p + extra_outputs), zeros(p + extra_outputs)
    W_U[6:9, :3] = np.eye(3)
    W_U[9, :2] = 0.5, -0.5
    offset = 1 + (3 * lost + 1) * float(tiny)
    b_U[:2] = -offset / 2, offset / 2
    b_U[3:] = 100
    weights = {
        "W_E": W_E,
        "W_pos": zeros(3, d),
        "W_V": W_V,
        "W_O": W_O,
        "b_O": b_O,
        "W_in": W_in,
        "b_in": b_in,
    }
    return Weights.with_zero_biases(config, **weights, W_out=W_out, W_U=W_U, b_U=b_U)


def forward_float32(model: Weights) -> np.ndarray:
    """`Weights.forward`, every number a float32, sums one by one in the order they are written."""
    config, w, pairs = model.config, model.tensors, all_pairs(3)
    tokens = [
        pairs[:, 0],
        pairs[:, 1] + config.b_token_offset,
        np.full(len(pairs), config.equals_token),
    ]
    streams = [w["W_E"][token] + w["W_pos"][n] for n, token in enumerate(tokens)]
    attended = w["b_O"]
    for head in range(config.n_heads):
        for weight, stream in zip(config.attention, streams, strict=True):
            values = f(weight) * (stream @ w["W_V"][head] + w["b_V"][head])
            for k in range(config.d_head):
                attended = attended + values[:, k : k + 1] * w["W_O"][head, k]
    middle = streams[config.read_position] + attended
    neurons = np.maximum(middle @ w["W_in"] + w["b_in"], f(0))
    return np.asarray(((middle + neurons @ w["W_out"] + w["b_out"]) @ w["W_U"] + w["b_U"])[:, :3])


@pytest.mark.slow
@pytest.mark.parametrize(("heads", "width"), [(503, 1), (1, 503), (40, 13)])
def test_float32_counts_every_addition_of_attention(heads: int, width: int, tmp_path: Path) -> None:
    model = adder(heads, width, lost=500, size=8e-5)
    certificate = certify(model, "brute")
    truth = exact_logits(model).to_floats().reshape(9, 3)
    off = np.abs(forward_float32(model).astype(float) - truth).max()
    assert certificate.float32.error is not None
    assert float(certificate.float32.error) >= off
    assert not certificate.float32_certified  # this program does answer wrongly
    save(model, tmp_path / "m.safetensors")
    certificate.save(tmp_path / "c.json")
    assert check(str(tmp_path / "c.json"), str(tmp_path / "m.safetensors")).verdict == "VERIFIED"
    claims = json.loads((tmp_path / "c.json").read_text())
    n, d = map(int, claims["claims"]["float32_error"].split("/"))
    claims["claims"]["float32_error"] = f"{n * 10**9 - d}/{d * 10**9}"  # 1e-9 less
    (tmp_path / "c.json").write_text(json.dumps(claims))
    assert check(str(tmp_path / "c.json"), str(tmp_path / "m.safetensors")).verdict == "REJECTED"


def test_the_statement_is_about_answers_not_about_outputs_beyond_them() -> None:
    certificate = certify(adder(1, 3, extra_outputs=1), "auto")
    assert certificate.verdict == "CERTIFIED"
    assert "exceeds that of every other answer" in certificate.statement


def test_a_partial_statement_speaks_of_its_own_inputs_only() -> None:
    W_out = zeros(9, 3)
    for n in range(1, 9):
        W_out[n, (n // 3 + n % 3) % 3] = 1
    W_a = (np.kron(np.eye(3), np.ones((1, 3))) - 0.5).astype(f)
    W_b = (np.kron(np.ones((1, 3)), np.eye(3)) - 0.5).astype(f)
    certificate = certify(Weights.mlp(Config.mlp(3, 9), W_a, W_b, W_out), "brute")
    assert certificate.verdict == "PARTLY"
    assert "so their answers are the same: execution in IEEE binary32" in certificate.statement


def rewritten(model: Weights, **changes: Any) -> bytes:
    """The model's file with its config changed."""
    content = to_bytes(model)
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    about = json.loads(header["__metadata__"]["quadlens"])
    about["config"] |= changes
    header["__metadata__"]["quadlens"] = json.dumps(about)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + size :]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"attention": ["1e-30000000", 0.5, 0.5]}, "attention is not numbers"),
        ({"attention": [True, 0.5, 0.5]}, "attention is not numbers"),
        ({"rotary": True}, "unknown or missing keys"),
        ({"p": 100_003}, "p is not in 2…720"),
    ],
)
def test_the_checker_refuses_such_configs_at_once(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    model = adder(1, 3)
    certificate = certify(model, "brute").to_json()
    content = rewritten(model, **changes)
    certificate["model"]["sha256"] = hashlib.sha256(content).hexdigest()
    (tmp_path / "m").write_bytes(content)
    (tmp_path / "c").write_text(json.dumps(certificate))
    report = check(str(tmp_path / "c"), str(tmp_path / "m"), 300.0)
    assert report.verdict == "REJECTED"
    assert reason in report.reason


@pytest.mark.parametrize(
    "change", [{"version": True}, {"witnesses": {}}, {"uncertified": ""}, {"cost": {}}]
)
def test_the_checker_wants_the_types_it_names(tmp_path: Path, change: dict[str, Any]) -> None:
    model = adder(1, 3)
    save(model, tmp_path / "m")
    (tmp_path / "c").write_text(json.dumps(certify(model, "brute").to_json() | change))
    assert check(str(tmp_path / "c"), str(tmp_path / "m")).verdict == "REJECTED"


def test_a_scheme_owns_its_doubles() -> None:
    rng = np.random.default_rng(0)
    single = [rng.uniform(0.5, 3, 30).astype(f) for _ in range(4)]
    mine, theirs = Scheme(59, 3, *single), Scheme(59, 3, *(x.astype(float) for x in single))
    assert exact_abs_error(mine).lower == exact_abs_error(theirs).lower
    base = rng.uniform(0.5, 3, 60)
    scheme = Scheme(59, 3, base[:30], *(rng.uniform(0.5, 3, 30) for _ in range(3)))
    before = exact_abs_error(scheme)
    base[:] = 0
    assert exact_abs_error(scheme) == before


@pytest.mark.parametrize("size", [1e-310, 1e-200, 1e200, 1.7e308])
@pytest.mark.parametrize("strategy", ["moments", "arcs", "auto"])
def test_weights_of_any_size_give_an_outcome(size: float, strategy: str) -> None:
    rng = np.random.default_rng(0)
    shapes = Config.mlp(5, 6).shapes
    model = Weights(
        Config.mlp(5, 6), **{n: size * rng.uniform(-1, 1, s) for n, s in shapes.items()}
    )
    value = summary(certify(model, strategy))
    assert value["verdict"] in ("CERTIFIED", "PARTLY", "UNPROVED")
    assert (value["reason"] is None) == (value["verdict"] == "CERTIFIED")


@pytest.mark.parametrize("size", [1e-310, 1e300])
def test_the_frontier_survives_weights_of_any_size(size: float) -> None:
    rng = np.random.default_rng(0)
    shapes = Config.mlp(5, 6).shapes
    model = Weights(
        Config.mlp(5, 6), **{n: size * rng.uniform(-1, 1, s) for n, s in shapes.items()}
    )
    study = study_of(model)
    assert {study.certify(name).proof.strategy for name in strategies(model.config)} >= {
        "brute",
        "moments",
    }


def test_what_is_quoted_as_at_most_is_not_below_the_proved_end() -> None:
    """The frontier's numbers are upper ends, not middles, of the enclosures they come from."""
    clusters = bounds(load("pizza")).bounded
    for name, _, worst, _ in rule_points(clusters):
        ends = [one.exact_psi.absolute.relative_to(one.baseline).upper for one in clusters]
        assert worst >= max(ends), name


@pytest.mark.slow
def test_what_auto_saves_the_checker_reads_for_weights_of_any_size(tmp_path: Path) -> None:
    model = build_mlp(Recipe(31, (3, 7, 11), 32, noise=0.0005))
    for size in (1.0, 1e20, 1e23, 1e24, 1e30):
        large = Weights.mlp(model.config, model.W_a, model.W_b, model.W_out * np.float32(size))
        certificate = certify(large, "auto", checkable=True)
        save(large, tmp_path / "m.safetensors")
        certificate.save(tmp_path / "c.json")
        assert certificate.verdict == "CERTIFIED"
        assert (
            check(str(tmp_path / "c.json"), str(tmp_path / "m.safetensors")).verdict == "VERIFIED"
        )


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_verdict_prints_whatever_the_terminal_can_show(tmp_path: Path, encoding: str) -> None:
    model = build_mlp(Recipe(7, (1, 2), 12))
    save(model, tmp_path / "m.safetensors")
    certify(model, "auto", checkable=True).save(tmp_path / "c.json")
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    names = [str(tmp_path / "c.json"), str(tmp_path / "m.safetensors")]
    for words in (
        ["-m", "quadlens_checker", *names],
        ["-m", "quadlens", "check", *names],
        ["-m", "quadlens", "check", *names, "--json"],
    ):
        done = subprocess.run(
            [sys.executable, *words], env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        out = done.stdout.decode(encoding)
        said = json.loads(out)["statement"] if "--json" in words else out
        assert ("0…6" in said) or ("0\\u20266" in said)


def test_a_bound_of_zero_has_no_sign() -> None:
    assert str(double_above(Fraction(0))) == "0.0"


def test_tiny_weights_do_not_fill_pages_of_a_certificate(tmp_path: Path) -> None:
    """An exact float32 error of weights down to 5e-324 had more digits than the checker reads."""
    model = build_transformer(Recipe(5, (1, 2), 20, jitter=0.02, noise=0.0, seed=1))
    tiny = {
        name: np.where(array == 0, 5e-324, array.astype(np.float64))
        for name, array in model.tensors.items()
    }
    config = dataclasses.replace(model.config, attention=(1 / 3, 1 / 3))
    model = model.replace(config, **tiny)
    save(model, tmp_path / "m.safetensors")
    for strategy in ("arcs", "moments", "thin"):
        certificate = certify(model, strategy, checkable=True)
        certificate.save(tmp_path / "c.json")
        assert len(certificate.to_json()["claims"]["float32_error"]) < 1000
        report = check(str(tmp_path / "c.json"), str(tmp_path / "m.safetensors"))
        assert report.verdict == (
            "VERIFIED" if certificate.proof.margin is not None else "REJECTED"
        ), report.reason
    assert certify(model, "arcs").verdict == "CERTIFIED"


def test_a_margin_of_thousands_of_digits_is_said_in_a_few(tmp_path: Path) -> None:
    """Python refuses to write integers of more than 4,300 digits; x⁴ has such margins."""
    model = build_transformer(Recipe(5, (1, 2), 20, seed=1))
    large = {name: array.astype(np.float64) * 2.0**900 for name, array in model.tensors.items()}
    model = model.replace(dataclasses.replace(model.config, activation="quartic"), **large)
    certificate = certify(model, "brute")
    assert certificate.proof.margin is not None
    assert certificate.proof.margin > 10**4300
    assert "by at least" in certificate.statement
    assert len(certificate.statement) < 400
