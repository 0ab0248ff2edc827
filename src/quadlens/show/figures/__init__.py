"""Every figure as a function.

`quadlens.figures.NAME(study, …, ax=None)` draws one and returns its matplotlib figure.

The first argument is a study, a model, a path or the name of a bundled model. Without `ax` a new
figure is made in our look; with `ax` the drawing goes on the caller's axes, in the caller's look. A
figure of several panels takes a sequence of axes, one per panel, or a Figure or SubFigure to make
them in. Neither the backend nor rcParams change.

    >>> import quadlens.figures
    >>> figure = quadlens.figures.quadrature("pizza", k=5)
    >>> figure.axes[0].get_title(loc="left")
    'k = 5: area of 176 rectangles 1.3477, integral 1.3333'
"""

from typing import Any


def _functions() -> dict[str, str]:
    """Name of each figure's function → its module, in the order of the alphabet."""
    from quadlens.show.figures.listed import entries

    drawn = (entry["draw"].split(".") for entry in entries().values())
    return {function: module for module, function in sorted(drawn, key=lambda item: str(item[1]))}


def __getattr__(name: str) -> Any:
    """Import a figure when it is asked for."""
    if name == "__all__":
        return list(_functions())
    modules = {} if name.startswith("_") else _functions()
    if name not in modules:
        known = ", ".join(_functions())
        raise AttributeError(
            f"module 'quadlens.figures' has no attribute {name!r}; figures: {known}"
        )
    from quadlens.base.door import DOOR

    return getattr(DOOR.load(f"quadlens.show.figures.{modules[name]}"), name)


def __dir__() -> list[str]:
    """The figures, nothing else."""
    return list(_functions())
