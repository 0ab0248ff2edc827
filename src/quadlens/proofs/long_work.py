"""Work that may take minutes: it reports its steps, and stops once its time is over."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass

from quadlens.base.errors import BadConfig

# The reason that a proof gives for what it leaves out.
TIME_LIMIT = "time limit"

Progress = Callable[[str], None]


class OutOfTime(Exception):
    """The time is over, and what was begun has no part that could be kept."""


@dataclass(frozen=True)
class _Watch:
    """When the time is over, and who is told what is being done."""

    ends: float
    tell: Progress


_NOBODY = _Watch(math.inf, lambda step: None)
_WATCH: ContextVar[_Watch] = ContextVar("watch", default=_NOBODY)


@contextlib.contextmanager
def watched(time_limit: float | None = None, progress: Progress | None = None) -> Iterator[None]:
    """Let the work in the block end after so many seconds, and tell what it is at.

    Args:
        time_limit: Seconds; no limit when None. Work stops at the next point where it can.
        progress: Called with a few words before each part of the work.

    Raises:
        BadConfig: when the limit is no number of seconds.
    """
    if time_limit is not None and not 0 <= time_limit < math.inf:
        raise BadConfig(
            f"a time limit of {time_limit} seconds; expected a finite number, 0 or more"
        )
    ends = math.inf if time_limit is None else time.monotonic() + time_limit
    before = _WATCH.set(_Watch(ends, progress or _NOBODY.tell))
    try:
        yield
    finally:
        _WATCH.reset(before)


def is_over() -> bool:
    """Whether the time is over; never where nobody set a limit."""
    return time.monotonic() >= _WATCH.get().ends


def tell(step: str) -> None:
    """Say what is done next."""
    _WATCH.get().tell(step)


def begin(step: str) -> None:
    """Say what is done next, if there is time for it.

    Raises:
        OutOfTime: when there is not.
    """
    if is_over():
        raise OutOfTime
    tell(step)
