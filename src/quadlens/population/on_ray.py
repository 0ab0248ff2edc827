"""The Ray backend: one task a model on an existing cluster, or on one started here."""

import logging
import socket
from typing import Any

from quadlens.errors import BadConfig, MissingExtra
from quadlens.population.one_model import Outcome, Task, make_model

CONNECT_SECONDS = 10.0


class RayBackend:
    """One core a task, as many tasks as the cluster has cores at the moment.

    Ray's own retries are off: the sweep counts attempts, and a new attempt goes on from the last checkpoint, which is
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
    """Ray itself waits for minutes for a host that does not answer."""
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
