"""Sentences of the page that need no JavaScript: how to read each view, and its numbers at the start."""

from dataclasses import dataclass

from quadlens.explorer.opening import Opening


@dataclass(frozen=True)
class View:
    """One view of the page.

    Attributes:
        name: Its id.
        title: Its heading.
        how: How to read it, in one line.
    """

    name: str
    title: str
    how: str


VIEWS: tuple[View, ...] = (
    View(
        "circle",
        "The circle of phases",
        "Each dot is a neuron at its input phase φ, as large as its weight ρω, on the ring of its frequency. The "
        "shaded half is where the chosen frequency's neurons are on for this a and b. Drag a dot along its ring.",
    ),
    View(
        "rectangles",
        "The rectangles under h(φ)",
        "Each rectangle is a neuron: its width the weight w, its height h at its phase. The line is the true curve; "
        "the network's sum is the coloured area. The orange band is how far h may stray from each height.",
    ),
    View(
        "logits",
        "The logits, taken apart",
        "Bars stack what each frequency's absolute-value part, the identity part and the skip connection add to the "
        "logit of c; the black ticks are their sum, the green column the right answer. Point at a bar to ring the "
        "neurons behind it.",
    ),
    View(
        "pre",
        "What one neuron reads",
        "Pre-activation of the neuron over a (right) and b (up): blue above zero, where ReLU lets it through, "
        "orange below. Click to choose a and b.",
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


def numbers(opening: Opening) -> dict[str, str]:
    """The text alternative of each view, stating its numbers."""
    o, roles = opening, opening.roles
    i, sizes = o.neuron, ", ".join(f"{len(one.neurons)} at k = {one.k}" for one in o.clusters if one.k in o.keys)
    rule, wrong = o.numbers, int((~(o.margins > 0)).sum())
    rectangle = (
        "This model has no ReLU quadrature rule at any frequency."
        if rule is None or o.scheme is None
        else f"k = {o.scheme.k}, a = {o.a}, b = {o.b}, c = {o.c}: rectangles sum to {rule.sum:.3g}, the integral is "
        f"{rule.integral:.3g}. Exact worst error over all a, b, c: {rule.exact:.3g}; the paper's bound: "
        f"{rule.bound:.3g}."
    )
    others = max(float(x) for c, x in enumerate(o.logits) if c != o.c)
    return {
        "circle": f"{len(roles.phi)} neurons; {sizes or 'no cluster'}. Neuron {i}: φ = {roles.phi[i]:.3f}, "
        f"ψ = {roles.psi[i]:.3f}.",
        "rectangles": rectangle,
        "logits": f"Right answer c = {o.c}: logit {float(o.logits[o.c]):.3g}; the best other has {others:.3g}.",
        "pre": f"Neuron {i} at a = {o.a}, b = {o.b}: {float(o.pre[o.a, o.b]):.3g}; it is on for "
        f"{100 * float((o.pre > 0).mean()):.3g} % of all inputs.",
        "column": f"Neuron {i} writes {float(roles.omega[i]):.3g} cos({int(roles.k_in[i])}wc + ψ), "
        f"ψ = {roles.psi[i]:.3f}.",
        "grid": f"{wrong} of {o.p**2} inputs are wrong; margins from {float(o.margins.min()):.3g} to "
        f"{float(o.margins.max()):.3g}.",
    }
