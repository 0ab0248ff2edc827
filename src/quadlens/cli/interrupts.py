"""Ctrl-C and SIGTERM in commands: the exit code, and how long work is asked to stop."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

# The exit code of a command that was asked to stop before its end, as shells have it for Ctrl-C.
INTERRUPTED = 130


@contextlib.contextmanager
def stops_call(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Call `handler` on Ctrl-C and SIGTERM in the block.

    `signal.default_int_handler` raises KeyboardInterrupt.
    """
    previous = {
        number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)


@contextlib.contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C or SIGTERM came.

    Long work calls it between two steps; a second Ctrl-C ends at once.
    """
    stopping = False

    def handler(number: int, frame: object) -> None:
        nonlocal stopping
        if stopping:
            raise KeyboardInterrupt
        stopping = True

    with stops_call(handler):
        yield lambda: stopping
