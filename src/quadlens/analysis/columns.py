"""Columns of a result: rows of values as a table for people, and as JSON."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from quadlens.base.table import Table

# Rows of a table in a terminal or a notebook; JSON has them all.
MAX_ROWS = 30


class Column(NamedTuple):
    """One thing that is said of every row.

    Attributes:
        key: Its name in JSON; empty where only tables have it.
        value: Where a row has it, as `phases.offset`; where that is empty, under its name in JSON.
        header: Its name in tables; empty where only JSON has it.
        text: How tables write it.
    """

    key: str
    value: str = ""
    header: str = ""
    text: Callable[[Any], str] = str

    def of(self, row: Any) -> Any:
        """What this row has."""
        return attrgetter(self.value or self.key)(row)


def as_dict(columns: Sequence[Column], row: Any) -> dict[str, Any]:
    """A row as JSON.

    >>> as_dict([Column("real"), Column("", "imag", "imaginary part")], 3 + 4j)
    {'real': 3.0}
    """
    return {column.key: column.of(row) for column in columns if column.key}


def as_table(
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Any],
    order: Sequence[str] = (),
    **options: Any,
) -> Table:
    """Rows as a table, its columns in the order of these headers, or of the list.

    >>> columns = [Column("real", "", "re"), Column("", "imag", "im")]
    >>> as_table("Numbers", columns, [3 + 4j], ("im", "re")).rows
    [['4.0', '3.0']]
    """
    named = {column.header: column for column in columns if column.header}
    chosen = [named[header] for header in order or named]
    cells = [[column.text(column.of(row)) for column in chosen] for row in rows]
    return Table(title, [column.header for column in chosen], cells, **options)
