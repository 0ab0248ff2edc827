"""Processes: the cores for them, and whose business Ctrl-C is."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator


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
