"""Sentences of the page: what the model is, how to read each view, and which views do not apply to it."""

from dataclasses import dataclass
from typing import Any

from quadlens.integration import Integration
from quadlens.model.activation import Activation
from quadlens.model.task import Task
from quadlens.studies import Study

# More elements than these have their neurons' waves over all inputs transformed too slowly in a browser (`lens.js`).
LARGEST_SHARED = 131


@dataclass(frozen=True)
class ActivationWords:
    """How the page speaks of one activation.

    Attributes:
        name: The activation as a reader writes it.
        even: Its even part.
        odd: Its odd part.
        shaded: What the shaded half of the circle is.
        signs: What blue and orange mean in the map of pre-activations.
        keeps: What the activation does to the stripes, as the tour says it.
        positive: A neuron whose pre-activation is above zero.
        negative: A neuron whose pre-activation is not.
        parts: What the bars of the logits stack.
        no_rule: Why there are no rectangles; empty where there can be some.
    """

    name: str
    even: str = "even part"
    odd: str = "odd part"
    shaded: str = "have a positive pre-activation"
    signs: str = "blue above zero, orange below"
    keeps: str = ""
    positive: str = "positive"
    negative: str = "not positive"
    parts: str = "each frequency's even part, the odd part and the skip connection add"
    no_rule: str = ""


def _even(name: str) -> ActivationWords:
    return ActivationWords(
        name,
        signs=f"blue above zero, orange below; {name} makes both positive",
        keeps=f"{name} makes both halves positive.",
        parts="the neurons of each frequency and the skip connection add",
    )


def _curved(name: str, keeps: str) -> ActivationWords:
    why = f"{name} bends large and small waves differently, so no one curve h holds for all neurons of a frequency"
    return ActivationWords(name, keeps=keeps, no_rule=f"No rectangles: {why}.")


WORDS: dict[Activation, ActivationWords] = {
    "relu": ActivationWords(
        "ReLU",
        even="abs part",
        odd="identity",
        shaded="are on",
        signs="blue above zero, where ReLU lets it through, orange below",
        keeps="ReLU keeps the blue half.",
        positive="on",
        negative="off",
        parts="each frequency's absolute-value part, the identity part and the skip connection add",
    ),
    "abs": _even("|x|"),
    "square": _even("x²"),
    "quartic": _even("x⁴"),
    "gelu": _curved("GELU", "GELU keeps the blue half and lets little of the orange one through."),
    "silu": _curved("SiLU", "SiLU keeps the blue half and lets little of the orange one through."),
    "softplus": _curved("softplus", "Softplus keeps the blue half and lets little of the orange one through."),
    "tanh": _curved("tanh", "Tanh keeps both halves and flattens what is large."),
}


@dataclass(frozen=True)
class View:
    """One view of the page.

    Attributes:
        name: Its id.
        title: Its heading.
        how: How to read it, in one line; names in braces are fields of `ActivationWords`.
        how_without_waves: The same for neurons without frequencies, where it differs.
    """

    name: str
    title: str
    how: str
    how_without_waves: str = ""

    def how_to_read(self, activation: Activation, waves: bool = True) -> str:
        """The line for a model with this activation; without what is about frequencies where it has none."""
        how = self.how if waves else self.how_without_waves or self.how
        return how.format_map(vars(WORDS[activation]))


VIEWS: tuple[View, ...] = (
    View(
        "circle",
        "The circle of phases",
        "Each dot is a neuron at its input phase φ, as large as its weight ρω, on the ring of its frequency. The "
        "shaded half is where the chosen frequency's neurons {shaded} for this a and b, so far as they read both "
        "alike. Drag a dot along its ring.",
    ),
    View(
        "rectangles",
        "The rectangles under h(φ)",
        "Each rectangle is a neuron: its width is the weight w, its height is h at its phase. The line is the "
        "integral's curve; the sum over neurons is the coloured area. The orange band is how far h can be from each "
        "height.",
    ),
    View(
        "logits",
        "The logits, taken apart",
        "Bars stack what {parts} to the logit of c; the ticks are their sum, the green column the right answer. "
        "Point at a bar to ring the neurons behind it.",
        "Bars stack what the even and odd part of the activation and what passes by the neurons add to the logit of c; "
        "the ticks are their sum, the green column the right answer.",
    ),
    View(
        "pre",
        "What one neuron reads",
        "Pre-activation of the neuron over a (right) and b (up): {signs}. Click to choose a and b.",
    ),
    View(
        "column",
        "What one neuron writes",
        "The neuron's column of W_L: what it adds to the logit of each c per unit of activation. Overlaid: the single "
        "wave that stands for it.",
        "The neuron's column of W_L: what it adds to the logit of each c per unit of activation.",
    ),
    View(
        "grid",
        "All inputs, by margin",
        "Every (a, b), blue by how far the right answer leads, orange where the answer is wrong. Click one to "
        "choose it.",
    ),
    View(
        "gates",
        "Where attention looks",
        "The weight of every head on each position, over a (right) and b (up), all on one scale: blue above zero. "
        "Click to choose a and b.",
    ),
    View(
        "shared",
        "Constant or softmax attention",
        "What all neurons of a frequency share, in units of their amplitude, against a − b: F₁ are waves of a plus "
        "waves of b (dashed: 2|cos u|, a pizza), F₀ the constant, F₂ double waves and products. The dial takes every "
        "attention weight from its mean over all inputs to what softmax makes it; all other views follow.",
    ),
)


@dataclass(frozen=True)
class Absent:
    """Views that do not apply to some models.

    Attributes:
        views: Their names.
        why: One sentence; names in braces are those of the task.
    """

    views: tuple[str, ...]
    why: str


WITHOUT_WAVES = ("circle", "rectangles")
ABSENT = {
    "gates": Absent(
        WITHOUT_WAVES,
        "No circle of phases and no rectangles: attention depends on the tokens, so that what a neuron reads is no "
        "wave of a plus a wave of b.",
    ),
    "task": Absent(
        WITHOUT_WAVES,
        "No circle of phases and no rectangles: {words} has no cyclic relabelling, so that no neuron has a frequency "
        "or a phase.",
    ),
    "constant": Absent(("gates", "shared"), "No map of attention, and no dial for it: it is the same for every input."),
    "none": Absent(("gates", "shared"), "No map of attention, and no dial for it: this model has none."),
    "unshared": Absent(("shared",), "No shared function: {words} has no cyclic relabelling."),
    "many": Absent(("shared",), f"No shared function: the page computes it for up to {LARGEST_SHARED} elements."),
}
# With rectangles, and without.
TITLES = ("Drag a neuron, watch the integral", "Look inside a network")
INTROS = {
    "rule": "A network for {words}: each hidden neuron is drawn as one rectangle under a curve; the sum of "
    "rectangles is to be compared with the integral.",
    "plain": "A network for {words}: what each neuron reads and writes, and what it adds to the answer.",
}
RENAMED = "Frequencies and phases are those of the elements renamed so that {symbols} becomes a sum."
PERMUTATIONS = "a is σ and b is τ; permutations go by their numbers."


def absences(study: Study) -> tuple[Absent, ...]:
    """What does not apply to this model; the same in app.js."""
    layer, cyclic, found = study.anatomy.layer, study.config.task.cyclic, []
    if not layer.is_additive:
        found.append("gates")
    elif cyclic is None:
        found.append("task")
    if layer.is_additive:
        found.append("constant" if study.config.attention else "none")
    elif cyclic is None or study.p > LARGEST_SHARED:
        found.append("unshared" if cyclic is None else "many")
    return tuple(ABSENT[key] for key in found)


def filled(words: str, task: Task) -> str:
    """A sentence with the task's own words in it."""
    return words.format(words=task.words, symbols=task.symbols, n=task.n)


def has_rectangles(study: Study) -> bool:
    """Whether neurons can be drawn as rectangles under a curve; title and introduction follow, here and in app.js."""
    return study.no_waves is None and not WORDS[study.config.activation].no_rule


def introduction(study: Study) -> str:
    """What the page says about the model on top; the same in app.js, where the verdict is kept for this model alone."""
    task, waves = study.config.task, study.no_waves is None
    said = [
        filled(INTROS["rule" if has_rectangles(study) else "plain"], task),
        filled(RENAMED, task) if waves and task.cyclic is not None and not task.cyclic.is_identity else "",
        PERMUTATIONS if task.symbols == "σ·τ" else "",
        study.integration.sentence,
    ]
    return " ".join(filter(None, said))


def words_for_script(sha256: str, integration: Integration) -> dict[str, Any]:
    """Everything the script says differently for each activation and each kind of model: a page may open another.

    Args:
        sha256: Of the page's own model.
        integration: The verdict on it; the script has none on other models.
    """
    verdict = {"sha256": sha256, "integrates": integration.holds, "sentence": integration.sentence}
    by_activation: dict[str, Any] = {
        activation: {
            **vars(words),
            "how": [{view.name: view.how_to_read(activation, waves) for view in VIEWS} for waves in (True, False)],
        }
        for activation, words in WORDS.items()
    }
    absent = {key: vars(one) for key, one in ABSENT.items()}
    page = {
        "titles": TITLES,
        "intros": INTROS,
        "renamed": RENAMED,
        "permutations": PERMUTATIONS,
        "absent": absent,
        "verdict": verdict,
    }
    return {**by_activation, "page": page}
