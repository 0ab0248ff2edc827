"""The driver of a sweep makes what is missing and tries again what fails."""

import contextlib
import dataclasses
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from quadlens.base.errors import BadConfig, BadFile
from quadlens.training.config import TrainConfig
from quadlens.training.population.analysis import ALL_STRATEGIES, DEFAULT_STRATEGIES
from quadlens.training.population.backends import Backend
from quadlens.training.population.one_model import Job, failure
from quadlens.training.population.store import Store
from quadlens.training.train import CHECKPOINT_EVERY

MAX_ATTEMPTS = 3


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


def sweep(
    configs: Sequence[TrainConfig],
    root: Path,
    backend: Backend,
    *,
    strategies: tuple[str, ...] = DEFAULT_STRATEGIES,
    checkpoint_every: int = CHECKPOINT_EVERY,
    retry_failed: bool = False,
    on_state: Callable[[SweepState], None] = lambda state: None,
    on_note: Callable[[str], None] = lambda line: None,
) -> SweepReport:
    """Make every model that is not whole yet.

    Ctrl-C ends it at once, with a report of what is left.

    Args:
        configs: Settings, one a model.
        root: The sweep's directory.
        backend: Where the work is done.
        strategies: Proof strategies to try on each model; without any, models are only trained.
        checkpoint_every: Epochs between two checkpoints.
        retry_failed: Also try again what an earlier sweep gave up.
        on_state: Called when anything changes.
        on_note: Called, from any thread, with a line about a retry, a failure, a damaged file.

    Raises:
        DiskFull: when a worker could not write; what is finished stays.
    """
    if any(name not in ALL_STRATEGIES for name in strategies):
        raise BadConfig(
            f"strategies {','.join(strategies)!r}; expected some of {','.join(ALL_STRATEGIES)}"
        )
    store = Store(root)
    store.prepare()
    with store.only_driver():
        jobs = {c.run_id(): Job(root, c, strategies, checkpoint_every) for c in configs}
        return _Driver(store, backend, jobs, retry_failed, on_state, on_note).run()


class _Driver:
    """The state of one sweep while it runs."""

    def __init__(
        self,
        store: Store,
        backend: Backend,
        jobs: dict[str, Job],
        retry_failed: bool,
        on_state: Callable[[SweepState], None],
        on_note: Callable[[str], None],
    ) -> None:
        self._store, self._backend, self._jobs, self._on_state, self._note = (
            store,
            backend,
            jobs,
            on_state,
            on_note,
        )
        self._failed = (
            {} if retry_failed else {i: r for i, r in store.failures().items() if i in jobs}
        )
        self._already = sum(self._is_whole(run_id) for run_id in jobs)
        self._waiting = [i for i in jobs if not store.is_finished(i) and i not in self._failed]
        self._left = len(self._waiting)
        self._made, self._began = 0, time.monotonic()
        # Why no model is begun any more: the disk is full, or the sweep was stopped.
        self._full: str | None = None
        self._stopped = False

    def run(self) -> SweepReport:
        """Make models until nothing is left, or Ctrl-C, or the disk is full."""
        from joblib import Parallel, delayed

        many = Parallel(
            max(1, min(self._backend.threads, self._left)),
            backend="threading",
            batch_size=1,
            return_as="generator_unordered",
        )
        calls = (delayed(self._attempts)(self._jobs[run_id]) for run_id in self._waiting)
        try:
            # joblib warns of what it began and nobody waits for: that is what stopping means.
            with (
                contextlib.suppress(KeyboardInterrupt),  # the report says what is left
                warnings.catch_warnings(action="ignore", category=UserWarning),
                contextlib.closing(many(calls)) as ends,
            ):
                self._on_state(self._state())
                for run_id, reasons in ends:
                    self._count(run_id, reasons)
                    self._on_state(self._state())
        finally:
            self._stopped = True
            self._backend.close()
        if self._full is not None:
            raise DiskFull(
                f"the disk is full ({self._full}); {self._already + self._made} of "
                f"{len(self._jobs)} models are "
                "finished and safe. Free some space and run the same command again: "
                "it resumes where this one stopped"
            )
        return SweepReport(
            len(self._jobs), self._made, self._already, dict(self._failed), self._left
        )

    def _is_whole(self, run_id: str) -> bool:
        """Whether a model is finished; one that was damaged since is taken back."""
        if not self._store.is_finished(run_id):
            return False
        run, job = self._store.finished(run_id), self._jobs[run_id]
        problem = run.problem(run_id)
        if problem is not None:
            self._note(f"{run_id} is damaged ({problem}); what is missing of it is made again")
        else:
            tried = run.strategies()
            if tried.issuperset(job.strategies):
                return True
            wanted = tuple(name for name in ALL_STRATEGIES if name in tried.union(job.strategies))
            self._jobs[run_id] = dataclasses.replace(job, strategies=wanted)
            self._note(
                f"{run_id} was not tried with every strategy asked for; it is analysed again"
            )
        self._store.take_back(run_id)
        return False

    def _attempts(self, job: Job) -> tuple[str, list[str] | None]:
        """Make one model in a thread, in at most three attempts.

        Returns:
            Its name, and why each attempt failed if it is given up; no reasons when it is made;
            None when it is left for another time.
        """
        run_id, reasons = job.run_id, list[str]()
        name = f"{run_id} (p {job.config.p}, seed {job.config.seed})"
        while self._full is None and not self._stopped:
            try:
                self._store.unfinished(run_id).path.mkdir(exist_ok=True)
                outcome = self._backend.make(job)
            except OSError as error:
                outcome = failure(job, error)
            for line in outcome.notes:
                self._note(line)
            # A worker can die after its last rename: the model is there, so it is done.
            if outcome.status == "done" or self._store.is_finished(run_id):
                return run_id, []
            if outcome.status == "full":
                self._full = outcome.reason
            elif not self._stopped:
                reasons.append(outcome.reason)
                if len(reasons) == MAX_ATTEMPTS:
                    self._note(
                        f"{name} failed {MAX_ATTEMPTS} times and is given up: {outcome.reason}"
                    )
                    return run_id, reasons
                self._note(f"{name}: {outcome.reason}; trying again from its last checkpoint")
        return run_id, None

    def _count(self, run_id: str, reasons: list[str] | None) -> None:
        """Write down how a model ended, as `_attempts` says it."""
        if reasons is None:
            return
        self._left -= 1
        if not reasons:
            self._made += 1
            self._store.failure(run_id).unlink(missing_ok=True)
            return
        self._failed[run_id] = reasons[-1]
        self._store.record_failure(run_id, dataclasses.asdict(self._jobs[run_id].config), reasons)

    def _state(self) -> SweepState:
        each = (time.monotonic() - self._began) / self._made if self._made else None
        return SweepState(
            len(self._jobs),
            self._already + self._made,
            min(self._left, self._backend.workers()),
            len(self._failed),
            None if each is None else each * self._left,
        )
