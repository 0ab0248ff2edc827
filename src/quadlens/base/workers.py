"""Processes and signals: counting cores, and stopping work on Ctrl-C and SIGTERM."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

# The exit code of a command that was asked to stop before its end, as shells have it for Ctrl-C.
INTERRUPTED = 130


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Start processes in the block that ignore SIGINT from their first instruction on.

    They print no stack traces while they import.

    A signal that is ignored stays ignored in a new process; a handler would be lost. Outside the
    main thread, where Python does not let signals be set, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


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
