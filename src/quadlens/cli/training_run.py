"""A training run as a person sees it: what it will do, how far it is, how to go on after a stop."""

import contextlib
import dataclasses
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import typer

from quadlens.cli.interrupt import INTERRUPTED, asked_to_stop
from quadlens.cli.output import note
from quadlens.errors import BadConfig, BadFile
from quadlens.training.checkpoint import Checkpoint, load_checkpoint
from quadlens.training.config import TrainConfig
from quadlens.training.engine import StepMeasures
from quadlens.training.manifest import TrainingManifest
from quadlens.training.outputs import RunFiles, check_writable, finished_manifest, write_run
from quadlens.training.train import Hooks, Interrupted, available_threads, seconds_per_epoch, train

LOG_LINES = 10


def run_one(
    config: TrainConfig,
    output: Path,
    device: str,
    threads: int | None,
    checkpoint_every: int,
    resume: bool,
    quiet: bool,
) -> TrainingManifest:
    """Train one model into `output`; returns its manifest."""
    files = RunFiles(output)
    if resume and (manifest := finished_manifest(files, config)) is not None:
        note(quiet, f"{output} is already trained with these settings")
        return manifest
    if not resume and files.checkpoint.exists():
        raise BadFile(
            f"{files.checkpoint} is of an unfinished run; add --resume to go on with it, or delete it to start again"
        )
    check_writable(files, config)
    checkpoint = load_checkpoint(files.checkpoint) if resume and files.checkpoint.exists() else None
    if output.exists():
        note(quiet, f"{output} exists and will be replaced when this run is done")
    # From here on Ctrl-C only asks: torn out of a library that is starting its threads, the process would abort.
    with asked_to_stop() as should_stop:
        if not quiet:
            note(quiet, "preparing: loading libraries, compiling, timing a few epochs")
            note(quiet, _announcement(config, output, checkpoint, device, threads))
        if should_stop():
            sys.stderr.write("stopped before the first epoch; nothing was written\n")
            raise typer.Exit(INTERRUPTED)
        started = time.perf_counter()
        with _progress(config, checkpoint, quiet) as on_step:
            hooks = Hooks(on_step, lambda saved: saved[0].save(files.checkpoint), checkpoint_every, should_stop)
            try:
                result = train(config, device=device, threads=threads, resume=checkpoint, hooks=hooks)
            except Interrupted as stop:
                stop.checkpoints[0].save(files.checkpoint)
                message = f"stopped after {stop.checkpoints[0].epoch} epochs, saved; go on with: {_resume_command()}"
                sys.stderr.write(message + "\n")
                raise typer.Exit(INTERRUPTED) from None
    return write_run(files, result, time.perf_counter() - started)


def parse_seeds(text: str) -> list[int]:
    """Seeds from `A:B`, without B."""
    try:
        first, last = (int(word) for word in text.split(":"))
    except ValueError:
        raise BadConfig(f"--seeds {text!r}; expected A:B, for example 0:8 for seeds 0 … 7") from None
    if last <= first:
        raise BadConfig(f"--seeds {text!r} names no seed; expected A:B with A below B")
    return list(range(first, last))


def run_many(
    config: TrainConfig,
    seeds: list[int],
    directory: Path,
    device: str,
    checkpoint_every: int,
    resume: bool,
    quiet: bool,
) -> list[TrainingManifest]:
    """Train several seeds into `directory`: together on an accelerator, one process a core on a CPU."""
    from quadlens.training.many import train_many

    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadFile(
            f"cannot make the directory {directory}: {error.strerror}; with --seeds, -o is a directory"
        ) from None
    configs = [dataclasses.replace(config, seed=seed) for seed in seeds]
    note(quiet, f"training {len(seeds)} seeds into {directory}")
    try:
        return train_many(
            configs,
            directory,
            device=device,
            resume=resume,
            checkpoint_every=checkpoint_every,
            report=lambda line: note(quiet, line),
        )
    except KeyboardInterrupt:
        sys.stderr.write(f"stopped; finished seeds are whole, go on with: {_resume_command()}\n")
        raise typer.Exit(INTERRUPTED) from None


def _announcement(
    config: TrainConfig, output: Path, checkpoint: Checkpoint | None, device: str, threads: int | None
) -> str:
    """What will be done and how long that takes here, measured before it starts."""
    begin = checkpoint.epoch if checkpoint else 0
    each = seconds_per_epoch(config, device=device, threads=threads)
    return (
        f"training p = {config.p}, {config.d_mlp} neurons, seed {config.seed} "
        f"on {int(config.p**2 * config.train_share)} of {config.p**2} pairs, epochs {begin} to {config.epochs}, "
        f"{threads or available_threads()} threads, into {output}: "
        f"{1e3 * each:.1f} ms an epoch, about {_duration(each * (config.epochs - begin))}"
    )


@contextlib.contextmanager
def _progress(
    config: TrainConfig, checkpoint: Checkpoint | None, quiet: bool
) -> Iterator[Callable[[int, list[StepMeasures]], None]]:
    """A bar on a terminal, a few log lines otherwise, nothing when quiet."""
    if quiet:
        yield lambda epoch, measures: None
        return
    begin = checkpoint.epoch if checkpoint else 0
    started = time.perf_counter()
    last_validation = "–"

    def describe(measures: list[StepMeasures]) -> str:
        nonlocal last_validation
        (measure,) = measures
        if measure.validation is not None:
            last_validation = f"{measure.validation.accuracy:.2%}"
        return f"loss {measure.train.loss:.2e}  train {measure.train.accuracy:.2%}  validation {last_validation}"

    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=config.epochs, completed=begin)

            def on_step(epoch: int, measures: list[StepMeasures]) -> None:
                text = describe(measures)
                if epoch % config.history_every == 0:
                    bar.update(task, completed=epoch + 1, description=text)

            yield on_step
        return

    def log_step(epoch: int, measures: list[StepMeasures]) -> None:
        text = describe(measures)
        if (epoch + 1) % max(1, config.epochs // LOG_LINES) == 0:
            left = (time.perf_counter() - started) / (epoch + 1 - begin) * (config.epochs - epoch - 1)
            note(False, f"epoch {epoch + 1}/{config.epochs}  {text}  {_duration(left)} left")

    yield log_step


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _resume_command() -> str:
    words = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
    return shlex.join(words if "--resume" in words else [*words, "--resume"])
