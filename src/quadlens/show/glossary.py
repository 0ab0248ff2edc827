"""Words and symbols with their meanings, and formulas as MathML.

They are for pages that are opened from disk.

Both are in `data/typeset.json`, which `tools/refresh_docs.py` makes of docs/glossary.md and the
report's template.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Entry:
    """What one word or symbol means.

    Attributes:
        name: Its place on a page is `#word-NAME`.
        term: How the glossary writes it, as HTML.
        words: How sentences write it; "cluster" stands for its plural as well.
        meaning: In one or two sentences, as HTML.
    """

    name: str
    term: str
    words: tuple[str, ...]
    meaning: str


@dataclass(frozen=True)
class Typeset:
    """All that is typeset beforehand: formulas (LaTeX → MathML) and the glossary."""

    formulas: Mapping[str, str]
    entries: tuple[Entry, ...]


@cache
def typeset() -> Typeset:
    """What the package ships."""
    value = json.loads(
        (files(__name__.partition(".")[0]) / "data" / "typeset.json").read_text(encoding="utf-8")
    )
    entries = (
        Entry(entry["name"], entry["term"], tuple(entry["words"]), entry["meaning"])
        for entry in value["glossary"]
    )
    return Typeset(value["formulas"], tuple(entries))


@cache
def _mentions() -> tuple[re.Pattern[str], Mapping[str, Entry]]:
    """Return a pattern that finds every word, also in the plural.

    Beside it stands the entry of each such form in lower case.
    """
    forms: dict[str, Entry] = {}
    for entry in typeset().entries:
        for word in entry.words:
            plural = (
                f"{word[:-1]}ies"
                if word.endswith("y")
                else word
                if word.endswith("s")
                else f"{word}s"
            )
            forms |= {word.lower(): entry, plural.lower(): entry}
    words = "|".join(
        re.escape(form) for form in sorted(forms, key=len, reverse=True) if form.isascii()
    )
    letters = "".join(form for form in forms if len(form) == 1)
    return re.compile(rf"(?<![\w.-])(?:{words}|r²)(?![\w-])|[{letters}]", re.IGNORECASE), forms


def mentioned(texts: Iterable[str]) -> tuple[Entry, ...]:
    """The entries of all words in some sentences, in the glossary's order.

    >>> [one.name for one in mentioned(["Two clusters, and their input phases φ."])]
    ['cluster', 'phi-psi']
    """
    pattern, forms = _mentions()
    entries = {forms[match[0].lower()] for text in texts for match in pattern.finditer(text)}
    return tuple(entry for entry in typeset().entries if entry in entries)
