"""Files from outside, and the JSON and TOML in them: measured before anything is made of them.

Every reader of either comes here: a document is no deeper than `MAX_DEPTH` and its numbers no longer than `MAX_DIGITS`,
so that whoever walks, prints or converts it afterwards needs no care of its own.
"""

import json
import math
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quadlens.errors import BadFile

MAX_DEPTH = 32
MAX_DIGITS = 1000


def read_limited(path: Path, limit: int, cannot: str = "cannot read", *, may_be_empty: bool = False) -> bytes:
    """The bytes of a regular file of at most `limit` bytes; a pipe or a device, which may never end, is refused.

    Raises:
        BadFile: with the reason.
    """
    try:
        # Opening a pipe without a writer would wait for one.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as stream:
            about = os.fstat(stream.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise BadFile(f"{cannot} {path}: it is not a regular file; give a file")
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
        strict: Also refuse what two readers could understand in two ways: a key that stands twice, NaN and infinity.

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
    """What `read` gives, unless it is nested deeper than anybody means; a tree is walked without recursion."""
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
