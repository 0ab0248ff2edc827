"""What needs no frequencies: where softmax attention looks, and which irreps of a group a model uses."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from quadlens.errors import BadConfig
from quadlens.figures.canvas import Target, canvas
from quadlens.figures.picture import Family, Words, figure
from quadlens.figures.style import CONCEPT_COLOURS
from quadlens.model.tables import FloatTables
from quadlens.numbers import percent
from quadlens.spectrum.irreps import KEY_SHARE
from quadlens.studies import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What stands at each position.
POSITIONS = ("a", "b", "=")
# More heads than this are too small to see; those whose gates vary most are drawn.
MOST_HEADS = 8
# Irreps drawn; those with the largest shares of W_L.
MOST_IRREPS = 24
PART_CONCEPTS = {"W_L": "output", "U_a": "input", "U_b": "paper"}


def all_gates(layer: FloatTables) -> Float[np.ndarray, "positions heads p p"]:
    """γ of every position and head, [a, b]."""
    a, b = np.divmod(np.arange(layer.p**2), layer.p)
    gates = layer.gates(a, b)
    return gates.reshape(*gates.shape[:2], layer.p, layer.p)


def drawn_heads(gates: Float[np.ndarray, "positions heads p p"]) -> tuple[int, ...]:
    """The heads drawn, in order."""
    spread = gates.std(axis=(2, 3)).max(axis=0)
    return tuple(sorted(np.argsort(-spread, kind="stable")[:MOST_HEADS].tolist()))


@figure("One axes per head and position, row by row")
def gates(study: Study, ax: Target = None) -> "Figure":
    """Draw how much each head attends to each position, for every input: one row per head, one map per position."""
    layer = study.anatomy.layer
    if not layer.gated:
        raise BadConfig("this model's attention does not depend on the tokens, so it has no gates to draw")
    values = all_gates(layer)
    heads, seen = drawn_heads(values), [POSITIONS[one.position] for one in layer.gated]
    size = (2.1 * len(seen) + 1.2, 2.0 * len(heads) + 0.3)
    with canvas(ax, size, len(heads) * len(seen), columns=len(seen), sharex=True, sharey=True) as drawn:
        low, high = min(0.0, layer.scale), max(0.0, layer.scale)
        for index, axis in enumerate(drawn.axes):
            head, position = heads[index // len(seen)], index % len(seen)
            axis.grid(visible=False)
            image = axis.imshow(
                values[position, head], cmap="cividis", vmin=low, vmax=high, origin="lower", interpolation="nearest"
            )
            axis.set_title(f"head {head} on {seen[position]}", loc="left")
            axis.locator_params(integer=True, nbins=4)
            if index % len(seen) == 0:
                axis.set_ylabel("a")
            if index >= len(drawn.axes) - len(seen):
                axis.set_xlabel("b")
        drawn.figure.colorbar(image, ax=drawn.axes, shrink=0.8)
        return drawn.figure


def _range(low: float, high: float) -> str:
    """From where to where, or where, as far as two digits show."""
    ends = f"{low:.2f}", f"{high:.2f}"
    return f"from {ends[0]} to {ends[1]}" if ends[0] != ends[1] else f"{ends[0]} everywhere"


def _gates_words(study: Study) -> Words | None:
    layer = study.anatomy.layer
    if not layer.gated:
        return None
    values = all_gates(layer)
    low, high = values.min(axis=(2, 3)), values.max(axis=(2, 3))
    heads = drawn_heads(values)
    words = [
        f"head {head}: "
        + ", ".join(
            f"on {POSITIONS[one.position]} {_range(low[i, head], high[i, head])}" for i, one in enumerate(layer.gated)
        )
        for head in heads
    ]
    left = f" ({layer.heads - len(heads)} heads that vary less are not drawn)" if layer.heads > len(heads) else ""
    return Words(
        title="Where attention looks",
        finding=f"The weight that softmax gives each position, over all inputs: {'; '.join(words)}{left}.",
        how_to_read="One row per head, one map per position; one square per input (a, b). Brighter means that the "
        "head takes more from that position. A map of one colour is attention that does not look at the tokens; "
        "stripes depend on one token, spots on both.",
        data="data/gates.csv",
    )


def irrep_shares(study: Study) -> dict[str, Float[np.ndarray, " parts"]]:
    """Share of every irrep in W_L and, where attention is constant, in what neurons read of a and of b."""
    layer, irreps = study.anatomy.layer, study.irreps
    if irreps is None:
        raise BadConfig("this model's task has frequencies, or is no group: there are no irreps to draw")
    read = {"U_a": layer.U_a, "U_b": layer.U_b} if layer.is_additive else {}
    return {name: irreps.shares(functions) for name, functions in ({"W_L": layer.W_L} | read).items()}


@figure()
def irreps(study: Study, ax: Target = None) -> "Figure":
    """Draw how much of what neurons write, and read, lies in each irrep of the task's group."""
    shares = irrep_shares(study)
    parts = study.irreps.parts if study.irreps else ()
    order = np.argsort(-shares["W_L"], kind="stable")[:MOST_IRREPS]
    with canvas(ax, (6.8, 3.2)) as drawn:
        (axis,) = drawn.axes
        width = 0.8 / len(shares)
        for place, (name, share) in enumerate(shares.items()):
            x = np.arange(len(order)) + (place - (len(shares) - 1) / 2) * width
            axis.bar(x, 100 * share[order], width=width, color=CONCEPT_COLOURS[PART_CONCEPTS[name]], label=name)
        names = [f"{parts[i].name} ({parts[i].dimension})" for i in order]
        axis.set_xticks(range(len(order)), names, fontsize=8, rotation=35, ha="right", rotation_mode="anchor")
        axis.set(ylabel="share, %", ylim=(0, None), xlim=(-0.6, len(order) - 0.4))
        axis.grid(visible=False, axis="x")
        axis.legend(loc="upper right")
        return drawn.figure


def _irreps_words(study: Study) -> Words | None:
    if study.irreps is None:
        return None
    share = irrep_shares(study)["W_L"]
    key = [i for i in np.argsort(-share, kind="stable").tolist() if share[i] >= KEY_SHARE]
    parts = study.irreps.parts
    words = ", ".join(f"{parts[i].name} {percent(float(share[i]))}" for i in key[:MOST_IRREPS])
    ranks, outline = sum(parts[i].rank for i in key), study.outline
    return Words(
        title="Irreps of the group that the model uses",
        finding=f"{len(key)} of {len(parts)} irreps of {study.config.task.name} hold at least "
        f"{percent(KEY_SHARE, 0)} of W_L each: {words or 'none'}. Functions in them have {ranks} dimensions"
        + (f"; {outline.rank} directions hold 99.9 % of W_L." if outline else "."),
        how_to_read="One group of bars per irreducible representation, its dimension in brackets, those with most "
        "of W_L first. For a cyclic group these would be the frequencies. A model that uses the group's structure "
        "has a few tall groups; a random one spreads over all in proportion to the squares of their dimensions.",
        data="data/irreps.csv",
    )


GATES = Family("gates", gates, _gates_words, needs_waves=False)
IRREPS = Family("irreps", irreps, _irreps_words, needs_waves=False)
