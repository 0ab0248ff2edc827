"""Many seeds: one process a core on a CPU, one batch with a leading seed axis on an accelerator."""

import concurrent.futures
import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from quadlens.training.checkpoint import load_checkpoint
from quadlens.training.config import TrainConfig
from quadlens.training.manifest import TrainingManifest
from quadlens.training.outputs import RunFiles, check_writable, finished_manifest, write_run
from quadlens.training.train import CHECKPOINT_EVERY, Hooks, place, train, train_batch
from quadlens.workers import available_cores, deaf_to_interrupts

# Seconds between two lines about how far the seeds are.
PROGRESS_EVERY = 15.0


def train_many(
    configs: Sequence[TrainConfig],
    directory: Path,
    *,
    device: str = "auto",
    resume: bool = False,
    processes: int | None = None,
    checkpoint_every: int = CHECKPOINT_EVERY,
    report: Callable[[str], None] = lambda line: None,
) -> list[TrainingManifest]:
    """Train every config into `directory`, as seed-N.safetensors with its files beside it; returns the manifests.

    On a CPU each process has one thread, so every model is byte for byte the one that `train(…, threads=1)` gives.
    """
    for config in configs:
        check_writable(_files(config, directory), config)
    if place(device, None, None)[0] != "cpu":
        return _train_together(configs, directory, device, resume, checkpoint_every, report)
    manifests: dict[int, TrainingManifest] = {}
    workers = min(processes or available_cores(), len(configs))
    # Forking a process that has used OpenMP threads can hang; a fresh interpreter cannot.
    context = multiprocessing.get_context("spawn")
    epochs = context.Array("q", len(configs))
    with concurrent.futures.ProcessPoolExecutor(workers, context, _start_worker, (epochs,)) as pool:
        with deaf_to_interrupts():
            futures = {
                pool.submit(_train_alone, config, slot, directory, resume, checkpoint_every): config
                for slot, config in enumerate(configs)
            }
        waiting, progress = set(futures), _Progress(configs, epochs, report)
        while waiting:
            ready, waiting = concurrent.futures.wait(waiting, PROGRESS_EVERY, concurrent.futures.FIRST_COMPLETED)
            for future in ready:
                seed = futures[future].seed
                manifests[seed] = future.result()
                report(f"seed {seed} done, {len(manifests)} of {len(configs)}")
            if waiting and not ready:
                progress.tell()
    return [manifests[config.seed] for config in configs]


class _Progress:
    """Epochs done by all workers, and from that the time left."""

    def __init__(self, configs: Sequence[TrainConfig], epochs: Any, report: Callable[[str], None]) -> None:
        self.total, self.epochs, self.report = sum(config.epochs for config in configs), epochs, report
        self.began, self.first = time.perf_counter(), 0

    def tell(self) -> None:
        """One line; the clock starts with the first epochs seen, after workers have loaded and compiled."""
        done = sum(self.epochs)
        if done and not self.first:
            self.began, self.first = time.perf_counter(), done
        new = done - self.first
        left = (time.perf_counter() - self.began) / new * (self.total - done) if new else None
        time_left = "" if left is None else f", about {left / 60:.0f} min left" if left > 90 else f", {left:.0f} s left"
        self.report(f"epoch {done:,} of {self.total:,}, all seeds together{time_left}")


def _files(config: TrainConfig, directory: Path) -> RunFiles:
    return RunFiles(directory / f"seed-{config.seed}.safetensors")


# In a worker: the epochs done of each run, shared with the parent.
_epochs: Any = None


def _start_worker(epochs: Any) -> None:
    """Ctrl-C ends a worker at once and without a stack trace; its last checkpoint is where it goes on."""
    global _epochs  # noqa: PLW0603 shared memory can only be handed over when a process starts
    _epochs = epochs
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _train_alone(
    config: TrainConfig, slot: int, directory: Path, resume: bool, checkpoint_every: int
) -> TrainingManifest:
    files = _files(config, directory)

    def count(epoch: int, measures: object) -> None:
        _epochs[slot] = epoch + 1

    if resume and (manifest := finished_manifest(files, config)) is not None:
        return manifest
    started = time.perf_counter()
    checkpoint = load_checkpoint(files.checkpoint) if resume and files.checkpoint.exists() else None
    hooks = Hooks(count, lambda saved: saved[0].save(files.checkpoint), checkpoint_every)
    result = train(config, device="cpu", threads=1, resume=checkpoint, hooks=hooks)
    return write_run(files, result, time.perf_counter() - started)


def _train_together(
    configs: Sequence[TrainConfig],
    directory: Path,
    device: str,
    resume: bool,
    checkpoint_every: int,
    report: Callable[[str], None],
) -> list[TrainingManifest]:
    files = [_files(config, directory) for config in configs]
    checkpoints = [load_checkpoint(f.checkpoint) for f in files if f.checkpoint.exists()] if resume else []
    # Seeds of one batch are saved together; a batch that is not whole starts again.
    whole = len(checkpoints) == len(configs) and len({checkpoint.epoch for checkpoint in checkpoints}) == 1
    started = time.perf_counter()

    def save(saved: Sequence[Any]) -> None:
        for checkpoint, file in zip(saved, files, strict=True):
            checkpoint.save(file.checkpoint)
        report(f"epoch {saved[0].epoch} of {configs[0].epochs}")

    hooks = Hooks(on_checkpoint=save, checkpoint_every=checkpoint_every)
    results = train_batch(configs, device=device, resume=checkpoints if whole else None, hooks=hooks)
    return [write_run(file, result, time.perf_counter() - started) for file, result in zip(files, results, strict=True)]
