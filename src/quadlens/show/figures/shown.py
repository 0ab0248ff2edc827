"""A matplotlib figure that a notebook shows as it is.

The module is apart because it needs matplotlib when it is loaded.
"""

import io
from typing import Any

from matplotlib.figure import Figure

from quadlens.show.figures.style import style

# Bytes; a larger vector picture, of thousands of marks, is shown as pixels.
LARGEST_SHOWN = 400_000


class ShownFigure(Figure):
    """A figure that draws itself where it is the last value of a cell.

    It is sharp at any size, whatever the backend is.
    """

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """What Jupyter asks for; it passes the kinds that it wants, and takes what comes."""
        svg = self._content("svg", metadata={"Date": None})
        if len(svg) <= LARGEST_SHOWN:
            return {"image/svg+xml": svg.decode()}
        return {"image/png": self._content("png", dpi=150)}

    def _content(self, kind: str, **options: Any) -> bytes:
        stream = io.BytesIO()
        with style():
            self.savefig(stream, format=kind, **options)
        return stream.getvalue()
