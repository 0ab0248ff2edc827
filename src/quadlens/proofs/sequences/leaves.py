"""Groups of cells, the leaves that decide them, and how sets and boxes are cut."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from quadlens.proofs.sequences.cells import Cells
from quadlens.proofs.sequences.interval import Interval
from quadlens.proofs.sequences.tables import HINT_BITS

RIGHT, WRONG, OPEN, COUNTED = "right", "wrong", "open", "counted"
# Boxes are multiples of this, and so exact as integers in a certificate.
GRAIN = 2.0**-HINT_BITS


@dataclass(eq=False)
class CellGroup:
    """Cells with the same window and own token, and their leaves.

    Attributes:
        cells: The cells.
        boxes: Where attention's coordinates are, proved for the leaf that a cell is in.
        leaf: The leaf of each; -1 while there is none.
        children: Of a refined cell: the side, the group of its children, and the first and the
            number after the last.
        place: Of the cells of a whole step, their places in canonical order.
    """

    cells: Cells
    boxes: Interval
    leaf: Int[np.ndarray, " n"]
    children: dict[int, tuple[str, "CellGroup", int, int]] = field(default_factory=dict)
    place: Int[np.ndarray, " n"] | None = None


class Hyperplane(NamedTuple):
    """A linear function φ = Σ_k g_k r_k on a box, and what it decides of the words there.

    Numbers are multiples of GRAIN. `counting` has the theorem.

    Attributes:
        slope: g, one number per coordinate.
        at: ρ, one number per head.
        right: Points with φ at least this are right.
        wrong: Points with φ at most this are wrong.
        bin: By what sums are counted.
        words: At least so many words of the cells are wrong, and at most so many not proved right.
    """

    slope: tuple[float, ...]
    at: tuple[float, ...]
    right: float
    wrong: float
    bin: float
    words: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Leaf:
    """Cells with one box.

    Attributes:
        kind: right, wrong, open or counted.
        own: Their own token.
        answer: Their right answer.
        box: [coordinate, end]; empty where open.
        margin: A lower bound of the margin over the box, where right; of the words that are, where
            counted.
        plane: What divides right words from wrong ones, where counted.
    """

    kind: str
    own: int
    answer: int
    box: Float[np.ndarray, "k 2"]
    margin: float
    plane: Hyperplane | None = None


class Proposal(NamedTuple):
    """A leaf whose cells are still to be proved to be in its box."""

    members: Int[np.ndarray, " n"]
    kind: str
    box: Interval
    margin: float


def halves(
    boxes: Interval, members: Int[np.ndarray, " n"], influence: Float[np.ndarray, " k"]
) -> list[Any]:
    """Split cells in two along the coordinate that matters most, at the widest gap."""
    if not len(influence):
        return [members[: len(members) // 2], members[len(members) // 2 :]]
    k = int(np.argmax(np.nan_to_num(influence, posinf=1e300)))
    middle = boxes.middle[members, k]
    order = members[np.argsort(middle, kind="stable")]
    reach = np.maximum.accumulate(boxes.hi[order, k])[:-1]
    gap = boxes.lo[order[1:], k] - reach
    cut = int(gap.argmax()) + 1 if gap.max() > 0 else len(order) // 2
    return [order[:cut], order[cut:]]


def bisect(boxes: Interval, influence: Float[np.ndarray, "n k"]) -> Interval:
    """Cut every box in two across the coordinate that matters most."""
    rows = np.arange(len(boxes.lo))
    k = np.nan_to_num(influence, posinf=1e300).argmax(axis=1)
    low, high = boxes.lo.copy(), boxes.hi.copy()
    middle = boxes.middle[rows, k]
    high[rows, k], low[rows, k] = middle, middle
    return Interval(np.concatenate([boxes.lo, low]), np.concatenate([high, boxes.hi]))
