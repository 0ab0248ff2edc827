"""Marks that several figures share: many boxes as one path, a frequency's name, angles on an axis."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import PathPatch

# Points of the outline of a box: four corners and the closing one.
BOX_POINTS = 5


def boxes(
    axis: "Axes",
    edges: tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]],
    levels: tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]],
    **look: Any,
) -> "PathPatch":
    """N boxes from edges[0] to edges[1] and from levels[0] to levels[1]; one path, so that files stay small."""
    left, right = edges
    bottom, top = levels
    corners = np.stack(
        [
            np.stack([left, bottom], axis=1),
            np.stack([left, top], axis=1),
            np.stack([right, top], axis=1),
            np.stack([right, bottom], axis=1),
        ],
        axis=1,
    )
    return shapes(axis, corners, **look)


def shapes(axis: "Axes", corners: Float[np.ndarray, "n corners 2"], **look: Any) -> "PathPatch":
    """N closed polygons as one path."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    n, sides = corners.shape[:2]
    points = np.concatenate([corners, corners[:, :1]], axis=1).reshape(-1, 2)
    codes = np.tile([Path.MOVETO, *[Path.LINETO] * (sides - 1), Path.CLOSEPOLY], n)
    patch = PathPatch(Path(points, codes), **look)
    axis.add_patch(patch)
    return patch


def angle_axis(axis: "Axes", low: float = -np.pi, high: float = np.pi, which: str = "x") -> None:
    """Ticks at multiples of π/2 within low … high."""
    steps = np.arange(np.ceil(low / (np.pi / 2) - 1e-6), np.floor(high / (np.pi / 2) + 1e-6) + 1)
    names = [_angle_name(int(step)) for step in steps]
    if which == "x":
        axis.set_xticks(steps * np.pi / 2, names)
    else:
        axis.set_yticks(steps * np.pi / 2, names)


def _angle_name(halves: int) -> str:
    if halves == 0:
        return "0"
    sign, size = "−" if halves < 0 else "", abs(halves)
    whole, odd = divmod(size, 2)
    if odd:
        return f"{sign}{'' if size == 1 else size}π/2"
    return f"{sign}{'' if whole == 1 else whole}π"
