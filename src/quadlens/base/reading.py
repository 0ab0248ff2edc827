"""Files from outside, and the JSON and TOML in them: measured before anything is made of them.

Every reader of either comes here: a document is no deeper than `MAX_DEPTH` and its numbers no
longer than `MAX_DIGITS`, so that whoever walks, prints or converts it afterwards needs no care of
its own.

What is read while `keeping_inputs` lasts is an input, and `model.atomic` replaces no input.
"""

import contextlib
import json
import math
import os
import stat
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quadlens.base.errors import BadFile

MAX_DEPTH = 32
MAX_DIGITS = 1000


@dataclass(frozen=True)
class _Inputs:
    """What may not be replaced.

    Attributes:
        files: Each file by its device and inode, under the name that it was read by.
        recorded: Whether what is read becomes one.
    """

    files: dict[tuple[int, int], Path]
    recorded: bool


_NOTHING_KEPT = _Inputs({}, recorded=False)
_INPUTS: ContextVar[_Inputs] = ContextVar("inputs", default=_NOTHING_KEPT)


@contextlib.contextmanager
def keeping_inputs(*named: Path | None, recorded: bool = True) -> Iterator[None]:
    """Let no writer in the block replace a file that is an input there, under whatever name.

    Args:
        named: Files that are inputs from the start; a name of no file is left out.
        recorded: Whether every file that `read_limited` opens in the block becomes an input, too.
    """
    inputs = _Inputs(dict(_INPUTS.get().files), recorded)
    for path in named:
        if path is not None:
            with contextlib.suppress(OSError, ValueError):
                inputs.files[_identity(os.stat(path))] = Path(path)
    before = _INPUTS.set(inputs)
    try:
        yield
    finally:
        _INPUTS.reset(before)


def record_input(path: Path, about: os.stat_result | None = None) -> None:
    """Make a file an input, where inputs are recorded.

    `read_limited` does it for all that it opens.
    """
    inputs = _INPUTS.get()
    if inputs.recorded:
        with contextlib.suppress(OSError, ValueError):
            inputs.files.setdefault(_identity(about or os.stat(path)), Path(path))


def input_at(path: Path) -> Path | None:
    """The input that a path is the same file as, through links too; None where it is none."""
    try:
        return _INPUTS.get().files.get(_identity(os.stat(path)))
    except (OSError, ValueError):
        return None


def inputs_below(directory: Path) -> list[Path]:
    """The inputs that lie in a directory."""
    inside = os.path.realpath(directory)
    return [
        path
        for path in _INPUTS.get().files.values()
        if Path(os.path.realpath(path)).is_relative_to(inside)
    ]


def _identity(about: os.stat_result) -> tuple[int, int]:
    return about.st_dev, about.st_ino


def read_limited(
    path: Path,
    limit: int,
    cannot: str = "cannot read",
    *,
    may_be_empty: bool = False,
    replaceable: bool = False,
) -> bytes:
    """Return the bytes of a regular file of at most `limit` bytes.

    A pipe or a device is refused: it may never end.

    Args:
        path: The file.
        limit: The most bytes that are read.
        cannot: How a complaint begins.
        may_be_empty: Whether an empty file is one.
        replaceable: Whether the file is no input: it says what may be replaced.

    Raises:
        BadFile: with the reason.
    """
    try:
        # Opening a pipe without a writer would wait for one.
        descriptor = os.open(
            path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
        with os.fdopen(descriptor, "rb") as stream:
            about = os.fstat(stream.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise BadFile(f"{cannot} {path}: it is not a regular file; give a file")
            if not replaceable:
                record_input(path, about)
            if about.st_size > limit:
                raise BadFile(f"{path} has {about.st_size} bytes; at most {limit} are read")
            # One more than promised, to notice a file that grows while it is read.
            content = stream.read(about.st_size + 1)
    except OSError as error:
        raise BadFile(f"{cannot} {path}: {error.strerror or error}") from None
    except ValueError as error:  # a name that no file can have
        raise BadFile(f"{cannot} {str(path)[:80]!r}: {error}") from None
    if len(content) > about.st_size:
        raise BadFile(f"{cannot} {path}: it grew while it was read; try again when it is complete")
    if not content and not may_be_empty:
        raise BadFile(f"{path} is empty; get the file again")
    return content


def parse_json(content: bytes | str, where: str, *, strict: bool = False) -> Any:
    """The value in a JSON text; `where` names it in messages.

    Args:
        content: The text, as UTF-8 where it is bytes.
        where: What it is, as the subject of a sentence.
        strict: Also refuse what two readers could understand in two ways: a key that stands twice,
            NaN and infinity.

    Raises:
        BadFile: when it is not JSON, too deep, or has a number too long to be one.
    """

    def constant(name: str) -> float:
        if strict:
            raise ValueError(f"{name} is not JSON")
        return float(name)

    def fraction(digits: str) -> float:
        value = float(_short(digits))
        if strict and not math.isfinite(value):
            raise ValueError(f"the number {digits[:20]} is too large")
        return value

    def read() -> Any:
        text = content if isinstance(content, str) else content.decode("utf-8")
        return json.loads(
            text,
            object_pairs_hook=_distinct if strict else None,
            parse_int=lambda digits: int(_short(digits)),
            parse_float=fraction,
            parse_constant=constant,
        )

    return _shallow(read, where, "JSON")


def parse_toml(content: bytes | str, where: str) -> dict[str, Any]:
    """The tables in a TOML text; `where` names it in messages.

    Raises:
        BadFile: as `parse_json`.
    """
    import tomllib

    def read() -> Any:
        text = content if isinstance(content, str) else content.decode("utf-8")
        return tomllib.loads(text, parse_float=lambda digits: float(_short(digits)))

    tables: dict[str, Any] = _shallow(read, where, "TOML")
    return tables


def _shallow(read: Callable[[], Any], where: str, kind: str) -> Any:
    """Return what `read` gives, unless it is nested too deep.

    A tree is walked without recursion.
    """
    try:
        value = read()
        level, depth = [value], 0
        while level:
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError(f"values more than {MAX_DEPTH} deep inside each other")
            inner = [x for x in level if isinstance(x, dict | list)]
            level = [y for x in inner for y in (x.values() if isinstance(x, dict) else x)]
            # Integers of TOML come as numbers; of JSON they have been measured as text.
            if kind == "TOML" and any(type(x) is int and x.bit_length() > 64 for x in level):
                raise ValueError("an integer beyond 64 bits")
    except RecursionError:
        raise BadFile(f"{where} is not {kind}: values too deep inside each other") from None
    except ValueError as error:
        raise BadFile(f"{where} is not {kind}: {str(error)[:200]}") from None
    return value


def _short(digits: str) -> str:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return digits


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose keys all differ."""
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(f"it has the key {key[:80]!r} twice")
        members[key] = value
    return members
