"""A few threads that take the same short steps together, thousands of times a second."""

import itertools
import threading
from collections.abc import Callable


class Team:
    """A team of `size` threads, the caller being the first.

    `run(task)` calls task(0) … task(size-1) and waits for all.

    A step takes a few milliseconds and has three such meetings, so starting threads or filling a
    queue each time would be felt: the members sleep on a bare lock. Only what releases the GIL
    (matrix products, compiled kernels) runs in parallel, and that is all the heavy work. Each
    member's products are single-threaded: an OpenMP pool beside these threads would spin on the
    same cores.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._task: Callable[[int], None] | None = None
        self._failure: BaseException | None = None
        self._go = [threading.Lock() for _ in range(size - 1)]
        self._done = [threading.Lock() for _ in range(size - 1)]
        for lock in (*self._go, *self._done):
            lock.acquire()
        for member in range(1, size):
            threading.Thread(
                target=self._work, args=(member,), daemon=True, name=f"quadlens-{member}"
            ).start()

    def run(self, task: Callable[[int], None]) -> None:
        """Call `task` with every member's number; raise an exception of any member here."""
        self._task, self._failure = task, None
        for lock in self._go:
            lock.release()
        try:
            task(0)
        finally:
            for lock in self._done:
                lock.acquire()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """End the threads, but the caller's."""
        self._task = None
        for lock in self._go:
            lock.release()
        self._go, self._done = [], []

    def _work(self, member: int) -> None:
        go, done = self._go[member - 1], self._done[member - 1]
        while True:
            go.acquire()
            if self._task is None:
                return
            try:
                self._task(member)
            except BaseException as failure:
                self._failure = failure
            done.release()


def share_out(total: int, parts: int) -> list[slice]:
    """Cut 0 … total-1 into `parts` runs of nearly equal length.

    They are multiples of 16 where there is room.
    """
    unit = 16 if total >= 16 * parts else 1
    units = -(-total // unit)
    edges = [min(total, unit * (units * part // parts)) for part in range(parts + 1)]
    return [slice(low, high) for low, high in itertools.pairwise(edges)]
