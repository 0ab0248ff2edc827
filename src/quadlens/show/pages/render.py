"""Draw all pictures into files, on as many processes as asked for.

The bytes do not depend on how many there are.
"""

import base64
import contextlib
import io
import pickle
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from quadlens.base.workers import deaf_to_interrupts
from quadlens.network.study import Study
from quadlens.proofs.pairs.of_study import without_proofs
from quadlens.show.figures.picture import Picture
from quadlens.show.figures.registry import WITHOUT_PROOFS, all_pictures
from quadlens.show.figures.style import FIGURE_FORMATS, OUTLINES, FigureFormat, figure_bytes

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

# A vector picture larger than this is put on the page as pixels; the vector file is beside the page
# anyway.
LARGEST_SVG = 72_000
COLOURS = 128
# Characters that may stand in a data address inside double quotes; the others are percent-encoded.
PLAIN = " !$&'()*+,-./:;=?@[]^_`{|}~"


@dataclass(frozen=True)
class Rendered:
    """One picture in every format.

    Attributes:
        name: The picture's name.
        files: The file of each format.
        address: The picture as an address that holds the picture itself, for the page.
    """

    name: str
    files: tuple[tuple[FigureFormat, bytes], ...]
    address: str

    def content(self, kind: FigureFormat) -> bytes:
        """The file of one format."""
        return dict(self.files)[kind]


@contextlib.contextmanager
def drawers(workers: int) -> "Iterator[ProcessPoolExecutor | None]":
    """Return processes that draw, already importing what they need.

    None for one worker: then this process draws.

    Inside, products have one thread. Where every core draws, several would wait for one another,
    and wait busily: a third of the report's time. And where one process draws, sums have the same
    order, and files the same bytes.
    """
    from threadpoolctl import threadpool_limits

    if workers <= 1:
        with threadpool_limits(1):
            yield None
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # Fresh processes, not forks: polars and OpenBLAS have threads, which do not survive a fork.
    context, others = multiprocessing.get_context("spawn"), set(multiprocessing.active_children())
    with threadpool_limits(1), ProcessPoolExecutor(workers, context, initializer=_begin) as pool:
        try:
            with deaf_to_interrupts():
                for _ in range(workers):
                    pool.submit(_begin)
            yield pool
        except BaseException:
            # Leaving the pool would wait for pictures that nobody wants any more.
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()
            raise


def render(
    study: Study,
    pool: "ProcessPoolExecutor | None",
    progress: Callable[[int, int], None],
    meanwhile: Callable[[], None] = lambda: None,
) -> dict[str, Rendered]:
    """Every picture of the model, drawn once and saved in each format.

    Args:
        study: The model, with all that was computed except, perhaps, proofs.
        pool: Processes that draw; None where this one does.
        progress: Gets (done, all).
        meanwhile: Called in this process while others draw what needs no proofs; afterwards the
            study has proofs.
    """
    done: dict[str, Rendered] = {}
    for every, rendered in _drawn(study, pool, meanwhile):
        done[rendered.name] = rendered
        progress(len(done), every)
    return {picture.name: done[picture.name] for picture in all_pictures(study)}


def _drawn(
    study: Study, pool: "ProcessPoolExecutor | None", meanwhile: Callable[[], None]
) -> Iterator[tuple[int, Rendered]]:
    """Each picture drawn, with how many there are."""
    if pool is None:
        meanwhile()
        pictures = all_pictures(study)
        yield from ((len(pictures), rendered_picture(picture)) for picture in pictures)
        return
    from concurrent.futures import as_completed

    # The study comes with all that was computed, so that no worker computes anything again.
    with tempfile.TemporaryDirectory() as directory:
        early, whole = Path(directory) / "early", Path(directory) / "whole"
        early.write_bytes(pickle.dumps(without_proofs(study)))
        names = [picture.name for picture in all_pictures(study, WITHOUT_PROOFS)]
        with deaf_to_interrupts():
            futures = [pool.submit(_draw_named, early, name) for name in names]
        meanwhile()
        whole.write_bytes(pickle.dumps(study))
        late = [picture.name for picture in all_pictures(study) if picture.name not in names]
        futures += [pool.submit(_draw_named, whole, name) for name in late]
        for future in as_completed(futures):
            yield len(futures), future.result()


def _begin() -> None:
    """Import what draws, in a worker, while the study is prepared.

    The collector is kept off what stays anyway.
    """
    import gc

    import matplotlib.backends.backend_agg
    import matplotlib.backends.backend_pdf
    import matplotlib.backends.backend_svg  # noqa: F401
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@cache
def _pictures(pickled: Path) -> dict[str, Picture]:
    """In a worker: the pictures of a study that this program wrote a moment ago, by name."""
    study: Study = pickle.loads(pickled.read_bytes())
    return {picture.name: picture for picture in all_pictures(study)}


def _draw_named(pickled: Path, name: str) -> Rendered:
    return rendered_picture(_pictures(pickled)[name])


def rendered_picture(picture: Picture) -> Rendered:
    """A picture drawn, in every format."""
    figure = picture.draw()
    files = {kind: figure_bytes(figure, kind, OUTLINES) for kind in FIGURE_FORMATS}
    return Rendered(picture.name, tuple(files.items()), data_address(files["svg"], files["png"]))


def data_address(svg: bytes, png: bytes) -> str:
    """The picture as an address that holds the picture itself."""
    if len(svg) <= LARGEST_SVG:
        text = svg[svg.index(b"<svg") :].decode().replace('"', "'").replace("\n", " ")
        return "data:image/svg+xml," + quote(text, safe=PLAIN.replace("&", ""))
    return "data:image/png;base64," + base64.b64encode(_few_colours(png)).decode()


def _few_colours(png: bytes) -> bytes:
    """The same pixels in 128 colours: a third of the size, and no eye sees it in a drawing."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        reduced = image.convert("RGB").quantize(
            COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE
        )
    stream = io.BytesIO()
    reduced.save(stream, "PNG")
    return stream.getvalue()


def figure_files(rendered: dict[str, Rendered]) -> dict[str, bytes]:
    """`figures/NAME.FORMAT` of every picture and format."""
    return {
        f"figures/{picture.name}.{kind}": content
        for picture in rendered.values()
        for kind, content in picture.files
    }
