"""What a sweep asks of a backend; each is one file."""

from typing import Protocol, runtime_checkable

from quadlens.population.one_model import Outcome, Task


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
        """End all workers; what they were at is left for the next run."""
        ...
