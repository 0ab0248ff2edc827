"""Starting worker processes so that Ctrl-C is the parent's business alone."""

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Processes started inside ignore SIGINT from their first instruction on: no stack traces while they import.

    A signal that is ignored stays ignored in a new process; a handler would be lost. Outside the main thread, where
    Python does not let signals be set, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
