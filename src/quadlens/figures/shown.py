"""A matplotlib figure that a notebook shows as it is; apart because it needs matplotlib when it is loaded."""

import io

from matplotlib.figure import Figure

from quadlens.figures.style import style


class ShownFigure(Figure):
    """A figure that draws itself as pixels where it is the last value of a cell, whatever the backend is."""

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        with style():
            self.savefig(stream, format="png")
        return stream.getvalue()
