"""Snapshots of a run: stated epochs, small files, the same bytes after any stop."""

import hashlib
import itertools
import math
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quadlens as quadlens_package
from cli_runner import quadlens, refused
from quadlens.network.bundled import load
from quadlens.network.evaluate import margins
from quadlens.network.margins import cross_entropy
from quadlens.network.native import save
from quadlens.training.config import load_config
from quadlens.training.machines import start_of
from quadlens.training.outputs import RunFiles, save_snapshot, snapshot_epochs
from quadlens.training.over_time import files_of, history, key_waves, model_in
from quadlens.training.played_run import orthonormal_waves, read_run
from quadlens.training.train import Hooks, Interrupted, train

pytestmark = pytest.mark.slow

SMALL = ("--p", "7", "--d-model", "8", "--d-mlp", "16", "--n-heads", "2", "--d-head", "4",
         "--epochs", "120", "--threads", "1", "--snapshots", "9",
         "--attention-rate", "0.5", "-q")  # fmt: skip


@given(st.integers(2, 60), st.integers(1, 20_000))
def test_snapshots_are_as_many_as_asked_for_and_even_in_the_logarithm(
    count: int, epochs: int
) -> None:
    if count > epochs + 1:
        with pytest.raises(quadlens_package.BadConfig, match="expected 2 … "):
            snapshot_epochs(count, epochs)
        return
    found = snapshot_epochs(count, epochs)
    assert (len(found), found[0], found[-1]) == (count, 0, epochs)
    assert all(low < high for low, high in itertools.pairwise(found))
    even = [math.expm1(i / (count - 1) * math.log1p(epochs)) for i in range(count)]
    # Where even spacing leaves more than an epoch between all later snapshots, they are where it
    # says.
    if even[1] >= 2:
        assert all(abs(a - b) <= 0.5 for a, b in zip(found, even, strict=True))


@pytest.mark.parametrize("name", ["pizza", "clock"])
def test_a_snapshot_is_a_model_file_of_the_size_that_is_said(name: str, tmp_path: Path) -> None:
    model = load(name)
    save_snapshot(model, tmp_path, 7)
    file = tmp_path / "0000007.safetensors"
    assert round(60 * file.stat().st_size / 1e6) == {"pizza": 43, "clock": 51}[name]
    assert model_in(file).config == model.config
    for key, array in model.tensors.items():
        np.testing.assert_array_equal(model_in(file).tensors[key], array)


def test_a_damaged_snapshot_is_refused(tmp_path: Path) -> None:
    save_snapshot(load("times"), tmp_path, 0)
    file = tmp_path / "0000000.safetensors"
    content = file.read_bytes()
    for damaged in (
        content[:1000],
        b"no",
        content[:500] + bytes([content[500] ^ 1]) + content[501:],
    ):
        file.write_bytes(damaged)
        with pytest.raises(quadlens_package.BadFile):
            model_in(file)


def all_hashes(directory: Path) -> dict[str, str]:
    return {
        one.name: hashlib.sha256(one.read_bytes()).hexdigest()
        for one in sorted(directory.iterdir())
    }


def test_a_stopped_run_resumes_to_the_same_snapshots(tmp_path: Path) -> None:
    whole = tmp_path / "whole.safetensors"
    assert quadlens("train", *SMALL, "-o", whole).code == 0
    wanted = all_hashes(RunFiles(whole).snapshots)
    assert len(wanted) == 9
    config = load_config(flags={"p": 7, "d_model": 8, "d_mlp": 16, "n_heads": 2, "d_head": 4,
                                "epochs": 120, "attention_rate": 0.5})  # fmt: skip
    part = tmp_path / "part.safetensors"
    directory = RunFiles(part).snapshots
    directory.mkdir()
    save_snapshot(start_of(config).params, directory, 100)  # a snapshot that is not asked for
    left = iter(range(70))
    hooks = Hooks(
        should_stop=lambda: next(left, None) is None,
        snapshots=snapshot_epochs(9, 120),
        on_snapshot=lambda epoch, models: save_snapshot(models[0], directory, epoch),
    )
    with pytest.raises(Interrupted) as stop:
        train(config, device="cpu", threads=1, hooks=hooks)
    stop.value.checkpoints[0].save(tmp_path / "part.checkpoint")
    assert quadlens("train", *SMALL, "--resume", "-o", part).code == 0
    assert all_hashes(directory) == wanted
    assert part.read_bytes() == whole.read_bytes()
    # A snapshot lost is made again, which needs the whole run.
    (directory / sorted(wanted)[3]).unlink()
    assert quadlens("train", *SMALL, "--resume", "-o", part).code == 0
    assert all_hashes(directory) == wanted
    assert (directory / "0000120.safetensors").read_bytes() == whole.read_bytes()
    refused(
        quadlens("train", *SMALL, "--seeds", "0:2", "-o", tmp_path / "many"),
        "--threads was given with --seeds",
    )


def test_waves_are_projections_on_cosine_and_sine_of_the_sum() -> None:
    n, rng = 7, np.random.default_rng(0)
    logits = rng.standard_normal((n, n, 5))
    (found,) = key_waves(logits, (2,))
    a, b = np.indices((n, n))
    for c in range(5):
        wave = np.zeros((n, n))
        for basis in (np.cos, np.sin):
            direction = basis(2 * np.pi * 2 * (a + b) / n)
            wave += (logits[:, :, c] * direction).sum() / np.square(direction).sum() * direction
        np.testing.assert_allclose(found[(a + b) % n, c], wave, atol=1e-12)


def test_cross_entropy_by_its_definition() -> None:
    logits, right = (
        np.random.default_rng(1).standard_normal((3, 3, 4)),
        np.arange(9).reshape(3, 3) % 4,
    )
    for a in range(3):
        for b in range(3):
            powers = np.exp(logits[a, b])
            expected = -math.log(powers[right[a, b]] / powers.sum())
            assert cross_entropy(logits, right)[a, b] == pytest.approx(expected, rel=1e-12)


def test_history_of_a_run_and_of_a_directory_of_checkpoints(tmp_path: Path) -> None:
    model = tmp_path / "m.safetensors"
    assert quadlens("train", *SMALL, "-o", model).code == 0
    shown = quadlens("history", model, "--json", "-o", tmp_path / "rows.parquet").document
    rows = shown["snapshots"]
    assert [row["epoch"] for row in rows] == list(snapshot_epochs(9, 120))
    assert all((row["certified_share"] > 0) == (row["operations"] is not None) for row in rows)
    assert rows[-1]["certified_share"] <= 1
    assert rows[-1].keys() == {
        *(
            "epoch",
            "train_loss",
            "test_loss",
            "accuracy",
            "restricted_loss",
            "excluded_loss",
            "frequencies",
            "clusters",
        ),
        *(
            "clustered",
            "lens_r2",
            "symmetric_part",
            "exact_error",
            "min_margin",
            "certified_share",
            "rank",
        ),
        *("operations", "cost_share"),
    }
    assert quadlens_package.history(model, proofs=False).snapshots[-1].certified_share is None
    # The manifest beside the snapshots says which pairs were trained on.
    curves = load_history_losses(tmp_path)
    assert rows[0]["train_loss"] == pytest.approx(curves[0][0], rel=1e-3)
    assert rows[0]["test_loss"] == pytest.approx(curves[0][1], rel=1e-3)
    other = tmp_path / "checkpoints"
    other.mkdir()
    for number, name in ((3, "pizza"), (20, "mismatched")):
        save(load(name), other / f"step-{number}.safetensors")
    (other / "notes.txt").write_text("not a checkpoint")
    found = history(other, proofs=False)
    assert [one.epoch for one in found.snapshots] == [3, 20]
    last = found.snapshots[-1]
    assert (last.accuracy, last.test_loss) == (1.0, None)
    assert last.restricted_loss is not None
    assert last.excluded_loss is not None
    lens = quadlens_package.lens("mismatched").r2
    assert (last.lens_r2, last.symmetric_part) == pytest.approx(
        (lens.shared, lens.symmetric_part), rel=1e-9
    )
    # The waves of key frequencies are the algorithm: without them a trained model knows nothing.
    assert last.restricted_loss < 0.1
    assert last.excluded_loss > 3
    assert found.frame().columns[-len(found.keys) :] == [f"frequency_{k}" for k in found.keys]
    refused(
        quadlens("history", tmp_path / "none.safetensors"),
        "no such directory; snapshots are kept while a model is trained, with",
    )
    # A bundled model, and any other that is there, is never to be replaced.
    refused(
        quadlens("history", "clock"), "--set attention_rate=1.0 --snapshots 60 -o again.safetensors"
    )
    refused(
        quadlens("history", model, "-q", "--no-proofs", "-o", tmp_path / "m.run"),
        "has no frequencies to play",
    )
    refused(
        quadlens("history", model, "-o", tmp_path / "rows.txt"),
        "expected a name that ends in .parquet or .csv",
    )


def test_a_played_run_is_the_run_rounded_and_a_damaged_file_is_refused(tmp_path: Path) -> None:
    model = tmp_path / "m.safetensors"
    assert quadlens("train", *SMALL, "--attention-rate", "0", "-o", model).code == 0
    file = tmp_path / "m.run"
    assert quadlens("history", model, "-o", file).code == 0
    found, files = read_run(file), dict(files_of(model))
    assert [one.epoch for one in found.history.snapshots] == list(files)
    assert set(found.epochs) <= set(files)
    assert (found.epochs[0], found.epochs[-1]) == (0, 120)
    for epoch, steps, arrays in zip(found.epochs, found.steps, found.arrays(), strict=True):
        layer = model_in(files[epoch]).collapse()
        waves = [
            orthonormal_waves(x)
            for x in ((layer.U_a + layer.U_b) / 2, (layer.U_b - layer.U_a) / 2, layer.W_L)
        ]
        for true, mine, step in zip((*waves, layer.S_a, layer.S_b), arrays, steps, strict=False):
            assert np.abs(true - mine).max() <= 0.5001 * step
        true = margins(layer)
        assert np.abs(true - arrays[5]).max() <= steps[5]
        assert ((true > 0) == (arrays[5] > 0)).all()
    # Without its snapshots, a run has the rows that NAME.run holds; the page plays either.
    page = tmp_path / "page.html"
    assert quadlens("explore", model, "-o", page, "--json").document["snapshots"] == len(
        found.epochs
    )
    RunFiles(model).snapshots.rename(tmp_path / "away")
    assert history(model).to_dict() == found.history.to_dict()
    assert quadlens("explore", model, "-o", page, "--json").document["snapshots"] == len(
        found.epochs
    )
    assert (
        quadlens("explore", model, "-o", page, "--no-history", "--json").document["snapshots"] == 0
    )
    with pytest.raises(quadlens_package.BadConfig, match="the run is of a network with"):
        quadlens_package.explore("pizza", page, history=model)
    content = file.read_bytes()
    for damaged in (content[:100], b"no", zlib.compress(zlib.decompress(content)[:-2])):
        file.write_bytes(damaged)
        with pytest.raises(quadlens_package.BadFile, match="quadlens history -o"):
            history(model)


@given(st.integers(2, 12))
def test_waves_are_an_orthonormal_transform(n: int) -> None:
    np.testing.assert_allclose(
        orthonormal_waves(np.eye(n)) @ orthonormal_waves(np.eye(n)).T, np.eye(n), atol=1e-12
    )


def load_history_losses(directory: Path) -> list[tuple[float, float]]:
    import polars as pl

    frame = pl.read_parquet(directory / "m.history.parquet")
    return list(zip(frame["train_loss"].to_list(), frame["validation_loss"].to_list(), strict=True))
