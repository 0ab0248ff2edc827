"""The loop: from settings to trained models with their histories."""

import dataclasses
import math
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

import numpy as np

from quadlens.base.display import Displayed
from quadlens.base.errors import BadConfig, MissingExtra, QuadlensError
from quadlens.base.workers import available_cores
from quadlens.network.weights import Weights
from quadlens.training.checkpoint import Checkpoint
from quadlens.training.config import TrainConfig
from quadlens.training.engine import Engine, OptimiserState, StepMeasures
from quadlens.training.history import History, Recorder
from quadlens.training.layout import Layout
from quadlens.training.machines import machine_of, start_of

# Threads beyond this do not help products of this size.
MAX_THREADS = 8
CHECKPOINT_EVERY = 500
# Steps thrown away to say how long a run will take; the first ones compile.
WARM_STEPS = 3
TIMED_STEPS = 10


class TrainingDiverged(QuadlensError):
    """The loss is no longer a number."""


class Interrupted(QuadlensError):
    """A run was asked to stop; carries where it stood, one checkpoint per seed."""

    def __init__(self, checkpoints: list[Checkpoint]) -> None:
        """Keep the partial value."""
        super().__init__(f"training stopped after {checkpoints[0].epoch} epochs")
        self.checkpoints = checkpoints


@dataclass(frozen=True, eq=False, repr=False)
class TrainingResult(Displayed):
    """A trained model, how it was trained, and what happened on the way.

    Attributes:
        config: Its settings.
        device: Where it was trained.
        threads: With how many threads.
        params: The model.
        history: What was recorded.
        end: Where the run stands, the optimiser's moments included, for `train` to continue from
            with more epochs.
    """

    config: TrainConfig
    device: str
    threads: int
    params: Weights
    history: History
    end: Checkpoint

    def _facts(self) -> dict[str, object]:
        _, train_loss, _, validation_loss, validation_accuracy = self.history.curves[-1]
        return {
            "config": self.config,
            "train_loss": f"{train_loss:.3g}",
            "validation_loss": f"{validation_loss:.3g}",
            "validation_accuracy": f"{validation_accuracy:.4f}",
        }


@dataclass(frozen=True)
class Hooks:
    """What a caller may do during training; none of it changes the result.

    Attributes:
        on_step: Called after every step with its index and measures.
        on_checkpoint: Called with one checkpoint per seed, every `checkpoint_every` epochs.
        checkpoint_every: Epochs between two checkpoints.
        should_stop: Asked before every step; true ends the run with `Interrupted`.
        snapshots: Epochs at which `on_snapshot` is called, by the index of the step they precede;
            the last may be `epochs`, the trained model.
        on_snapshot: Called with the epoch and one model per seed.
    """

    on_step: Callable[[int, list[StepMeasures]], None] = lambda epoch, measures: None
    on_checkpoint: Callable[[list[Checkpoint]], None] = lambda checkpoints: None
    checkpoint_every: int = CHECKPOINT_EVERY
    should_stop: Callable[[], bool] = lambda: False
    snapshots: Container[int] = ()
    on_snapshot: Callable[[int, list[Weights]], None] = lambda epoch, models: None


def available_threads() -> int:
    """Cores this process may use, as many as help."""
    return min(MAX_THREADS, available_cores())


def train(
    config: TrainConfig,
    *,
    device: str = "auto",
    threads: int | None = None,
    resume: Checkpoint | None = None,
    hooks: Hooks | None = None,
) -> TrainingResult:
    """Train one model.

    Args:
        config: Settings.
        device: Where; see `choose_device`.
        threads: CPU threads; all that help when None.
        resume: A checkpoint of the same run, or of one of other length, to resume from.
        hooks: Progress, checkpoints, stopping.
    """
    return train_batch(
        [config],
        device=device,
        threads=threads,
        resume=None if resume is None else [resume],
        hooks=hooks,
    )[0]


def train_batch(
    configs: Sequence[TrainConfig],
    *,
    device: str = "auto",
    threads: int | None = None,
    resume: Sequence[Checkpoint] | None = None,
    hooks: Hooks | None = None,
) -> list[TrainingResult]:
    """Train several seeds of the same settings together, along a leading axis of one device."""
    hooks = hooks or Hooks()
    config = _common(configs)
    device, threads = place(config, device, threads, resume)
    layout, starts = Layout.of_run(config), [start_of(c) for c in configs]
    if resume is not None:
        _check_resume(configs, resume)
        epoch = resume[0].epoch
        state = OptimiserState(
            *(np.stack([getattr(c, n) for c in resume]) for n in ("theta", "first", "second"))
        )
        recorders = [Recorder.continuing(c.history, config.history_every) for c in resume]
    else:
        epoch, theta = 0, np.stack([layout.flatten(start.params) for start in starts])
        state = OptimiserState(theta, np.zeros_like(theta), np.zeros_like(theta))
        recorders = [Recorder(half=config.p // 2) for _ in configs]
    engine = machine_of(config).engine(starts, state, device, threads)

    def checkpoints() -> list[Checkpoint]:
        now = engine.state()
        rows = zip(configs, now.theta, now.first, now.second, recorders, strict=True)
        return [
            Checkpoint(c, device, threads, epoch, t, m, v, r.history()) for c, t, m, v, r in rows
        ]

    try:
        while epoch < config.epochs:
            if hooks.should_stop():
                raise Interrupted(checkpoints())
            _step(engine, config, epoch, recorders, hooks)
            epoch += 1
            if epoch % hooks.checkpoint_every == 0 and epoch < config.epochs:
                hooks.on_checkpoint(checkpoints())
    finally:
        engine.close()
    results = []
    for end, recorder in zip(checkpoints(), recorders, strict=True):
        params = layout.params(end.theta)
        recorder.add_spectrum(config.epochs, params)
        results.append(TrainingResult(end.config, device, threads, params, recorder.history(), end))
    if config.epochs in hooks.snapshots:
        hooks.on_snapshot(config.epochs, [result.params for result in results])
    return results


def _step(
    engine: Engine, config: TrainConfig, epoch: int, recorders: list[Recorder], hooks: Hooks
) -> None:
    """One step of every seed, with what the history wants of it."""
    if epoch % config.spectrum_every == 0:
        layout = Layout.of_run(config)
        for recorder, flat in zip(recorders, engine.state().theta, strict=True):
            recorder.add_spectrum(epoch, layout.params(flat))
    if epoch in hooks.snapshots:
        layout = Layout.of_run(config)
        hooks.on_snapshot(epoch, [layout.params(flat) for flat in engine.state().theta])
    recorded = epoch % config.history_every == 0 or epoch == config.epochs - 1
    measures = engine.step(epoch, config, validate=recorded)
    for recorder, measure in zip(recorders, measures, strict=True):
        if not math.isfinite(measure.train.loss):
            words = (
                f"the loss is {measure.train.loss} at epoch {epoch}; lower the learning rate, lr"
            )
            raise TrainingDiverged(words, settings=("lr",))
        if recorded:
            recorder.curves.append(_row(epoch, measure))
    hooks.on_step(epoch, measures)


def seconds_per_epoch(
    config: TrainConfig, *, device: str = "auto", threads: int | None = None
) -> float:
    """Measure how long one step takes, on a few steps of a run that is thrown away."""
    device, threads = place(config, device, threads, None)
    start, layout = start_of(config), Layout.of_run(config)
    theta = layout.flatten(start.params)[None]
    state = OptimiserState(theta, np.zeros_like(theta), np.zeros_like(theta))
    engine = machine_of(config).engine([start], state, device, threads)
    for epoch in range(WARM_STEPS):
        engine.step(epoch, config, validate=False)
    began = time.perf_counter()
    for epoch in range(TIMED_STEPS):
        engine.step(WARM_STEPS + epoch, config, validate=False)
    seconds = (time.perf_counter() - began) / TIMED_STEPS
    engine.close()
    return seconds


def _common(configs: Sequence[TrainConfig]) -> TrainConfig:
    """The settings all runs of a batch share; only the seed may differ."""
    if not configs or any(
        dataclasses.replace(c, seed=configs[0].seed) != configs[0] for c in configs
    ):
        raise BadConfig("a batch trains one or more runs that differ in nothing but the seed")
    return configs[0]


def place(
    config: TrainConfig, device: str, threads: int | None, resume: Sequence[Checkpoint] | None
) -> tuple[str, int]:
    """Choose device and threads, as many as the kind of network takes.

    A resumed run keeps its own: others would round otherwise.
    """
    try:
        from quadlens.training.device import choose_device

        if resume is not None:
            return choose_device(resume[0].device), resume[0].threads
        device, wanted = choose_device(device), threads or available_threads()
        return device, min(
            wanted, config.kind.most_threads or wanted
        ) if device == "cpu" else wanted
    except ModuleNotFoundError as error:
        raise MissingExtra("training", "train") from error


def _check_resume(configs: Sequence[TrainConfig], resume: Sequence[Checkpoint]) -> None:
    for config, checkpoint in zip(configs, resume, strict=True):
        if config.schedule == "cosine" and config.epochs != checkpoint.config.epochs:
            raise BadConfig(
                f"the learning rate falls to 0 over {checkpoint.config.epochs} epochs (schedule = "
                "cosine), and "
                f"{config.epochs} are asked for; use as many, or another output"
            )
        # How long a run is changes none of its other steps.
        if config.epochs < checkpoint.epoch:
            raise BadConfig(
                f"the checkpoint has {checkpoint.epoch} epochs and {config.epochs} are asked for; "
                "ask for at least as many, or use another output"
            )
        if changed := changed_settings(
            checkpoint.config, dataclasses.replace(config, epochs=checkpoint.config.epochs)
        ):
            raise BadConfig(
                f"the checkpoint is of another run ({changed}); use its settings or another output"
            )


def changed_settings(before: TrainConfig, now: TrainConfig) -> str:
    """Which settings differ, in words; empty where none does."""
    old, new = dataclasses.asdict(before), dataclasses.asdict(now)
    return "; ".join(
        f"{name}: {old[name]} before, {new[name]} now" for name in new if new[name] != old[name]
    )


def _row(epoch: int, measure: StepMeasures) -> tuple[float, ...]:
    validation = (
        (measure.validation.loss, measure.validation.accuracy)
        if measure.validation
        else (math.nan, math.nan)
    )
    return (float(epoch), measure.train.loss, measure.train.accuracy, *validation)
