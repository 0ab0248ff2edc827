"""The comparison as tables for a terminal, by model and by setting."""

from typing import TYPE_CHECKING, Any

from quadlens.population.cells import cell, interval, ours, paper
from quadlens.population.comparison import Comparison
from quadlens.population.published import MODELS
from quadlens.population.statement import Statement
from quadlens.terminal_table import print_table

if TYPE_CHECKING:
    import polars
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
    """Every statement with its verdict, then the histograms, then what goes beyond the paper."""
    models = "1 model" if comparison.models == 1 else f"{comparison.models} models"
    console.print(f"{models} of ours ({comparison.settings}); the paper has {MODELS}", markup=False)
    console.print()
    for statement in comparison.statements:
        if statement.name != "good_models":  # another name of models_all_neuron_frequencies_match
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
    _print(
        console,
        "beyond the paper",
        ("statement", "ours", "95 %"),
        [(one.words, ours(one), interval(one)) for one in comparison.beyond],
    )


def by_model(frame: "polars.DataFrame") -> list[dict[str, Any]]:
    """One row a model: what it is, its exact error, and what each strategy proves at what cost."""
    rows = []
    for model in frame.iter_rows(named=True):
        keys = [cluster for cluster in model["clusters"] if cluster["key"]]
        errors = [cluster["relative_exact_psi"] for cluster in keys if cluster["relative_exact_psi"] is not None]
        row = {
            name: model[name]
            for name in ("p", "equals", "seed", "accuracy", "good_model", "key_frequencies", "min_margin")
        }
        row["largest_relative_exact_error"] = max(errors) if errors else None
        for proof in model["proofs"]:
            row[f"certified_{proof['strategy']}"] = proof["certified_inputs"] / model["inputs"]
            row[f"cost_{proof['strategy']}"] = proof["flops"] / model["brute_force_flops"]
        rows.append(row)
    return rows


def by_group(frame: "polars.DataFrame", column: str) -> list[dict[str, Any]]:
    """One row a value of `column`: means over its models, to see how things depend on it."""
    rows = []
    for (value,), group in frame.group_by(column, maintain_order=True):
        models = by_model(group)
        errors = [m["largest_relative_exact_error"] for m in models if m["largest_relative_exact_error"] is not None]
        row = {
            column: value,
            "models": len(group),
            "accurate": int((group["correct"] == group["inputs"]).sum()),
            "good": int(group["good_model"].sum()),
            "key_frequencies": _mean([len(m["key_frequencies"]) for m in models]),
            "relative_exact_error": _mean(errors),
        }
        for name in dict.fromkeys(name for m in models for name in m if name.startswith(("certified_", "cost_"))):
            row[name] = _mean([m[name] for m in models if name in m])
        rows.append(row)
    return rows


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
            print_table(console, heading, header, cells, labels=labels, left=())


def _mean(values: list[Any]) -> float | None:
    return sum(values) / len(values) if values else None


def _line(console: "Console", verdict: str, words: str, numbers: str, why: str) -> None:
    console.print(f"{verdict:<18}  {words}", markup=False, soft_wrap=True)
    console.print(f"{'':<18}  {numbers} · {why}", markup=False, soft_wrap=True)


def _numbers(one: Statement) -> str:
    ci, theirs = interval(one), paper(one)
    return f"ours {ours(one)}{f' (95 % {ci})' if ci else ''}{f' · paper {theirs}' if theirs else ''}"


def _print(console: "Console", title: str, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=None, padding=(0, 1))
    for index, name in enumerate(header):
        table.add_column(name, no_wrap=index > 0)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print()
    console.print(table)
