"""The place where a figure is drawn, and marks that figures share.

It is a new figure in our look, or the caller's axes in the caller's look.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from quadlens.base.errors import BadConfig
from quadlens.show.figures.style import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.patches import PathPatch

    Target = Axes | Figure | SubFigure | Sequence[Axes] | np.ndarray | None
else:
    # What a figure's `ax` may be: None, axes, a figure or subfigure to make axes in, or one axes
    # per panel.
    Target = Any


@dataclass(frozen=True, eq=False)
class Canvas:
    """Axes to draw on.

    Attributes:
        axes: One per panel, in order.
        columns: How many stand side by side.
        ours: Whether the figure was made for this drawing.
    """

    axes: "list[Axes]"
    columns: int
    ours: bool

    @property
    def figure(self) -> "Figure":
        """The whole figure, also of axes in a subfigure."""
        owner: Any = self.axes[0].figure
        while owner.figure is not owner:
            owner = owner.figure
        figure: Figure = owner
        return figure

    def label_outside(self, across: str, up: str) -> None:
        """Name the axes that panels share.

        `up` stands at the first panel of each row, `across` under the last of each column.
        """
        for index, axis in enumerate(self.axes):
            if index % self.columns == 0:
                axis.set_ylabel(up)
            if index >= len(self.axes) - self.columns:
                axis.set_xlabel(across)
                axis.tick_params(labelbottom=True)

    def legend(self, columns: int) -> None:
        """Show the first panel's legend for all panels.

        It stands below them on our own figure, inside the first on the caller's.
        """
        handles, names = self.axes[0].get_legend_handles_labels()
        if self.ours:
            self.figure.legend(
                handles, names, loc="outside lower center", ncols=columns, fontsize=8
            )
        else:
            self.axes[0].legend(handles, names, fontsize="small")


@contextlib.contextmanager
def canvas(
    ax: Target, size: tuple[float, float], panels: int = 1, **layout: Any
) -> Iterator[Canvas]:
    """Axes for so many panels: new ones in our look, or the caller's.

    Args:
        ax: None for a new figure; axes for one panel; a figure or subfigure, in which axes are
            made; or one axes per panel.
        size: Of a new figure, in inches.
        panels: How many axes the drawing needs.
        layout: How new axes are laid out, as for `Figure.subplots`; `columns` for as many rows as
            it takes, and `projections` for one projection per panel.

    Raises:
        BadConfig: if `ax` is something else, or not as many axes as there are panels.
    """
    from matplotlib.figure import FigureBase

    projections, columns = (
        layout.get("projections") or (None,) * panels,
        layout.get("columns", panels),
    )
    if ax is None:
        from quadlens.show.figures.shown import ShownFigure

        with style():
            yield Canvas(_made(ShownFigure(figsize=size), panels, layout), columns, ours=True)
    elif isinstance(ax, FigureBase):
        yield Canvas(_made(ax, panels, layout), columns, ours=False)
    else:
        yield Canvas(_given(ax, panels, projections), columns, ours=False)


def _given(ax: Any, panels: int, projections: tuple[str | None, ...]) -> "list[Axes]":
    """The caller's axes, if they are what the drawing needs."""
    from matplotlib.axes import Axes

    axes = (
        list(ax.ravel())
        if isinstance(ax, np.ndarray)
        else list(ax)
        if isinstance(ax, Sequence)
        else [ax]
    )
    if not all(isinstance(axis, Axes) for axis in axes):
        came = next(type(axis).__name__ for axis in axes if not isinstance(axis, Axes))
    elif len(axes) != panels:
        came = f"{len(axes)} axes"
    else:
        wrong = [
            n
            for n, (axis, kind) in enumerate(zip(axes, projections, strict=True))
            if kind not in (None, axis.name)
        ]
        if not wrong:
            return axes
        came = f"axes {wrong[0]} without projection={projections[wrong[0]]!r}"
    needed = (
        "one matplotlib Axes"
        if panels == 1
        else f"a sequence of {panels} matplotlib Axes, one per panel"
    )
    raise BadConfig(
        f"ax: got {came}; expected {needed}, a Figure or SubFigure to make them in, or None"
    )


def _made(figure: Any, panels: int, layout: dict[str, Any]) -> "list[Axes]":
    layout = dict(layout)
    columns, projections = layout.pop("columns", panels), layout.pop("projections", None)
    rows = -(-panels // columns)
    if projections is not None:
        return [
            figure.add_subplot(rows, columns, n, projection=kind)
            for n, kind in enumerate(projections, start=1)
        ]
    made = list(figure.subplots(rows, columns, squeeze=False, **layout).ravel())
    for unused in made[panels:]:
        unused.set_visible(False)
    return made[:panels]


def boxes(
    axis: "Axes",
    edges: tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]],
    levels: tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]],
    **look: Any,
) -> "PathPatch":
    """Return N boxes as one path, so that files stay small.

    They lie from edges[0] to edges[1] and from levels[0] to levels[1].
    """
    (left, right), (bottom, top) = edges, levels
    corners = [
        np.stack(pair, axis=1)
        for pair in ((left, bottom), (left, top), (right, top), (right, bottom))
    ]
    return shapes(axis, np.stack(corners, axis=1), **look)


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
