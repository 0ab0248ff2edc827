"""The comparison, and rows by model and by setting, as tables: for a terminal, and as Markdown."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quadlens.numbers import short_of_one
from quadlens.population.comparison import Comparison
from quadlens.population.statement import Statement
from quadlens.published import MODELS
from quadlens.table import Table

if TYPE_CHECKING:
    from rich.console import Console

# Another name of models_all_neuron_frequencies_match.
SAID_TWICE = "good_models"
# Columns of the tables by model and by setting, as they are headed; JSON has the names.
HEADERS = {
    "good_model": "good",
    "key_frequencies": "key frequencies",
    "min_margin": "margin",
    "largest_relative_exact_error": "largest exact error",
    "relative_exact_error": "exact error",
}


def render(comparison: Comparison, console: "Console") -> None:
    """Every statement with its verdict, then the histograms, then what goes beyond the paper."""
    models = "1 model" if comparison.models == 1 else f"{comparison.models} models"
    console.print(f"{models} of ours ({comparison.settings}); the paper has {MODELS}", markup=False)
    console.print()
    for statement in comparison.statements:
        if statement.name != SAID_TWICE:
            _line(console, statement.verdict, statement.words, _numbers(statement), statement.why)
    counts = comparison.key_counts
    kinds = sorted({*counts.ours, *counts.paper})
    by_us = " ".join(f"{k}:{counts.ours.get(k, 0)}" for k in kinds)
    by_them = " ".join(f"{k}:{counts.paper.get(k, 0)}" for k in kinds)
    words = "models by number of key frequencies"
    _line(console, counts.verdict, words, f"ours {by_us} · paper {by_them}", counts.why)
    for h in comparison.histograms:
        numbers = f"ours {h.ours.sum():g} of {h.models} models · paper {h.paper.sum():g}"
        _line(console, h.verdict, f"histogram of {h.words}", numbers, h.why)
    console.print()
    _beyond(comparison).print(console)


def render_rows(console: "Console", title: str, rows: list[dict[str, Any]]) -> None:
    """Rows of `by_model` or `by_group`: what the models are, then a table for the proofs and one for their cost."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    labels = names.index("seed") + 1 if "seed" in names else 1
    tables = {title: [name for name in names if not name.startswith(("certified_", "cost_"))]}
    for prefix, what in (
        ("certified_", "share of inputs certified"),
        ("cost_", "operations as a share of brute force"),
    ):
        tables[f"{what}, by strategy"] = [*names[:labels], *(name for name in names if name.startswith(prefix))]
    for heading, shown in tables.items():
        if len(shown) > labels:
            header = [HEADERS.get(name, name.removeprefix("certified_").removeprefix("cost_")) for name in shown]
            cells = [[cell(row.get(name)) for name in shown] for row in rows]
            console.print()
            Table(heading, header, cells, labels=labels, left=()).print(console)


def _line(console: "Console", verdict: str, words: str, numbers: str, why: str) -> None:
    console.print(f"{verdict:<18}  {words}", markup=False, soft_wrap=True)
    console.print(f"{'':<18}  {numbers} · {why}", markup=False, soft_wrap=True)


def _numbers(one: Statement) -> str:
    ci, theirs = interval(one), paper(one)
    return f"ours {ours(one)}{f' (95 % {ci})' if ci else ''}{f' · paper {theirs}' if theirs else ''}"


def comparison_table(comparison: Comparison) -> str:
    """Every statement with its verdict, the counts, the histograms, and what goes beyond the paper."""
    rows = [
        (one.words, ours(one), interval(one), paper(one), _verdict(one.verdict, one.why))
        for one in comparison.statements
        if one.name != SAID_TWICE
    ]
    counts = comparison.key_counts
    by_us, by_them = (", ".join(f"{k}: {n}" for k, n in sorted(side.items())) for side in (counts.ours, counts.paper))
    rows.append(("models by number of key frequencies", by_us, "", by_them, _verdict(counts.verdict, counts.why)))
    for h in comparison.histograms:
        count, theirs = f"{h.ours.sum():,.0f} of {h.models} models", f"{h.paper.sum():,.0f}"
        rows.append((f"histogram of {h.words}", count, "", theirs, _verdict(h.verdict, h.why)))
    return "\n\n".join(
        (
            f"**{comparison.models} models** ({comparison.settings}); the paper has {MODELS}.",
            _markdown(("statement", "ours", "95 %", "paper", "verdict"), rows),
            "Beyond the paper:",
            _beyond(comparison).to_markdown(),
        )
    )


def _beyond(comparison: Comparison) -> Table:
    rows = [(one.words, ours(one), interval(one)) for one in comparison.beyond]
    return Table("beyond the paper", ("statement", "ours", "95 %"), rows, left=(0, 1, 2))


def rows_table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of `population --by` or `--by-model`."""
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    header = tuple(name.replace("_", " ") for name in names)
    return _markdown(header, [tuple(cell(row.get(name)) for name in names) for row in rows])


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return Table("", header, rows).to_markdown()


def _verdict(verdict: str, why: str) -> str:
    return verdict if verdict == "agrees" else f"{verdict}: {why}"


def ours(one: Statement) -> str:
    """Our number; for a count also of how many."""
    return "none" if one.ours is None else short_of_one(one.ours, 4) + _of(one.of)


def interval(one: Statement) -> str:
    """The 95 % interval; empty where there is none."""
    return "" if one.ci95 is None else f"{one.ci95[0]:.3g} … {one.ci95[1]:.3g}"


def paper(one: Statement) -> str:
    """The paper's number; empty where it has none."""
    return "" if one.paper is None else short_of_one(one.paper, 4) + _of(one.paper_of)


def cell(value: Any) -> str:
    """A value of a row by model or by setting."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return short_of_one(value, 3)
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


def _of(count: int | None) -> str:
    return "" if count is None else f" of {count}"
