"""Sentences of the page, from `words.toml`.

They say what the model is, how to read each view, and which views do not apply.
"""

from dataclasses import dataclass
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

from quadlens.analysis.infinite_width.of_study import integration_of
from quadlens.analysis.integration import Integration
from quadlens.analysis.spectrum.of_study import layer_of, no_waves
from quadlens.base.reading import parse_toml
from quadlens.network.activation import Activation
from quadlens.network.study import Study
from quadlens.network.task import Task

# More elements than these have their neurons' waves over all inputs transformed too slowly in a
# browser (`lens.js`).
LARGEST_SHARED = 131
SAID = parse_toml((files(__package__) / "words.toml").read_bytes(), "words.toml")


def _activation(kind: str, name: str, **own: str) -> SimpleNamespace:
    """How the page speaks of one activation: as of its kind, but for what it has of its own."""
    shared = {**SAID["kinds"]["any"], **SAID["kinds"][kind]}
    return SimpleNamespace(
        name=name, **{key: text.format(name=name) for key, text in shared.items()} | own
    )


WORDS: dict[Activation, SimpleNamespace] = {
    activation: _activation(**own) for activation, own in SAID["activations"].items()
}


@dataclass(frozen=True)
class View:
    """One view of the page: its id, its heading, and how to read it.

    Neurons without frequencies have sentences of their own.
    """

    name: str
    title: str
    how: str
    how_without_waves: str = ""

    def how_to_read(self, activation: Activation, waves: bool = True) -> str:
        """Return the line for a model with this activation.

        What it says about frequencies is left out where the activation has none.
        """
        how = self.how if waves else self.how_without_waves or self.how
        return how.format_map(vars(WORDS[activation]))


VIEWS = tuple(View(**view) for view in SAID["views"])
ABSENT = {
    key: {**part, "why": part["why"].replace("{largest}", str(LARGEST_SHARED))}
    for key, part in SAID["absent"].items()
}


def absences(study: Study) -> tuple[dict[str, Any], ...]:
    """What does not apply to this model; the same in app.js."""
    layer, cyclic, names = layer_of(study), study.config.task.cyclic, []
    if not layer.is_additive:
        names.append("gates")
    elif cyclic is None:
        names.append("task")
    if layer.is_additive:
        names.append(study.config.attends or "none")
    elif cyclic is None or study.p > LARGEST_SHARED:
        names.append("unshared" if cyclic is None else "many")
    return tuple(ABSENT[key] for key in names)


def filled(words: str, task: Task) -> str:
    """A sentence with the task's own words in it."""
    return words.format(words=task.words, symbols=task.symbols, n=task.n)


def has_rectangles(study: Study) -> bool:
    """Whether neurons can be drawn as rectangles under a curve.

    Title and introduction follow, here and in app.js.
    """
    return study.once(no_waves) is None and not WORDS[study.config.activation].no_rule


def introduction(study: Study) -> str:
    """Return what the page says about the model on top.

    app.js says the same, where the verdict is kept for this model alone.
    """
    task, waves = study.config.task, study.once(no_waves) is None
    texts = SAID["page"]
    sentences = [
        filled(texts["intros"]["rule" if has_rectangles(study) else "plain"], task),
        filled(texts["renamed"], task)
        if waves and task.cyclic is not None and not task.cyclic.is_identity
        else "",
        texts["permutations"] if task.symbols == "σ·τ" else "",
        study.once(integration_of).sentence,
    ]
    return " ".join(filter(None, sentences))


def words_for_script(sha256: str, integration: Integration) -> dict[str, Any]:
    """Return what the script says differently for each activation and kind.

    A page may open another model than its own.

    Args:
        sha256: Of the page's own model.
        integration: The verdict on it; the script has none on other models.
    """
    verdict = {"sha256": sha256, "integrates": integration.holds, "sentence": integration.sentence}
    by_activation: dict[str, Any] = {
        activation: {
            **vars(words),
            "how": [
                {view.name: view.how_to_read(activation, waves) for view in VIEWS}
                for waves in (True, False)
            ],
        }
        for activation, words in WORDS.items()
    }
    return {**by_activation, "page": {**SAID["page"], "absent": ABSENT, "verdict": verdict}}
