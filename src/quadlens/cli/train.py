"""`quadlens train`: one model, or many seeds, with progress, checkpoints and resume."""

import contextlib
import dataclasses
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from quadlens.base.errors import BadConfig, BadFile
from quadlens.base.numbers import significant
from quadlens.base.workers import available_cores
from quadlens.cli.interrupts import INTERRUPTED, asked_to_stop
from quadlens.cli.options import Natural, Positive
from quadlens.cli.output import Output, duration, safe_console
from quadlens.cli.settings import (
    CheckpointOption,
    ConfigOption,
    PresetOption,
    parse_seeds,
    takes_settings,
)

if TYPE_CHECKING:
    from rich.console import Console

    from quadlens.training.checkpoint import Checkpoint
    from quadlens.training.config import TrainConfig
    from quadlens.training.engine import StepMeasures
    from quadlens.training.outputs import RunFiles, TrainingManifest

LOG_LINES = 10


@takes_settings()
def command(
    out: Output,
    settings: dict[str, Any],
    output: Path,
    preset: PresetOption = "paper",
    config: ConfigOption = None,
    seeds: str | None = None,
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    threads: Positive | None = None,
    checkpoint_every: CheckpointOption = 500,
    snapshots: Natural = 0,
    resume: bool = False,
) -> None:
    """Train a model (the paper's, which adds modulo p, by default) in a minute or two.

    Many seeds go into a directory as `quadlens sweep` leaves it, without its analysis; a sweep can
    add that later.

    Options:
        output (--output -o FILE): The model's file (with --seeds: a directory).
        seeds (A:B): Train seeds A … B-1 into a sweep's directory.
        device: Where to train.
        threads: CPU threads; part of what fixes the bytes. One for networks on sequences. Not with
            --seeds.
        snapshots (N): Also keep the weights at N epochs, evenly spaced in log(epoch + 1), in
            NAME.snapshots/.
        resume: Resume an interrupted or killed run, or continue a finished one with more --epochs;
            --seeds always resumes.
    """
    from quadlens.cli.output import check_model_name
    from quadlens.training.config import load_config

    chosen = load_config(preset, config, settings)
    if seeds is None:
        check_model_name(output)
        made = {
            output: run_one(
                chosen, output, device, threads, checkpoint_every, resume, snapshots, out
            )
        }
    elif "seed" in settings:
        raise BadConfig("--seed and --seeds were both given; give one of them")
    elif threads is not None:
        raise BadConfig(
            "--threads was given with --seeds; many seeds run as one process per core, each with "
            "one thread"
        )
    elif snapshots:
        raise BadConfig(
            "--snapshots was given with --seeds; train seeds one by one to keep snapshots"
        )
    else:
        configs = [dataclasses.replace(chosen, seed=seed) for seed in parse_seeds(seeds)]
        made = _run_many(configs, output, device, checkpoint_every, out)

    inputs = chosen.kind.inputs

    def render(console: "Console") -> None:
        for path, manifest in made.items():
            outcome = manifest.outcome
            console.print(
                f"{path}: {outcome.correct} of {outcome.pairs} {inputs} right, smallest margin "
                f"{significant(outcome.min_margin, 'down', 3)}, cross-entropy {outcome.loss:.3g}, "
                f"{manifest.seconds} s",
                markup=False,
                soft_wrap=True,
            )

    runs = [
        {**dataclasses.asdict(run), **({"path": str(path)} if seeds else {})}
        for path, run in made.items()
    ]
    out.emit({"runs": runs} if seeds else runs[0], render)


def run_one(
    config: "TrainConfig",
    output: Path,
    device: str,
    threads: int | None,
    checkpoint_every: int,
    resume: bool,
    snapshots: int,
    out: Output,
) -> "TrainingManifest":
    """Train one model into `output`; returns its manifest."""
    from quadlens.base.atomic import clear_left_over
    from quadlens.training.checkpoint import remove_left_over
    from quadlens.training.outputs import (
        RunFiles,
        check_writable,
        finished_manifest,
        keep_snapshots,
        save_snapshot,
        snapshot_epochs,
        snapshot_file,
        write_run,
    )
    from quadlens.training.train import Hooks, Interrupted, train

    files = RunFiles(output)
    kept = snapshot_epochs(snapshots, config.epochs) if snapshots else ()
    missing = [epoch for epoch in kept if not snapshot_file(files.snapshots, epoch).is_file()]
    for place in (output.parent, files.snapshots):
        clear_left_over(place)
    if resume and not missing and (manifest := finished_manifest(files, config)) is not None:
        remove_left_over(files.checkpoint, config)
        out.note(f"{output} is already trained with these settings")
        return manifest
    if not resume and files.checkpoint.exists():
        raise BadFile(
            f"{files.checkpoint} is of an unfinished run; add --resume to resume it, or delete it "
            "to start again"
        )
    check_writable(files, config, snapshots)
    checkpoint = _to_resume(files, config, out) if resume else None
    if checkpoint is not None and any(epoch < checkpoint.epoch for epoch in missing):
        out.note("the run starts again: snapshots from before its checkpoint are missing")
        checkpoint = None
    # A run from the beginning keeps no snapshot: those of another run would stand among its own
    # until it is done.
    if kept:
        keep_snapshots(files.snapshots, kept if checkpoint else ())
    if output.exists():
        out.note(f"{output} exists and will be replaced when this run is done")
    # From here on Ctrl-C only asks: torn out of a library that is starting its threads, the process
    # would abort.
    with asked_to_stop() as should_stop:
        if not out.quiet:
            out.note("preparing: loading libraries, compiling, timing a few epochs")
            out.note(_announcement(config, output, checkpoint, device, threads))
        if should_stop():
            sys.stderr.write("stopped before the first epoch; nothing was written\n")
            raise typer.Exit(INTERRUPTED)
        started = time.perf_counter()
        with _progress(config, checkpoint, out.quiet) as on_step:
            hooks = Hooks(
                on_step,
                lambda saved: saved[0].save(files.checkpoint),
                checkpoint_every,
                should_stop,
                frozenset(kept),
                lambda epoch, models: save_snapshot(models[0], files.snapshots, epoch),
            )
            try:
                result = train(
                    config, device=device, threads=threads, resume=checkpoint, hooks=hooks
                )
            except Interrupted as stop:
                stop.checkpoints[0].save(files.checkpoint)
                sys.stderr.write(
                    f"stopped after {stop.checkpoints[0].epoch} epochs, saved; resume with: "
                    f"{_resume_command()}\n"
                )
                raise typer.Exit(INTERRUPTED) from None
    return write_run(files, result, time.perf_counter() - started, to_continue=True)


def _to_resume(files: "RunFiles", config: "TrainConfig", out: Output) -> "Checkpoint | None":
    """Return where the run to be resumed stands.

    None where there is nothing to resume and nothing to lose.

    Raises:
        QuadlensError: where a model is there that is not the beginning of this run.
    """
    from quadlens.training.checkpoint import load_checkpoint
    from quadlens.training.outputs import whole_manifest
    from quadlens.training.train import changed_settings

    if files.checkpoint.exists():
        return load_checkpoint(files.checkpoint)
    choose = "choose another output, or leave out --resume to replace it"
    manifest = whole_manifest(files)
    if manifest is None:
        if files.model.exists() and not files.history.exists():
            raise BadFile(
                f"there is nothing to resume: no run of training left {files.model}; {choose}"
            )
        out.note(
            f"there is nothing to resume: {files.checkpoint} is not there; the run starts from the "
            "beginning"
        )
        return None
    before = manifest.config
    if config == before:  # with snapshots that are not there
        return None
    if config.epochs < before.epochs or dataclasses.replace(config, epochs=before.epochs) != before:
        raise BadConfig(
            f"{files.model} is of a finished run with other settings "
            f"({changed_settings(before, config)}), and "
            f"a finished run is resumed with more epochs only; {choose}"
        )
    if not files.optimiser.exists():
        raise BadFile(
            f"{files.model} is of a finished run and cannot be continued: {files.optimiser} is not "
            f"beside it; {choose}"
        )
    end = load_checkpoint(files.optimiser)
    if end.config != before:
        raise BadFile(f"{files.optimiser} is of another run than {files.model}; {choose}")
    out.note(f"continuing a finished run of {before.epochs} epochs")
    return end


def _run_many(
    configs: "list[TrainConfig]", output: Path, device: str, checkpoint_every: int, out: Output
) -> "dict[Path, TrainingManifest]":
    """Train several seeds into `output`.

    An accelerator trains them together; a CPU trains them as a sweep without analysis.
    """
    from quadlens.base.atomic import check_directory
    from quadlens.cli.sweep import run, work_backend
    from quadlens.training.outputs import finished_manifest
    from quadlens.training.population.one_model import train_together
    from quadlens.training.population.store import Store
    from quadlens.training.train import Interrupted, place

    failed = False
    store = Store(output.resolve())
    check_directory(output)
    out.note(
        f"training {len(configs)} seeds into {output}; stop it whenever you like and run it again"
    )
    if place(configs[0], device, None, None)[0] == "cpu":
        backend = work_backend("local", None, min(available_cores(), len(configs)))
        report = run(configs, output, backend, (), checkpoint_every, True, out)
        for run_id, reason in report.failed.items():
            sys.stderr.write(f"failed {run_id}: {reason}\n")
        stopped, failed = report.left > 0, bool(report.failed)
    else:
        with asked_to_stop() as should_stop:
            try:
                train_together(configs, store, device, checkpoint_every, out.note, should_stop)
                stopped = False
            except Interrupted:
                stopped = True
                out.note("stopped; run the same command again to resume")
    if stopped or failed:
        raise typer.Exit(INTERRUPTED if stopped else 1)
    made = {}
    for config in configs:
        files = store.finished(config.run_id()).training
        manifest = finished_manifest(files, config)
        if manifest is None:
            raise BadFile(f"{files.model} changed while this command ran; run it again")
        made[output / files.model.relative_to(store.root)] = manifest
    return made


def _announcement(
    config: "TrainConfig",
    output: Path,
    checkpoint: "Checkpoint | None",
    device: str,
    threads: int | None,
) -> str:
    """What will be done and how long that takes here, measured before it starts."""
    begin = checkpoint.epoch if checkpoint else 0
    from quadlens.training.train import place, seconds_per_epoch

    device, threads = place(config, device, threads, [checkpoint] if checkpoint else None)
    each = seconds_per_epoch(config, device=device, threads=threads)
    what, inputs = config.kind.words(config)
    return (
        f"training {what}, {config.d_mlp} neurons, seed {config.seed} on {inputs}, epochs {begin} "
        f"to {config.epochs}, {threads} threads, into {output}: {1e3 * each:.1f} ms per epoch, "
        f"about {duration(each * (config.epochs - begin))}"
    )


@contextlib.contextmanager
def _progress(
    config: "TrainConfig", checkpoint: "Checkpoint | None", quiet: bool
) -> "Iterator[Callable[[int, list[StepMeasures]], None]]":
    """A bar on a terminal, a few log lines otherwise, nothing when quiet."""
    if quiet:
        yield lambda epoch, measures: None
        return
    begin = checkpoint.epoch if checkpoint else 0
    started = time.perf_counter()
    validated, last_validation = begin, "–"

    def describe(epoch: int, measures: "list[StepMeasures]") -> str:
        nonlocal validated, last_validation
        (measure,) = measures
        if measure.validation is not None:
            validated, last_validation = epoch, f"{measure.validation.accuracy:.2%}"
        # Validation is measured where a row of the history is recorded; in between it is of an
        # earlier epoch.
        when = f" (epoch {validated + 1})" if validated != epoch and last_validation != "–" else ""
        return (
            f"{config.loss} {measure.train.loss:.2e}  train {measure.train.accuracy:.2%}  "
            f"validation {last_validation}{when}"
        )

    if sys.stderr.isatty():
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=safe_console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=config.epochs, completed=begin)

            def on_step(epoch: int, measures: "list[StepMeasures]") -> None:
                text = describe(epoch, measures)
                if epoch % config.history_every == 0:
                    bar.update(task, completed=epoch + 1, description=text)

            yield on_step
        return

    def log_step(epoch: int, measures: "list[StepMeasures]") -> None:
        text = describe(epoch, measures)
        if (epoch + 1) % max(1, config.epochs // LOG_LINES) == 0:
            left = (
                (time.perf_counter() - started) / (epoch + 1 - begin) * (config.epochs - epoch - 1)
            )
            sys.stderr.write(f"epoch {epoch + 1}/{config.epochs}  {text}  {duration(left)} left\n")

    yield log_step


def _resume_command() -> str:
    words = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
    return shlex.join(words if "--resume" in words else [*words, "--resume"])
