"""Reading: everything that comes from outside is measured before it is used."""

import errno
import json
import math
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, TypeVar

from quadlens_checker import limits

Item = TypeVar("Item")
Clock = Callable[
    [int], None
]  # raises TimedOut when the time is up, or too short for this many more operations


class Rejected(Exception):
    """The certificate does not prove what it claims; the message says why."""


class TimedOut(Exception):
    """The time allowed is not enough; nothing is said about the certificate."""


def require(condition: object, reason: str) -> None:
    """Reject with `reason` unless `condition` holds."""
    if not condition:
        raise Rejected(reason)


def ticking(items: Iterable[Item], clock: Clock) -> Iterator[Item]:
    """The items, with a look at the clock before each."""
    for item in items:
        clock(0)
        yield item


def read_file(path: str, limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes.

    A pipe or a device is refused without waiting for it.
    """
    with open(
        path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
    ) as stream:
        about = os.fstat(stream.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        require(about.st_size <= limit, f"{path} is larger than {limit} bytes")
        content = stream.read(limit + 1)
    require(len(content) <= limit, f"{path} is larger than {limit} bytes")
    return content


def parse_json(content: bytes | str, floats: bool) -> Any:
    """Parse JSON with unique keys and short integers; reject anything else.

    Fractions are rejected unless `floats`.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        require(len(value) == len(pairs), "a key appears twice in one JSON object")
        return value

    def integer(digits: str) -> int:
        if (
            len(digits) > limits.MAX_COUNT_DIGITS
        ):  # written out: this runs for every number of the file
            raise Rejected(f"an integer with {len(digits)} digits")
        return int(digits)

    def fraction(digits: str) -> float:
        short = floats and len(digits) < 40 and math.isfinite(float(digits))
        require(short, f"the number {digits[:20]}, where exact integers are expected")
        return float(digits)

    try:
        text = content if isinstance(content, str) else content.decode()
        for mark, most in limits.MAX_JSON_MARKS.items():
            require(text.count(mark) <= most, f"more than {most} times {mark} in one JSON text")
        return json.loads(
            text,
            object_pairs_hook=unique,
            parse_int=integer,
            parse_float=fraction,
            parse_constant=fraction,
        )
    except (ValueError, RecursionError) as error:
        raise Rejected(f"not well-formed JSON: {error}") from None


def keys(value: Any, expected: Iterable[str], what: str) -> Any:
    """`value`, which must be a JSON object with exactly these keys."""
    require(isinstance(value, dict), f"{what} is not an object")
    require(
        set(value) == set(expected),
        f"{what} has keys {sorted(value)[:20]}, expected {sorted(expected)}",
    )
    return value


def integers(value: Any, what: str, length: int | None, low: int, high: int) -> list[int]:
    """`value`, which must be a list of integers of this length, each in low … high."""
    require(
        isinstance(value, list) and all(type(x) is int for x in value),
        f"{what} is not a list of integers",
    )
    require(
        length is None or len(value) == length,
        f"{what} has {len(value)} entries, expected {length}",
    )
    require(all(low <= x <= high for x in value), f"{what} has an entry outside {low}…{high}")
    return list(value)


def rational(text: Any, what: str) -> Fraction:
    """A number written as "numerator/denominator", both positive."""
    short = isinstance(text, str) and len(text) <= limits.MAX_RATIONAL_LENGTH
    require(short, f"{what} is not a rational of sensible length")
    parts = text.split("/")
    require(
        len(parts) == 2 and all(x.isascii() and x.isdigit() for x in parts),
        f"{what} is not a positive rational",
    )
    require(int(parts[0]) > 0 and int(parts[1]) > 0, f"{what} is not a positive rational")
    return Fraction(int(parts[0]), int(parts[1]))
