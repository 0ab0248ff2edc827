"""The comparison, and rows by setting, as Markdown tables: what docs/population.md holds, and anyone's notes may."""

from collections.abc import Sequence
from typing import Any

from quadlens.population.cells import cell, interval, ours, paper
from quadlens.population.comparison import Comparison
from quadlens.population.published import MODELS

# Another name of models_all_neuron_frequencies_match.
SAID_TWICE = "good_models"


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
    beyond = [(one.words, ours(one), interval(one)) for one in comparison.beyond]
    return "\n\n".join(
        (
            f"**{comparison.models} models** ({comparison.settings}); the paper has {MODELS}.",
            _table(("statement", "ours", "95 %", "paper", "verdict"), rows),
            "Beyond the paper:",
            _table(("statement", "ours", "95 %"), beyond),
        )
    )


def rows_table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of `population --by` or `--by-model`."""
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    header = tuple(name.replace("_", " ") for name in names)
    return _table(header, [tuple(cell(row.get(name)) for name in names) for row in rows])


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines)


def _verdict(verdict: str, why: str) -> str:
    return verdict if verdict == "agrees" else f"{verdict}: {why}"
