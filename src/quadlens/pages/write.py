"""`report(model, directory)`: gather, draw, write."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quadlens.arguments import checked
from quadlens.display import Displayed
from quadlens.errors import BadConfig
from quadlens.explorer import build_page
from quadlens.pages.data_files import data_files
from quadlens.pages.directory import check_target, replaced_directory
from quadlens.pages.manifest import write_manifest
from quadlens.pages.page import page_html
from quadlens.pages.render import drawers, render, write_rendered
from quadlens.pages.sequence import sequence_page
from quadlens.pages.tables import page_tables
from quadlens.studies import Study, study_of
from quadlens.studies.played_run import run_to_play

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from quadlens.verbs import ModelLike

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
        return {"page": self.page, "files": len(self.files), "megabytes": f"{self.page_bytes / 1e6:.1f}"}


@checked
def report(
    model: "ModelLike",
    output: str | Path,
    *,
    workers: int = 1,
    proofs: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Write one self-contained page with every figure and table, and figure files, tables and data beside it.

    Args:
        model: A model, a study, a path or the name of a bundled model.
        output: The directory; a previous report there is replaced, anything else is refused.
        workers: Processes that draw; more than one needs a main module that can be imported again.
        proofs: Also run every proof strategy.
        progress: Called with what is about to be done, when given.

    >>> import quadlens, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     quadlens.report(quadlens.build(p=5, neurons=12), f"{directory}/report", proofs=False).page.name
    'index.html'
    """
    output, progress = Path(output), progress or (lambda step: None)
    check_target(output)
    results = study_of(model) if proofs else study_of(model).without_proofs()
    named = str(model) if isinstance(model, str | Path) else str(results.file or "MODEL")
    command = f"quadlens report {shlex.quote(named)} -o {shlex.quote(str(output))}" + ("" if proofs else " --no-proofs")
    if results.on_sequences:
        page, files, verdict = sequence_page(results, output, command, proofs, progress)
        return Report(output, output / PAGE, files, len(page.encode()), results, verdict)
    with drawers(workers) as pool:
        # Proofs take as long as half of the drawing: where others draw, they are made meanwhile.
        results.prepare(progress, proofs=pool is None)
        return write_report(results, output, command, pool, progress, lambda: _explorer(results, progress))


def _explorer(study: Study, progress: Callable[[str], None]) -> str | None:
    """The interactive page, for models that it can show; it plays the training where that is kept beside the model."""
    progress("the explorer")
    try:
        run = run_to_play(study, True, lambda done, every: progress(f"snapshot {done + 1} of {every}"))
        page = build_page(study, study.name, run, PAGE)
        return page if len(page.encode()) <= LARGEST_EXPLORER else build_page(study, study.name, report=PAGE)
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
    """The same from results already gathered; `explore` makes the interactive page to put beside, if there is one."""
    explorer: str | None = None

    def meanwhile() -> None:
        nonlocal explorer
        results.prepare(progress)
        explorer = explore()

    with replaced_directory(output) as fresh:
        rendered = render(results, pool, lambda done, every: progress(f"figures {done}/{every}"), meanwhile)
        progress("page and files")
        write_rendered(rendered, fresh)
        for folder in ("data", "tables"):
            (fresh / folder).mkdir()
        for name, content in data_files(results).items():
            (fresh / name).write_bytes(content)
        for table in page_tables(results):
            (fresh / "tables" / f"{table.name}.csv").write_text(table.csv, encoding="utf-8")
            if table.latex is not None:
                (fresh / "tables" / f"{table.name}.tex").write_text(table.latex, encoding="utf-8")
        if explorer is not None:
            (fresh / EXPLORER).write_text(explorer, encoding="utf-8")
        page = page_html(results, rendered, EXPLORER if explorer is not None else None)
        (fresh / PAGE).write_text(page, encoding="utf-8")
        manifest = write_manifest(fresh, results, command)
    verdict = results.certificate.verdict if results.certificate else None
    return Report(output, output / PAGE, tuple(manifest["files"]), len(page.encode()), results, verdict)
