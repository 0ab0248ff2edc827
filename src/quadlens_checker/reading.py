"""Reading: everything that comes from outside is measured before it is used."""

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from quadlens_checker import limits

Item = TypeVar("Item")
Tensors = Mapping[str, tuple[list[int], Sequence[float]]]
Clock = Callable[[int], None]  # rejects when the time is up, or this many more operations cannot be done in time


class Rejected(Exception):
    """The certificate does not prove what it claims; the message says why."""


def require(condition: object, reason: str) -> None:
    """Reject with `reason` unless `condition` holds."""
    if not condition:
        raise Rejected(reason)


def parse_json(text: str, floats: bool) -> Any:
    """JSON with unique keys, short integers and, unless `floats`, no fractions; anything else is rejected."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        require(len(dict(pairs)) == len(pairs), "a key appears twice in one JSON object")
        return dict(pairs)

    def integer(digits: str) -> int:
        require(len(digits) <= limits.MAX_INTEGER_DIGITS, f"an integer with {len(digits)} digits")
        return int(digits)

    def fraction(digits: str) -> float:
        require(floats and len(digits) < 40, f"the number {digits[:20]}, where exact integers are expected")
        return float(digits)

    try:
        return json.loads(
            text, object_pairs_hook=unique, parse_int=integer, parse_float=fraction, parse_constant=fraction
        )
    except (ValueError, RecursionError) as error:
        raise Rejected(f"not well-formed JSON: {error}") from None


def read_limited(path: str, limit: int) -> bytes:
    """The bytes of a file of at most `limit` bytes."""
    with open(path, "rb") as stream:
        content = stream.read(limit + 1)
    require(len(content) <= limit, f"{path} is larger than {limit} bytes")
    return content


def keys(value: Any, expected: Iterable[str], what: str) -> Any:
    """`value`, which must be a JSON object with exactly these keys."""
    require(isinstance(value, dict), f"{what} is not an object")
    require(set(value) == set(expected), f"{what} has keys {sorted(value)}, expected {sorted(expected)}")
    return value


def integers(value: Any, what: str, length: int | None, low: int, high: int) -> list[int]:
    """`value`, which must be a list of integers of this length, each in low … high."""
    require(isinstance(value, list) and all(type(x) is int for x in value), f"{what} is not a list of integers")
    require(length is None or len(value) == length, f"{what} has {len(value)} entries, expected {length}")
    require(all(low <= x <= high for x in value), f"{what} has an entry outside {low}…{high}")
    return list(value)


def rational(text: Any, what: str) -> Fraction:
    """A number written as "numerator/denominator", both positive."""
    require(
        isinstance(text, str) and len(text) <= limits.MAX_RATIONAL_LENGTH,
        f"{what} is not a rational of sensible length",
    )
    parts = text.split("/")
    require(len(parts) == 2 and all(x.isascii() and x.isdigit() for x in parts), f"{what} is not a positive rational")
    require(int(parts[0]) > 0 and int(parts[1]) > 0, f"{what} is not a positive rational")
    return Fraction(int(parts[0]), int(parts[1]))


def read_model(content: bytes) -> tuple[Any, Tensors]:
    """Config and tensors of a safetensors file that quadlens wrote."""
    require(len(content) >= 8, "the model file is cut")
    (size,) = struct.unpack("<Q", content[:8])
    require(size <= len(content) - 8, "the model file is cut")
    header, end = parse_json(content[8 : 8 + size].decode(), floats=False), 8 + size
    tensors: dict[str, tuple[list[int], Sequence[float]]] = {}
    about = parse_json(header.pop("__metadata__")["quadlens"], floats=True)
    keys(about, ("format", "config", "checksum"), "the model's metadata")
    require(repr(about["format"]) == "1", "unknown version of the model file")
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        keys(entry, ("dtype", "shape", "data_offsets"), name)
        shape, count = integers(entry["shape"], name, None, 1, limits.MAX_MODEL_BYTES), 1
        for n in shape:
            count *= n
        kind = {"F32": "f", "F64": "d"}[entry["dtype"]]
        stop = end + count * struct.calcsize(kind)
        require(entry["data_offsets"] == [end - 8 - size, stop - 8 - size], f"{name} has wrong offsets")
        require(stop <= len(content), "the model file is cut")
        values = struct.unpack(f"<{count}{kind}", content[end:stop])
        require(all(x - x == 0 for x in values), f"{name} has a weight that is not finite")
        tensors[name], end = (shape, values), stop
    require(end == len(content), "the model file has bytes that belong to no tensor")
    return about["config"], tensors


def ticking(items: Iterable[Item], clock: Clock) -> Iterator[Item]:
    """The items, with a look at the clock before each."""
    for item in items:
        clock(0)
        yield item
