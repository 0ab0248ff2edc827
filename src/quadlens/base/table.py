"""Tables of text and their views in a terminal, CSV, LaTeX, HTML and Markdown."""

import csv
import html
import io
import textwrap
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

GAP = 2
# What LaTeX has to be told; a backslash comes first, so that those put in afterwards stay.
LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: rf"\{sign}" for sign in "%_&#"},
    **{"²": "$^2$", "−": "$-$", "≤": r"$\le$", "≥": r"$\ge$", "≈": r"$\approx$"},
    **{"φ": r"$\phi$", "ψ": r"$\psi$", "π": r"$\pi$", "ρ": r"$\rho$", "ω": r"$\omega$"},
}


@dataclass(frozen=True)
class Table:
    """Columns of text.

    Attributes:
        title: Above it.
        header: One name per column.
        rows: One cell per column.
        labels: So many columns at the front say what a row is.
        left: Columns of words; the others are numbers and stand to the right.
        dim: Columns in the background: on a page and in a terminal, the paper's.
        caption: Below it.
        groups: (name, columns) of neighbouring columns with a name of their own, from the first
            column on; "" for none.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    labels: int = 1
    left: Collection[int] = (0,)
    dim: Collection[int] = ()
    caption: str = ""
    groups: tuple[tuple[str, int], ...] = ()

    def to_csv(self) -> str:
        """A header and one line per row."""
        return csv_text(self.header, self.rows)

    def to_markdown(self) -> str:
        """A header, a rule and one line per row."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        return "\n".join(
            "| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines
        )

    def to_html(self) -> str:
        """Return a table whose header and first column are heads; cells are escaped.

        Columns in the background have the class `dim`, columns of words other than the first the
        class `words`.
        """
        places = range(len(self.header))
        marks = [
            "dim" if n in self.dim else "words" if n and n in self.left else "" for n in places
        ]
        starts = [sum(size for _, size in self.groups[:n]) for n in range(len(self.groups))]
        groups = [
            _head(name, "colgroup", marks[start], f' colspan="{size}"')
            for start, (name, size) in zip(starts, self.groups, strict=True)
        ]
        head = [_head(name, "col", mark) for name, mark in zip(self.header, marks, strict=True)]
        lines = ["".join(line) for line in (groups, head) if line]
        body = []
        for row in self.rows:
            cells = [
                f"<td{_class(mark)}>{html.escape(cell)}</td>"
                for mark, cell in zip(marks, row, strict=True)
            ]
            body.append(f'<th scope="row">{html.escape(row[0])}</th>{"".join(cells[1:])}')
        top, bottom = ("".join(f"<tr>{line}</tr>\n" for line in many) for many in (lines, body))
        return f"<table>\n<thead>\n{top}</thead>\n<tbody>\n{bottom}</tbody>\n</table>"

    def _repr_html_(self) -> str:
        """Return the table with its title and its caption, for a notebook."""
        title = f"<caption>{html.escape(self.title)}</caption>"
        below = f"<p>{html.escape(self.caption)}</p>" if self.caption else ""
        return self.to_html().replace("<table>", f"<table>{title}", 1) + below

    def to_latex(self, label: str | None = None) -> str:
        """A booktabs tabular; with a label a whole table, the title its caption.

        A cell with $ is LaTeX already.
        """
        places = range(len(self.header))
        rule = min(self.dim, default=0)
        columns = "".join(
            ("|" if rule == n > 0 else "") + ("l" if n in self.left else "c") for n in places
        )
        lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
        if self.groups:
            starts = [1 + sum(size for _, size in self.groups[:n]) for n in range(len(self.groups))]
            heads = [
                rf"\multicolumn{{{size}}}{{c}}{{{_latex(name)}}}" for name, size in self.groups
            ]
            rules = [
                rf"\cmidrule(lr){{{start}-{start + size - 1}}}"
                for start, (name, size) in zip(starts, self.groups, strict=True)
                if name
            ]
            lines += [" & ".join(heads) + r" \\", " ".join(rules)]
        lines += [" & ".join(map(_latex, self.header)) + r" \\", r"\midrule"]
        lines += [" & ".join(map(_latex, row)) + r" \\" for row in self.rows]
        lines += [r"\bottomrule", r"\end{tabular}"]
        if label is not None:
            inside = [
                f"    {line}"
                for line in [
                    r"\centering",
                    *lines,
                    rf"\caption{{\label{{{label}}}{_latex(self.title)}}}",
                ]
            ]
            lines = [r"\begin{table}", *inside, r"\end{table}"]
        return "\n".join([*lines, ""])

    def print(self, console: "Console") -> None:
        """Print columns side by side as far as the width allows, the rest below.

        Columns of labels are repeated and nothing is cut.
        """
        from rich.text import Text

        columns = [[row[index] for row in self.rows] for index in range(len(self.header))]
        names = [_name_lines(name, cells) for name, cells in zip(self.header, columns, strict=True)]
        widths = [
            max(map(_width, (*lines, *cells))) for lines, cells in zip(names, columns, strict=True)
        ]
        # Closer together only where that makes it whole.
        gap = next(
            (
                gap
                for gap in (GAP, 1)
                if len(fitting_parts(widths, self.labels, console.width, gap)) == 1
            ),
            GAP,
        )
        for number, part in enumerate(fitting_parts(widths, self.labels, console.width, gap)):
            if number:
                console.print()
            console.print(Text(self.title + (", continued" if number else ""), style="italic"))
            visible = [*range(self.labels), *part]
            height = max(len(names[index]) for index in visible)
            heads = [[""] * (height - len(lines)) + lines for lines in names]
            lines = [
                [heads[index][level] for index in range(len(self.header))]
                for level in range(height)
            ]
            for level, cells in enumerate([*lines, *self.rows]):
                text = Text(style="bold" if level < height else "")
                for index in visible:
                    space = " " * (widths[index] - _width(cells[index]))
                    padded = cells[index] + space if index in self.left else space + cells[index]
                    text.append(
                        " " * (gap if index != visible[0] else 1) + padded,
                        "dim" if index in self.dim else "",
                    )
                text.rstrip()
                # Past the edge rather than broken: only where a single column is wider than the
                # terminal.
                console.print(text, soft_wrap=True)
        if self.caption:
            console.print(Text(" " + self.caption, style="dim italic"))


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """CSV with Unix line ends; None is empty, floats have every digit."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def _class(mark: str) -> str:
    return f' class="{mark}"' if mark else ""


def _head(name: str, scope: str, mark: str, more: str = "") -> str:
    """A cell of the header; one without a name heads nothing."""
    if not name:
        return f"<td{more}></td>"
    return f'<th scope="{scope}"{more}{_class(mark)}>{html.escape(name)}</th>'


def _latex(text: str) -> str:
    if "$" in text:
        return text
    for plain, latex in LATEX.items():
        text = text.replace(plain, latex)
    return text


def fitting_parts(widths: Sequence[int], labels: int, room: int, gap: int) -> list[list[int]]:
    """Return the columns after the labels in as few parts as fit, in order.

    A part has a column however narrow the room is.

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
