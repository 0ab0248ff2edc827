"""Words and symbols with their meanings, and formulas as MathML, for pages that are opened from disk.

Both are in `data/typeset.json`, which `tools/refresh_docs.py` makes of docs/glossary.md and the report's template.
"""

import html
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

# Text in these is no place for a link: it is one already, a heading, a formula, or a table's cell.
NOT_IN = ("a", "button", "code", "h1", "h2", "math", "nav", "script", "strong", "style", "svg", "table", "title")
_TAG = re.compile(r"(<[^>]*>)")


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

    @property
    def plain(self) -> str:
        """The meaning without mark-up."""
        return html.unescape(_TAG.sub("", self.meaning))


@dataclass(frozen=True)
class Typeset:
    """All that is typeset beforehand: formulas (LaTeX → MathML) and the glossary."""

    formulas: Mapping[str, str]
    entries: tuple[Entry, ...]


@cache
def typeset() -> Typeset:
    """What the package ships."""
    value = json.loads((files("quadlens") / "data" / "typeset.json").read_text(encoding="utf-8"))
    entries = (Entry(one["name"], one["term"], tuple(one["words"]), one["meaning"]) for one in value["glossary"])
    return Typeset(value["formulas"], tuple(entries))


@cache
def _mentions() -> tuple[re.Pattern[str], Mapping[str, Entry]]:
    """A pattern that finds every word, also in the plural, and the entry of each such form in lower case."""
    forms: dict[str, Entry] = {}
    for entry in typeset().entries:
        for word in entry.words:
            plural = f"{word[:-1]}ies" if word.endswith("y") else word if word.endswith("s") else f"{word}s"
            forms |= {word.lower(): entry, plural.lower(): entry}
    words = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True) if form.isascii())
    letters = "".join(form for form in forms if len(form) == 1)
    return re.compile(rf"(?<![\w.-])(?:{words}|r²)(?![\w-])|[{letters}]", re.IGNORECASE), forms


def mentioned(texts: Iterable[str]) -> tuple[Entry, ...]:
    """The entries of all words in some sentences, in the glossary's order.

    >>> [one.name for one in mentioned(["Two clusters, and their input phases φ."])]
    ['cluster', 'phi-psi']
    """
    pattern, forms = _mentions()
    found = {forms[match[0].lower()] for text in texts for match in pattern.finditer(text)}
    return tuple(entry for entry in typeset().entries if entry in found)


def popovers(page: str) -> str:
    """The meanings that a page's buttons ask for (`popovertarget="word-NAME"`), hidden until then; no script needed."""
    asked = set(re.findall(r'popovertarget="word-([\w-]+)"', page))
    return "\n".join(
        f'<div id="word-{one.name}" popover><b>{one.term}</b>: {one.meaning}</div>'
        for one in typeset().entries
        if one.name in asked
    )


def linked(page: str) -> tuple[str, tuple[Entry, ...]]:
    """A page in which the first mention of each word in each section leads to its meaning, and the entries it needs."""
    pattern, forms = _mentions()
    seen: set[Entry] = set()
    used: set[Entry] = set()
    pieces, inside = _TAG.split(page), 0

    def link(match: re.Match[str]) -> str:
        entry = forms[match[0].lower()]
        if entry in seen:
            return match[0]
        seen.add(entry)
        used.add(entry)
        return f'<a class="term" href="#word-{entry.name}" title="{html.escape(entry.plain)}">{match[0]}</a>'

    for i, piece in enumerate(pieces):
        tag = re.match(r"<(/?)(\w+)", piece)
        if tag is None:
            pieces[i] = piece if inside else pattern.sub(link, piece)
        elif tag[2] == "section":
            seen = set()
        elif tag[2] in NOT_IN:
            inside += -1 if tag[1] else 1
    return "".join(pieces), tuple(entry for entry in typeset().entries if entry in used)
