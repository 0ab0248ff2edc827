"""One look for every figure: sizes, fonts, and one colour a concept, safe for colour-blind readers."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from quadlens.errors import MissingExtra
from quadlens.model.atomic import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FigureFormat = Literal["svg", "pdf", "png"]
FIGURE_FORMATS: tuple[FigureFormat, ...] = get_args(FigureFormat)

# Okabe and Ito's palette: distinguishable with every common colour vision.
CONCEPT_COLOURS = {
    "train": "#0072B2",
    "validation": "#D55E00",
    "input": "#0072B2",
    "output": "#CC79A7",
    "truth": "#000000",
    "bound": "#E69F00",
    "exact": "#009E73",
    "paper": "#56B4E9",
}
# Key frequencies, in order of k; more than eight repeat.
FREQUENCY_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F3C8D", "#4D4D4D")
QUIET_COLOUR = "#C4C4C4"

_RC: Any = {
    "figure.figsize": (6.4, 3.8),
    "figure.dpi": 110,
    "savefig.dpi": 160,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    # Fonts travel with the file, and the same figure is the same bytes.
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "quadlens",
}
_NO_DATE: dict[FigureFormat, dict[str, Any]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "ModDate": None},
    "png": {"Software": None},
}


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw inside this and the figure has the house's look."""
    try:
        import matplotlib as mpl
    except ModuleNotFoundError as error:
        raise MissingExtra("drawing figures", "figures") from error
    mpl.use("agg")
    with mpl.rc_context(_RC):
        yield


def figure_bytes(figure: "Figure", kind: FigureFormat) -> bytes:
    """The figure as a file's content; the same figure always gives the same bytes."""
    with style():
        stream = io.BytesIO()
        figure.savefig(stream, format=kind, metadata=_NO_DATE[kind])
    return stream.getvalue()


def write_figure(figure: "Figure", directory: Path, name: str, kinds: tuple[FigureFormat, ...]) -> list[Path]:
    """Write `name.kind` for every kind, each whole or not at all; returns the paths."""
    paths = [directory / f"{name}.{kind}" for kind in kinds]
    for path, kind in zip(paths, kinds, strict=True):
        write_atomic(path, figure_bytes(figure, kind))
    return paths
