"""The driver of a sweep: what is missing is made, what fails is tried again, what keeps failing is written down."""

import dataclasses
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from quadlens.errors import BadConfig, BadFile
from quadlens.model.atomic import write_atomic
from quadlens.population.analysis import ALL_STRATEGIES, DEFAULT_STRATEGIES
from quadlens.population.backends import Backend
from quadlens.population.one_model import Outcome, Task, token_file
from quadlens.population.store import Store
from quadlens.training.config import TrainConfig
from quadlens.training.train import CHECKPOINT_EVERY

MAX_ATTEMPTS = 3
# How long the driver sleeps at most before it looks whether it was asked to stop.
PATIENCE = 0.5


class DiskFull(BadFile):
    """The sweep stopped because nothing more can be written; what is finished is whole."""


@dataclass(frozen=True)
class SweepState:
    """How far a sweep is.

    Attributes:
        total: Models asked for.
        done: Whole, from earlier or now.
        running: Being made.
        failed: Given up.
        seconds_left: An estimate from the models made so far; None before the first.
    """

    total: int
    done: int
    running: int
    failed: int
    seconds_left: float | None


@dataclass(frozen=True)
class SweepReport:
    """How a sweep ended.

    Attributes:
        total: Models asked for.
        made: Made now.
        already: Were whole before.
        failed: Run → reason, given up now or before.
        left: Not made because the sweep was asked to stop.
    """

    total: int
    made: int
    already: int
    failed: dict[str, str]
    left: int


@dataclass(frozen=True)
class Watch:
    """What a caller may see and say during a sweep.

    Attributes:
        on_state: Called when anything changes.
        on_note: Called with a line about a retry, a failure, a damaged file.
        should_stop: Asked often; true ends the sweep.
    """

    on_state: Callable[[SweepState], None] = lambda state: None
    on_note: Callable[[str], None] = lambda line: None
    should_stop: Callable[[], bool] = lambda: False


def sweep(
    configs: Sequence[TrainConfig],
    root: Path,
    backend: Backend,
    *,
    strategies: tuple[str, ...] = DEFAULT_STRATEGIES,
    checkpoint_every: int = CHECKPOINT_EVERY,
    retry_failed: bool = False,
    watch: Watch | None = None,
) -> SweepReport:
    """Make every model that is not whole yet.

    Args:
        configs: Settings, one a model.
        root: The sweep's directory.
        backend: Where the work is done.
        strategies: Proof strategies to try on each model; without any, models are only trained.
        checkpoint_every: Epochs between two checkpoints.
        retry_failed: Also try again what an earlier sweep gave up.
        watch: Progress and stopping.

    Raises:
        DiskFull: when a worker could not write; what is finished stays.
    """
    if any(name not in ALL_STRATEGIES for name in strategies):
        raise BadConfig(f"strategies {','.join(strategies)!r}; expected some of {','.join(ALL_STRATEGIES)}")
    store = Store(root)
    store.prepare()
    with store.only_driver():
        token = _token(token_file(root))
        tasks = {c.run_id(): Task(root, token, c, strategies, checkpoint_every) for c in configs}
        return _Driver(store, backend, tasks, retry_failed, watch or Watch()).run()


def _token(path: Path) -> str:
    """The directory's own name, made once: a restart on a full disk writes nothing."""
    if not path.is_file():
        write_atomic(path, uuid.uuid4().hex.encode())
    return path.read_text()


class _Driver:
    """The state of one sweep while it runs."""

    def __init__(
        self, store: Store, backend: Backend, tasks: dict[str, Task], retry_failed: bool, watch: Watch
    ) -> None:
        self._store, self._backend, self._tasks, self._watch = store, backend, tasks, watch
        self._reasons: dict[str, list[str]] = {}
        self._failed = {} if retry_failed else {i: r for i, r in store.failures().items() if i in tasks}
        self._already = sum(self._is_whole(run_id) for run_id in tasks)
        self._waiting = deque(i for i in tasks if not store.is_finished(i) and i not in self._failed)
        self._running: set[str] = set()
        self._made, self._began = 0, time.monotonic()
        self._full: str | None = None

    def run(self) -> SweepReport:
        """Until nothing is left, or we are asked to stop, or the disk is full."""
        try:
            while self._running or (self._waiting and not self._full):
                if self._watch.should_stop():
                    break
                while self._waiting and not self._full and self._backend.room() > 0:
                    run_id = self._waiting.popleft()
                    self._running.add(run_id)
                    self._backend.start(self._tasks[run_id])
                self._watch.on_state(self._state())
                for outcome in self._backend.wait(PATIENCE):
                    self._settle(outcome)
        finally:
            self._backend.close()
        self._watch.on_state(self._state())
        if self._full is not None:
            raise DiskFull(
                f"the disk is full ({self._full}); {self._already + self._made} of {len(self._tasks)} models are "
                "finished and safe. Free some space and run the same command again: it resumes where this one stopped"
            )
        return SweepReport(
            len(self._tasks), self._made, self._already, dict(self._failed), len(self._waiting) + len(self._running)
        )

    def _is_whole(self, run_id: str) -> bool:
        """Whether a model is finished; one that was damaged since is taken back."""
        if not self._store.is_finished(run_id):
            return False
        run, task = self._store.finished(run_id), self._tasks[run_id]
        problem = run.problem(run_id)
        if problem is not None:
            self._watch.on_note(f"{run_id} is damaged ({problem}); what is missing of it is made again")
        else:
            tried = run.strategies()
            if tried.issuperset(task.strategies):
                return True
            wanted = tuple(name for name in ALL_STRATEGIES if name in tried.union(task.strategies))
            self._tasks[run_id] = dataclasses.replace(task, strategies=wanted)
            self._watch.on_note(f"{run_id} was not tried with every strategy asked for; it is analysed again")
        self._store.take_back(run_id)
        return False

    def _settle(self, outcome: Outcome) -> None:
        """Count one attempt."""
        run_id = outcome.run_id
        self._running.discard(run_id)
        for line in outcome.notes:
            self._watch.on_note(line)
        # A worker can die after its last rename: the model is there, so it is done.
        if outcome.status == "done" or self._store.is_finished(run_id):
            self._made += 1
            self._store.failure(run_id).unlink(missing_ok=True)
            return
        if outcome.status == "full":
            self._full = outcome.reason
            self._waiting.append(run_id)
            return
        reasons = self._reasons.setdefault(run_id, [])
        reasons.append(outcome.reason)
        config = self._tasks[run_id].config
        name = f"{run_id} (p {config.p}, seed {config.seed})"
        if len(reasons) < MAX_ATTEMPTS:
            self._watch.on_note(f"{name}: {outcome.reason}; trying again from its last checkpoint")
            self._waiting.append(run_id)
            return
        self._watch.on_note(f"{name} failed {MAX_ATTEMPTS} times and is given up: {outcome.reason}")
        self._failed[run_id] = outcome.reason
        self._store.record_failure(run_id, dataclasses.asdict(config), reasons)

    def _state(self) -> SweepState:
        left = len(self._waiting) + len(self._running)
        each = (time.monotonic() - self._began) / self._made if self._made else None
        return SweepState(
            len(self._tasks),
            self._already + self._made,
            len(self._running),
            len(self._failed),
            None if each is None else each * left,
        )
