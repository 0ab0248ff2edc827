"""One look for every figure: sizes, fonts, and one colour per concept.

The colours are safe for colour-blind readers.
"""

import contextlib
import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from quadlens.base.atomic import write_together
from quadlens.base.errors import BadConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FigureFormat = Literal["svg", "pdf", "png"]
FIGURE_FORMATS: tuple[FigureFormat, ...] = get_args(FigureFormat)

# Okabe and Ito's palette, and two greys: distinguishable with every common colour vision. A concept
# keeps its colour through all figures; frequencies have a palette of their own, so that no
# frequency looks like a concept.
CONCEPT_COLOURS = {
    "train": "#5A5A5A",
    "validation": "#D55E00",
    "input": "#0072B2",
    "output": "#CC79A7",
    "truth": "#000000",
    "bound": "#E69F00",
    "exact": "#009E73",
    "paper": "#56B4E9",
    "ours": "#7A4FA3",
    "wrong": "#C1272D",
    "absolute": "#B8A100",
    "identity": "#EE8866",
}
# Key frequencies, in order of k (Tol's muted palette); more than eight repeat.
FREQUENCY_COLOURS = (
    "#332288",
    "#CC6677",
    "#117733",
    "#AA4499",
    "#999933",
    "#882255",
    "#44AA99",
    "#88604A",
)
QUIET_COLOUR = "#C4C4C4"
# Pixels per inch of PNG files, and points per inch.
PNG_PIXELS = 160
POINTS = 72
# How a PDF carries its fonts: TrueType, as publishers ask for, or Type 3 (outlines), written in a
# third of the time.
PdfFonts = Literal[42, 3]
TRUETYPE: PdfFonts = 42
OUTLINES: PdfFonts = 3

_RC: Any = {
    "figure.figsize": (6.4, 3.8),
    "figure.dpi": 110,
    "savefig.dpi": PNG_PIXELS,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    # Where titles stand anyway, given: no drawing has to find it out from the boxes of all tick
    # labels.
    "axes.titley": 1.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.constrained_layout.use": True,
    # Fonts travel with the file, and the same figure is the same bytes.
    "svg.fonttype": "path",
    "svg.hashsalt": "quadlens",
}
_NO_DATE: dict[FigureFormat, dict[str, Any]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "ModDate": None},
    "png": {"Software": None},
}
_PATH_DATA = re.compile(rb'(?<= d=")[^"]*')
_LONG_DECIMAL = re.compile(rb"(\.\d\d)\d+")


def parse_formats(text: str) -> tuple[FigureFormat, ...]:
    """File formats from `svg,png`.

    Raises:
        BadConfig: for one that is not known.
    """
    kinds = tuple(kind for kind in FIGURE_FORMATS if kind in text.split(","))
    if len(kinds) != len(text.split(",")):
        raise BadConfig(
            f"format {text!r}; expected some of {','.join(FIGURE_FORMATS)}", settings=("format",)
        )
    return kinds


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw inside this and the figure has our look; rcParams are the caller's again afterwards."""
    import matplotlib as mpl

    with mpl.rc_context(_RC):
        yield


def frequency_colour(k: int, keys: tuple[int, ...]) -> str:
    """Return the colour of key frequency k.

    Its place among the keys decides; frequencies that are not key are quiet.
    """
    return FREQUENCY_COLOURS[keys.index(k) % len(FREQUENCY_COLOURS)] if k in keys else QUIET_COLOUR


def figure_bytes(figure: "Figure", kind: FigureFormat, pdf_fonts: PdfFonts = TRUETYPE) -> bytes:
    """The figure as a file's content; the same figure always gives the same bytes.

    Args:
        figure: Drawn by one of our functions.
        kind: The format.
        pdf_fonts: How a PDF carries its fonts.
    """
    import matplotlib as mpl

    # Lay out once: three formats share the positions. Saving asks rcParams for an engine again, so
    # they must say none.
    with mpl.rc_context({**_RC, "figure.constrained_layout.use": False, "pdf.fonttype": pdf_fonts}):
        engine = figure.get_layout_engine()
        if engine is not None:
            # In points, as vector files are drawn.
            figure.set_dpi(POINTS)
            engine.execute(figure)
            figure.set_layout_engine(None)
        stream = io.BytesIO()
        figure.savefig(stream, format=kind, metadata=_NO_DATE[kind])
    content = stream.getvalue()
    return _shorter_paths(content) if kind == "svg" else content


def _shorter_paths(svg: bytes) -> bytes:
    """Return coordinates of paths cut to a hundredth of a point.

    Nobody sees the rest, and files are a third smaller.
    """
    return _PATH_DATA.sub(lambda match: _LONG_DECIMAL.sub(rb"\1", match.group()), svg)


def write_figures(
    figures: "Iterable[tuple[str, Figure]]", directory: Path, kinds: tuple[FigureFormat, ...]
) -> list[Path]:
    """Write `name.kind` for every figure and kind; return the paths.

    Figures are written as they are drawn, all of them or none.
    """
    contents = (
        (directory / f"{name}.{kind}", figure_bytes(figure, kind))
        for name, figure in figures
        for kind in kinds
    )
    return write_together(directory, contents)
