"""`report(model, directory)`: gather, draw, write."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quadlens.base.arguments import checked
from quadlens.base.display import Displayed
from quadlens.base.errors import BadConfig
from quadlens.base.reading import keeping_inputs
from quadlens.network.study import Study, study_of
from quadlens.proofs.pairs.of_study import certificate_of, without_proofs
from quadlens.show.explorer.page import build_page
from quadlens.show.pages.data_files import data_files
from quadlens.show.pages.directory import check_target, write_directory
from quadlens.show.pages.page import page_html
from quadlens.show.pages.prepare import prepare
from quadlens.show.pages.render import drawers, figure_files, render
from quadlens.show.pages.sequence import sequence_report
from quadlens.show.pages.tables import table_files
from quadlens.training.played_run import run_to_play

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from quadlens.network.named import ModelLike

PAGE = "index.html"
EXPLORER = "explorer.html"
# Bytes of the interactive page; where the training that it plays makes it larger, it comes without.
LARGEST_EXPLORER = 3_500_000


@dataclass(frozen=True, repr=False)
class Report(Displayed):
    """A report on disk.

    Attributes:
        directory: Where it is.
        page: The page to open.
        files: Every file, relative to the directory.
        page_bytes: Size of the page.
        results: What it shows.
        verdict: What the proof says; None without one.
    """

    directory: Path
    page: Path
    files: tuple[str, ...]
    page_bytes: int
    results: Study
    verdict: str | None = None

    def _facts(self) -> dict[str, object]:
        return {
            "page": self.page,
            "files": len(self.files),
            "megabytes": f"{self.page_bytes / 1e6:.1f}",
        }


@checked
def report(
    model: "ModelLike",
    output: str | Path,
    *,
    workers: int = 1,
    proofs: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Write one self-contained page with every figure and table.

    Figure files, tables and data lie beside it.

    Args:
        model: A model, a study, a path or the name of a bundled model.
        output: The directory; a previous report there is replaced, anything else is refused.
        workers: Processes that draw.
        proofs: Also run every proof strategy.
        progress: Called with what is about to be done, when given.

    >>> import quadlens, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     model = quadlens.build(p=5, neurons=12)
    ...     quadlens.report(model, f"{directory}/report", proofs=False).page.name
    'index.html'
    """
    output, progress = Path(output), progress or (lambda step: None)
    check_target(output)
    results = study_of(model) if proofs else without_proofs(study_of(model))
    with keeping_inputs(results.file):
        return _reported(results, model, output, workers, proofs, progress)


def _reported(
    results: Study,
    model: object,
    output: Path,
    workers: int,
    proofs: bool,
    progress: Callable[[str], None],
) -> Report:
    """The report of a study, where nothing replaces the file that it is of."""
    check_target(output)
    named = str(model) if isinstance(model, str | Path) else str(results.file or "MODEL")
    command = f"quadlens report {shlex.quote(named)} -o {shlex.quote(str(output))}" + (
        "" if proofs else " --no-proofs"
    )
    if results.model.config.on_sequences:
        return _written(results, output, command, *sequence_report(results, progress))
    with drawers(workers) as pool:
        # Proofs take as long as half of the drawing: where others draw, they are made meanwhile.
        prepare(results, progress, proofs=pool is None)
        return write_report(
            results, output, command, pool, progress, lambda: _explorer(results, progress)
        )


def _explorer(study: Study, progress: Callable[[str], None]) -> str | None:
    """Return the interactive page, for models that it can show.

    It plays the training where that is kept beside the model.
    """
    progress("the explorer")
    try:
        run = run_to_play(
            study, True, lambda done, every: progress(f"snapshot {done + 1} of {every}")
        )
        page = build_page(study, study.name, run, PAGE)
        return (
            page
            if len(page.encode()) <= LARGEST_EXPLORER
            else build_page(study, study.name, report=PAGE)
        )
    except BadConfig:
        return None


def write_report(
    results: Study,
    output: Path,
    command: str,
    pool: "ProcessPoolExecutor | None" = None,
    progress: Callable[[str], None] = lambda step: None,
    explore: Callable[[], str | None] = lambda: None,
) -> Report:
    """Write a report from results already gathered.

    `explore` makes the interactive page to put beside it, if there is one.
    """
    explorer: str | None = None

    def meanwhile() -> None:
        nonlocal explorer
        prepare(results, progress)
        explorer = explore()

    rendered = render(
        results, pool, lambda done, every: progress(f"figures {done}/{every}"), meanwhile
    )
    progress("page and files")
    page = page_html(results, rendered, EXPLORER if explorer is not None else None)
    files = {
        PAGE: page.encode(),
        **figure_files(rendered),
        **data_files(results),
        **table_files(results),
    }
    if explorer is not None:
        files[EXPLORER] = explorer.encode()
    certificate = results.once(certificate_of)
    return _written(results, output, command, files, certificate.verdict if certificate else None)


def _written(
    results: Study, output: Path, command: str, files: dict[str, bytes], verdict: str | None
) -> Report:
    write_directory(output, files, results, command)
    return Report(output, output / PAGE, tuple(sorted(files)), len(files[PAGE]), results, verdict)
