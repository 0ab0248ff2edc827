"""Drawing all pictures into files, on as many processes as asked for; the bytes do not depend on how many."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from quadlens.figures.picture import Picture
from quadlens.figures.registry import all_pictures
from quadlens.figures.style import FIGURE_FORMATS, FigureFormat, figure_bytes
from quadlens.studies import Results
from quadlens.workers import deaf_to_interrupts

# Portions each process draws, one after the other: enough that none waits long for the last.
CHUNKS = 4


@dataclass(frozen=True)
class Rendered:
    """One picture in every format."""

    name: str
    files: tuple[tuple[FigureFormat, bytes], ...]

    def content(self, kind: FigureFormat) -> bytes:
        """The file of one format."""
        return dict(self.files)[kind]


def render(results: Results, workers: int, progress: Callable[[int, int], None]) -> dict[str, Rendered]:
    """Every picture of the model, drawn once and saved in each format; `progress` gets (done, all)."""
    pictures = all_pictures(results)
    done: dict[str, Rendered] = {}
    for one in _drawn(results, pictures, workers):
        done[one.name] = one
        progress(len(done), len(pictures))
    return {picture.name: done[picture.name] for picture in pictures}


def _drawn(results: Results, pictures: tuple[Picture, ...], workers: int) -> Iterator[Rendered]:
    if workers <= 1:
        yield from (_draw(picture) for picture in pictures)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    names = [picture.name for picture in pictures]
    chunks = [names[start :: CHUNKS * workers] for start in range(CHUNKS * workers)]
    # Fresh processes, not forks: polars and OpenBLAS have threads, which do not survive a fork.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        with deaf_to_interrupts():
            futures = [pool.submit(_draw_named, results, chunk) for chunk in chunks if chunk]
        try:
            for future in as_completed(futures):
                yield from future.result()
        except BaseException:
            # Leaving the pool would wait for pictures that nobody wants any more.
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise


def _draw_named(results: Results, names: list[str]) -> list[Rendered]:
    """In a worker: functions cannot be sent to it, results and names can."""
    return [_draw(picture) for picture in all_pictures(results) if picture.name in names]


def _draw(picture: Picture) -> Rendered:
    figure = picture.draw()
    return Rendered(picture.name, tuple((kind, figure_bytes(figure, kind)) for kind in FIGURE_FORMATS))


def write_rendered(rendered: dict[str, Rendered], directory: Path) -> None:
    """`figures/NAME.FORMAT` for every picture and format."""
    (directory / "figures").mkdir()
    for one in rendered.values():
        for kind, content in one.files:
            (directory / "figures" / f"{one.name}.{kind}").write_bytes(content)
