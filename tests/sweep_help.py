"""Small sweeps for the tests, and what of a sweep must never depend on what happened to it."""

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quadlens.training.config import TrainConfig
from quadlens.training.population import LocalBackend, sweep
from quadlens.training.population.store import Store

TINY = TrainConfig(
    p=11,
    d_model=12,
    d_mlp=24,
    n_heads=2,
    d_head=6,
    epochs=200,
    history_every=50,
    spectrum_every=100,
)
# Long enough to be killed in the middle: its first checkpoint comes after a small share of it.
LONG = dataclasses.replace(
    TINY, p=13, d_mlp=32, epochs=3000, history_every=1000, spectrum_every=1000
)
EVERY = 100
STRATEGIES = ("brute", "arcs")
SAME_FILES = (
    "model.safetensors",
    "model.history.parquet",
    "model.spectrum.parquet",
    "results.json",
    "neurons.parquet",
    "certificate.json",
)


def undisturbed_sweep(factory: pytest.TempPathFactory, configs: list[TrainConfig]) -> Path:
    """A sweep to which nothing happens, made once for all test processes of a run."""
    base = factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "undisturbed-sweep"
    root.mkdir(exist_ok=True)
    with (root / ".test.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        report = sweep(
            configs, root, LocalBackend(2), strategies=STRATEGIES, checkpoint_every=EVERY
        )
    assert not report.failed
    assert not report.left
    return root


def seeds(config: TrainConfig, count: int) -> list[TrainConfig]:
    return [dataclasses.replace(config, seed=seed) for seed in range(count)]


def hashes(root: Path) -> dict[str, dict[str, str]]:
    """Run → file → hash, of every finished model, without what holds times."""
    store = Store(root)
    found = {}
    for run_id in store.run_ids():
        run = store.finished(run_id)
        assert run.problem(run_id) is None
        found[run_id] = {
            name: hashlib.sha256((run.path / name).read_bytes()).hexdigest() for name in SAME_FILES
        }
    return found


def changed(root: Path) -> dict[str, int]:
    """Run → when its manifest was written: a model that is made again has another."""
    store = Store(root)
    return {
        run_id: store.finished(run_id).manifest.stat().st_mtime_ns for run_id in store.run_ids()
    }


def wait_for(condition: Callable[[], bool], seconds: float = 250.0) -> None:
    """Wait until something is so; the limit is only for a test that would never end."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)


def has_checkpoint(root: Path, config: TrainConfig) -> bool:
    return Store(root).unfinished(config.run_id()).training.checkpoint.exists()


def worker_of(root: Path, config: TrainConfig) -> int | None:
    """Return the process that makes a model, or None when there is none.

    The process has written itself into the model's lock.
    """
    with contextlib.suppress(OSError, IndexError):
        process = int(Store(root).lock(config.run_id()).read_text().split()[1])
        os.kill(process, 0)
        return process if process != os.getpid() else None
    return None


@contextlib.contextmanager
def killed_worker(
    root: Path, config: TrainConfig, times: int = 1, then: Callable[[], None] = lambda: None
) -> Iterator[list[int]]:
    """Kill the worker of a model so many times, beside a sweep.

    Each time it is another worker, which has written a checkpoint.

    Args:
        root: The sweep's directory.
        config: The model.
        times: How often.
        then: Called after each kill, when the worker is gone and before another can begin.
    """
    killed: list[int] = []

    def kill() -> None:
        while len(killed) < times:
            wait_for(
                lambda: (
                    has_checkpoint(root, config) and worker_of(root, config) not in (None, *killed)
                )
            )
            if worker := worker_of(root, config):
                os.kill(worker, signal.SIGKILL)
                with Store(root).only_worker(config.run_id()):
                    then()
                killed.append(worker)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    yield killed
    thread.join()
