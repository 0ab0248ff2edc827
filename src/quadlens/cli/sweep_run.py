"""A sweep as a person sees it: flags, progress, what to do after a stop."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from quadlens.cli.interrupt import asked_to_stop
from quadlens.cli.output import note
from quadlens.errors import BadConfig
from quadlens.training.config import TrainConfig

if TYPE_CHECKING:
    from quadlens.population.backend import Backend
    from quadlens.population.sweep import SweepReport, SweepState

# In a log: at most this many lines about progress, and not more than one in so many seconds.
LOG_LINES = 20
LOG_SECONDS = 30.0


def parse_moduli(text: str) -> list[int]:
    """Moduli from `23,31,59`."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise BadConfig(f"--p {text!r}; expected odd numbers separated by commas, for example 23,31,59") from None


def work_backend(name: str, address: str | None, processes: int | None) -> "Backend":
    """The backend the flags ask for."""
    from quadlens.errors import MissingExtra
    from quadlens.workers import available_cores

    if name == "local" and address is not None:
        raise BadConfig("--address was given with --backend local; add --backend ray")
    if name == "ray" and address is not None and processes is not None:
        raise BadConfig("--processes was given with --address; a cluster has the cores it has")
    if any(find_spec(module) is None for module in ("torch", "numba", "threadpoolctl")):
        raise MissingExtra("a sweep", "train")
    if name == "ray":
        from quadlens.population.on_ray import RayBackend

        return RayBackend(address, processes or available_cores())
    from quadlens.population.local import LocalBackend

    return LocalBackend(processes or available_cores())


def run(
    configs: Sequence[TrainConfig],
    output: Path,
    backend: "Backend",
    strategies: tuple[str, ...],
    checkpoint_every: int,
    retry_failed: bool,
    quiet: bool,
) -> "SweepReport":
    """Sweep with progress on stderr, then rebuild the dataset, also when stopped."""
    from quadlens.population import dataset
    from quadlens.population.store import Store
    from quadlens.population.sweep import Watch, sweep

    with asked_to_stop() as should_stop, _progress(quiet, len(configs)) as (on_state, on_note):
        report = sweep(
            configs,
            output.resolve(),
            backend,
            strategies=strategies,
            checkpoint_every=checkpoint_every,
            retry_failed=retry_failed,
            watch=Watch(on_state, on_note, should_stop),
        )
    dataset.rebuild(Store(output))
    if report.left:
        note(quiet, "stopped; finished models are whole. Run the same command again to go on")
    return report


@contextlib.contextmanager
def _progress(quiet: bool, total: int) -> "Iterator[tuple[Callable[[SweepState], None], Callable[[str], None]]]":
    """A bar on a terminal; in a log a line now and then; nothing when quiet."""
    if quiet:
        yield (lambda state: None), (lambda line: None)
        return
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        with Progress(
            BarColumn(), TextColumn("{task.description}"), console=Console(stderr=True), transient=True
        ) as bar:
            shown = bar.add_task("", total=total)
            yield (
                lambda state: bar.update(shown, completed=state.done + state.failed, description=describe(state)),
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
            note(False, describe(state))

    yield log, lambda line: note(False, line)


def describe(state: "SweepState") -> str:
    """`done 3/151 · running 2 · failed 0 · 40 min left`."""
    parts = [f"done {state.done}/{state.total}", f"running {state.running}", f"failed {state.failed}"]
    if state.seconds_left is not None and state.done + state.failed < state.total:
        left = state.seconds_left
        parts.append(f"{left:.0f} s left" if left < 120 else f"{left / 60:.0f} min left")
    return " · ".join(parts)
