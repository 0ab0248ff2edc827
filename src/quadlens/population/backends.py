"""Where a sweep works: processes on this machine, or a Ray cluster.

`concurrent.futures` is not enough here: one killed worker breaks a whole `ProcessPoolExecutor`, and it cannot end a
worker that is at work. A pipe to each process says which one is gone and why, and costs one model one attempt.
"""

import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol, runtime_checkable

from quadlens.errors import BadConfig, MissingExtra
from quadlens.population.one_model import Outcome, Task, make_model

# Ray itself waits for minutes for a host that does not answer.
CONNECT_SECONDS = 10.0


@runtime_checkable
class Backend(Protocol):
    """Makes models somewhere. It never tries again by itself: the sweep counts attempts."""

    def room(self) -> int:
        """How many more tasks can be started now."""
        ...

    def start(self, task: Task) -> None:
        """Begin one task."""
        ...

    def wait(self, seconds: float) -> list[Outcome]:
        """Outcomes that have come in, waiting at most so long for the first."""
        ...

    def close(self) -> None:
        """End all workers; their unfinished models are left for the next run."""
        ...


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
    """A worker whose driver was killed must not keep running beside the workers of the next one."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


class RayBackend:
    """One core a task, as many tasks as the cluster has cores at the moment.

    Ray's own retries are off: the sweep counts attempts, and a new attempt resumes from the last checkpoint, which is
    in the directory that all nodes share.
    """

    def __init__(self, address: str | None, processes: int) -> None:
        """Join the cluster at `address`, or start one on this machine with `processes` cores."""
        try:
            import ray
        except ModuleNotFoundError as error:
            raise MissingExtra("the backend ray", "cluster") from error
        if address is not None:
            _check_address(address)
        self._ray: Any = ray
        where: dict[str, Any] = {"num_cpus": processes, "include_dashboard": False} if address is None else {}
        self._ours = not ray.is_initialized()
        if self._ours:
            try:
                ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **where)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise BadConfig(f"no Ray cluster at --address {address!r}: {error}") from None
        self._make = ray.remote(num_cpus=1, max_retries=0)(make_model)
        self._running: dict[Any, Task] = {}

    def room(self) -> int:
        """Cores of the nodes that are alive, less the tasks already there; at least one task is always waiting."""
        cores = int(self._ray.cluster_resources().get("CPU", 0))
        return max(1, cores) - len(self._running)

    def start(self, task: Task) -> None:
        """Submit one task."""
        self._running[self._make.remote(task)] = task

    def wait(self, seconds: float) -> list[Outcome]:
        """Answers, and tasks whose worker or node is gone."""
        if not self._running:
            return []
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=seconds)
        outcomes = []
        for reference in ready:
            task = self._running.pop(reference)
            try:
                outcomes.append(self._ray.get(reference))
            except self._ray.exceptions.RayError as error:
                outcomes.append(Outcome(task.run_id, "crashed", _first_line(error)))
        return outcomes

    def close(self) -> None:
        """Cancel what runs and leave the cluster; one that was started here ends."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running = {}
        if self._ours:
            self._ray.shutdown()


def _check_address(address: str) -> None:
    """Refuse an address at which nobody answers."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:  # "auto" and names that Ray knows
        return
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, ValueError, OverflowError) as error:
        raise BadConfig(
            f"no Ray cluster at --address {address!r}: {error}; start one with: ray start --head, "
            "or leave --address out to use this machine"
        ) from None


def _first_line(error: Exception) -> str:
    """Ray's errors are pages long."""
    text = str(error).strip() or "no reason given"
    return f"{type(error).__name__}: {text.splitlines()[0]}"
