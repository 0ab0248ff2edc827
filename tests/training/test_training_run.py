"""Long work behaves: it can be stopped, killed and resumed, and the bytes are the same."""

import dataclasses
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import save

from cli_runner import quadlens, refused
from quadlens.base.errors import BadConfig, BadFile
from quadlens.network import load
from quadlens.network.evaluate import evaluate
from quadlens.network.native import read_safetensors
from quadlens.training.checkpoint import METADATA_KEY, load_checkpoint
from quadlens.training.config import LATER_SETTINGS, PRESETS, TrainConfig, load_config
from quadlens.training.history import read_history
from quadlens.training.outputs import (
    Outcome,
    RunFiles,
    TrainingManifest,
    check_writable,
    command_line,
    write_run,
)
from quadlens.training.population import LocalBackend, Store, sweep
from quadlens.training.population.one_model import train_together
from quadlens.training.train import Hooks, Interrupted, TrainingDiverged, train

pytestmark = pytest.mark.slow

TINY = TrainConfig(
    p=11, d_model=12, d_mlp=20, n_heads=2, d_head=6, epochs=60, history_every=7, spectrum_every=20
)
KILLS = 10


def command(output: Path, *more: str) -> list[str]:
    settings = (
        "--p 23 --d-model 32 --d-mlp 96 --n-heads 2 --d-head 16 --epochs 5000 --checkpoint-every 40"
    )
    threads = [] if "--seeds" in more else ["--threads", "1"]
    return [
        sys.executable,
        "-m",
        "quadlens",
        "train",
        *settings.split(),
        *threads,
        *more,
        "-o",
        str(output),
    ]


def run(output: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(output, *more), capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("uninterrupted") / "model.safetensors"
    assert run(output).returncode == 0
    return output


def test_killed_at_random_moments_and_resumed_gives_the_same_bytes(
    uninterrupted: Path, tmp_path: Path
) -> None:
    output, moments = tmp_path / "model.safetensors", random.Random(0)
    checkpoint, killed = RunFiles(output).checkpoint, 0
    for early in [True, *[False] * KILLS]:
        process = subprocess.Popen(command(output, "--resume", "--quiet"), stderr=subprocess.PIPE)
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else None
        # The first kill comes while it starts; every other at a random moment after this process
        # has made progress.
        while (
            not early
            and (checkpoint.stat().st_mtime_ns if checkpoint.exists() else None) == before
            and process.poll() is None
        ):
            time.sleep(0.002)
        time.sleep(moments.uniform(0.0, 0.3))
        process.kill()
        process.communicate()
        if process.returncode != -signal.SIGKILL:  # done before the kill, on a fast machine
            assert process.returncode == 0
            break
        killed += 1
    assert killed
    done = run(output, "--resume")
    assert done.returncode == 0, done.stderr
    assert output.read_bytes() == uninterrupted.read_bytes()
    for kind in ("history", "spectrum"):
        mine, theirs = (
            pl.read_parquet(getattr(RunFiles(f), kind)) for f in (output, uninterrupted)
        )
        assert mine.equals(theirs)
    assert not RunFiles(output).checkpoint.exists()
    assert not list(tmp_path.glob(".*"))


def test_softmax_killed_and_resumed_gives_the_same_bytes(tmp_path: Path) -> None:
    softmax, whole, output = (
        ("--attention-rate", "1", "--epochs", "400"),
        tmp_path / "a",
        tmp_path / "b",
    )
    for directory in (whole, output):
        directory.mkdir()
    assert run(whole / "m.safetensors", *softmax).returncode == 0
    process = subprocess.Popen(
        command(output / "m.safetensors", *softmax, "--quiet"), stderr=subprocess.PIPE
    )
    while not RunFiles(output / "m.safetensors").checkpoint.exists():
        time.sleep(0.002)
        assert process.poll() is None
    process.kill()
    process.communicate()
    assert run(output / "m.safetensors", *softmax, "--resume").returncode == 0
    assert (output / "m.safetensors").read_bytes() == (whole / "m.safetensors").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_saves_and_says_how_to_go_on(
    uninterrupted: Path, tmp_path: Path, number: signal.Signals
) -> None:
    output = tmp_path / "model.safetensors"
    process = subprocess.Popen(command(output), stderr=subprocess.PIPE, text=True)
    while not RunFiles(output).checkpoint.exists():
        time.sleep(0.01)
        assert process.poll() is None
    os.kill(process.pid, number)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "saved; resume with: " in errors
    assert "--resume" in errors
    assert "Traceback" not in errors
    refused(quadlens(*command(output)[3:]), "unfinished run; add --resume")
    assert run(output, "--resume").returncode == 0
    assert output.read_bytes() == uninterrupted.read_bytes()


def test_an_interrupt_before_the_first_epoch_is_not_a_crash(tmp_path: Path) -> None:
    """While libraries load and kernels compile, an exception would abort the process."""
    process = subprocess.Popen(
        command(tmp_path / "model.safetensors"), stderr=subprocess.PIPE, text=True
    )
    if process.stderr is None:
        raise RuntimeError("no pipe")
    assert process.stderr.readline().startswith("preparing")
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "stopped before the first epoch; nothing was written" in errors
    assert list(tmp_path.iterdir()) == []


def test_before_it_starts_it_says_what_and_how_long(tmp_path: Path) -> None:
    done = run(tmp_path / "model.safetensors", "--epochs", "20")
    preparing, first, *_ = done.stderr.splitlines()
    assert preparing.startswith("preparing")
    assert first.startswith(
        "training p = 23, 96 neurons, seed 0 on 423 of 529 pairs, epochs 0 to 20, 1 threads, into"
    )
    assert "ms per epoch, about" in first


def test_json_is_the_manifest_and_a_finished_run_is_not_repeated(uninterrupted: Path) -> None:
    before = uninterrupted.stat().st_mtime_ns
    done = run(uninterrupted, "--resume", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == json.loads(RunFiles(uninterrupted).manifest.read_text())
    assert "already trained" in done.stderr
    assert uninterrupted.stat().st_mtime_ns == before


def test_stopping_and_going_on_in_one_process_gives_the_same_weights() -> None:
    whole = train(TINY, threads=1)
    for stop_at in (0, 1, 20, 59):
        steps = iter(range(TINY.epochs + 1))
        with pytest.raises(Interrupted, match=f"stopped after {stop_at} epochs") as stop:
            train(
                TINY,
                threads=1,
                hooks=Hooks(should_stop=lambda at=stop_at, steps=steps: next(steps) == at),  # type: ignore[misc]
            )
        resumed = train(TINY, resume=stop.value.checkpoints[0])
        for name, array in whole.params.tensors.items():
            np.testing.assert_array_equal(array, resumed.params.tensors[name])
        assert whole.history.curve_frame().equals(resumed.history.curve_frame())
        assert whole.history.spectrum_frame().equals(resumed.history.spectrum_frame())


@pytest.mark.parametrize(
    "change",
    [
        {"attention_rate": 1.0},
        {
            "attention_rate": 0.5,
            "attention_rest": "ones",
            "equals": True,
            "vocabularies": 2,
            "activation": "gelu",
        },
        {"architecture": "mlp", "activation": "square", "loss": "squares", "initial_scale": 0.1},
        {"task": "multiply", "p": 10},
        {"task": "S3", "p": 6, "attention_rate": 1.0},
    ],
)
def test_other_models_are_stopped_resumed_and_written_as_the_papers(
    change: dict[str, Any], tmp_path: Path
) -> None:
    config, steps = dataclasses.replace(TINY, **change), iter(range(100))
    whole = train(config, threads=1)
    with pytest.raises(Interrupted) as stop:
        train(config, threads=1, hooks=Hooks(should_stop=lambda: next(steps) == 33))
    stop.value.checkpoints[0].save(tmp_path / "x.checkpoint")
    resumed = train(config, resume=load_checkpoint(tmp_path / "x.checkpoint"))
    for name, array in whole.params.tensors.items():
        np.testing.assert_array_equal(array, resumed.params.tensors[name])
    assert whole.history.spectrum_frame().equals(resumed.history.spectrum_frame())
    assert len(whole.history.spectrum_epochs) == (0 if config.task == "S3" else 4)
    manifest = write_run(RunFiles(tmp_path / "x.safetensors"), whole, 1.0)
    answers = evaluate(load(tmp_path / "x.safetensors").collapse())
    assert (manifest.outcome.correct, manifest.outcome.min_margin) == (
        answers.correct,
        answers.min_margin,
    )
    assert {"model", "instructions"} <= manifest.machine.keys()
    history = read_history(
        RunFiles(tmp_path / "x.safetensors").history, RunFiles(tmp_path / "x.safetensors").spectrum
    )
    np.testing.assert_array_equal(history.spectrum_epochs, whole.history.spectrum_epochs)


def test_a_later_setting_at_its_default_does_not_rename_a_run() -> None:
    """The names of runs that were made before these settings came."""
    assert TrainConfig().run_id() == "276ceda8b4e068d1"
    changed = OTHERWISE | {"norm": "rms"}
    names = [
        TrainConfig(**{name: changed[name]}).run_id() for name in LATER_SETTINGS if name in changed
    ]
    sequences = [{name: ON_SEQUENCES[name]} for name in LATER_SETTINGS if name not in changed]
    names += [load_config("adder", flags=flags).run_id() for flags in ({}, *sequences)]
    assert len({TrainConfig().run_id(), *names}) == len(LATER_SETTINGS) + 2


def test_history_has_curves_and_spectra() -> None:
    history = train(TINY, threads=1).history
    curves, spectra = history.curve_frame(), history.spectrum_frame()
    assert curves["epoch"].to_list() == [*range(0, 60, 7), 59]
    assert curves["train_loss"][0] > curves["train_loss"][-1]
    assert spectra["epoch"].unique().sort().to_list() == [0, 20, 40, 60]
    assert spectra["k"].unique().sort().to_list() == [1, 2, 3, 4, 5]


def test_many_seeds_equal_one_by_one(tmp_path: Path) -> None:
    configs = [dataclasses.replace(TINY, seed=seed) for seed in (3, 4, 5)]
    assert sweep(configs, tmp_path, LocalBackend(2), strategies=()).made == 3
    for config in configs:
        directory = Store(tmp_path).finished(config.run_id())
        assert (directory.problem(config.run_id()), directory.analysed) == (None, False)
        alone, together = train(config, threads=1).params, load(directory.training.model)
        for name, array in alone.tensors.items():
            np.testing.assert_array_equal(array, together.tensors[name])


def test_many_seeds_at_once_on_a_device_are_stored_as_a_sweep_does(
    tmp_path: Path,
) -> None:
    """The accelerator's engine on the CPU: a batch rounds otherwise by a little."""
    configs = [dataclasses.replace(TINY, seed=seed) for seed in (3, 4)]
    store, stops = Store(tmp_path), iter([False] * 30 + [True])
    with pytest.raises(Interrupted):
        train_together(configs, store, "cpu", 10, should_stop=lambda: next(stops))
    assert load_checkpoint(store.unfinished(configs[1].run_id()).training.checkpoint).epoch == 30
    lines: list[str] = []
    train_together(configs, store, "cpu", 10, lines.append)
    assert lines[0].startswith("epoch 40 of 60")
    for config in configs:
        directory = store.finished(config.run_id())
        assert directory.problem(config.run_id()) is None
        alone, together = train(config, threads=1).params, load(directory.training.model)
        for name, array in alone.tensors.items():
            np.testing.assert_allclose(array, together.tensors[name], atol=1e-3)
    train_together(configs, store, "cpu")


def test_resume_refuses_another_run() -> None:
    with pytest.raises(Interrupted) as stop:
        train(TINY, threads=1, hooks=Hooks(should_stop=lambda: True))
    with pytest.raises(BadConfig, match=r"another run \(lr: 0.001 before, 0.002 now\)"):
        train(dataclasses.replace(TINY, lr=2e-3), resume=stop.value.checkpoints[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"config": None}, "header: config = None: TrainConfig: expected names with values"),
        ({"config": ...}, "missing key 'config'"),
        ({"epoch": "3"}, "epoch = '3': expected int"),
        ({"epoch": 61}, "says epoch 61 and 1 threads, which no run does"),
        ({"threads": 0}, "says epoch 0 and 0 threads, which no run does"),
        (
            {"config": {**dataclasses.asdict(TINY), "d_mlp": 21}},
            "arrays of other sizes than its settings have",
        ),
    ],
)
def test_a_checkpoint_with_another_header_is_refused(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(Interrupted) as stop:
        train(TINY, threads=1, hooks=Hooks(should_stop=lambda: True))
    path = tmp_path / "x.checkpoint"
    stop.value.checkpoints[0].save(path)
    arrays, metadata = read_safetensors(path)
    header = json.loads(metadata[METADATA_KEY]) | change
    header = {name: value for name, value in header.items() if value is not ...}
    path.write_bytes(save(arrays, {METADATA_KEY: json.dumps(header)}))
    with pytest.raises(
        BadFile, match=f"{re.escape(words)}.*delete .* to start this run from the beginning"
    ):
        load_checkpoint(path)


def test_more_epochs_continue_a_finished_run_to_the_bytes_of_one_that_was_never_interrupted(
    uninterrupted: Path, tmp_path: Path
) -> None:
    """The epoch is not in the longer run's history; without --resume nothing changes."""
    output, whole = tmp_path / "model.safetensors", RunFiles(uninterrupted)
    epochs = str(json.loads(whole.manifest.read_text())["config"]["epochs"])
    assert run(output, "--epochs", "137").returncode == 0
    done = run(output, "--epochs", epochs, "--resume")
    assert done.returncode == 0, done.stderr
    assert "continuing a finished run of 137 epochs" in done.stderr
    assert output.read_bytes() == uninterrupted.read_bytes()
    for kind in ("history", "spectrum", "optimiser"):
        assert getattr(RunFiles(output), kind).read_bytes() == getattr(whole, kind).read_bytes()


def test_resume_never_replaces_a_model_that_is_not_the_beginning_of_the_run(tmp_path: Path) -> None:
    output = tmp_path / "model.safetensors"
    short = command(output, "--epochs", "20")[3:]
    said = quadlens(*short, "--resume")
    assert said.code == 0
    assert "there is nothing to resume" in said.err
    before = output.read_bytes()
    words = "is of a finished run with other settings"
    refused(quadlens(*short, "--resume", "--lr", "0.002"), f"{words} (lr: 0.001 before, 0.002 now)")
    refused(
        quadlens(*command(output, "--epochs", "10")[3:], "--resume"),
        f"{words} (epochs: 20 before, 10 now)",
    )
    RunFiles(output).optimiser.unlink()
    refused(
        quadlens(*command(output, "--epochs", "30")[3:], "--resume"),
        "model.optimiser is not beside it",
    )
    for file in tmp_path.iterdir():
        if file != output:
            file.unlink()
    refused(quadlens(*short, "--resume"), "there is nothing to resume: no run of training left")
    assert output.read_bytes() == before


def test_progress_says_which_loss_and_of_which_epoch_the_validation_is(tmp_path: Path) -> None:
    squares = ("--loss", "squares", "--epochs", "50", "--history-every", "40")
    lines = quadlens(*command(tmp_path / "model.safetensors", *squares)[3:]).err.splitlines()
    (late,) = [line for line in lines if line.startswith("epoch 35/50")]
    assert "  squares " in late
    assert "(epoch 1)" in late
    (last,) = [line for line in lines if line.startswith("epoch 50/50")]
    assert "(epoch" not in last


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Interrupted) as stop:
        train(TINY, threads=1, hooks=Hooks(should_stop=lambda: True))
    path = tmp_path / "x.checkpoint"
    stop.value.checkpoints[0].save(path)
    content = bytearray(path.read_bytes())
    assert load_checkpoint(path).epoch == 0
    content[-100] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadFile, match="damaged"):
        load_checkpoint(path)
    path.write_bytes(content[:-8])
    with pytest.raises(BadFile, match="cut or damaged"):
        load_checkpoint(path)


def test_divergence_is_said() -> None:
    with pytest.raises(TrainingDiverged, match="lower the learning rate"):
        train(dataclasses.replace(TINY, lr=1e30), threads=1)


def test_unwritable_and_full_are_said_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadFile, match="choose a directory that exists"):
        check_writable(RunFiles(tmp_path / "no" / "model.safetensors"), TINY)
    with pytest.raises(BadFile, match="is a directory"):
        check_writable(RunFiles(tmp_path), TINY)
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(BadFile, match="0 MiB free and this run needs"):
        check_writable(RunFiles(tmp_path / "model.safetensors"), TINY)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_complete_and_a_manifest_names_its_command(preset: str) -> None:
    config = load_config(preset, flags={"seed": 3})
    assert config.weight_decay == {
        "text": 0.01,
        "zhong": 2.0,
        "he": 0.0,
        "adder": 0.01,
        "max": 0.01,
    }.get(preset, 1.0)
    assert config.equals == (preset in ("eos", "nanda", "s5"))
    words = command_line(config, 1, "m.safetensors")
    assert "--seed 3" in words
    assert ("--set weight_decay=" in words) == (preset in ("text", "zhong", "he"))
    assert ("--set task=" in words) == (preset in ("multiply", "s5"))


def test_the_papers_start_leads_to_the_papers_frequencies() -> None:
    """Key frequencies 12, 18, 21 and 22 hold 90 % of W_L's power after 1,000 epochs.

    Each holds at least 19 %.
    """
    power = train(load_config("original", flags={"epochs": 1000}), threads=1).history.output_power[
        -1
    ]
    shares = power / power.sum()
    assert set(np.argsort(shares)[-4:] + 1) == {12, 18, 21, 22}
    assert np.sort(shares)[-4] > 3 * np.sort(shares)[-5]


# One other value for every setting, so that none can be forgotten.
OTHERWISE: dict[str, Any] = {
    "p": 31,
    "d_model": 64,
    "d_mlp": 100,
    "n_heads": 2,
    "d_head": 16,
    "equals": True,
    "train_share": 0.3,
    "epochs": 7,
    "lr": 3e-05,
    "beta_1": 0.95,
    "beta_2": 0.999,
    "epsilon": 1e-12,
    "weight_decay": 0.0,
    "warmup": 1,
    "seed": 5,
    "seeding": "gbmi",
    "precision": "float64",
    "history_every": 3,
    "spectrum_every": 9,
    "task": "linear:2,3",
    "activation": "gelu",
    "architecture": "mlp",
    "attention_rate": 0.5,
    "attention_rest": "ones",
    "vocabularies": 2,
    "initial_scale": 0.1,
    "loss": "squares",
    "initial_rule": "zhong",
    "schedule": "cosine",
}
# Those of networks on sequences, whose presets have all the others.
ON_SEQUENCES: dict[str, Any] = {"d_value": 2, "norm": "none", "batch": 7}
# All at once, but for the MLP, which has no attention, and for widths that no seeding of the
# paper's group has.
EVERYTHING = {
    name: value for name, value in OTHERWISE.items() if name not in ("architecture", "initial_rule")
}


@pytest.mark.parametrize(
    "change",
    [
        {},
        EVERYTHING,
        ON_SEQUENCES,
        *({name: value} for name, value in (OTHERWISE | ON_SEQUENCES).items()),
    ],
)
def test_the_stored_command_gives_the_same_settings_again(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {field.name for field in dataclasses.fields(TrainConfig)}
    assert OTHERWISE.keys() | ON_SEQUENCES.keys() == names
    config = (
        load_config("adder", flags=change)
        if change.keys() <= ON_SEQUENCES.keys() and change
        else TrainConfig(**change)
    )
    seen: list[tuple[TrainConfig, str, int]] = []

    def run_one(
        settings: TrainConfig, output: Path, device: str, threads: int, *rest: Any
    ) -> TrainingManifest:
        seen.append((settings, str(output), threads))
        outcome = Outcome(0, settings.p**2, 0.0, 0.0)
        return TrainingManifest(
            "", settings.run_id(), settings, device, threads, 0.0, {}, {}, {"m": ""}, outcome
        )

    monkeypatch.setattr("quadlens.cli.train.run_one", run_one)
    program, *words = shlex.split(command_line(config, 2, "my model.safetensors"))
    done = quadlens(*words, "--json")
    assert (program, done.code) == ("quadlens", 0), done.err
    assert seen == [(config, "my model.safetensors", 2)]
    assert seen[0][0].run_id() == config.run_id()


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("ppp = 5", "unknown key 'ppp'"),
        ("p = 1", "p = 1 is not supported; expected at least 2 elements"),
        ("task = 'S5'", "the group S5 has 120 elements, but the model has 59"),
        ("task = 'multiply'", "multiply is about a prime modulus; 59 elements would make it 60"),
        ("task = 'power'", "no task is called 'power'"),
        ("activation = 'sin'", "activation 'sin' is not supported; expected one of relu"),
        ("attention_rate = 1.5", "expected 0 .constant. … 1 .softmax."),
        ("vocabularies = 3", "vocabularies = 3; expected 1 or 2"),
        ("architecture = 'mlp'\nequals = true", "an MLP has no attention"),
        ("initial_scale = 0.0", "initial_scale too"),
        (
            "initial_rule = 'zhong'\nseeding = 'gbmi'",
            "initial_rule = zhong is for transformers with seeding quadlens",
        ),
        (
            "initial_rule = 'zhong'\narchitecture = 'mlp'",
            "initial_rule = zhong is for transformers",
        ),
        ("p = 'x'", "expected int, got str"),
        ("seeding = 'mine'", "expected one of quadlens, gbmi"),
        ("train_share = 0.0", "expected a share in"),
        ("lr = -1", "expected lr and epsilon above 0"),
        ("epochs = 0", "epochs = 0; expected at least 1"),
        ("beta_2 = 1.0", r"expected both in \[0, 1\)"),
        ("seed = -1", "seed = -1; expected 0"),
        ("p = = 3", "is not TOML"),
    ],
)
def test_bad_settings_are_said(tmp_path: Path, toml: str, message: str) -> None:
    file = tmp_path / "run.toml"
    file.write_text(toml)
    with pytest.raises((BadConfig, BadFile), match=message):
        load_config("paper", file)


def test_settings_files_override_presets_and_flags_override_files(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("p = 31\nepochs = 7\n")
    config = load_config("eos", file, {"epochs": 9})
    assert (config.p, config.epochs, config.equals) == (31, 9, True)
    with pytest.raises(BadFile, match="no such file"):
        load_config("paper", tmp_path / "none.toml")


def test_many_seeds_by_command_can_be_resumed(tmp_path: Path) -> None:
    output = tmp_path / "seeds"
    flags = ["--seeds", "0:3", "--epochs", "30", "--json"]
    first = run(output, *flags)
    assert first.returncode == 0, first.stderr
    assert "done 3/3" in first.stderr
    (second,) = [
        one["path"] for one in json.loads(first.stdout)["runs"] if one["config"]["seed"] == 1
    ]
    Path(second).unlink()
    again = run(output, *flags, "--resume")
    assert "model.safetensors" in again.stderr
    assert "what is missing of it is made again" in again.stderr
    runs = [
        {k: v for k, v in r.items() if k != "seconds"} for r in json.loads(again.stdout)["runs"]
    ]
    assert runs == [
        {k: v for k, v in r.items() if k != "seconds"} for r in json.loads(first.stdout)["runs"]
    ]
    (tmp_path / "file").touch()
    refused = run(tmp_path / "file", *flags)
    assert refused.returncode == 2
    assert "it is a file; give the name of a directory" in refused.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--p", "1"], "p = 1 is not supported"),
        (["--seeds", "3:1"], "names no seed"),
        (["--seeds", "x"], "expected A:B"),
        (["--seeds", "0:2", "--set", "seed=3"], "--seed and --seeds were both given"),
        (["--set", "p=31"], "p was already given as 23; give it once"),
        (["--set", "beta_3=0.5"], "unknown key 'beta_3'"),
        (["--seeds", "0:2", "--threads", "2"], "--threads was given with --seeds"),
        (["--device", "cuda"], "device 'cuda' is not available"),
    ],
)
def test_bad_flags_exit_2(tmp_path: Path, flags: list[str], message: str) -> None:
    done = run(tmp_path / "model.safetensors", *flags)
    assert done.returncode == 2
    assert message in done.stderr
    assert not list(tmp_path.iterdir()) or flags[0] == "--seeds"


def test_a_task_from_a_table_file_is_trained_and_its_command_needs_no_file(tmp_path: Path) -> None:
    table = tmp_path / "maximum.csv"
    table.write_text("".join(",".join(str(max(a, b)) for b in range(5)) + "\n" for a in range(5)))
    small = {"d_model": 8, "d_mlp": 16, "n_heads": 2, "d_head": 4, "epochs": 5}
    config = load_config(flags={"task": str(table), **small})
    assert config.p == 5
    assert config.model_config().task.answers.tolist() == [
        [max(a, b) for b in range(5)] for a in range(5)
    ]
    words = shlex.split(command_line(config, 1, "m.safetensors"))
    flags = dict(word.split("=", 1) for word in words[words.index("--set") :] if "=" in word)
    assert flags["task"] == config.task
    assert "task=table)" in repr(config) or "task=table," in repr(config)
    again = load_config(flags={"task": flags["task"], "p": 5, **small})
    assert again.run_id() == config.run_id()
    result = train(config, device="cpu", threads=1)
    assert np.array_equal(result.params.config.task.answers, config.model_config().task.answers)
    with pytest.raises(BadConfig, match="has 5 elements, but the model has p = 7"):
        load_config(flags={"task": str(table), "p": 7, **small})
    with pytest.raises(BadConfig, match="is not rows of numbers"):
        load_config(flags={"task": "table:0,x", "p": 2, **small})
