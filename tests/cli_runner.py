"""The command line inside the test process: arguments in, exit code and both streams out."""

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quadlens.cli.main import main


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout; fails when there is anything else."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


@contextlib.contextmanager
def arguments(*words: str) -> Iterator[None]:
    before = sys.argv
    sys.argv = ["quadlens", *words]
    try:
        yield
    finally:
        sys.argv = before


def quadlens(*words: str | Path) -> Run:
    """Run `quadlens WORDS…`."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        arguments(*map(str, words)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return Run(code, out.getvalue(), err.getvalue())


def refused(run: Run, text: str) -> None:
    """Assert that a run refused bad input, with `text` in its message.

    The exit code is 2. There is one message and perhaps its flags, no stack trace, and nothing on
    stdout.
    """
    assert run.code == 2, run
    assert text in run.err, run.err
    assert run.err.startswith("error: "), run.err
    assert all(line.startswith("flags: --") for line in run.err.splitlines()[1:2]), run.err
    assert len(run.err.splitlines()) <= 2, run.err
    assert "Traceback" not in run.err
    assert run.out == ""
