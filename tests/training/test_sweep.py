"""A sweep survives kills, damaged checkpoints, a full disk, with the same bytes."""

import dataclasses
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from threadpoolctl import threadpool_limits

from places import TESTS
from quadlens.analysis.explanation import Explanation, explain
from quadlens.analysis.spectrum import Anatomy
from quadlens.base.errors import BadConfig, BadFile
from quadlens.cli.main import main
from quadlens.network import Recipe, build_transformer
from quadlens.network.study import study_of
from quadlens.proofs.pairs.produce import best_certificate, certify
from quadlens.training.checkpoint import load_checkpoint
from quadlens.training.config import TrainConfig
from quadlens.training.population import (
    DiskFull,
    LocalBackend,
    Store,
    SweepReport,
    SweepState,
    dataset,
    sweep,
)
from quadlens.training.population.analysis import ALL_STRATEGIES, analyse, results_to_bytes
from quadlens.training.population.backends import Backend
from quadlens.training.population.one_model import Job, make_model, usable_checkpoint
from quadlens.training.population.store import Busy
from sweep_help import (
    EVERY,
    LONG,
    STRATEGIES,
    TINY,
    changed,
    has_checkpoint,
    hashes,
    killed_worker,
    seeds,
    undisturbed_sweep,
    wait_for,
    worker_of,
)

pytestmark = pytest.mark.slow

CONFIGS = [*seeds(LONG, 2), *seeds(TINY, 2)]
FLAGS = (
    "--p 13 --seeds 0:2 --set d_model=12 --set d_mlp=32 --set n_heads=2 --set d_head=6 --set "
    "history_every=1000 "
    f"--set spectrum_every=1000 --epochs 3000 --checkpoint-every {EVERY} --strategies brute,arcs"
).split()


def run(
    configs: list[TrainConfig], root: Path, backend: Backend | None = None, **more: object
) -> SweepReport:
    settings = {"strategies": STRATEGIES, "checkpoint_every": EVERY, **more}
    return sweep(configs, root, backend or LocalBackend(1), **settings)  # type: ignore[arg-type]


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "quadlens", *words]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return undisturbed_sweep(tmp_path_factory, CONFIGS)


def test_a_finished_model_is_all_there_and_is_what_the_pipeline_gives(undisturbed: Path) -> None:
    for config in CONFIGS:
        directory = Store(undisturbed).finished(config.run_id())
        manifest = json.loads(directory.manifest.read_text())
        assert manifest["config"] == dataclasses.asdict(config)
        assert set(manifest["sha256"]) == {f.name for f in directory.path.iterdir()} - {
            "manifest.json"
        }
        # As many threads as a worker has: the order of sums, and so the last digits of estimates,
        # depend on it.
        with threadpool_limits(1):
            again = analyse(study_of(directory.training.model), STRATEGIES)
        assert results_to_bytes(again.results) == directory.results.read_bytes()
        assert again.certificate.to_bytes() == directory.certificate.read_bytes()
    assert not [f for f in (undisturbed / "unfinished").iterdir() if f.is_dir()]


def test_running_again_does_nothing(undisturbed: Path) -> None:
    before = changed(undisturbed)
    assert run(CONFIGS, undisturbed) == SweepReport(total=4, made=0, already=4, failed={}, left=0)
    assert changed(undisturbed) == before


def test_driver_killed_and_restarted(undisturbed: Path, tmp_path: Path) -> None:
    words = command("sweep", *FLAGS, "-o", str(tmp_path), "--processes", "1", "--quiet")
    first, second = CONFIGS[:2]
    driver = subprocess.Popen(words)
    wait_for(lambda: has_checkpoint(tmp_path, second))
    driver.kill()
    driver.wait()
    # Its worker ends by itself: soon nobody holds the model's lock.
    with Store(tmp_path).only_worker(second.run_id()):
        assert not Store(tmp_path).is_finished(second.run_id())
        assert (
            load_checkpoint(Store(tmp_path).unfinished(second.run_id()).training.checkpoint).epoch
            >= EVERY
        )
    before = changed(tmp_path)
    assert set(before) == {first.run_id()}
    done = subprocess.run([*words, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["made"], json.loads(done.stdout)["already"]) == (1, 1)
    assert changed(tmp_path).items() > before.items()
    expected = hashes(undisturbed)
    assert hashes(tmp_path) == {
        run_id: expected[run_id] for run_id in (first.run_id(), second.run_id())
    }
    assert len(pl.read_parquet(Store(tmp_path).dataset)) == 2


def test_worker_killed_costs_one_attempt_and_changes_nothing(
    undisturbed: Path, tmp_path: Path
) -> None:
    notes: list[str] = []
    states: list[str] = []

    def watch(state: SweepState) -> None:
        states.append(f"{state.done}/{state.total}")

    with killed_worker(tmp_path, CONFIGS[0]):
        report = run(CONFIGS, tmp_path, LocalBackend(2), on_state=watch, on_note=notes.append)
    assert (states[0], states[-1]) == ("0/4", "4/4")
    assert report == SweepReport(total=4, made=4, already=0, failed={}, left=0)
    assert len(notes) == 1
    assert "its worker was killed by SIGKILL; trying again from its last checkpoint" in notes[0]
    assert hashes(tmp_path) == hashes(undisturbed)


def test_three_failures_are_recorded_and_the_sweep_goes_on(tmp_path: Path) -> None:
    diverging = dataclasses.replace(TINY, lr=1e30)
    unlucky = dataclasses.replace(LONG, seed=9)
    configs, victim = [diverging, unlucky, TINY], unlucky.run_id()
    with killed_worker(tmp_path, unlucky, times=3) as kills:
        report = run(configs, tmp_path)
    assert (report.made, report.left, set(report.failed)) == (1, 0, {victim, diverging.run_id()})
    assert "lower the learning rate" in report.failed[diverging.run_id()]
    assert len(set(kills)) == 3
    record = json.loads(Store(tmp_path).failure(victim).read_text())
    assert (record["attempts"], record["reasons"]) == (3, ["its worker was killed by SIGKILL"] * 3)
    assert run(configs, tmp_path) == SweepReport(3, 0, 1, report.failed, 0)
    again = run([unlucky, TINY], tmp_path, retry_failed=True)
    assert again == SweepReport(2, 1, 1, {}, 0)
    assert set(Store(tmp_path).failures()) == {diverging.run_id()}


@pytest.mark.parametrize("content", [b"", b"no checkpoint at all" * 50])
def test_damaged_checkpoint_is_of_no_use(tmp_path: Path, content: bytes) -> None:
    path, notes = tmp_path / "model.checkpoint", list[str]()
    path.write_bytes(content)
    assert usable_checkpoint(TINY, path, notes) is None
    assert not path.exists()
    assert "(seed 0) starts again, its checkpoint is of no use" in notes[0]


def test_damaged_checkpoint_starts_again(undisturbed: Path, tmp_path: Path) -> None:
    """A killed model whose checkpoint loses a bit is made from the beginning."""
    config, notes = CONFIGS[0], list[str]()

    def damage() -> None:
        checkpoint = Store(tmp_path).unfinished(config.run_id()).training.checkpoint
        content = bytearray(checkpoint.read_bytes())
        content[-100] ^= 1
        checkpoint.write_bytes(content)

    with killed_worker(tmp_path, config, then=damage):
        report = run([config], tmp_path, on_note=notes.append)
    assert report == SweepReport(total=1, made=1, already=0, failed={}, left=0)
    assert len(notes) == 2
    assert "its worker was killed by SIGKILL" in notes[0]
    assert "its checkpoint is of no use" in notes[1]
    assert hashes(tmp_path)[config.run_id()] == hashes(undisturbed)[config.run_id()]


def test_damaged_result_and_a_further_strategy_are_made_without_training(
    undisturbed: Path, tmp_path: Path
) -> None:
    config = TINY
    notes: list[str] = []
    shutil.copytree(
        Store(undisturbed).finished(config.run_id()).path,
        Store(tmp_path).finished(config.run_id()).path,
    )
    directory, before = Store(tmp_path).finished(config.run_id()), hashes(tmp_path)
    trained = directory.training.manifest.stat().st_mtime_ns
    directory.results.write_text("{}")
    assert run([config], tmp_path, on_note=notes.append).made == 1
    assert "results.json does not match its hash" in notes[0]
    assert hashes(tmp_path) == before
    assert run([config], tmp_path, strategies=("moments",), on_note=notes.append).made == 1
    assert "was not tried with every strategy" in notes[1]
    assert directory.strategies() == {"brute", "arcs", "moments"}
    assert directory.training.manifest.stat().st_mtime_ns == trained
    with pytest.raises(BadConfig, match="strategies 'brute,magic'; expected some of"):
        run([config], tmp_path, strategies=("brute", "magic"))


@pytest.fixture
def small_disk(undisturbed: Path, tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for about two and a half small models."""
    directory = Store(undisturbed).finished(TINY.run_id()).path
    size = int(2.6 * sum(-(-f.stat().st_size // 4096) * 4096 for f in directory.iterdir()))
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(tmp_path)]
    mounted = subprocess.run(words, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small tmpfs here (it takes root): {mounted.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_disk_that_fills(small_disk: Path) -> None:
    configs = seeds(TINY, 4)
    with pytest.raises(
        DiskFull, match=r"[1-3] of 4 models are finished and safe. Free some space and run the same"
    ):
        run(configs, small_disk)
    before = changed(small_disk)
    assert 1 <= len(hashes(small_disk)) <= 3
    assert not Store(small_disk).failures()
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    report = run(configs, small_disk)
    assert report == SweepReport(4, 4 - len(before), len(before), {}, 0)
    assert changed(small_disk).items() > before.items()
    frame = dataset.rebuild(Store(small_disk))
    assert frame["seed"].to_list() == [0, 1, 2, 3]


def test_two_sweeps_in_one_directory_are_refused(tmp_path: Path) -> None:
    Store(tmp_path).prepare()
    with Store(tmp_path).only_driver(), pytest.raises(Busy, match="another sweep is at work in"):
        run([TINY], tmp_path)
    store = Store(tmp_path)
    with (
        store.only_worker("x"),
        pytest.raises(Busy, match="works on x after"),
        store.only_worker("x", seconds=0.1),
    ):
        pass


def test_worker_that_does_not_share_the_directory_is_found_out(tmp_path: Path) -> None:
    outcome = make_model(Job(tmp_path, TINY, STRATEGIES))
    assert outcome.status == "failed"
    assert "must be a directory that all nodes share" in outcome.reason


def test_dataset_is_rebuilt_from_the_directories(undisturbed: Path, tmp_path: Path) -> None:
    frame = dataset.rebuild(Store(undisturbed))
    assert frame.schema == dataset.schema()
    Store(undisturbed).dataset.unlink()
    assert dataset.read(undisturbed).equals(frame)
    assert dataset.rebuild(Store(undisturbed)).equals(dataset.read(Store(undisturbed).dataset))
    assert frame["run_id"].n_unique() == len(frame) == 4
    proofs = frame.select("inputs", "correct", "proofs").explode("proofs").unnest("proofs")
    assert set(proofs["strategy"]) == set(STRATEGIES)
    # Both strategies are exact: they prove just what is true.
    assert (proofs["certified_inputs"] == proofs["correct"]).all()
    neurons = frame.select("p", "neurons").explode("neurons").unnest("neurons")
    assert len(neurons) == 2 * 32 + 2 * 24
    (tmp_path / "other.parquet").write_bytes(Store(undisturbed).dataset.read_bytes()[:-9])
    for path, message in (
        (tmp_path / "other.parquet", "is not a Parquet"),
        (tmp_path / "no", "no such file"),
    ):
        with pytest.raises(BadFile, match=message):
            dataset.read(path)
    with pytest.raises(BadFile, match="holds no finished model"):
        dataset.read(tmp_path)


def test_a_short_run_comes_out_as_it_is_stored(tmp_path: Path) -> None:
    """In float64, so that another processor's rounding stays far below what is compared."""
    stored = pl.read_parquet(TESTS / "data" / "short_run.parquet")
    flags = "--seeds 0:1 --p 11 --epochs 200 --strategies brute,arcs --set d_model=12"
    more = "--set d_mlp=24 --set n_heads=2 --set d_head=6 --set precision=float64"
    more += " --processes 1 --quiet"
    words = command("sweep", *flags.split(), *more.split(), "-o", str(tmp_path))
    assert subprocess.run(words, check=False, stdout=subprocess.DEVNULL).returncode == 0
    again = dataset.read(tmp_path).select(stored.columns)  # the lens's columns came later
    changing = ["manifest", "model_sha256", "train_seconds", "loss"]
    nested = ["clusters", "proofs", "neurons"]
    assert_frame_equal(again.drop(changing, nested), stored.drop(changing, nested), rel_tol=1e-6)
    for name in nested:
        mine, theirs = (frame.select(name).explode(name).unnest(name) for frame in (again, stored))
        drop = ["seconds"] if name == "proofs" else []
        assert_frame_equal(mine.drop(drop), theirs.drop(drop), rel_tol=1e-5, abs_tol=1e-9)


def test_the_certificate_kept_is_the_cheapest_of_the_strongest_that_can_be_checked() -> None:
    model = build_transformer(Recipe(p=7, keys=(1, 2), neurons=32))
    certificates = {name: certify(model, name) for name in ("brute", "arcs")}
    best = best_certificate(certificates.values(), checkable=True)
    assert best is not None
    assert best.certified_inputs == 49
    strongest = [certificates[name] for name in ("brute", "arcs")]
    assert best.proof.operations == min(one.proof.operations for one in strongest)
    proof = dataclasses.replace(certificates["arcs"].proof, hints=None)
    assert (
        best_certificate([dataclasses.replace(certificates["arcs"], proof=proof)], checkable=True)
        is None
    )


def test_a_certificate_names_the_file_also_when_no_strategy_asked_for_can_be_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = build_transformer(Recipe(p=7, keys=(1, 2), neurons=32))
    study = dataclasses.replace(study_of(model), file_sha256="f" * 64)
    monkeypatch.setattr(
        "quadlens.training.population.analysis.best_certificate",
        lambda certificates, checkable: None,
    )
    assert analyse(study, ("moments",)).certificate.model_sha256 == "f" * 64


@pytest.mark.parametrize("name", ["pizza", "clock"])
def test_the_seconds_of_an_explanation_are_those_it_takes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(anatomy: Anatomy) -> Explanation:
        time.sleep(0.5)
        return explain(anatomy)

    monkeypatch.setattr("quadlens.analysis.explanation.of_study.explain", slowly)
    analysis = analyse(study_of(name), ("moments",))
    assert analysis.seconds["explain"] >= 0.5
    assert (analysis.neurons is None) == (name == "clock")


def test_all_strategies_are_the_rooms_own() -> None:
    assert {"brute", "arcs", "moments"} <= set(ALL_STRATEGIES)
    assert "auto" not in ALL_STRATEGIES


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--seeds", "3:1"], "names no seed"),
        (["--p", "a,b"], "expected integers separated by commas"),
        (["--set", "d_mlp"], "expected NAME=VALUE"),
        (["--set", "nothing=3"], "unknown key 'nothing'"),
        (["--set", "seed=3"], "a sweep's seeds come from --seeds"),
        (["--set", "p=31", "--p", "23"], "p was already given as 23"),
        (["--set", "d_mlp=3", "--set", "d_mlp=4"], "d_mlp was already given as 3"),
        (["--set", "seeding='a'\nlr=1"], "expected NAME=VALUE"),
        (["--set", "seeding=mine"], "expected one of quadlens, gbmi"),
        (["--strategies", "magic"], "expected some of brute"),
        (["--address", "auto"], "add --backend ray"),
        (
            ["--backend", "ray", "--address", "x:1", "--processes", "2"],
            "a cluster has the cores it has",
        ),
    ],
)
def test_bad_flags_exit_2(
    tmp_path: Path,
    flags: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["quadlens", "sweep", "-o", str(tmp_path), *flags])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert message in err


@pytest.mark.parametrize(("made", "suggested"), [(0, False), (1, True)])
def test_a_sweep_without_a_finished_model_does_not_suggest_to_look_at_it(
    tmp_path: Path,
    made: int,
    suggested: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = SweepReport(total=2, made=made, already=0, failed={}, left=2 - made)
    monkeypatch.setattr("quadlens.cli.sweep.run", lambda *words: report)
    monkeypatch.setattr(
        sys, "argv", ["quadlens", "sweep", "-o", str(tmp_path), "--seeds", "0:2", "--quiet"]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert ("quadlens population" in capsys.readouterr().out) == suggested


@pytest.mark.parametrize(("number", "processes"), [(signal.SIGINT, 1), (signal.SIGTERM, 2)])
def test_stopping_by_signal_says_how_to_go_on(tmp_path: Path, number: int, processes: int) -> None:
    words = command(
        "sweep", *FLAGS, "--epochs", "1000000", "-o", str(tmp_path), "--processes", str(processes)
    )
    config = dataclasses.replace(LONG, epochs=1_000_000)
    driver = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: has_checkpoint(tmp_path, config))
    worker = worker_of(tmp_path, config)
    driver.send_signal(number)
    out, err = driver.communicate()
    assert driver.returncode == 130
    assert "Run the same command again to resume" in err
    assert f"done 0/2 · running {processes} · failed 0" in err
    assert "0 of 2 models finished" in out
    assert worker is not None
    assert worker_of(tmp_path, config) is None
    assert "Traceback" not in err
