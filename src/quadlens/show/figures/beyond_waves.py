"""Figures that need no frequencies.

They show where softmax attention looks, and which irreps of a group a model uses.
"""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from quadlens.analysis.explanation.of_study import outline_of
from quadlens.analysis.spectrum.irreps import irreps_of
from quadlens.analysis.spectrum.key import KEY_SHARE, is_key
from quadlens.analysis.spectrum.of_study import layer_of
from quadlens.base.errors import BadConfig
from quadlens.network.study import Study
from quadlens.network.tables import FloatTables
from quadlens.show.figures.canvas import Target, canvas
from quadlens.show.figures.picture import Values, figure
from quadlens.show.figures.style import CONCEPT_COLOURS

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


def _gate_ranges(study: Study) -> Values | None:
    """From where to where each position's weight goes, [head], and the heads drawn."""
    layer = layer_of(study)
    if not layer.gated:
        return None
    values = all_gates(layer)
    ends = zip(layer.gated, values.min(axis=(2, 3)), values.max(axis=(2, 3)), strict=True)
    positions = [
        {"name": POSITIONS[table.position], "low": low, "high": high} for table, low, high in ends
    ]
    return {"heads": drawn_heads(values), "all_heads": layer.heads, "positions": positions}


@figure("One axes per head and position, row by row", values=_gate_ranges)
def gates(study: Study, ax: Target = None) -> "Figure":
    """Draw how much each head attends to each position, for every input.

    There is one row per head and one map per position.
    """
    layer = layer_of(study)
    if not layer.gated:
        raise BadConfig(
            "this model's attention does not depend on the tokens, so it has no gates to draw"
        )
    values = all_gates(layer)
    heads, seen = drawn_heads(values), [POSITIONS[table.position] for table in layer.gated]
    size = (2.1 * len(seen) + 1.2, 2.0 * len(heads) + 0.3)
    with canvas(
        ax, size, len(heads) * len(seen), columns=len(seen), sharex=True, sharey=True
    ) as drawn:
        low, high = min(0.0, layer.scale), max(0.0, layer.scale)
        for index, axis in enumerate(drawn.axes):
            head, position = heads[index // len(seen)], index % len(seen)
            axis.grid(visible=False)
            image = axis.imshow(
                values[position, head],
                cmap="cividis",
                vmin=low,
                vmax=high,
                origin="lower",
                interpolation="nearest",
            )
            axis.set_title(f"head {head} on {seen[position]}", loc="left")
            axis.locator_params(integer=True, nbins=4)
        drawn.label_outside("b", "a")
        drawn.figure.colorbar(image, ax=drawn.axes, shrink=0.8)
        return drawn.figure


def irrep_shares(study: Study) -> dict[str, Float[np.ndarray, " parts"]]:
    """Return the share of every irrep in W_L.

    Where attention is constant, also its share in what neurons read of a and of b.
    """
    layer, irreps = layer_of(study), study.once(irreps_of)
    if irreps is None:
        raise BadConfig(
            "this model's task has frequencies, or is no group: there are no irreps to draw"
        )
    read = {"U_a": layer.U_a, "U_b": layer.U_b} if layer.is_additive else {}
    return {
        name: irreps.shares(functions) for name, functions in ({"W_L": layer.W_L} | read).items()
    }


def _key_irreps(study: Study) -> Values | None:
    """Those with most of W_L, each with its share."""
    found = study.once(irreps_of)
    if found is None:
        return None
    share, parts = irrep_shares(study)["W_L"], found.parts
    key = [
        (parts[i], float(share[i])) for i in np.argsort(-share, kind="stable") if is_key(share[i])
    ]
    outline = study.once(outline_of)
    return {
        "key": key,
        "key_share": KEY_SHARE,
        "most": MOST_IRREPS,
        "irreps": found,
        "outline": outline,
    }


@figure(values=_key_irreps)
def irreps(study: Study, ax: Target = None) -> "Figure":
    """Draw how much of what neurons write, and read, lies in each irrep of the task's group."""
    shares = irrep_shares(study)
    found = study.once(irreps_of)
    parts = found.parts if found else ()
    order = np.argsort(-shares["W_L"], kind="stable")[:MOST_IRREPS]
    with canvas(ax, (6.8, 3.2)) as drawn:
        (axis,) = drawn.axes
        width = 0.8 / len(shares)
        for place, (name, share) in enumerate(shares.items()):
            x = np.arange(len(order)) + (place - (len(shares) - 1) / 2) * width
            axis.bar(
                x,
                100 * share[order],
                width=width,
                color=CONCEPT_COLOURS[PART_CONCEPTS[name]],
                label=name,
            )
        names = [f"{parts[i].name} ({parts[i].dimension})" for i in order]
        axis.set_xticks(
            range(len(order)), names, fontsize=8, rotation=35, ha="right", rotation_mode="anchor"
        )
        axis.set(ylabel="share, %", ylim=(0, None), xlim=(-0.6, len(order) - 0.4))
        axis.grid(visible=False, axis="x")
        axis.legend(loc="upper right")
        return drawn.figure
