#!/usr/bin/env python3
"""Refresh what documents derive: quoted output and values, a summary, typeset pages.

A block starts with `<!-- output of: quadlens … -->`, or with a file of tools/ or experiments/ in
place of `quadlens`, and ends with `<!-- end of output -->`. A number before `<!--=NAME-->` is that
value (tools/values.py). From the root:

    python tools/refresh_docs.py            # rewrite what changed
    python tools/refresh_docs.py --check    # say what changed, exit 1 if anything did
"""

import json
import re
import shlex
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))
import values

if TYPE_CHECKING:
    from quadlens.training.population.comparison import Comparison

START = re.compile(r"<!-- output of: ((?:quadlens|(?:tools|experiments)/\w+\.py)\b.*?) -->")
END = "<!-- end of output -->"
# A block may be empty, but it never reaches over another comment.
BLOCK = re.compile(rf"{START.pattern}\n((?:(?!<!--).)*){END}", re.DOTALL)


def refreshed(text: str) -> str:
    """The document with every block as its command prints it now."""

    def again(match: re.Match[str]) -> str:
        first, *rest = shlex.split(match[1])
        words = [sys.executable, *(["-m", first] if first == "quadlens" else [first]), *rest]
        output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        return f"<!-- output of: {match[1]} -->\n\n{output.strip()}\n\n{END}"

    blocks, starts = len(BLOCK.findall(text)), len(START.findall(text))
    if blocks != starts:
        raise ValueError(f"{starts} blocks of output begin and {blocks} end")
    return BLOCK.sub(again, text)


def summary(comparison: "Comparison") -> dict[str, Any]:
    """Return our counts in the layout of published.json's `population`.

    Intervals and verdicts are left out.
    """
    bars = {
        row.name: [
            # The two outer bins hold what lies outside the paper's axis, which its figure does not
            # show.
            {"lo": float(low), "hi": float(high), "count": float(count)}
            for low, high, count in zip(row.edges[:-1], row.edges[1:], row.ours[1:-1], strict=True)
        ]
        for row in comparison.histograms
    }
    frequencies = "neurons_per_frequency_1_to_29"
    return {
        **{
            statement.name: statement.ours
            for statement in comparison.statements
            if statement.ours is not None
        },
        "number_of_key_frequencies": {
            str(n): count for n, count in sorted(comparison.key_counts.ours.items())
        },
        frequencies: [int(one["count"]) for one in bars.pop(frequencies)],
        "histograms": bars,
    }


def refresh_summary() -> None:
    """Return the summary of the shipped population for pages and figures.

    They read it instead of the whole dataset.
    """
    from quadlens.training.population.comparison import compare
    from quadlens.training.population.dataset import read, shipped_path

    text = json.dumps(summary(compare(read(shipped_path()))), indent=1) + "\n"
    shipped_path().with_suffix(".json").write_text(text, encoding="utf-8")


GLOSSARY, TEMPLATE = Path("docs/glossary.md"), Path("src/quadlens/show/pages/page.html.j2")
TYPESET = Path("src/quadlens/data/typeset.json")
WORD = re.compile(r"^(\S.*)\n: (.*)$", re.MULTILINE)
SYMBOL = re.compile(r"^\| (\$.*?\$) \| (.*) \|$", re.MULTILINE)
FORMULA = re.compile(r"{% filter (?:formula|math) %}(.*?){% endfilter %}", re.DOTALL)
# Symbols by which sentences mean nothing else, as they write them.
LETTERS = {
    r"\varphi": "φ",
    r"\psi": "ψ",
    r"\rho": "ρ",
    r"\omega": "ω",
    r"\delta": "δ",
    "R^2": "R²",
    "C_k": "C_k",
    "D_k": "D_k",
}


def typeset() -> str:
    """Return the glossary and the report's formulas as HTML and MathML.

    No program is needed to show them.
    """
    # The site's own way to typeset, with the extra `docs`.
    sys.path.insert(0, "docs/_ext")
    from mathml import mathml

    def as_html(markdown: str) -> str:
        without_links = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", markdown)
        escaped = without_links.replace("&", "&amp;").replace("<", "&lt;").replace("\\|", "|")
        return re.sub(r"\$(.+?)\$", lambda match: mathml(match[1]), escaped)

    text = GLOSSARY.read_text(encoding="utf-8")
    entries = []
    for term, meaning in WORD.findall(text):
        parts = term.split(", ")
        # "primary, secondary frequency" are two frequencies; T1, T2 and T3 are words of their own.
        noun = parts[-1].partition(" ")[2]
        words = [part if part is parts[-1] or not noun else f"{part} {noun}" for part in parts]
        entries.append(
            {
                "name": re.sub(r"\W+", "-", term.lower()),
                "term": term,
                "words": words,
                "meaning": as_html(meaning),
            }
        )
    for symbols, meaning in SYMBOL.findall(text):
        known = [
            letter
            for latex, letter in LETTERS.items()
            if re.search(re.escape(latex) + r"(?![a-zA-Z])", symbols)
        ]
        if known:
            name = "-".join(unicodedata.name(letter[0]).split()[-1].lower() for letter in known)
            entries.append(
                {
                    "name": name,
                    "term": as_html(symbols),
                    "words": known,
                    "meaning": as_html(meaning),
                }
            )
    formulas = FORMULA.findall(TEMPLATE.read_text(encoding="utf-8"))
    value = {
        "formulas": {latex: mathml(latex) for latex in sorted(set(formulas))},
        "glossary": entries,
    }
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def main() -> int:
    """Every document; the number of those that changed decides the exit code of --check."""
    if "--check" not in sys.argv:
        refresh_summary()
        values.refresh()
    rows = values.read()
    changed = []
    now = typeset()
    if not TYPESET.exists() or TYPESET.read_text(encoding="utf-8") != now:
        changed.append(TYPESET)
        if "--check" not in sys.argv:
            TYPESET.write_text(now, encoding="utf-8")
    for path in values.documents():
        before = path.read_text(encoding="utf-8")
        after = values.inserted(refreshed(before), rows)
        if after != before:
            changed.append(path)
            if "--check" not in sys.argv:
                path.write_text(after, encoding="utf-8")
    sys.stdout.write("".join(f"{path} changed\n" for path in changed))
    return int(bool(changed) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
