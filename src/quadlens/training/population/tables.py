"""The comparison, and rows by model and by setting, as tables: for a terminal, and as Markdown."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from quadlens.analysis.published import MODELS
from quadlens.base.numbers import counted, short_of_one
from quadlens.base.table import Table
from quadlens.training.population.comparison import SAID_TWICE, Comparison, KeyCounts
from quadlens.training.population.histograms import HistogramComparison
from quadlens.training.population.statement import Statement

if TYPE_CHECKING:
    from rich.console import Console

# Columns of the tables by model and by setting, as they are headed; JSON has the names.
HEADERS = {
    "good_model": "good",
    "key_frequencies": "key frequencies",
    "min_margin": "margin",
    "largest_relative_exact_error": "largest exact error",
    "relative_exact_error": "exact error",
}


def render(comparison: Comparison, console: "Console") -> None:
    """Every statement with its verdict, then the histograms."""
    console.print(
        f"{_models(comparison)} of ours ({comparison.settings}); the paper has {MODELS}",
        markup=False,
    )
    console.print()
    for row, words, ours, ci, paper in _lines(comparison):
        numbers = (
            f"ours {ours}{f' (95 % {ci})' if ci else ''}{f' · paper {paper}' if paper else ''}"
        )
        console.print(f"{row.verdict:<18}  {words}", markup=False, soft_wrap=True)
        console.print(f"{'':<18}  {numbers} · {row.why}{_sure(row)}", markup=False, soft_wrap=True)
    console.print(f"\n{comparison.tally()}", markup=False)


def comparison_table(comparison: Comparison) -> str:
    """Write every statement with its verdict as Markdown."""
    rows = [
        (words, ours, ci, paper, f"{row.verdict}: {row.why}{_sure(row)}")
        for row, words, ours, ci, paper in _lines(comparison)
    ]
    return "\n\n".join(
        (
            f"**{_models(comparison)}** ({comparison.settings}); the paper has {MODELS}.",
            Table("", ("statement", "ours", "95 %", "paper", "verdict"), rows).to_markdown(),
            comparison.tally(),
        )
    )


def _models(comparison: Comparison) -> str:
    return counted(comparison.models, "model")


def _lines(
    comparison: Comparison,
) -> "Iterator[tuple[Statement | KeyCounts | HistogramComparison, str, str, str, str]]":
    """(the comparison, what it is about, ours, its interval, the paper's) for each of them."""
    for statement in comparison.statements:
        if statement.name != SAID_TWICE:
            paper = _number(statement.paper, statement.paper_of)
            yield statement, statement.words, ours(statement), interval(statement), paper
    counts = comparison.key_counts
    counted_here, paper = (
        ", ".join(f"{k}: {n}" for k, n in sorted(side.items()))
        for side in (counts.ours, counts.paper)
    )
    yield counts, "models by number of key frequencies", counted_here, "", paper
    for h in comparison.histograms:
        counted_here = f"{h.ours.sum():,.0f} of {counted(h.models, 'model')}"
        yield h, f"histogram of {h.words}", counted_here, "", f"{h.paper.sum():,.0f}"


def _sure(row: Statement | KeyCounts | HistogramComparison) -> str:
    """How sure its verdict is, behind what was compared."""
    of_shares = not isinstance(row, Statement) or row.of is not None
    words = row.tested.words(of_shares) if row.tested else ""
    return f"; {words}" if words else ""


def ours(statement: Statement) -> str:
    """Our number of a statement, with what it is counted among."""
    return _number(statement.ours, statement.of) or "none"


def interval(statement: Statement) -> str:
    """Its interval; empty where there is none."""
    if statement.ci95 is None:
        return ""
    low, high = statement.ci95
    # A count is a whole number, and so are the ends of its interval, rounded outwards.
    return (
        f"{low:.3g} … {high:.3g}"
        if statement.of is None
        else f"{math.floor(low)} … {math.ceil(high)}"
    )


def _number(value: int | float | None, of: int | None) -> str:
    """A number, for a count also of how many; empty where there is none."""
    return "" if value is None else short_of_one(value, 4) + ("" if of is None else f" of {of}")


def render_rows(console: "Console", title: str, rows: list[dict[str, Any]]) -> None:
    """Print rows of `by_model` or `by_group`: models, their proofs and the cost."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    labels = names.index("seed") + 1 if "seed" in names else 1
    tables = {title: [name for name in names if not name.startswith(("certified_", "cost_"))]}
    for prefix, what in (
        ("certified_", "share of inputs certified"),
        ("cost_", "operations as a share of brute force"),
    ):
        tables[f"{what}, by strategy"] = [
            *names[:labels],
            *(name for name in names if name.startswith(prefix)),
        ]
    for heading, columns in tables.items():
        if len(columns) > labels:
            header = [
                HEADERS.get(name, name.removeprefix("certified_").removeprefix("cost_"))
                for name in columns
            ]
            cells = [[cell(row.get(name)) for name in columns] for row in rows]
            console.print()
            Table(heading, header, cells, labels=labels, left=()).print(console)


def rows_table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of `population --by` or `--by-model`."""
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    header = tuple(name.replace("_", " ") for name in names)
    return Table(
        "", header, [tuple(cell(row.get(name)) for name in names) for row in rows]
    ).to_markdown()


def cell(value: Any) -> str:
    """A value of a row by model or by setting."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return short_of_one(value, 3)
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)
