"""Sentences of the page that need no JavaScript: how to read each view, and its numbers at the start."""

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from quadlens.explorer.first_frame import FirstFrame
from quadlens.model.activation import Activation

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
    """

    name: str
    title: str
    how: str

    def how_to_read(self, activation: Activation) -> str:
        """The line for a model with this activation."""
        return self.how.format_map(vars(WORDS[activation]))


VIEWS: tuple[View, ...] = (
    View(
        "circle",
        "The circle of phases",
        "Each dot is a neuron at its input phase φ, as large as its weight ρω, on the ring of its frequency. The "
        "shaded half is where the chosen frequency's neurons {shaded} for this a and b. Drag a dot along its ring.",
    ),
    View(
        "rectangles",
        "The rectangles under h(φ)",
        "Each rectangle is a neuron: its width is the weight w, its height is h at its phase. The line is the true "
        "curve; the network's sum is the coloured area. The orange band is how far h can be from each height.",
    ),
    View(
        "logits",
        "The logits, taken apart",
        "Bars stack what {parts} to the logit of c; the ticks are their sum, the green column the right answer. "
        "Point at a bar to ring the neurons behind it.",
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
    ),
    View(
        "grid",
        "All inputs, by margin",
        "Every (a, b), blue by how far the right answer leads, orange where the answer is wrong. Click one to "
        "choose it.",
    ),
)


def words_by_activation() -> dict[str, Any]:
    """Everything the script says differently for each activation: a page may open a model with another one."""
    return {
        activation: {**vars(words), "how": {view.name: view.how_to_read(activation) for view in VIEWS}}
        for activation, words in WORDS.items()
    }


def at_most(bound: float) -> str:
    """A bound with three significant digits, rounded up so that what is read is still a bound.

    >>> at_most(0.26341), at_most(62.31)
    ('0.264', '62.4')
    """
    return f"{Context(prec=DIGITS, rounding=ROUND_CEILING).create_decimal(Decimal(bound)):f}"


def numbers(frame: FirstFrame) -> dict[str, str]:
    """The text alternative of each view, stating its numbers."""
    o, roles = frame, frame.anatomy.roles
    i, words = o.neuron, WORDS[o.collapsed.activation]
    others = max(float(x) for c, x in enumerate(o.logits) if c != o.c)
    return {
        "circle": f"{_neurons(o)} Neuron {i}: φ = {roles.phi[i]:.3f}, ψ = {roles.psi[i]:.3f}.",
        "rectangles": _rectangles(o),
        "logits": f"Right answer c = {o.c}: logit {float(o.logits[o.c]):.3g}; the best other has {others:.3g}.",
        "pre": f"Neuron {i} at a = {o.a}, b = {o.b}: {float(o.pre[o.a, o.b]):.3g}; it is {words.positive} for "
        f"{100 * float((o.pre > 0).mean()):.3g} % of all inputs.",
        "column": f"Neuron {i} writes {float(roles.omega[i]):.3g} cos({int(roles.k_in[i])}wc + ψ), "
        f"ψ = {roles.psi[i]:.3f}.",
        "grid": f"{o.wrong:,} of {o.p**2:,} inputs are wrong; margins from {float(o.margins.min()):.3g} to "
        f"{float(o.margins.max()):.3g}.",
    }


def _neurons(frame: FirstFrame) -> str:
    """How many neurons there are, and at which key frequency; the counts add up."""
    sizes = {one.k: len(one.neurons) for one in frame.anatomy.clusters if one.k in frame.keys}
    rest, d = frame.collapsed.d_mlp - sum(sizes.values()), frame.collapsed.d_mlp
    named = [f"{size:,} at k = {k}" for k, size in sizes.items()]
    return (
        f"{d:,} of {d:,} neurons in use: {', '.join([*named, *([f'{rest:,} at no key frequency'] if rest else [])])}."
    )


def _rectangles(frame: FirstFrame) -> str:
    rule, error = frame.scheme, frame.error
    words = WORDS[frame.collapsed.activation]
    if rule is None and words.no_rule:
        return words.no_rule
    if rule is None:
        return "No frequency has two neurons that read and write it: no quadrature rule, no bound."
    total = float((rule.w * frame.heights(rule.phi, rule.psi, rule.k)).sum())
    here = (
        f"k = {rule.k}, a = {frame.a}, b = {frame.b}, c = {frame.c}: rectangles sum to {total:.3g}, the integral is "
        f"{frame.integral:.3g}."
    )
    if error is None:
        return f"{here} Bounds are about ReLU and |x|; this model's activation is {words.name}."
    exact, bound = f"{error.exact:.3g}", at_most(error.bound)
    return f"{here} Exact worst error over all a, b, c: {exact}; the paper's bound: at most {bound}."
