"""Frozen dataclasses from JSON or TOML, and to JSON.

Unknown keys, missing keys and wrong types are errors; one message lists all of them.
"""

import dataclasses
import json
import math
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from quadlens.base.errors import BadConfig, BadFile
from quadlens.base.reading import parse_json

T = TypeVar("T")


def parse_dataclass(cls: type[T], data: Any, where: str) -> T:
    """Build `cls` from `data`; `where` names the source in the message.

    Raises:
        BadConfig: with every problem found, not only the first; also when `cls` itself refuses the
            values.
    """
    if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in data):
        raise BadConfig(f"{where}: expected names with values, got {type(data).__name__}")
    hints = get_type_hints(cls)
    every: Any = cls  # mypy does not know that it is a dataclass
    fields = {field.name: field for field in dataclasses.fields(every) if field.init}
    problems = [
        f"unknown key {key[:80]!r} (known keys: {', '.join(sorted(fields))})"
        for key in sorted(set(data) - set(fields))
    ]
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in data:
            if (
                field.default is dataclasses.MISSING
                and field.default_factory is dataclasses.MISSING
            ):
                problems.append(f"missing key {name!r}")
            continue
        try:
            values[name] = _coerce(hints[name], data[name])
        except (TypeError, BadConfig) as error:
            problems.append(f"{name} = {repr(data[name])[:80]}: {error}")
    if problems:
        raise BadConfig(f"{where}: " + "; ".join(problems))
    try:
        return cls(**values)
    except BadConfig as error:
        raise BadConfig(f"{where}: {error}") from None


def from_json(cls: type[T], content: bytes, where: str) -> T:
    """Build `cls` from the JSON in a file.

    Raises:
        BadConfig: when it is not JSON, or not the JSON of this type.
    """
    try:
        data = parse_json(content, where)
    except BadFile as error:
        raise BadConfig(str(error)) from None
    return parse_dataclass(cls, data, where)


def to_json(value: Any) -> bytes:
    """The file that `from_json` reads: keys in the order of the fields."""
    return (json.dumps(dataclasses.asdict(value), indent=2) + "\n").encode()


def _coerce(hint: Any, value: Any) -> Any:
    """Return `value` as the annotated type.

    JSON's lists become tuples and its integers may stand for floats.
    """
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return parse_dataclass(hint, value, hint.__name__)
    origin, kinds = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _coerce_union(kinds, value)
    if origin is tuple:
        return _coerce_tuple(kinds, value)
    if origin is Mapping:
        return _coerce_mapping(kinds, value)
    if origin is Literal:
        if value not in kinds:
            raise TypeError(f"expected one of {', '.join(map(str, kinds))}")
        return value
    return _coerce_scalar(hint, value)


def _coerce_scalar(hint: type, value: Any) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise TypeError("the number is too large") from None
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise TypeError(f"expected {hint.__name__}, got {type(value).__name__}")
    return value


def _coerce_mapping(kinds: tuple[Any, ...], value: Any) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("expected names with values")
    return {_coerce(kinds[0], key): _coerce(kinds[1], item) for key, item in value.items()}


def _coerce_tuple(kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    """`tuple[X, ...]` takes any number of X, `tuple[X, Y]` exactly these."""
    if not isinstance(value, (list, tuple)):
        raise TypeError("expected a list")
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(value)
    if len(kinds) != len(value):
        raise TypeError(f"expected {len(kinds)} items, got {len(value)}")
    return tuple(_coerce(kind, item) for kind, item in zip(kinds, value, strict=True))


def _coerce_union(options: tuple[Any, ...], value: Any) -> Any:
    for option in options:
        if option is type(None):
            if value is None:
                return None
            continue
        try:
            return _coerce(option, value)
        except (TypeError, BadConfig):
            continue
    names = " or ".join(
        "null" if o is type(None) else getattr(o, "__name__", str(o)) for o in options
    )
    raise TypeError(f"expected {names}, got {type(value).__name__}")


def plain(value: Any) -> Any:
    """Return a value in JSON's types alone.

    Keys become strings and tuples lists. Infinities and NaN, which JSON does not have, become
    null.

    >>> plain({1: (0.5, float("inf")), "rest": {"x": [float("nan")]}})
    {'1': [0.5, None], 'rest': {'x': [None]}}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
