"""`--where`: simple filters over the dataset's columns."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from quadlens.errors import BadConfig

if TYPE_CHECKING:
    import polars

_COMPARISON = re.compile(r"\s*(\w+)\s*(==|=|!=|<=|>=|<|>)\s*(.+?)\s*")
_FLAG = re.compile(r"\s*(not\s+)?(\w+)\s*")


def filter_models(frame: "polars.DataFrame", conditions: Sequence[str]) -> "polars.DataFrame":
    """The models for which every condition holds.

    Args:
        frame: The dataset.
        conditions: `p=59`, `min_margin>10`, `good_model`, `not good_model`; several may be joined by `and`.
    """
    for text in conditions:
        for condition in re.split(r"\s+and\s+", text):
            frame = frame.filter(_expression(frame, condition))
    return frame


def _expression(frame: "polars.DataFrame", condition: str) -> "polars.Expr":
    import polars as pl

    if match := _COMPARISON.fullmatch(condition):
        name, sign, value = match.groups()
        column = pl.col(_known(frame, name, condition))
        literal = _literal(frame.schema[name], value, condition)
        operations = {"=": column.eq, "==": column.eq, "!=": column.ne, "<": column.lt, "<=": column.le}
        operations |= {">": column.gt, ">=": column.ge}
        return operations[sign](literal)
    if match := _FLAG.fullmatch(condition):
        negated, name = match.groups()
        if frame.schema[_known(frame, name, condition)] == pl.Boolean:
            return ~pl.col(name) if negated else pl.col(name)
    raise BadConfig(f"--where {condition!r}; expected COLUMN=VALUE (or < <= > >= !=), or the name of a yes/no column")


def _known(frame: "polars.DataFrame", name: str, condition: str) -> str:
    columns = [column for column, kind in frame.schema.items() if not kind.is_nested() and column != "manifest"]
    if name not in columns:
        raise BadConfig(f"--where {condition!r}: no column {name!r}; there are {', '.join(columns)}")
    return name


def _literal(kind: "polars.DataType", value: str, condition: str) -> "bool | float | str":
    import polars as pl

    if kind == pl.String:
        return value
    if kind == pl.Boolean:
        if value.lower() not in ("true", "false"):
            raise BadConfig(f"--where {condition!r}: expected true or false, got {value!r}")
        return value.lower() == "true"
    try:
        return float(value)
    except ValueError:
        raise BadConfig(f"--where {condition!r}: expected a number, got {value!r}") from None
