"""How results reach a person or a program: the table and the JSON are two views of one value."""

import contextlib
import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadlens.base.display import printable
from quadlens.base.errors import BadConfig
from quadlens.base.schema import plain

if TYPE_CHECKING:
    from rich.console import Console

# Seconds after which a command that is usually quick says in a log what it is at.
PATIENCE = 3.0
# Suffixes of other programs' files, and of certificates.
OTHER_SUFFIXES = (".pt", ".pth", ".onnx", ".json")


# Back to the first column, and nothing is left of the line.
CLEAR = "\r\x1b[K"
# What sets colours and weight, as libraries of ours do where they write help and tables.
STYLE = re.compile(r"(\x1b\[(?:0|1|2|3|4|9|22|23|24|29|3[0-9]|9[0-7]|;)*m)")


@dataclass(frozen=True)
class Output:
    """How a command speaks, as its common flags say.

    Attributes:
        json: One JSON document on stdout instead of tables.
        quiet: Nothing on stderr but errors.
    """

    json: bool
    quiet: bool

    def emit(
        self,
        value: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        render: "Callable[[Console], object]",
    ) -> None:
        """Print `value` as JSON, or let `render` draw it."""
        if self.json:
            unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
            json.dump(plain(value), sys.stdout, ensure_ascii=not unicode, allow_nan=False)
            sys.stdout.write("\n")
            return
        render(safe_console())

    def say(self, value: Mapping[str, Any], *lines: str) -> None:
        """Print `value` as JSON, or lines as they are.

        A name in them is no markup, and a long line is not broken.
        """
        self.emit(
            value,
            lambda console: sys.stdout.write("".join(f"{printable(line)}\n" for line in lines)),
        )

    def note(self, message: str) -> None:
        """A line for the person watching, on stderr."""
        if not self.quiet:
            sys.stderr.write(printable(message) + "\n")

    @property
    def on_terminal(self) -> bool:
        """Whether somebody may watch stderr."""
        return not self.quiet and sys.stderr.isatty()

    @contextlib.contextmanager
    def step_line(self, after: float = 0.0) -> Iterator[Callable[[str], None]]:
        """Show what is being done now.

        On a terminal it is one line on stderr that changes, in a log one line per step.

        Args:
            after: In a log, only steps that begin so many seconds from now on: most of these
                commands take less.
        """
        if self.quiet:
            yield lambda step: None
            return
        on_terminal, last, begin = sys.stderr.isatty(), [""], time.monotonic() + after

        def show(step: str) -> None:
            # A log has one line for all of "figures 1/44", "figures 2/44", ….
            if on_terminal:
                to_terminal(sys.stderr).write(f"{CLEAR}{printable(step)} …")
            elif time.monotonic() < begin:
                return
            elif step.split(maxsplit=1)[0] != last[0]:
                sys.stderr.write(f"{printable(step).split(' 1/', maxsplit=1)[0]} …\n")
            last[0] = step.split(maxsplit=1)[0]
            sys.stderr.flush()

        try:
            yield show
        finally:
            if on_terminal:
                to_terminal(sys.stderr).write(CLEAR)


def safe_console(*, stderr: bool = False) -> "Console":
    """Return a console whose text has no control characters.

    It is on stdout, or on the terminal behind stderr.
    """
    from collections.abc import Iterable

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class SafeConsole(Console):
        """What is drawn holds names from outside; styles and movements are the console's own."""

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            """Segments whose text is printable."""
            for segment in super().render(renderable, options):
                yield (
                    segment if segment.control else Segment(printable(segment.text), segment.style)
                )

    return SafeConsole(
        file=to_terminal(sys.stderr) if stderr else None, highlight=False, emoji=False
    )


def check_model_name(path: Path) -> None:
    """Refuse a model's file under a name that says it is something else.

    Raises:
        BadConfig: for .pt, .pth, .onnx and .json.
    """
    if path.suffix.lower() in OTHER_SUFFIXES:
        other = (
            "of a certificate" if path.suffix.lower() == ".json" else "of another program's file"
        )
        raise BadConfig(
            f"{path} has the name {other}, and models are written as .safetensors; give such a "
            "name, and use quadlens export for other programs' files"
        )


def key_value_table(console: "Console", title: str, rows: Mapping[str, object]) -> None:
    """Two columns: what, and its value."""
    from rich.table import Table
    from rich.text import Text

    # Text, not strings: a file called [red].safetensors is a name, not markup.
    console.print(Text(title, style="italic"), soft_wrap=True)
    table = Table(show_header=False, box=None, padding=(0, 2))
    table.add_column(no_wrap=True)
    # A hash or a long list goes on in the next line; nothing is ever cut.
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(Text(name), Text(str(value)))
    console.print(table)


def duration(seconds: float) -> str:
    """Seconds, or minutes where they are many.

    >>> duration(119.0), duration(150.0)
    ('119 s', '2 min')
    """
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


class SurvivingStream:
    """A stream whose reader may leave early (`quadlens … | head -1`).

    What is written after that goes nowhere.

    The command runs to its end, so that its exit code is its answer and not that somebody had read
    enough.
    """

    def __init__(self, stream: Any) -> None:
        """Wrap an open text stream."""
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        """Everything else is the stream's own."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write what moves no cursor and clears no line, or drop the text when nobody reads."""
        try:
            pieces = STYLE.split(text)
            pieces[::2] = map(printable, pieces[::2])
            self._stream.write("".join(pieces))
            return len(text)
        except BrokenPipeError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        """Flush, or drop what is left when nobody reads."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._drop()

    def _drop(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


def to_terminal(stream: Any) -> Any:
    """The terminal itself behind one of our streams, for progress that draws over its own line."""
    return stream._stream if isinstance(stream, SurvivingStream) else stream


@contextlib.contextmanager
def surviving_streams() -> Iterator[None]:
    """Replace stdout and stderr by streams that raise no error.

    Neither a reader who leaves nor a character the terminal lacks ends the command.
    """
    before = sys.stdout, sys.stderr
    with contextlib.ExitStack() as opened:
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is None:  # closed before we started: quadlens … >&-
                stream = opened.enter_context(open(os.devnull, "w", encoding="utf-8"))
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
            setattr(sys, name, SurvivingStream(stream))
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            sys.stdout, sys.stderr = before
