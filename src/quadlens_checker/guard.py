"""Keep the limits of time and memory: the work is done by a process that can be ended."""

import contextlib
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from quadlens_checker import limits
from quadlens_checker.verdict import CheckReport, check_here

# Seconds between two words on how long a check has taken.
PROGRESS_SECONDS = 1.0
# Nothing but the standard library and this package, from where it lies now: a folder or an archive.
START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from quadlens_checker.guard "
    "import work; work(*sys.argv[2:])"
)


def check(
    certificate_path: str,
    model_path: str,
    max_seconds: float = limits.DEFAULT_SECONDS,
    max_bytes: int = limits.DEFAULT_MEMORY_BYTES,
    progress: Callable[[str], None] | None = None,
) -> CheckReport:
    """Check the certificate in one file against the model in another, within these limits.

    The limit of memory needs a system that keeps one (Linux does); the limit of time is kept
    everywhere. `progress` is called about once a second with how long the check has taken.

    Raises:
        OSError: for a file that is missing or is not a regular file.
        ValueError: for limits that are not positive or too large.
    """
    if not 0 <= max_seconds <= limits.MAX_SECONDS:
        raise ValueError(
            f"a time limit of {max_seconds} seconds; expected 0 … {limits.MAX_SECONDS:g}"
        )
    if max_bytes <= 0:
        raise ValueError(f"a memory limit of {max_bytes} bytes; expected a positive number")
    began, sources = time.monotonic(), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    words = [certificate_path, model_path, repr(float(max_seconds)), str(max_bytes)]
    command = [sys.executable, "-I", "-S", "-c", START, sources, *words]
    alive, held = (
        os.pipe()
    )  # closed when this process ends, however it ends: the other one watches it
    try:
        done = run(command, max_seconds, progress, stdin=alive)
    except subprocess.TimeoutExpired:
        return CheckReport(
            "TIMEOUT", f"not verified within {max_seconds:g} seconds", time.monotonic() - began
        )
    finally:
        os.close(alive)
        os.close(held)
    seconds = time.monotonic() - began
    if done.returncode != 0:
        return CheckReport(
            "REJECTED",
            f"the check ended without a verdict, perhaps for more than {max_bytes} bytes",
            seconds,
        )
    value = json.loads(done.stdout)
    if "error" in value:
        raise OSError(*value["error"])
    return replace(CheckReport(**value), seconds=seconds)


def run(
    command: Sequence[str],
    max_seconds: float,
    progress: Callable[[str], None] | None,
    **options: Any,
) -> "subprocess.CompletedProcess[bytes]":
    """Run a program to its end, or until its time is over.

    About once a second it says how long it has taken.

    Raises:
        subprocess.TimeoutExpired: when its time is over; it is ended.
    """
    began = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    ) as process:
        try:
            while True:
                left = began + max_seconds - time.monotonic()
                try:
                    out, err = process.communicate(
                        timeout=left if progress is None else min(left, PROGRESS_SECONDS)
                    )
                    return subprocess.CompletedProcess(command, process.returncode, out, err)
                except subprocess.TimeoutExpired:
                    if progress is None or time.monotonic() - began >= max_seconds:
                        raise
                    progress(
                        f"checking: {time.monotonic() - began:.0f} s of at most {max_seconds:g} s"
                    )
        except BaseException:
            process.kill()
            raise


def work(certificate_path: str, model_path: str, max_seconds: str, max_bytes: str) -> None:
    """In the process that can be ended: check, and print the report as JSON."""
    set_limits(int(max_bytes), float(max_seconds))
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        value = asdict(check_here(certificate_path, model_path, float(max_seconds)))
    except OSError as error:
        value = {"error": [error.errno, error.strerror, error.filename]}
    sys.stdout.write(json.dumps(value))


def end_with_parent() -> None:
    """Wait until the process that asked is gone, then end this one."""
    with contextlib.suppress(OSError):
        os.read(0, 1)
    os._exit(1)


def set_limits(max_bytes: int, max_seconds: float) -> None:
    """Limit this process where the system can."""
    try:
        import resource
    except ImportError:
        return
    for kind, most in (
        (resource.RLIMIT_AS, max_bytes),
        (resource.RLIMIT_CPU, math.ceil(max_seconds) + 1),
    ):
        hard = resource.getrlimit(kind)[1]
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(
                kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
            )
