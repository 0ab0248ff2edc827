"""One model of a sweep, from its settings to its finished directory.

This is what a worker does, on any backend.
"""

import errno
import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from quadlens.base.atomic import clear_left_over, write_atomic
from quadlens.base.errors import BadFile, QuadlensError
from quadlens.base.schema import to_json
from quadlens.training.checkpoint import Checkpoint, load_checkpoint, remove_left_over
from quadlens.training.config import TrainConfig
from quadlens.training.outputs import TrainingManifest, finished_manifest, write_run
from quadlens.training.population.store import ModelManifest, RunDirectory, Store
from quadlens.training.train import CHECKPOINT_EVERY, Hooks, Interrupted, train, train_batch

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)

Status = Literal["done", "failed", "full"]


@dataclass(frozen=True)
class Job:
    """One model to make.

    Attributes:
        root: The sweep's directory.
        config: Settings of the training run.
        strategies: Proof strategies to try; without any the model is only trained.
        checkpoint_every: Epochs between two checkpoints.
    """

    root: Path
    config: TrainConfig
    strategies: tuple[str, ...]
    checkpoint_every: int = CHECKPOINT_EVERY

    @property
    def run_id(self) -> str:
        """The name of the model's directory."""
        return self.config.run_id()


@dataclass(frozen=True)
class Outcome:
    """What became of one attempt.

    Attributes:
        run_id: Which model.
        status: `done`; `failed`, also when its worker is gone; `full` when the disk is.
        reason: In words; empty when done.
        notes: What else the person watching should know.
    """

    run_id: str
    status: Status
    reason: str = ""
    notes: tuple[str, ...] = field(default=())


def make_model(job: Job) -> Outcome:
    """Make one model, resuming from whatever an earlier attempt left.

    Every end but a killed process is an outcome.
    """
    notes: list[str] = []
    try:
        _make(job, notes)
    except Exception as error:  # it must cost this model only
        return failure(job, error, notes)
    return Outcome(job.run_id, "done", notes=tuple(notes))


def failure(job: Job, error: Exception, notes: Sequence[str] = ()) -> Outcome:
    """Describe an attempt that ended with an error.

    The type helps where the text was not written for users.
    """
    if _is_full(error):
        return Outcome(job.run_id, "full", str(error), tuple(notes))
    text = str(error) if isinstance(error, QuadlensError) else f"{type(error).__name__}: {error}"
    return Outcome(job.run_id, "failed", text, tuple(notes))


def _make(job: Job, notes: list[str]) -> None:
    from threadpoolctl import threadpool_limits

    store, run_id = Store(job.root), job.run_id
    place = store.unfinished(run_id)
    if not (
        store.is_finished(run_id) or place.path.is_dir()
    ):  # who wants a model makes its directory
        raise BadFile(
            f"this worker does not see {place.path}; -o must be a directory that all nodes share"
        )
    # One thread everywhere: the order of sums, and so the bytes, do not depend on the machine's
    # cores or the backend.
    with store.only_worker(run_id), threadpool_limits(1):
        if store.is_finished(run_id):
            return
        clear_left_over(place.path)
        trained = finished_manifest(place.training, job.config) or _train(job, place, notes)
        remove_left_over(place.training.checkpoint, job.config)
        seconds = _analyse(job, place) if job.strategies else {}
        finish(store, place, trained, seconds)


def _train(job: Job, place: RunDirectory, notes: list[str]) -> TrainingManifest:
    files, began = place.training, time.perf_counter()
    hooks = Hooks(
        on_checkpoint=lambda saved: saved[0].save(files.checkpoint),
        checkpoint_every=job.checkpoint_every,
    )
    resume = usable_checkpoint(job.config, files.checkpoint, notes)
    result = train(job.config, device="cpu", threads=1, resume=resume, hooks=hooks)
    return write_run(files, result, time.perf_counter() - began)


def train_together(
    configs: Sequence[TrainConfig],
    store: Store,
    device: str,
    checkpoint_every: int = CHECKPOINT_EVERY,
    note: Callable[[str], None] = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Train several seeds at once on an accelerator, along a leading axis.

    They go into the directories that a sweep would leave.

    Raises:
        Interrupted: when asked to stop; where it stood is saved.
    """
    store.prepare()
    with store.only_driver():
        missing = [config for config in configs if not store.is_finished(config.run_id())]
        places = [store.unfinished(config.run_id()) for config in missing]
        if not missing:
            return
        for place in places:
            place.path.mkdir(exist_ok=True)
        files, began = [place.training for place in places], time.perf_counter()
        checkpoints = [
            load_checkpoint(file.checkpoint) for file in files if file.checkpoint.exists()
        ]
        # Seeds of one batch are saved together; a batch that is not whole starts again.
        whole = (
            len(checkpoints) == len(missing)
            and len({checkpoint.epoch for checkpoint in checkpoints}) == 1
        )

        def save(saved: Sequence[Checkpoint]) -> None:
            for checkpoint, file in zip(saved, files, strict=True):
                checkpoint.save(file.checkpoint)
            note(f"epoch {saved[0].epoch} of {configs[0].epochs}, all seeds together")

        hooks = Hooks(
            on_checkpoint=save, checkpoint_every=checkpoint_every, should_stop=should_stop
        )
        try:
            results = train_batch(
                missing, device=device, resume=checkpoints if whole else None, hooks=hooks
            )
        except Interrupted as stop:
            save(stop.checkpoints)
            raise
        for place, result in zip(places, results, strict=True):
            finish(store, place, write_run(place.training, result, time.perf_counter() - began), {})


def usable_checkpoint(config: TrainConfig, path: Path, notes: list[str]) -> Checkpoint | None:
    """Load the checkpoint to resume from; throw a damaged one away.

    The run can start from the beginning.
    """
    if not path.exists():
        return None
    try:
        checkpoint = load_checkpoint(path)
        if checkpoint.config == config and (checkpoint.device, checkpoint.threads) == ("cpu", 1):
            return checkpoint
        reason = "it is of another run"
    except Exception as error:  # damaged in any way at all
        reason = str(error)
    notes.append(
        f"{config.run_id()} (seed {config.seed}) starts again, its checkpoint is of no use: "
        f"{reason}"
    )
    path.unlink()
    return None


def _analyse(job: Job, place: RunDirectory) -> dict[str, float]:
    """Write results, neurons and certificate; returns how long each step took."""
    from quadlens.network.study import study_of
    from quadlens.training.population.analysis import analyse, results_to_bytes

    analysis = analyse(study_of(place.training.model), job.strategies)
    write_atomic(place.results, results_to_bytes(analysis.results))
    if analysis.neurons is not None:
        write_atomic(place.neurons, analysis.neurons)
    write_atomic(place.certificate, analysis.certificate.to_bytes())
    return {name: round(taken, 3) for name, taken in analysis.seconds.items()}


def finish(
    store: Store, place: RunDirectory, trained: TrainingManifest, seconds: Mapping[str, float]
) -> None:
    """Write the manifest, then one rename: the directory is in `models/` whole, or not at all."""
    files = [
        place.training.model,
        place.training.manifest,
        place.training.history,
        place.training.spectrum,
    ]
    if seconds:
        files += [place.results, place.neurons, place.certificate]
    manifest = ModelManifest(
        run_id=trained.run_id,
        config=trained.config,
        command=trained.command,
        versions=trained.versions,
        machine=trained.machine,
        seconds={"train": trained.seconds, **seconds},
        # A model that was trained elsewhere may have come without its history.
        sha256={
            file.name: hashlib.sha256(file.read_bytes()).hexdigest()
            for file in files
            if file.exists()
        },
    )
    write_atomic(place.manifest, to_json(manifest))
    target = store.finished(trained.run_id)
    if target.path.exists():  # without a manifest, so no whole model: left by hand
        os.replace(target.path, place.path.with_name(f"{target.path.name}.before-{time.time_ns()}"))
    os.replace(place.path, target.path)


def _is_full(error: BaseException | None) -> bool:
    """Whether a full disk is at the bottom of an error."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL_DISK:
            return True
        error = error.__cause__ or error.__context__
    return False
