"""Puts the page together: template, style, script, the model's own file, and a static picture of every view."""

import base64
import html
import re
from importlib.resources import files

from quadlens import __version__
from quadlens.errors import BadConfig
from quadlens.explorer.opening import Opening, opening_of
from quadlens.explorer.pictures import PICTURES
from quadlens.explorer.words import VIEWS, View, numbers
from quadlens.figures.style import CONCEPT_COLOURS, FREQUENCY_COLOURS, QUIET_COLOUR
from quadlens.model.native import sha256, to_bytes
from quadlens.model.params import Model

# In the order of the data's flow; each file only uses those before it.
SCRIPTS = (
    "namespace",
    "sha256",
    "safetensors",
    "collapse",
    "fourier",
    "clusters",
    "quadrature",
    "edits",
    "engine",
    "closed_form",
    "state",
    "draw",
    "numbers",
    "view_circle",
    "view_rectangles",
    "view_maps",
    "view_bars",
    "tour",
    "controls",
    "app",
    "boot",
)
# The browser holds all p³ logits as doubles: 136 MB at 257.
LARGEST_P = 257

# What the page's own arithmetic knows.
KNOWN_ACTIVATIONS = ("relu", "abs", "square")


def build_page(model: Model, name: str) -> str:
    """The whole page as HTML; the same model and name always give the same text.

    Args:
        model: Weights, as `quadlens.load` gives them.
        name: What the page calls the model.

    Raises:
        BadConfig: if p is too large for a browser, or the activation is not one the page knows.
    """
    if model.config.p > LARGEST_P:
        raise BadConfig(
            f"p = {model.config.p}; the explorer holds all p³ logits in the browser: at most p = {LARGEST_P}"
        )
    if model.config.activation not in KNOWN_ACTIVATIONS:
        raise BadConfig(
            f"activation {model.config.activation!r}; the explorer knows {', '.join(KNOWN_ACTIVATIONS)}: "
            "use `quadlens evaluate` or `quadlens explain`"
        )
    opening = opening_of(model.collapse())
    words = numbers(opening)
    values = {
        "version": __version__,
        "name": html.escape(name),
        "p": str(opening.p),
        "neurons": f"{opening.collapsed.d_mlp:,}",
        "sha": sha256(model),
        "style": asset("style.css").replace("{{palette}}", palette()),
        "script": script(),
        "model": base64.b64encode(to_bytes(model)).decode(),
        "views": "\n".join(_card(view, PICTURES[view.name](opening), words[view.name]) for view in VIEWS),
        **_status(opening),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], asset("page.html"))


def asset(name: str) -> str:
    """A file of the `assets` folder."""
    return (files("quadlens.explorer") / "assets" / name).read_text(encoding="utf-8")


def script() -> str:
    """The page's JavaScript, one room after another."""
    return "\n".join(asset(f"{name}.js") for name in SCRIPTS)


def palette() -> str:
    """The colours of the report as CSS custom properties: --k0 … --k7 for frequencies, one name a concept."""
    named = {f"k{at}": colour for at, colour in enumerate(FREQUENCY_COLOURS)}
    named |= {concept: CONCEPT_COLOURS[concept] for concept in ("input", "output", "bound", "exact", "paper")}
    return "\n".join(f"  --{key}: {value};" for key, value in {**named, "quiet": QUIET_COLOUR}.items())


def _card(view: View, picture: str, words: str) -> str:
    return f"""<figure id="view-{view.name}">
<header><h2 id="title-{view.name}">{view.title}</h2>
<button id="data-{view.name}" class="live-only" type="button" aria-label="Download data of: {view.title}">CSV</button>
<button id="link-{view.name}" class="live-only" type="button" aria-label="Copy link to: {view.title}">Link</button>
</header>
<div id="stage-{view.name}" class="stage">{picture}</div>
<figcaption><p class="how">{view.how}</p><p class="words" id="words-{view.name}">{html.escape(words)}</p></figcaption>
</figure>"""


def _status(opening: Opening) -> dict[str, str]:
    """The line of numbers on top, before the script takes over."""
    o, rule = opening, opening.numbers
    answer, wrong = int(o.logits.argmax()), int((~(o.margins > 0)).sum())
    k = None if o.cluster is None else o.cluster.k
    return {
        "answer": f"{o.a} + {o.b} ≡ {answer} {'✓' if answer == o.c else '✗'}",
        "margin": f"mod {o.p}, margin {float(o.margins[o.a, o.b]):.3g}",
        "wrong": f"{wrong} of {o.p**2:,}",
        "smallest": f"smallest margin {float(o.margins.min()):.3g}",
        "exact": "–" if rule is None else f"{rule.exact:.3g}",
        "relative": "" if rule is None else f"relative {100 * rule.exact / rule.baseline:.3g} %, k = {k}",
        "bound": "–" if rule is None else f"{rule.bound:.3g}",
        "bound_relative": "" if rule is None else f"relative {100 * rule.bound / rule.baseline:.3g} %, full period",
    }
