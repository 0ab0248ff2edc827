"""Sentences of the page that need no JavaScript: how to read each view, and its numbers at the start."""

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

import numpy as np

from quadlens.explorer.first_frame import LARGEST_SHARED, FirstFrame
from quadlens.integration import Integration
from quadlens.model.activation import Activation
from quadlens.model.task import Task

# Significant digits of a number in the page.
DIGITS = 3


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


def absences(frame: FirstFrame) -> tuple[Absent, ...]:
    """What does not apply to this model; the same in app.js."""
    found = []
    if not frame.layer.is_additive:
        found.append("gates")
    elif frame.task.cyclic is None:
        found.append("task")
    if frame.layer.is_additive:
        found.append("constant" if frame.constant_attention else "none")
    elif frame.shared is None:
        found.append("unshared" if frame.task.cyclic is None else "many")
    return tuple(ABSENT[key] for key in found)


def filled(words: str, task: Task) -> str:
    """A sentence with the task's own words in it."""
    return words.format(words=task.words, symbols=task.symbols, n=task.n)


def introduction(frame: FirstFrame, integration: Integration) -> str:
    """What the page says about the model on top; the same in app.js, where the verdict is kept for this model alone."""
    new = frame.task.cyclic
    return " ".join(
        [
            filled(
                INTROS["rule" if frame.waves and not WORDS[frame.layer.activation].no_rule else "plain"], frame.task
            ),
            *([filled(RENAMED, frame.task)] if frame.waves and new is not None and not new.is_identity else []),
            *([PERMUTATIONS] if frame.task.symbols == "σ·τ" else []),
            *([integration.sentence] if integration.sentence else []),
        ]
    )


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


def at_most(bound: float) -> str:
    """A bound with three significant digits, rounded up so that what is read is still a bound.

    >>> at_most(0.26341), at_most(62.31)
    ('0.264', '62.4')
    """
    return f"{Context(prec=DIGITS, rounding=ROUND_CEILING).create_decimal(Decimal(bound)):f}"


def numbers(frame: FirstFrame) -> dict[str, str]:
    """The text alternative of each view, stating its numbers."""
    o, i, words = frame, frame.neuron, WORDS[frame.layer.activation]
    c = o.task.element(o.c)
    others = max(float(x) for c, x in enumerate(o.logits) if c != o.c)
    return {
        **(_of_waves(o) if o.waves else {"column": f"Neuron {i} writes {float(o.layer.W_L[o.c, i]):.3g} to c = {c}."}),
        **({"shared": _shared(o)} if o.shared is not None else {}),
        "gates": _gates(o),
        "logits": f"Right answer c = {c}: logit {float(o.logits[o.c]):.3g}; the best other has {others:.3g}.",
        "pre": f"Neuron {i} at {_inputs(o)}: {float(o.pre[o.a, o.b]):.3g}; it is {words.positive} for "
        f"{100 * float((o.pre > 0).mean()):.3g} % of all inputs.",
        "grid": f"{o.wrong:,} of {o.p**2:,} inputs are wrong; margins from {float(o.margins.min()):.3g} to "
        f"{float(o.margins.max()):.3g}.",
    }


def _of_waves(frame: FirstFrame) -> dict[str, str]:
    roles, i = frame.anatomy.roles, frame.neuron
    return {
        "circle": f"{_neurons(frame)} Neuron {i}: φ = {roles.phi[i]:.3f}, ψ = {roles.psi[i]:.3f}.",
        "rectangles": _rectangles(frame),
        "column": f"Neuron {i} writes {float(roles.omega[i]):.3g} cos({int(roles.k_in[i])}wc + ψ), "
        f"ψ = {roles.psi[i]:.3f}.",
    }


def _inputs(frame: FirstFrame) -> str:
    """The input on show, its elements under their names."""
    return f"a = {frame.task.element(frame.a)}, b = {frame.task.element(frame.b)}"


def _gates(frame: FirstFrame) -> str:
    layer, constant = frame.layer, frame.constant_attention
    if not layer.gated:
        return ""
    here = layer.gates(np.array([frame.a]), np.array([frame.b]))[:, :, 0]
    heads = [
        ", ".join(
            f"{constant[one.position] + float(gate[head]):.3g} on {('a', 'b', '=')[one.position]}"
            for one, gate in zip(layer.gated, here, strict=True)
        )
        for head in range(layer.heads)
    ]
    return f"At {_inputs(frame)}: " + "; ".join(f"head {h} puts {words}" for h, words in enumerate(heads)) + "."


def _shared(frame: FirstFrame) -> str:
    d = frame.difference
    found = [
        f"k = {one.k} has F₀ = {shared.F[0, d].real:.3g}, |F₁| = {abs(shared.F[1, d]):.3g}, "
        f"|F₂| = {abs(shared.F[2, d]):.3g}, products {100 * one.fourier['product_waves']:.1f} %"
        for one, shared in frame.shared or ()
    ]
    if not found:
        return "No neuron reads and writes the same frequency: nothing is shared."
    return f"Softmax, as trained. At a − b = {d}: {'; '.join(found)}."


def _neurons(frame: FirstFrame) -> str:
    """How many neurons there are, and at which key frequency; the counts add up."""
    sizes = {one.k: len(one.neurons) for one in frame.clusters if one.k in frame.keys}
    rest, d = frame.layer.d_mlp - sum(sizes.values()), frame.layer.d_mlp
    named = [f"{size:,} at k = {k}" for k, size in sizes.items()]
    return (
        f"{d:,} of {d:,} neurons in use: {', '.join([*named, *([f'{rest:,} at no key frequency'] if rest else [])])}."
    )


def _rectangles(frame: FirstFrame) -> str:
    rule, error = frame.scheme, frame.error
    words = WORDS[frame.layer.activation]
    if rule is None and words.no_rule:
        return words.no_rule
    if rule is None:
        return "No frequency has two neurons that read and write it: no quadrature rule, no bound."
    total = float((rule.w * frame.heights(rule.phi, rule.psi, rule.k)).sum())
    here = (
        f"k = {rule.k}, {_inputs(frame)}, c = {frame.task.element(frame.c)}: rectangles sum to {total:.3g}, the "
        f"integral is {frame.integral:.3g}."
    )
    if error is None:
        return f"{here} Bounds are about ReLU and |x|; this model's activation is {words.name}."
    exact, bound = f"{error.exact:.3g}", at_most(error.bound)
    return f"{here} Exact worst error over all a, b, c: {exact}; the paper's bound: at most {bound}."
