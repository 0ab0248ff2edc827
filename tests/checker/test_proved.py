"""The proved checker: no axioms, and the Python checker's verdicts on what it is about."""

import json
import os
import re
import resource
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any_model import any_model, extreme_weights, usual_weights
from cli_runner import quadlens
from places import ROOT
from quadlens import check
from quadlens.base.errors import BadFile
from quadlens.network.bundled import resolve
from quadlens.network.config import Config
from quadlens.network.evaluate import all_pairs
from quadlens.network.handmade import Recipe, build_mlp, build_transformer
from quadlens.network.native import load_with_sha256, sha256, to_bytes
from quadlens.network.task import task_from_table
from quadlens.network.weights import Weights
from quadlens.proofs.pairs import Certificate, certify
from quadlens.proofs.pairs.brute import is_exact
from quadlens.proofs.proved import check_proved
from quadlens_checker.model_file import read_model
from quadlens_checker.verdict import check_here, statement

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("built")]

HERE = ROOT / "proved"
PROOFS = sorted(HERE.glob("*.v"))
EXACT = "Network.v", "Matrix.v", "Collapse.v", "LowRank.v", "Check.v", "Extract.v"
BUNDLED = "pizza", "mismatched", "original", "times"


def test_the_theorem_rests_on_no_axiom(built: Path, tmp_path: Path) -> None:
    question = tmp_path / "Question.v"
    question.write_text("Require Import Proved.Check.\nPrint Assumptions check_sound.\n")
    said = subprocess.run(
        ["coqc", "-q", "-Q", str(built), "Proved", str(question)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "Closed under the global context\n"


def test_no_proof_is_left_out_and_nothing_is_replaced_by_hand() -> None:
    """Only Coq's own tables for zarith, booleans, pairs and lists replace definitions."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in PROOFS)
    left_out = r"\b(Admitted|admit|Abort|Axiom|Parameter|Conjecture|Variable\s+\w+\s*:.*axiom)\b"
    assert not re.search(left_out, text)
    assert re.findall(r"Extract \w+", text) == []
    assert re.findall(r"Require Import (ExtrOcaml.*)", text) == ["ExtrOcamlBasic ExtrOcamlZBigInt."]


def test_what_is_outside_the_proof_is_short() -> None:
    assert lines_of("files.ml") + lines_of("main.ml") <= 260
    assert lines_of("sequences.ml") <= 220
    assert sum(map(lines_of, EXACT)) <= 2000


def lines_of(name: str) -> int:
    """Lines of a file of `proved/`; of the program, without comments and empty lines."""
    text = (HERE / name).read_text(encoding="utf-8")
    if name.endswith(".ml"):
        text = re.sub(r"\(\*.*?\*\)", "", text, flags=re.DOTALL)
    return sum(bool(line.strip()) or name.endswith(".v") for line in text.splitlines())


def test_the_page_quotes_the_sources() -> None:
    """docs/trust.md prints the theorem and the forward pass as Coq has them."""
    page = (HERE.parent / "docs" / "trust.md").read_text(encoding="utf-8")
    sources = {
        line.strip()
        for name in ("Network.v", "Check.v", "Sums.v")
        for line in (HERE / name).read_text().splitlines()
    }
    quoted = re.findall(r"```coq\n(.*?)```", page, re.DOTALL)
    assert len(quoted) == 3
    assert {line.strip() for block in quoted for line in block.splitlines()} <= sources


# ---- Verdicts ----


@dataclass(frozen=True)
class Pair:
    """A certificate as a value, and the bytes of the model it is about."""

    certificate: Any
    model: Weights

    @property
    def restated(self) -> "Pair":
        """The pair with fitting words, counts and float32 line."""
        content, certificate = to_bytes(self.model), self.certificate
        config = read_model(content)[0]
        claims, p = certificate["claims"], config.p
        certificate["model"]["sha256"] = sha256(self.model)
        claims |= {"float32_error": None, "float32_certified": False}
        listed = {tuple(pair) for pair in certificate["uncertified"]}
        claims["certified_inputs"] = p * p - len(listed)
        certificate["verdict"] = "PARTLY" if listed else "CERTIFIED"
        words = (config.task.words, certificate["version"])
        margin = Fraction(claims["margin"])
        certificate["statement"] = statement(p, claims["certified_inputs"], margin, None, *words)
        return self


def verdicts(pair: Pair, folder: Path) -> tuple[str, str, str]:
    """What the Python checker and the proved one say, and why the first says it."""
    certificate, model = folder / "c.json", folder / "m.safetensors"
    certificate.write_text(json.dumps(pair.certificate))
    model.write_bytes(to_bytes(pair.model))
    said = check_here(str(certificate), str(model), 60.0)
    return said.verdict, check_proved(str(certificate), str(model), 60.0).verdict, said.reason


def exact_model(rng: np.random.Generator) -> Weights:
    """A small exact network of any family, or one that adds, perfect to broken."""
    kind = rng.random()
    if kind < 0.4:
        build = build_mlp if rng.random() < 0.5 else build_transformer
        p = int(rng.choice([5, 7, 9, 11, 13]))
        keys = tuple(sorted({int(k) for k in rng.integers(1, (p + 1) // 2, 3)}))
        noise = float(rng.choice([0.0, 0.02, 0.1, 0.3]))
        return build(
            Recipe(
                p,
                keys,
                int(rng.integers(8, 40)),
                jitter=0.05,
                noise=noise,
                seed=int(rng.integers(1000)),
            )
        )
    while True:
        model = any_model(rng, extreme_weights(rng) if kind < 0.5 else usual_weights(), 11)
        # The proved checker refuses biases of an MLP.
        if is_exact(model.config) and not model.config.bias:
            return model


def certified(rng: np.random.Generator) -> Pair:
    """An exact network with a certificate by brute force, moments or arcs."""
    while True:
        model = exact_model(rng)
        arcs = model.config.activation in ("relu", "abs") and rng.random() < 0.2
        found: Certificate = certify(
            model, "arcs" if arcs else str(rng.choice(["brute", "moments"]))
        )
        if found.proof.margin is not None and found.checkable:
            return Pair(json.loads(found.to_bytes()), model)


def _weight(pair: Pair, rng: np.random.Generator) -> Pair:
    tensors = pair.model.tensors
    name = str(rng.choice(sorted(tensors)))
    changed = tensors[name].copy()
    at = tuple(int(rng.integers(n)) for n in changed.shape)
    old = changed[at]
    changed[at] = rng.choice([np.nextafter(old, changed.dtype.type(9)), -old, old - old / 128, 3])
    return replace(pair, model=Weights(pair.model.config, **{**tensors, name: changed}))


def _table(pair: Pair, rng: np.random.Generator) -> Pair:
    """One answer is another; the task is then a table."""
    task = pair.model.config.task
    answers = task.answers.copy()
    a, b = (int(x) for x in rng.integers(0, task.n, 2))
    answers[a, b] = (answers[a, b] + int(rng.integers(0, task.n))) % task.n
    new = task_from_table(answers)
    about = {"task": new.to_json(), "attention": "constant", "answers": answers.tolist()}
    pair.certificate["version"] = 3
    pair.certificate["model"] |= about
    return replace(pair, model=pair.model.asked(new))


def _margin(pair: Pair, rng: np.random.Generator) -> Pair:
    claims = pair.certificate["claims"]
    factor = [Fraction(1, 2), 1 - Fraction(1, 10**30), 1 + Fraction(1, 10**30), Fraction(3, 2)][
        int(rng.integers(4))
    ]
    margin = Fraction(claims["margin"]) * factor
    claims["margin"] = f"{margin.numerator}/{margin.denominator}"
    return pair


def _uncertified(pair: Pair, rng: np.random.Generator) -> Pair:
    listed, p = pair.certificate["uncertified"], pair.certificate["model"]["p"]
    if listed and rng.random() < 0.6:
        listed.pop(int(rng.integers(len(listed))))
    else:
        listed.append([int(x) for x in rng.integers(0, p, 2)])
    return pair


def _witnesses(pair: Pair, rng: np.random.Generator) -> Pair:
    listed, p = pair.certificate["witnesses"], pair.certificate["model"]["p"]
    if listed and rng.random() < 0.6:
        listed[int(rng.integers(len(listed)))][2] = int(rng.integers(p))
    else:
        listed.append([int(x) for x in rng.integers(0, p, 3)])
    return pair


def _hint(key: str) -> Callable[[Pair, np.random.Generator], Pair]:
    def change(pair: Pair, rng: np.random.Generator) -> Pair:
        hints = pair.certificate["hints"]
        if key not in hints:
            return _margin(pair, rng)
        if key == "shift":
            hints[key] = max(0, hints[key] + int(rng.choice([-1, 1, 60])))
            return pair
        row = hints[key][int(rng.integers(len(hints[key])))]
        at = int(rng.integers(len(row)))
        row[at] += int(rng.choice([-1, 1, 10, 10**6]))
        return pair

    return change


def _settled(pair: Pair, rng: np.random.Generator) -> Pair:
    """Resolve more or fewer inputs by every logit, or reorder the neurons."""
    hints, p = pair.certificate["hints"], pair.certificate["model"]["p"]
    if pair.certificate["strategy"] != "moments":
        return _uncertified(pair, rng)
    if "clusters" in hints and rng.random() < 0.5:
        neurons = hints["clusters"][0]["neurons"]
        neurons.insert(0, neurons.pop())
    elif hints.get("exact") and rng.random() < 0.7:
        hints["exact"].pop(int(rng.integers(len(hints["exact"]))))
    else:
        hints.setdefault("exact", []).append([int(x) for x in rng.integers(0, p, 2)])
    return pair


CLAIMS = _weight, _table, _margin, _uncertified, _witnesses
MUTATIONS = *CLAIMS, _hint("basis"), _hint("coefficients"), _hint("shift"), _settled


@pytest.mark.parametrize("seed", range(4))
def test_verdicts_are_the_python_checkers(seed: int, tmp_path: Path) -> None:
    """300 models with their certificates and 1,000 mutants, in four seeds."""
    rng, seen, mutants = np.random.default_rng(seed), Counter[Any](), Counter[Any]()
    for n in range(75):
        pair = certified(rng)
        python, proved, reason = verdicts(pair, tmp_path)
        assert (python, proved) == ("VERIFIED", "VERIFIED"), (seed, n, reason)
        strategy, hints = pair.certificate["strategy"], pair.certificate["hints"]
        seen[strategy, "mlp.W_a" in read_model(to_bytes(pair.model))[1]] += 1
        seen[pair.model.config.activation] += 1
        seen["settled"] += "exact" in hints
        seen["witnesses"] += bool(pair.certificate["witnesses"])
        text = json.dumps(pair.certificate)
        for k in range(3 + (n % 3 == 0)):
            mutation = MUTATIONS[int(rng.integers(len(MUTATIONS)))]
            mutant = mutation(Pair(json.loads(text), pair.model), rng).restated
            python, proved, reason = verdicts(mutant, tmp_path)
            assert python == proved, (seed, n, k, strategy, reason)
            mutants[python] += 1
    assert mutants.total() == 250
    assert min(mutants["VERIFIED"], mutants["REJECTED"]) >= 50
    assert (
        min(seen[key] for key in ("relu", "abs", "square", "quartic", "settled", "witnesses")) >= 3
    )
    assert len([key for key in seen if isinstance(key, tuple)]) == 6


@pytest.mark.parametrize("name", BUNDLED)
@pytest.mark.parametrize("strategy", ["brute", "moments"])
def test_bundled_models(name: str, strategy: str, tmp_path: Path) -> None:
    """Verified; and a margin that is larger by a part in 10^30, which nobody proved, is not."""
    model, digest = load_with_sha256(resolve(name))
    found = certify(model, strategy, digest)
    pair = Pair(json.loads(found.to_bytes()), model)
    path = tmp_path / "c.json"
    path.write_bytes(found.to_bytes())
    said = check_proved(str(path), str(resolve(name)))
    assert (said.verdict, said.model_sha256, said.exit_code) == ("VERIFIED", digest, 0)
    assert dict(said.claims) == {key: pair.certificate["claims"][key] for key in said.claims}
    margin = Fraction(pair.certificate["claims"]["margin"]) * (1 + Fraction(1, 10**30))
    pair.certificate["claims"]["margin"] = f"{margin.numerator}/{margin.denominator}"
    assert verdicts(pair.restated, tmp_path)[:2] == ("REJECTED", "REJECTED")


def test_moments_is_much_cheaper_than_brute_force(tmp_path: Path) -> None:
    """One network at p = 113: `moments` takes at most a third of brute force's time."""
    model = build_mlp(Recipe(113, (3, 7, 11, 16, 19, 22, 25, 28), 512, jitter=0.05, noise=0.001))
    pair = Pair(json.loads(certify(model, "moments").to_bytes()), model)
    assert "exact" not in pair.certificate["hints"]
    seconds = {}
    for strategy, hints in (("moments", pair.certificate["hints"]), ("brute", {})):
        path, weights = tmp_path / f"{strategy}.json", tmp_path / "m.safetensors"
        path.write_text(json.dumps({**pair.certificate, "strategy": strategy, "hints": hints}))
        weights.write_bytes(to_bytes(model))
        before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        assert check_proved(str(path), str(weights)).verdict == "VERIFIED"
        seconds[strategy] = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before
    assert 3 * seconds["moments"] <= seconds["brute"]


# ---- Files ----


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that adds modulo 11, and its certificates."""
    folder = tmp_path_factory.mktemp("proved")
    model = build_transformer(Recipe(11, (1, 2, 4), 48, jitter=0.05, noise=0.02, seed=3))
    (folder / "m.safetensors").write_bytes(to_bytes(model))
    for strategy in ("brute", "moments", "thin"):
        certify(model, strategy).save(folder / f"{strategy}.json")
    return folder


def test_the_command(files: Path) -> None:
    done = quadlens("check", files / "moments.json", files / "m.safetensors", "--proved", "--json")
    said = done.document
    assert (done.code, said["verdict"], said["checker"]) == (0, "VERIFIED", "proved")
    assert said["claims"]["inputs"] == said["claims"]["certified_inputs"] == 121
    assert "outside the proved theorem" in said["float32"]
    assert (
        quadlens("check", files / "moments.json", files / "m.safetensors", "--json").document[
            "checker"
        ]
        == "python"
    )
    assert (
        "VERIFIED: 121 of 121"
        in quadlens("check", files / "brute.json", files / "m.safetensors", "--proved").out
    )
    late = quadlens(
        "check",
        files / "brute.json",
        files / "m.safetensors",
        "--proved",
        "--json",
        "--max-seconds",
        "0",
    )
    assert (late.code, late.document["verdict"], late.document["checker"]) == (
        1,
        "TIMEOUT",
        "proved",
    )
    other = quadlens("check", files / "brute.json", "pizza", "--proved")
    assert (other.code, "sha256 is not the model's" in other.out) == (1, True)


def test_the_function() -> None:
    model = build_mlp(Recipe(7, (1, 2, 3), 24))
    assert check(certify(model, "brute"), model, proved=True).checker == "proved"


def test_what_the_theorem_is_not_about(files: Path) -> None:
    other = quadlens("check", files / "thin.json", files / "m.safetensors", "--proved")
    assert (other.code, "not in the proved checker: the strategy thin" in other.err) == (2, True)
    softmax = quadlens("check", files / "brute.json", "clock", "--proved")
    assert (softmax.code, "not in the proved checker: softmax" in softmax.err) == (2, True)


def test_all_versions_of_certificates(files: Path, tmp_path: Path) -> None:
    value = json.loads((files / "brute.json").read_text())
    short = {key: value["model"][key] for key in ("sha256", "p", "d_mlp", "activation")}
    for version, about in ((1, short), (2, value["model"]), (3, value["model"])):
        path = tmp_path / "c.json"
        path.write_text(
            json.dumps({**value, "version": version, "model": about, "statement": "any words"})
        )
        assert check_proved(str(path), str(files / "m.safetensors")).verdict == "VERIFIED"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not well-formed"),
        ("{", "not well-formed"),
        ("[" * 100_000, "not well-formed"),
        ('{"a": 1, "a": 2}', "a key twice"),
        ("{}", "format is missing"),
        ('{"format": "other"}', "format"),
        ("[1]", "not an object"),
    ],
)
def test_bad_certificates(files: Path, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    done = quadlens("check", path, files / "m.safetensors", "--proved")
    assert (done.code, message in done.err) == (2, True), done.err


def test_bad_model_files(files: Path, tmp_path: Path) -> None:
    content = (files / "m.safetensors").read_bytes()
    header = int.from_bytes(content[:8], "little")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    broken = {
        "empty": b"",
        "cut": content[:-1],
        "longer": content + b"\0",
        "no length": b"\xff" * 8 + content[8:],
        "no JSON": content[:8] + b"x" * header + content[8 + header :],
        "renamed": content.replace(b"embed.W_E", b"embed.W_X", 1),
        "other size": content.replace(b'"d_mlp\\": 48', b'\\"d_mlp\\": 49', 1).replace(
            b'd_mlp\\": 48', b'd_mlp\\": 49', 1
        ),
    }
    for name, bad in broken.items():
        path = tmp_path / "m.safetensors"
        path.write_bytes(bad)
        with pytest.raises(BadFile):
            check_proved(str(files / "brute.json"), str(path))
        assert bad != content, name
    for path in (tmp_path, tmp_path / "missing", fifo):
        with pytest.raises(BadFile, match=r"regular|cannot be read"):
            check_proved(str(files / "brute.json"), str(path))


def test_noise_is_no_crash(files: Path, tmp_path: Path, built: Path) -> None:
    """500 damaged files: a verdict or a message, never an uncaught exception."""
    rng = np.random.default_rng(0)
    for n in range(500):
        names = ["moments.json", "m.safetensors"]
        contents = {name: bytearray((files / name).read_bytes()) for name in names}
        chosen = contents[names[n % 2]]
        start = 2000 if n % 2 and rng.random() < 0.8 else len(chosen)
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(min(start, len(chosen))))
            kind = rng.random()
            if kind < 0.5:
                chosen[at] = int(rng.integers(256))
            elif kind < 0.8:
                del chosen[at : at + int(rng.integers(1, 30))]
            else:
                chosen[at:at] = chosen[at : at + int(rng.integers(1, 30))]
        for name, content in contents.items():
            (tmp_path / name).write_bytes(content)
        words = [str(built / "quadlens-proved"), *(str(tmp_path / name) for name in names)]
        done = subprocess.run(words, capture_output=True, check=False, timeout=300)
        last = done.stdout.splitlines()[-1]
        assert done.returncode in (0, 1, 2), n
        assert not done.stderr, (n, done.stderr)
        assert last.split(b":")[0] in (b"VERIFIED", b"REJECTED", b"BAD", b"OUTSIDE"), (n, last)


def test_without_the_program(monkeypatch: pytest.MonkeyPatch, files: Path) -> None:
    monkeypatch.setattr("quadlens.proofs.proved.PROGRAM", "no-such-program")
    done = quadlens("check", files / "brute.json", files / "m.safetensors", "--proved")
    assert (done.code, "make proved" in done.err) == (2, True)


def test_a_table_under_a_false_name_is_rejected(tmp_path: Path) -> None:
    """The theorem is about the table; its name is checked outside it, as in Python."""
    rng, config = np.random.default_rng(3), Config.mlp(6, 8)
    drawn = {
        name: rng.standard_normal(shape).astype(np.float32) for name, shape in config.shapes.items()
    }
    model = Weights(config, **drawn)
    own = task_from_table(model.forward(all_pairs(6)).argmax(axis=1).reshape(6, 6))
    files = [tmp_path / "cert.json", tmp_path / "model.safetensors"]
    for name, verdict in (("table", "VERIFIED"), ("S3", "REJECTED")):
        object.__setattr__(own, "name", name)  # a task built as it should be proves its name
        asked = model.asked(own)
        for file, content in zip(
            files, (certify(asked, "brute").to_bytes(), to_bytes(asked)), strict=True
        ):
            file.write_bytes(content)
        found = [
            check_here(str(files[0]), str(files[1]), 60.0),
            check_proved(str(files[0]), str(files[1])),
        ]
        assert [one.verdict for one in found] == [verdict] * 2, found
        assert verdict == "VERIFIED" or all(
            "is not one of the group S3" in one.reason for one in found
        )
