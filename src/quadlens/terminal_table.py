"""A table in a terminal, of which nothing is ever cut: where it is too wide, its columns go on below."""

import textwrap
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

GAP = 2


def print_table(
    console: "Console",
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    labels: int = 1,
    left: Collection[int] = (0,),
    dim: Collection[int] = (),
    caption: str = "",
) -> None:
    """Print columns side by side as far as the width goes, the rest below with the same labels in front.

    Args:
        console: Where to.
        title: Above it.
        header: One name a column; a name that is wider than its column takes several lines.
        rows: One cell a column.
        labels: So many columns at the front say what a row is; they are there in every part.
        left: Columns of words; the others are numbers and stand to the right.
        dim: Columns in the background.
        caption: Below it.
    """
    from rich.text import Text

    columns = [[row[index] for row in rows] for index in range(len(header))]
    names = [_name_lines(name, cells) for name, cells in zip(header, columns, strict=True)]
    widths = [max(map(_width, (*lines, *cells))) for lines, cells in zip(names, columns, strict=True)]
    # Closer together only where that makes it whole.
    gap = next((gap for gap in (GAP, 1) if len(fitting_parts(widths, labels, console.width, gap)) == 1), GAP)
    for number, part in enumerate(fitting_parts(widths, labels, console.width, gap)):
        if number:
            console.print()
        console.print(Text(title + (", continued" if number else ""), style="italic"))
        shown = [*range(labels), *part]
        height = max(len(names[index]) for index in shown)
        heads = [[""] * (height - len(lines)) + lines for lines in names]
        lines = [[heads[index][level] for index in range(len(header))] for level in range(height)]
        for level, cells in enumerate([*lines, *rows]):
            text = Text(style="bold" if level < height else "")
            for index in shown:
                space = " " * (widths[index] - _width(cells[index]))
                padded = cells[index] + space if index in left else space + cells[index]
                text.append(" " * (gap if index != shown[0] else 1) + padded, "dim" if index in dim else "")
            text.rstrip()
            # Past the edge rather than broken: only where a single column is wider than the terminal.
            console.print(text, soft_wrap=True)
    if caption:
        console.print(Text(" " + caption, style="dim italic"))


def fitting_parts(widths: Sequence[int], labels: int, room: int, gap: int) -> list[list[int]]:
    """Columns after the labels, in order, in as few parts as fit; a part has a column however narrow the room is.

    >>> fitting_parts([4, 6, 6, 6], 1, 22, 2), fitting_parts([4, 6, 6, 6], 1, 3, 2)
    ([[1, 2], [3]], [[1], [2], [3]])
    """
    before = 1 + widths[0] + sum(gap + width for width in widths[1:labels])
    parts: list[list[int]] = [[]]
    used = before
    for index in range(labels, len(widths)):
        if parts[-1] and used + gap + widths[index] > room:
            parts.append([])
            used = before
        parts[-1].append(index)
        used += gap + widths[index]
    return parts


def _name_lines(name: str, cells: Sequence[str]) -> list[str]:
    """A column's name in lines that are no wider than its widest cell or word."""
    wide = max(1, *map(_width, (*cells, *name.split(" "))))
    return textwrap.wrap(name, wide, break_long_words=False, break_on_hyphens=False) or [""]


def _width(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)
