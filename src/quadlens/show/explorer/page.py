"""Puts the page together: template, style, script and the model's own file."""

import base64
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from quadlens.analysis.infinite_width.of_study import integration_of, lens_if_any
from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.analysis.spectrum.of_study import evaluation_of, no_waves
from quadlens.base.errors import BadConfig
from quadlens.base.numbers import significant
from quadlens.base.version import VERSION
from quadlens.network.native import sha256, to_bytes
from quadlens.network.study import Study, study_of
from quadlens.network.weights import Weights
from quadlens.show.explorer.layout import file_layout, why_not_playable
from quadlens.show.explorer.words import (
    SAID,
    VIEWS,
    WORDS,
    absences,
    filled,
    has_rectangles,
    introduction,
    words_for_script,
)
from quadlens.show.figures.style import CONCEPT_COLOURS, FREQUENCY_COLOURS, QUIET_COLOUR
from quadlens.show.glossary import mentioned
from quadlens.show.templates import environment
from quadlens.training.played_run import STEPS, PlayedRun

if TYPE_CHECKING:
    from jinja2 import Template

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


def build_page(
    model: Weights | Anatomy | Study,
    name: str,
    run: PlayedRun | None = None,
    report: str | None = None,
) -> str:
    """The whole page as HTML; the same model and name always give the same text.

    Args:
        model: Weights, as `quadlens.load` gives them, or what was already computed from them.
        name: What the page calls the model.
        run: The run that made it, to be played; None for a page without time.
        report: The address of the model's report, where there is one beside the page.

    Raises:
        BadConfig: if the page cannot run the model (`why_not_playable`), or the run is of another
            shape.
    """
    study = study_of(model)
    weights, config = study.model, study.config.need_pairs()
    why_not = why_not_playable(config)
    if why_not is not None:
        raise BadConfig(why_not)
    task, lens = config.task, study.once(lens_if_any)
    shape, waves = None if run is None else run.codes[0][0].shape, study.once(no_waves) is None
    if shape is not None and (not waves or shape != (config.p, config.d_mlp)):
        raise BadConfig(
            f"the run is of a network with p, neurons = {shape}; {name} is another, or has no "
            "frequencies"
        )
    absent = absences(study)
    missing, digest = {name for part in absent for name in part["views"]}, sha256(weights)
    # Of all that a view can say: the page may open a model of another kind.
    sentences = {
        view.name: [
            view.title,
            *(view.how_to_read(activation, each) for activation in WORDS for each in (True, False)),
        ]
        for view in VIEWS
    }
    return _template().render(
        version=VERSION,
        name=name,
        size=f"p = {study.p}" if task.name == "add" else f"{study.p:,} elements",
        neurons=f"{config.d_mlp:,}",
        waves=str(waves).lower(),
        rule=str("rectangles" not in missing).lower(),
        title=SAID["page"]["titles"][not has_rectangles(study)],
        intro=introduction(study),
        claims=None if lens is None else lens.claims.to_html(),
        absent=" ".join(filled(part["why"], task) for part in absent),
        sha=digest,
        style=asset("style.css").replace("{{palette}}", palette()),
        script=script(),
        model=base64.b64encode(to_bytes(weights)).decode(),
        words=json.dumps(words_for_script(digest, study.once(integration_of)), ensure_ascii=False),
        layout=json.dumps(file_layout()),
        run=None if run is None else _about_run(run, study),
        played_run=None if run is None else base64.b64encode(run.to_bytes()).decode(),
        views=[
            (view, view.how_to_read(config.activation, waves), view.name not in missing)
            for view in VIEWS
        ],
        terms={view: mentioned(each) for view, each in sentences.items()},
        meanings=mentioned(sentence for each in sentences.values() for sentence in each),
        report=report,
    )


@cache
def _template() -> "Template":
    """The page's template, compiled once."""
    return environment(autoescape=True, keep_trailing_newline=True).from_string(asset("page.html"))


def asset(name: str) -> str:
    """A file of the `assets` folder."""
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def script() -> str:
    """The page's JavaScript, one file after another."""
    return "\n".join(asset(f"{name}.js") for name in SCRIPTS)


def palette() -> str:
    """Return the report's colours as CSS custom properties.

    `--k0` … `--k7` are for frequencies; each concept has a name.
    """
    named = {f"k{at}": colour for at, colour in enumerate(FREQUENCY_COLOURS)}
    named |= {
        concept: CONCEPT_COLOURS[concept]
        for concept in ("input", "output", "bound", "exact", "paper")
    }
    return "\n".join(
        f"  --{key}: {value};" for key, value in {**named, "quiet": QUIET_COLOUR}.items()
    )


def _about_run(run: PlayedRun, study: Study) -> str:
    """What the page says of the run that it plays."""
    rows, own = run.history.snapshots, study.once(evaluation_of).min_margin
    end = rows[-1].min_margin
    repeated = (
        " The run was repeated with other rounding: its smallest margin is "
        f"{significant(end, 'down', 4)}, the model's {significant(own, 'down', 4)}."
    )
    return (
        f"{len(run.epochs)} of the {len(rows)} snapshots of the training; pictures between two "
        "lie on the straight line. Their weights are rounded to save space, each Fourier "
        f"coefficient by at most {100 * STEPS['W_L'] / 2:.0f} % of the root mean square; numbers "
        "and curves here are of the unrounded ones. While it plays, the map of margins is the "
        "training's own; at rest everything is computed from the rounded weights, and the dials "
        "work. Rings are the frequencies that matter at the end. The last place of the slider is "
        f"the model itself, unrounded.{repeated if abs(end / own - 1) > 1e-3 else ''}"
    )
