"""Where the models of a sweep are made: in processes on this machine, or on a Ray cluster.

The sweep's `joblib.Parallel` runs in threads; each hands its model to a worker and waits. On this
machine each thread has a loky pool of one process, because a pool of several breaks as a whole when
one of its processes is killed, and takes with it what the others were making.
"""

import logging
import os
import re
import signal
import socket
import threading
import time
from typing import Any, Protocol, runtime_checkable

from quadlens.base.errors import BadConfig, MissingExtra
from quadlens.training.population.one_model import Job, Outcome, make_model

# Ray itself waits for minutes for a host that does not answer.
CONNECT_SECONDS = 10.0
# Models that Ray is given at a time: more than a cluster has cores, so that nodes which join have
# something to do.
MOST_ON_RAY = 1000


@runtime_checkable
class Backend(Protocol):
    """Makes models somewhere. It never tries again by itself: the sweep counts attempts.

    Attributes:
        threads: How many models may be given to it at the same time, each by a thread that waits
            for it.
    """

    threads: int

    def workers(self) -> int:
        """How many models are made at the same time now."""
        ...

    def make(self, job: Job) -> Outcome:
        """Make one model, or say why not; a worker that dies is an outcome."""
        ...

    def close(self) -> None:
        """End all workers; their unfinished models are left for the next run."""
        ...


class LocalBackend:
    """One process for each thread that asks for models.

    A process that is killed costs only the model it was making.
    """

    def __init__(self, processes: int) -> None:
        """Start nothing yet."""
        self.threads = processes
        self._of_thread = threading.local()
        self._pools: list[Any] | None = []
        self._lock = threading.Lock()

    def workers(self) -> int:
        """Count one worker per thread."""
        return self.threads

    def make(self, job: Job) -> Outcome:
        """Make it in this thread's process, which is started when there is none."""
        try:
            if getattr(self._of_thread, "pool", None) is None:
                self._of_thread.pool = self._start()
            outcome: Outcome = self._of_thread.pool.submit(make_model, job).result()
            return outcome
        except RuntimeError as error:  # loky: the process is gone, or the pool was closed
            self._of_thread.pool = None
            return Outcome(job.run_id, "failed", _ending(error))

    def _start(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        with self._lock:
            if self._pools is None:
                raise RuntimeError("the sweep has ended")
            self._pools.append(ProcessPoolExecutor(1, initializer=_begin))
            return self._pools[-1]

    def close(self) -> None:
        """Kill every process; a directory is only ever renamed whole, so none is left half done."""
        with self._lock:
            pools, self._pools = self._pools or [], None
        for pool in pools:
            pool.shutdown(kill_workers=True)


def _ending(error: RuntimeError) -> str:
    """What became of a process; loky has its exit code only in words: `SIGKILL(-9)`, `EXIT(3)`."""
    ending = re.search(r"\b([A-Z]+)\((-?\d+)\)", str(error))
    if ending is None:
        return _first_line(error)
    name, code = ending.groups()
    return (
        f"its worker was killed by {name}"
        if int(code) < 0
        else f"its worker ended by itself with exit code {code}"
    )


def _begin() -> None:
    """Start a process without Ctrl-C, which is the driver's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_driver, args=(os.getppid(),), daemon=True).start()


def _end_with_driver(driver: int) -> None:
    """A worker whose driver was killed must not keep running beside the workers of the next one."""
    while os.getppid() == driver:
        time.sleep(0.5)
    os._exit(1)


class RayBackend:
    """One core a task, as many tasks as the cluster has cores at the moment.

    Ray's own retries are off: the sweep counts attempts, and a new attempt resumes from the last
    checkpoint, which is in the directory that all nodes share. `ray.util.joblib` would not do: it
    gives its results all at the end, hands tasks to its actors in turn, busy or not, and ends the
    whole call when one of them is lost.
    """

    threads = MOST_ON_RAY

    def __init__(self, address: str | None, processes: int) -> None:
        """Join the cluster at `address`, or start one on this machine with `processes` cores."""
        try:
            import ray
        except ModuleNotFoundError as error:
            raise MissingExtra("the backend ray", "cluster") from error
        if address is not None:
            _check_address(address)
        where: dict[str, Any] = (
            {"num_cpus": processes, "include_dashboard": False} if address is None else {}
        )
        try:
            ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                **where,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise BadConfig(
                f"no Ray cluster at address={address!r}: {error}", settings=("address",)
            ) from None
        self._ray: Any = ray
        self._make = ray.remote(num_cpus=1, max_retries=0)(make_model)
        self._running: set[Any] = set()

    def workers(self) -> int:
        """Cores of the nodes that are alive."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 0)))

    def make(self, job: Job) -> Outcome:
        """Make it as a task on some node; it fails if its worker or node is gone."""
        reference = self._make.remote(job)
        self._running.add(reference)
        try:
            outcome: Outcome = self._ray.get(reference)
            return outcome
        except self._ray.exceptions.RayError as error:
            return Outcome(job.run_id, "failed", _first_line(error))
        finally:
            self._running.discard(reference)

    def close(self) -> None:
        """Cancel what runs and leave the cluster; one that was started here ends."""
        for reference in list(self._running):
            self._ray.cancel(reference, force=True)
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
            f"no Ray cluster at address={address!r}: {error}; start one with: ray start --head, "
            "or leave address out to use this machine",
            settings=("address",),
        ) from None


def _first_line(error: Exception) -> str:
    """Ray's errors are pages long."""
    text = str(error).strip() or "no reason given"
    return f"{type(error).__name__}: {text.splitlines()[0]}"
