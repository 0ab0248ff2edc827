"""`quadlens sweep`: train, explain, bound and certify many models.

Whatever happens, run it again and it resumes.
"""

import contextlib
import dataclasses
import itertools
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from quadlens.base.errors import BadConfig, MissingExtra
from quadlens.base.workers import available_cores
from quadlens.cli.interrupts import INTERRUPTED, stops_call
from quadlens.cli.options import Positive
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

    from quadlens.training.config import TrainConfig
    from quadlens.training.population.backends import Backend
    from quadlens.training.population.sweep import SweepReport, SweepState

# In a log: at most this many lines about progress, and not more than one in so many seconds.
LOG_LINES = 20
LOG_SECONDS = 30.0


@takes_settings("p", "seed", "attention_rate")
def command(
    out: Output,
    settings: dict[str, Any],
    output: Path,
    seeds: str = "0:151",
    preset: PresetOption = "paper",
    config: ConfigOption = None,
    p: str | None = None,
    attention_rate: str | None = None,
    backend: Literal["local", "ray"] = "local",
    address: str | None = None,
    processes: Positive | None = None,
    strategies: str | None = None,
    checkpoint_every: CheckpointOption = 500,
    retry_failed: bool = False,
) -> None:
    """Train, explain, bound and certify many models.

    Run it again after anything: it does only what is missing.

    Exit code 0: every model asked for is there; 1: some failed; 130: it was stopped.

    Options:
        output (--output -o DIR): The sweep's directory.
        seeds (A:B): Seeds A … B-1.
        p (P,…): One or several moduli.
        attention_rate (R,…): One or several shares of softmax, 0 … 1.
        backend: Where to work.
        address (ADDRESS): A Ray cluster; without it one is started here.
        processes: Workers on this machine; one per core when left out.
        strategies (NAMES): Proof strategies, separated by commas, some of {strategies}; all but
            auto and thin if left out.
        retry_failed: Also try models again that failed three times before.
    """
    from quadlens.base.atomic import check_directory
    from quadlens.training.config import load_config
    from quadlens.training.population.analysis import ALL_STRATEGIES, DEFAULT_STRATEGIES
    from quadlens.training.population.store import Store

    if "seed" in settings:
        raise BadConfig("--set seed was given; a sweep's seeds come from --seeds")
    axes = {
        "p": parse_numbers("p", p, int),
        "attention_rate": parse_numbers("attention-rate", attention_rate, float),
    }
    for name, values in axes.items():
        if name in settings and values is not None:
            given = ",".join(map(str, values))
            raise BadConfig(
                f"--set {name}={settings[name]}: {name} was already given as {given}; give it once"
            )
    chosen_axes = {name: values for name, values in axes.items() if values is not None}
    points = [
        dict(zip(chosen_axes, point, strict=True))
        for point in itertools.product(*chosen_axes.values())
    ]
    base = [load_config(preset, config, {**settings, **point}) for point in points]
    for at_point in base:
        if at_point.kind.no_sweep is not None:
            raise BadConfig(
                f"{at_point.kind.no_sweep}; train networks on sequences by quadlens train --seeds"
            )
    configs = [
        dataclasses.replace(at_point, seed=seed) for at_point in base for seed in parse_seeds(seeds)
    ]
    chosen = tuple(strategies.split(",")) if strategies is not None else DEFAULT_STRATEGIES
    if unknown := [name for name in chosen if name not in ALL_STRATEGIES]:
        raise BadConfig(
            f"--strategies {','.join(unknown)} is not known; expected some of "
            f"{','.join(ALL_STRATEGIES)}"
        )
    check_directory(output)
    place = work_backend(backend, address, processes)
    out.note(
        f"{len(configs)} models into {output} (backend {backend}); stop it whenever you like and "
        "run it again"
    )
    report = run(configs, output, place, chosen, checkpoint_every, retry_failed, out)

    def render(console: "Console") -> None:
        console.print(
            f"{report.already + report.made} of {report.total} models finished "
            f"({report.made} now, {report.already} before), {len(report.failed)} failed, "
            f"{report.left} left"
        )
        for run_id, reason in report.failed.items():
            console.print(f"failed {run_id}: {reason}", markup=False)
        if report.failed:
            console.print("try the failed ones again with --retry-failed")
        if report.already + report.made:
            console.print(f"dataset: {Store(output).dataset}", soft_wrap=True, markup=False)
            console.print(
                f"look at it with: quadlens population {output}", soft_wrap=True, markup=False
            )

    out.emit({**dataclasses.asdict(report), "directory": str(output)}, render)
    if report.failed or report.left:
        raise typer.Exit(INTERRUPTED if report.left else 1)


def parse_numbers(
    flag: str, text: str | None, kind: type[int] | type[float]
) -> list[int] | list[float] | None:
    """Numbers from `23,31,59`; None where the flag was not given."""
    try:
        return None if text is None else [kind(word) for word in text.split(",")]
    except ValueError:
        example = (
            "integers separated by commas, for example 23,31,59"
            if kind is int
            else "for example 0,0.5,1"
        )
        raise BadConfig(f"--{flag} {text!r}; expected {example}") from None


def work_backend(name: str, address: str | None, processes: int | None) -> "Backend":
    """The backend the flags ask for."""
    if name == "local" and address is not None:
        raise BadConfig("--address was given with --backend local; add --backend ray")
    if name == "ray" and address is not None and processes is not None:
        raise BadConfig("--processes was given with --address; a cluster has the cores it has")
    if any(find_spec(module) is None for module in ("torch", "numba", "joblib")):
        raise MissingExtra("training", "train")
    from quadlens.training.population.backends import LocalBackend, RayBackend

    if name == "ray":
        return RayBackend(address, processes or available_cores())
    return LocalBackend(processes or available_cores())


def run(
    configs: "Sequence[TrainConfig]",
    output: Path,
    backend: "Backend",
    strategies: tuple[str, ...],
    checkpoint_every: int,
    retry_failed: bool,
    out: Output,
) -> "SweepReport":
    """Sweep with progress on stderr, then rebuild the dataset, also when stopped."""
    from quadlens.training.population import dataset
    from quadlens.training.population.store import Store
    from quadlens.training.population.sweep import sweep

    with (
        stops_call(signal.default_int_handler),
        _progress(out.quiet, len(configs)) as (on_state, on_note),
    ):
        report = sweep(
            configs,
            output.resolve(),
            backend,
            strategies=strategies,
            checkpoint_every=checkpoint_every,
            retry_failed=retry_failed,
            on_state=on_state,
            on_note=on_note,
        )
    if strategies:
        dataset.rebuild(Store(output))
    if report.left:
        out.note("stopped; finished models are whole. Run the same command again to resume")
    return report


@contextlib.contextmanager
def _progress(
    quiet: bool, total: int
) -> "Iterator[tuple[Callable[[SweepState], None], Callable[[str], None]]]":
    """A bar on a terminal; in a log a line now and then; nothing when quiet."""
    if quiet:
        yield (lambda state: None), (lambda line: None)
        return
    if sys.stderr.isatty():
        from rich.progress import BarColumn, Progress, TextColumn

        with Progress(
            BarColumn(),
            TextColumn("{task.description}"),
            console=safe_console(stderr=True),
            transient=True,
        ) as bar:
            task = bar.add_task("", total=total)
            yield (
                lambda state: bar.update(
                    task, completed=state.done + state.failed, description=describe(state)
                ),
                lambda line: bar.console.print(line, markup=False),
            )
        return
    last_count, last_time = -1, 0.0

    def log(state: "SweepState") -> None:
        nonlocal last_count, last_time
        count, now = state.done + state.failed, time.monotonic()
        enough = count - last_count >= max(1, total // LOG_LINES) and now - last_time >= LOG_SECONDS
        if last_count < 0 or enough or (count == state.total and count != last_count):
            last_count, last_time = count, now
            sys.stderr.write(describe(state) + "\n")

    yield log, lambda line: print(line, file=sys.stderr)


def describe(state: "SweepState") -> str:
    """`done 3/151 · running 2 · failed 0 · 40 min left`."""
    parts = [
        f"done {state.done}/{state.total}",
        f"running {state.running}",
        f"failed {state.failed}",
    ]
    if state.seconds_left is not None and state.done + state.failed < state.total:
        parts.append(f"{duration(state.seconds_left)} left")
    return " · ".join(parts)
