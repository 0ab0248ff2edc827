"""Stopping long work at a good moment."""

import contextlib
import signal
from collections.abc import Callable, Iterator

# The exit code of a command that was asked to stop before its end, as shells have it for Ctrl-C.
INTERRUPTED = 130


@contextlib.contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C and SIGTERM into a question that long work asks between two steps; a second Ctrl-C ends at once."""
    asked = False

    def handler(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    previous = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, old in previous.items():
            signal.signal(number, old)
