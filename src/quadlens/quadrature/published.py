"""The numbers the paper prints, for the columns beside ours."""

import json
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class PublishedTable:
    """One table of the paper's mainline model.

    Attributes:
        frequencies: Its columns.
        names: Row names of published.json, in the paper's order.
        values: One tuple a row.
    """

    frequencies: tuple[int, ...]
    names: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]

    def row(self, name: str) -> tuple[float, ...]:
        """The printed numbers of one row."""
        return self.values[self.names.index(name)]


def published_table(name: str) -> PublishedTable:
    """`table_relative_error`, `table_abs_and_identity` or `table_relu` of the shipped published.json."""
    text = (files("quadlens") / "data" / "published.json").read_text(encoding="utf-8")
    table = json.loads(text)["mainline"][name]
    rows = table.get("rows", {key: value for key, value in table.items() if key != "frequencies"})
    return PublishedTable(tuple(table["frequencies"]), tuple(rows), tuple(tuple(row) for row in rows.values()))
