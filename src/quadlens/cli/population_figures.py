"""Which figures a population has, written to files."""

from pathlib import Path
from typing import TYPE_CHECKING

from quadlens.errors import BadConfig, BadFile

if TYPE_CHECKING:
    import polars

    from quadlens.figures.style import FigureFormat
    from quadlens.population.comparison import Comparison


def write_all(comparison: "Comparison", frame: "polars.DataFrame", directory: Path, formats: str) -> list[Path]:
    """Every figure of the population in every format asked for; returns the files."""
    from quadlens.figures import population_certified, population_histogram, population_key_frequencies
    from quadlens.figures.style import write_figure
    from quadlens.population.tables import by_model

    kinds = _ready(directory, formats)
    drawn = {population_key_frequencies.NAME: population_key_frequencies.draw(comparison.key_counts)}
    for histogram in comparison.histograms:
        drawn[population_histogram.name_of(histogram)] = population_histogram.draw(histogram)
    drawn[population_certified.NAME] = population_certified.draw(by_model(frame))
    return [path for name, figure in drawn.items() for path in write_figure(figure, directory, name, kinds)]


def write_by_p(frame: "polars.DataFrame", directory: Path, formats: str) -> list[Path]:
    """How things depend on p, in every format asked for; returns the files."""
    from quadlens.figures import population_by_p
    from quadlens.figures.style import write_figure
    from quadlens.population.tables import by_model

    kinds = _ready(directory, formats)
    return write_figure(population_by_p.draw(by_model(frame)), directory, population_by_p.NAME, kinds)


def _ready(directory: Path, formats: str) -> "tuple[FigureFormat, ...]":
    """The formats, once they are known and the directory is there."""
    from quadlens.figures.style import FIGURE_FORMATS

    kinds = tuple(kind for kind in FIGURE_FORMATS if kind in formats.split(","))
    if len(kinds) != len(formats.split(",")):
        raise BadConfig(f"--format {formats!r}; expected some of {','.join(FIGURE_FORMATS)}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadFile(f"cannot make the directory {directory}: {error.strerror}") from None
    return kinds
