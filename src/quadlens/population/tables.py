"""The comparison as tables for a terminal, by model and by setting."""

from typing import TYPE_CHECKING, Any

from quadlens.population.comparison import Comparison
from quadlens.population.published import MODELS
from quadlens.population.statement import Statement

if TYPE_CHECKING:
    import polars
    from rich.console import Console


def render(comparison: Comparison, console: "Console") -> None:
    """Every statement with its verdict, then the histograms, then what goes beyond the paper."""
    console.print(f"{comparison.models} models of ours ({comparison.settings}); the paper has {MODELS}", markup=False)
    console.print()
    for statement in comparison.statements:
        if statement.name != "good_models":  # another name of models_all_neuron_frequencies_match
            _line(console, statement.verdict, statement.words, _numbers(statement), statement.why)
    counts = comparison.key_counts
    kinds = sorted({*counts.ours, *counts.paper})
    ours = " ".join(f"{k}:{counts.ours.get(k, 0)}" for k in kinds)
    theirs = " ".join(f"{k}:{counts.paper.get(k, 0)}" for k in kinds)
    words = "models by number of key frequencies"
    _line(console, counts.verdict, words, f"ours {ours} · paper {theirs}", counts.why)
    for h in comparison.histograms:
        numbers = f"ours {h.ours.sum():g} of {h.models} models · paper {h.paper.sum():g}"
        _line(console, h.verdict, f"histogram of {h.words}", numbers, h.why)
    _print(console, "beyond the paper", ("statement", "ours", "95 %"), [_cells(one) for one in comparison.beyond])


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
    """A table of dictionaries that share their keys."""
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    _print(console, title, names, [tuple(_short(row.get(name)) for name in names) for row in rows])


def _mean(values: list[Any]) -> float | None:
    return sum(values) / len(values) if values else None


def _line(console: "Console", verdict: str, words: str, numbers: str, why: str) -> None:
    console.print(f"{verdict:<18}  {words}", markup=False, soft_wrap=True)
    console.print(f"{'':<18}  {numbers} · {why}", markup=False, soft_wrap=True)


def _numbers(statement: Statement) -> str:
    _, ours, ci = _cells(statement)
    paper_of = "" if statement.paper_of is None else f" of {statement.paper_of}"
    paper = "" if statement.paper is None else f" · paper {statement.paper:.4g}{paper_of}"
    return f"ours {ours}{f' (95 % {ci})' if ci else ''}{paper}"


def _cells(statement: Statement) -> tuple[str, ...]:
    of = "" if statement.of is None else f" of {statement.of}"
    ci = "" if statement.ci95 is None else f"{statement.ci95[0]:.3g} … {statement.ci95[1]:.3g}"
    return statement.words, "none" if statement.ours is None else f"{statement.ours:.4g}{of}", ci


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


def _print(console: "Console", title: str, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=None, padding=(0, 1))
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print()
    console.print(table)
