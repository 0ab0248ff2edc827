"""A population is not trusted: certificates and weights must support its claims."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cli_runner import quadlens
from quadlens.network.bundled import resolve
from quadlens.network.evaluate import evaluate
from quadlens.network.native import load_with_sha256
from quadlens.proofs.pairs.produce import certify
from quadlens.training.population import LocalBackend, Store, dataset, sweep
from quadlens.training.population.store import RunDirectory
from quadlens.training.population.verify import verify, verify_model
from quadlens_checker import check
from sweep_help import STRATEGIES, TINY

pytestmark = pytest.mark.slow

RUN = TINY.run_id()
SECONDS = 120.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch", reason="training needs the extra 'train'")
    root = tmp_path_factory.mktemp("made")
    assert sweep([TINY], root, LocalBackend(1), strategies=STRATEGIES).made == 1
    dataset.rebuild(Store(root))
    return root


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> RunDirectory:
    shutil.copytree(made, tmp_path / "copy")
    return Store(tmp_path / "copy").finished(RUN)


def rewrite(
    run: RunDirectory, change: Callable[[dict[str, Any]], None], name: str = "results.json"
) -> None:
    """Change a JSON file and its hash, so that only the content can give it away."""
    value = json.loads((run.path / name).read_text())
    change(value)
    (run.path / name).write_text(json.dumps(value))
    if name != "manifest.json":
        digest = hashlib.sha256((run.path / name).read_bytes()).hexdigest()
        rewrite(run, lambda manifest: manifest["sha256"].update({name: digest}), "manifest.json")


def test_what_a_sweep_leaves_is_verified(made: Path) -> None:
    found = verify(made, SECONDS)
    assert (found.models, found.weights, dict(found.problems)) == (1, True, {})
    run = quadlens("population", made, "--verify", "--json", "--quiet")
    assert (run.code, run.document["problems"]) == (0, {})


@pytest.mark.parametrize("name", ["/dev/zero", "../../x", "..", "a/b", "."])
def test_a_manifest_names_only_files_of_its_directory(copy: RunDirectory, name: str) -> None:
    (copy.path.parent.parent / "x").write_bytes(b"secret")
    rewrite(copy, lambda manifest: manifest["sha256"].update({name: "0" * 64}), "manifest.json")
    problem = copy.problem(RUN) or ""
    assert "expected the name of a file in the model's directory" in problem
    run = quadlens("population", copy.path.parent.parent, "--verify")
    assert (run.code, "expected the name of a file" in run.out) == (1, True)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "results.json", "neurons.parquet", "manifest.json"]
)
@pytest.mark.parametrize("kind", ["link", "pipe", "huge"])
def test_files_are_regular_and_of_a_size(copy: RunDirectory, name: str, kind: str) -> None:
    path = copy.path / name
    path.unlink()
    if kind == "link":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        with path.open("wb") as stream:
            stream.truncate(1 << 40)  # takes no space, and would take all memory
    problem = copy.problem(RUN) or ""
    assert any(words in problem for words in ("is a link", "not a regular file", "at most"))
    run = quadlens("population", copy.path.parent.parent)
    # Without --verify the weights are not read.
    assert run.code == (0 if name == "model.safetensors" else 2), run.out


def test_results_claim_no_more_than_the_certificate_and_the_weights_support(
    copy: RunDirectory,
) -> None:
    whole = json.loads(copy.results.read_text())
    inputs = TINY.p**2

    def expect(words: str, change: Callable[[dict[str, Any]], None]) -> None:
        rewrite(copy, change)
        assert words in (verify_model(copy, RUN, SECONDS) or "")
        rewrite(copy, lambda value: value.update(whole))

    proved = json.loads(copy.certificate.read_text())["claims"]["certified_inputs"]
    wrong = 0 if whole["evaluation"]["correct"] else 1
    expect("the model gives", lambda value: value["evaluation"].update(correct=wrong))
    expect("the model's is", lambda value: value["evaluation"].update(min_margin=1e6))
    if proved < inputs:
        expect(
            "the certificate proves",
            lambda value: value["proofs"][0].update(certified_inputs=inputs),
        )
    else:
        expect("claims a margin", lambda value: value["proofs"][0].update(margin_lower_bound=1e6))
    expect("KeyError", lambda value: value.pop("evaluation"))
    assert verify_model(copy, RUN, SECONDS) is None


def test_a_false_certificate_is_found(copy: RunDirectory) -> None:
    rewrite(copy, lambda value: value["claims"].update(margin="1000000"), "certificate.json")
    assert "its certificate is not verified (REJECTED)" in (verify_model(copy, RUN, SECONDS) or "")


def test_a_dataset_is_what_its_models_say(copy: RunDirectory) -> None:
    root = copy.path.parent.parent
    path = Store(root).dataset
    frame = pl.read_parquet(path)
    frame.with_columns(loss=pl.lit(0.5)).write_parquet(path)
    assert "not what the models' own files give" in verify(root, SECONDS).problems[path.name]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"correct": pl.lit(3000, dtype=pl.Int64)}, "3000 right answers"),
        ({"seed": pl.col("seed") + 1}, "its manifest says"),
        ({"model_sha256": pl.lit("0" * 64)}, "of another model"),
        ({"min_margin": pl.lit(1.0)}, "claims a margin"),
        ({"good_model": ~pl.col("good_model")}, "mismatching"),
        ({"run_id": pl.lit("0" * 16)}, "of another model"),
    ],
)
def test_a_dataset_that_contradicts_itself_is_found(
    change: dict[str, pl.Expr], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "forged.parquet"
    dataset.read(dataset.shipped_path()).head(3).with_columns(**change).write_parquet(path)
    found = verify(path, SECONDS)
    assert found.problems
    assert any(words in problem for problem in found.problems.values())


def test_the_shipped_dataset_does_not_contradict_itself() -> None:
    run = quadlens("population", "--verify", "--json", "--quiet")
    assert (run.code, run.document["models"], run.document["problems"]) == (0, 151, {})
    assert run.document["verified"] == "consistency of a dataset without weights"


@pytest.mark.parametrize(("name", "seed"), [("pizza", 0), ("mismatched", 2)])
def test_rows_of_the_bundled_models_are_proved_again(name: str, seed: int, tmp_path: Path) -> None:
    """The sample of the shipped dataset whose weights are shipped too."""
    (row,) = (
        dataset.read(dataset.shipped_path()).filter(pl.col("seed") == seed).iter_rows(named=True)
    )
    model, digest = load_with_sha256(resolve(name))
    answers = evaluate(model.collapse())
    assert (digest, answers.correct) == (row["model_sha256"], row["correct"])
    assert answers.min_margin == pytest.approx(row["min_margin"], rel=1e-9)
    (stored,) = [proof for proof in row["proofs"] if proof["strategy"] == "moments"]
    certificate = certify(model, "moments", digest, checkable=True)
    certificate.save(tmp_path / "c.json")
    report = check(str(tmp_path / "c.json"), str(resolve(name)), SECONDS)
    assert report.verdict == "VERIFIED", report.reason
    assert report.claims["certified_inputs"] == stored["certified_inputs"]
    assert certificate.proof.margin is not None
    assert float(certificate.proof.margin) == pytest.approx(stored["margin_lower_bound"], rel=1e-9)
