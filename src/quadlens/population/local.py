"""The local backend: one process a core, each with one thread; a killed one is replaced."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from quadlens.population.one_model import Outcome, Task, make_model


@dataclass(frozen=True, eq=False)
class _Worker:
    """A process and our end of its pipe."""

    process: SpawnProcess
    connection: Connection

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()
        self.process.close()


class LocalBackend:
    """Keeps up to `processes` workers; they are started when needed and then take one task after another."""

    def __init__(self, processes: int) -> None:
        """Start nothing yet."""
        self._processes = processes
        # Forking a process that has used OpenMP threads can hang; a fresh interpreter cannot.
        self._context = multiprocessing.get_context("spawn")
        self._idle: list[_Worker] = []
        self._busy: dict[_Worker, Task] = {}

    @property
    def workers(self) -> dict[str, int]:
        """Run → process id of the worker that makes it."""
        return {task.run_id: worker.process.pid or 0 for worker, task in self._busy.items()}

    def room(self) -> int:
        """Processes without a task."""
        return self._processes - len(self._busy)

    def start(self, task: Task) -> None:
        """Hand the task to an idle worker, or to a new one."""
        while self._idle:
            worker = self._idle.pop()
            try:
                worker.connection.send(task)
                self._busy[worker] = task
                return
            except OSError:  # it died while idle; nothing is lost
                worker.end()
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._busy[worker] = task
        try:
            ours.send(task)
        except OSError:
            return  # it died at once; `wait` finds its pipe closed

    def wait(self, seconds: float) -> list[Outcome]:
        """Answers, and the end of workers that will never answer."""
        connections = {worker.connection: worker for worker in self._busy}
        outcomes = []
        for ready in multiprocessing.connection.wait(list(connections), seconds):
            worker = connections[ready]  # type: ignore[index]
            task = self._busy.pop(worker)
            try:
                outcome: Outcome = worker.connection.recv()
                self._idle.append(worker)
            except Exception:  # closed, or cut in the middle of a message
                worker.process.join()
                outcome = Outcome(task.run_id, "crashed", _ending(worker.process.exitcode))
                worker.end()
            outcomes.append(outcome)
        return outcomes

    def close(self) -> None:
        """Kill every worker; a directory is only ever renamed whole, so none is left half done."""
        for worker in [*self._idle, *self._busy]:
            worker.end()
        self._idle, self._busy = [], {}


def _ending(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        return f"its worker was killed by {signal.Signals(-exitcode).name}"
    return f"its worker ended by itself with exit code {exitcode}"


def _serve(connection: Connection) -> None:
    """A worker's life: take a task, make the model, answer; end when the driver does."""
    # Ctrl-C reaches the whole group of processes; what to do about it is the driver's business.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_driver, daemon=True).start()
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(make_model(task))


def _end_with_driver() -> None:
    """A worker whose driver was killed must not go on beside the workers of the next one."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
