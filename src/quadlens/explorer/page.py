"""Puts the page together: template, style, script and the model's own file."""

import base64
import html
import json
import re
from importlib.resources import files

from quadlens import __version__
from quadlens.errors import BadConfig
from quadlens.explorer.words import (
    SAID,
    VIEWS,
    WORDS,
    View,
    absences,
    filled,
    has_rectangles,
    introduction,
    words_for_script,
)
from quadlens.figures.style import CONCEPT_COLOURS, FREQUENCY_COLOURS, QUIET_COLOUR
from quadlens.glossary import mentioned, popovers
from quadlens.model.native import sha256, to_bytes
from quadlens.model.weights import Weights
from quadlens.spectrum.anatomy import Anatomy
from quadlens.studies import Study, study_of
from quadlens.studies.played_run import STEPS, PlayedRun

# In the order of the data's flow; each file only uses those before it.
SCRIPTS = (
    "numbers",
    "sha256",
    "strict_json",
    "activations",
    "task",
    "safetensors",
    "collapse",
    "fourier",
    "clusters",
    "quadrature",
    "edits",
    "lens",
    "engine",
    "closed_form",
    "state",
    "history",
    "played_run",
    "draw",
    "view_circle",
    "view_rectangles",
    "view_maps",
    "view_bars",
    "view_shared",
    "time",
    "tour",
    "controls",
    "app",
    "boot",
)
# The browser holds all p³ logits as doubles: 136 MB at 257.
LARGEST_P = 257
# What a reader without JavaScript is told.
IN_REPORT = "The report shows the same model without it."
WITHOUT_SCRIPT = "A report of the same model (<code>quadlens report</code>) needs none."


def build_page(
    model: Weights | Anatomy | Study, name: str, run: PlayedRun | None = None, report: str | None = None
) -> str:
    """The whole page as HTML; the same model and name always give the same text.

    Args:
        model: Weights, as `quadlens.load` gives them, or what was already computed from them.
        name: What the page calls the model.
        run: The run that made it, to be played; None for a page without time.
        report: The address of the model's report, where there is one beside the page.

    Raises:
        BadConfig: if p is too large for a browser, the model has several layers or norms, or the run is of
            another shape.
    """
    study = study_of(model)
    weights, config, task = study.model, study.config, study.config.task
    if config.p > LARGEST_P:
        raise BadConfig(f"p = {config.p}; the explorer holds all p³ logits in the browser: at most p = {LARGEST_P}")
    if config.no_tables is not None:
        raise BadConfig(f"{config.no_tables}; the explorer runs one layer without norms. `quadlens report` works")
    shape, waves = None if run is None else run.codes[0][0].shape, study.no_waves is None
    if shape is not None and (not waves or shape != (config.p, config.d_mlp)):
        raise BadConfig(f"the run is of a network with p, neurons = {shape}; {name} is another, or has no frequencies")
    absent = absences(study)
    missing, digest = {name for one in absent for name in one["views"]}, sha256(weights)
    values = {
        "version": __version__,
        "name": html.escape(name),
        "size": f"p = {study.p}" if task.name == "add" else f"{study.p:,} elements",
        "neurons": f"{config.d_mlp:,}",
        "waves": str(waves).lower(),
        "rule": str("rectangles" not in missing).lower(),
        "title": SAID["page"]["titles"][not has_rectangles(study)],
        "intro": html.escape(introduction(study)),
        "claims": "" if study.lens_if_any is None else study.lens_if_any.claims.to_html(),
        "no_claims": " hidden" if study.lens_if_any is None else "",
        "absent": html.escape(" ".join(filled(one["why"], task) for one in absent)),
        "sha": digest,
        "style": asset("style.css").replace("{{palette}}", palette()),
        "script": script(),
        "model": base64.b64encode(to_bytes(weights)).decode(),
        "words": json.dumps(words_for_script(digest, study.integration), ensure_ascii=False),
        **_run(run, study),
        "views": "\n".join(_card(view, study, view.name not in missing) for view in VIEWS),
        "without": WITHOUT_SCRIPT if report is None else f'<a href="{html.escape(report)}">{IN_REPORT}</a>',
    }
    values["meanings"] = popovers(values["views"])
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], asset("page.html"))


def asset(name: str) -> str:
    """A file of the `assets` folder."""
    return (files("quadlens.explorer") / "assets" / name).read_text(encoding="utf-8")


def script() -> str:
    """The page's JavaScript, one file after another."""
    return "\n".join(asset(f"{name}.js") for name in SCRIPTS)


def palette() -> str:
    """The colours of the report as CSS custom properties: --k0 … --k7 for frequencies, one name per concept."""
    named = {f"k{at}": colour for at, colour in enumerate(FREQUENCY_COLOURS)}
    named |= {concept: CONCEPT_COLOURS[concept] for concept in ("input", "output", "bound", "exact", "paper")}
    return "\n".join(f"  --{key}: {value};" for key, value in {**named, "quiet": QUIET_COLOUR}.items())


def _card(view: View, study: Study, applies: bool) -> str:
    """One view; where it does not apply, it only waits for a model that is opened later."""
    how = view.how_to_read(study.config.activation, study.no_waves is None)
    # Of all that the view can say: the page may open a model of another kind.
    said = (view.how_to_read(activation, waves) for activation in WORDS for waves in (True, False))
    meanings = "".join(
        f' <button id="term-{view.name}-{one.name}" type="button" popovertarget="word-{one.name}">'
        f"{', '.join(one.words)}</button>"
        for one in mentioned([view.title, *said])
    )
    return f"""<figure id="view-{view.name}"{"" if applies else " hidden"}>
<header><h2 id="title-{view.name}">{view.title}</h2>
<button id="data-{view.name}" type="button" aria-label="Download data of: {view.title}">CSV</button>
<button id="link-{view.name}" type="button" aria-label="Copy link to: {view.title}">Link</button>
</header>
<div id="stage-{view.name}" class="stage"></div>
<figcaption><p class="how" id="how-{view.name}">{html.escape(how)}</p>
<p class="words" id="words-{view.name}"></p>
<p class="terms">{meanings and f"Meaning of{meanings}"}</p></figcaption>
</figure>"""


def _run(run: PlayedRun | None, study: Study) -> dict[str, str]:
    """What the page says of its run, and the run itself; nothing without one."""
    if run is None:
        return {"run": "", "run_keys": "", "played_run": ""}
    rows, own = run.history.snapshots, study.evaluation.min_margin
    end, packed = rows[-1].min_margin, base64.b64encode(run.to_bytes()).decode()
    repeated = f" The run was repeated with other rounding: its smallest margin is {end:.4g}, the model's {own:.4g}."
    return {
        "run": f"{len(run.epochs)} of the {len(rows)} snapshots of the training; pictures between two lie on "
        "the straight line. Their weights are rounded to save space, each Fourier coefficient by at most "
        f"{100 * STEPS['W_L'] / 2:.0f} % of the root mean square; numbers and curves here are of the unrounded ones. "
        "While it plays, the map of margins is the training's own; at rest everything is computed from the rounded "
        "weights, and the dials work. Rings are the frequencies that matter at the end. The last place of the slider "
        f"is the model itself, unrounded.{repeated if abs(end / own - 1) > 1e-3 else ''}",
        "run_keys": " Space plays the training; in its panel, ← → step, Home and End go to its ends.",
        "played_run": f'<script id="played-run" type="text/plain">{packed}</script>\n',
    }
