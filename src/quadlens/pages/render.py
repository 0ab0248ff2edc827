"""Drawing all pictures into files, on as many processes as asked for; the bytes do not depend on how many."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from quadlens.figures.picture import Picture
from quadlens.figures.registry import all_pictures
from quadlens.figures.style import FIGURE_FORMATS, FigureFormat, figure_bytes
from quadlens.studies import Study
from quadlens.workers import deaf_to_interrupts


@dataclass(frozen=True)
class Rendered:
    """One picture in every format."""

    name: str
    files: tuple[tuple[FigureFormat, bytes], ...]

    def content(self, kind: FigureFormat) -> bytes:
        """The file of one format."""
        return dict(self.files)[kind]


def render(study: Study, workers: int, progress: Callable[[int, int], None]) -> dict[str, Rendered]:
    """Every picture of the model, drawn once and saved in each format; `progress` gets (done, all)."""
    pictures = all_pictures(study)
    done: dict[str, Rendered] = {}
    for one in _drawn(study, pictures, workers):
        done[one.name] = one
        progress(len(done), len(pictures))
    return {picture.name: done[picture.name] for picture in pictures}


def _drawn(study: Study, pictures: tuple[Picture, ...], workers: int) -> Iterator[Rendered]:
    if workers <= 1:
        yield from (_draw(picture) for picture in pictures)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    # Fresh processes, not forks: polars and OpenBLAS have threads, which do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(study,)) as pool:
        with deaf_to_interrupts():
            futures = [pool.submit(_draw_named, picture.name) for picture in pictures]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            # Leaving the pool would wait for pictures that nobody wants any more.
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise


# In a worker: the pictures of the study that it draws, by name.
_in_worker: dict[str, Picture] = {}


def _begin(study: Study) -> None:
    """In a worker, once: the study comes with all that was computed, so that nothing is computed again."""
    _in_worker.update({picture.name: picture for picture in all_pictures(study)})


def _draw_named(name: str) -> Rendered:
    return _draw(_in_worker[name])


def _draw(picture: Picture) -> Rendered:
    figure = picture.draw()
    return Rendered(picture.name, tuple((kind, figure_bytes(figure, kind)) for kind in FIGURE_FORMATS))


def write_rendered(rendered: dict[str, Rendered], directory: Path) -> None:
    """`figures/NAME.FORMAT` for every picture and format."""
    (directory / "figures").mkdir()
    for one in rendered.values():
        for kind, content in one.files:
            (directory / "figures" / f"{one.name}.{kind}").write_bytes(content)
