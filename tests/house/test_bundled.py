"""The models shipped with the package are what their manifests say."""

import hashlib
import json
import shlex

import pytest

import quadlens
from quadlens.analysis.spectrum.cluster import find_clusters, neuron_spectra
from quadlens.base.schema import from_json, to_json
from quadlens.network.bundled import bundled_names, data_directory
from quadlens.network.evaluate import evaluate
from quadlens.network.sequence_forward import forward, sequence_config
from quadlens.network.sequence_task import expand
from quadlens.training.config import load_config
from quadlens.training.history import read_history
from quadlens.training.outputs import RunFiles, TrainingManifest, command_line

LIMIT = 1_000_000


@pytest.mark.parametrize("name", ["pizza", "mismatched"])
def test_hash_accuracy_and_command(name: str) -> None:
    files = RunFiles(data_directory() / f"{name}.safetensors")
    manifest = from_json(TrainingManifest, files.manifest.read_bytes(), name)
    assert to_json(manifest) == files.manifest.read_bytes()
    content = files.model.read_bytes()
    assert hashlib.sha256(content).hexdigest() == manifest.sha256[files.model.name]
    assert (
        sum(f.stat().st_size for f in (files.model, files.manifest, files.history, files.spectrum))
        < LIMIT
    )
    config = manifest.config
    assert manifest.command == command_line(config, manifest.threads, files.model.name)
    seed = int(shlex.split(manifest.command)[5])
    assert load_config("paper", flags={"seed": seed}) == config
    assert config.epochs == 10_000
    answers = evaluate(quadlens.load(name).collapse())
    assert (answers.correct, answers.pairs) == (3481, 3481)
    assert answers.min_margin == pytest.approx(manifest.outcome.min_margin, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "correct"), [("clock", 59**2), ("original", 59**2), ("times", 58**2)]
)
def test_other_models_are_what_their_manifests_say(name: str, correct: int) -> None:
    files = RunFiles(data_directory() / f"{name}.safetensors")
    manifest = from_json(TrainingManifest, files.manifest.read_bytes(), name)
    assert to_json(manifest) == files.manifest.read_bytes()
    assert hashlib.sha256(files.model.read_bytes()).hexdigest() == manifest.sha256[files.model.name]
    assert manifest.command == command_line(manifest.config, manifest.threads, files.model.name)
    assert manifest.machine["instructions"]
    model = quadlens.load(name)
    assert model.config == manifest.config.model_config()
    answers = evaluate(model.collapse())
    assert (answers.correct, answers.pairs) == (correct, correct)
    assert answers.min_margin == pytest.approx(manifest.outcome.min_margin, rel=1e-9)
    assert read_history(files.history, files.spectrum).curves[-1, 0] == manifest.config.epochs - 1


def test_the_adder_is_what_its_manifest_says() -> None:
    """10,010 words were tried when it was trained; here 500 others."""
    files = RunFiles(data_directory() / "adder.safetensors")
    manifest = from_json(TrainingManifest, files.manifest.read_bytes(), "adder")
    assert to_json(manifest) == files.manifest.read_bytes()
    assert hashlib.sha256(files.model.read_bytes()).hexdigest() == manifest.sha256[files.model.name]
    assert manifest.command == command_line(manifest.config, manifest.threads, files.model.name)
    assert (manifest.outcome.correct, manifest.outcome.pairs) == (10_010, 10_010)
    model = quadlens.load("adder")
    assert model.config == manifest.config.kind.network(manifest.config)
    task = expand(sequence_config(model))
    words = task.random_words(500, 0)
    for step, (query, _, _) in enumerate(task.steps):
        answers = forward(model, task.tokens(words), query).argmax(axis=1)
        assert task.right(words, step)[range(500), answers].all()
    assert read_history(files.history, files.spectrum).curves[-1, 0] == manifest.config.epochs - 1


def test_pizza_is_seed_0_and_clean_and_mismatched_is_not() -> None:
    assert {"pizza", "mismatched"} <= set(bundled_names())
    content = RunFiles(data_directory() / "pizza.safetensors").manifest.read_bytes()
    assert from_json(TrainingManifest, content, "pizza").config.seed == 0
    for name, clean in (("pizza", True), ("mismatched", False)):
        collapsed = quadlens.load(name).collapse()
        clustered = sum(
            len(cluster.neurons) for cluster in find_clusters(neuron_spectra(collapsed))
        )
        assert (clustered == collapsed.d_mlp) == clean


def test_original_is_the_papers_mainline_model() -> None:
    """From its start: frequencies, coefficients and R² as printed, neurons nearly so."""
    files = RunFiles(data_directory() / "original.safetensors")
    assert from_json(
        TrainingManifest, files.manifest.read_bytes(), "original"
    ).config == load_config("original")
    printed = json.loads((data_directory() / "published.json").read_bytes())["mainline"]
    found = quadlens.explain("original").to_dict()
    assert found["key_frequencies"] == printed["key_frequencies"]
    for k, coefficients in found["coefficients"].items():
        assert round(coefficients["C"], 1) == printed["abs_coefficients_C"][k]
        assert round(coefficients["D"], 1) == printed["id_coefficients_D"][k]
    for ours, theirs in (("all_logits", "all_logits"), ("abs_component", "abs_component_only")):
        assert {form: round(found["r2"][ours][form], 2) for form in ("pizza", "clock")} == printed[
            "r2"
        ][theirs]
    for cluster in found["clusters"]:
        assert (
            abs(cluster["neurons"] - printed["neurons_per_key_frequency"][str(cluster["k"])]) <= 4
        )
