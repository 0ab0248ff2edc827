"""`quadlens report` and `explore`: pages and figure files of a model."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from quadlens.cli.options import ModelArgument, OutputFile, Positive
from quadlens.cli.output import Output

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MOST_WORKERS = 4


def report(
    out: Output,
    output: Path,
    model: ModelArgument = "pizza",
    no_proofs: bool = False,
    workers: Positive | None = None,
    only: str | None = None,
    formats: str | None = None,
) -> None:
    """Write one self-contained page with every figure and table.

    Figure files, tables and data lie beside it.

    Options:
        output (--output -o DIR): Where the report goes; a previous report is replaced.
        no_proofs: Leave out the proofs (a few seconds).
        workers (N): Processes that draw; all cores, at most 4.
        only (figures|NAMES): No page, only figure files: all, or by name, separated by commas: a
            file name, a label of the paper, or a family such as quadrature.
        formats (--format): With --only, file formats separated by commas: {figure_formats}; all of
            them.
    """
    if only is not None:
        _figures(model, output, only, formats, not no_proofs, out)
        return
    if formats is not None:
        raise typer.BadParameter(
            "a whole report has every format; give --only figures", param_hint="'--format'"
        )
    import os
    import time

    from quadlens.show.pages.prepare import shown_of
    from quadlens.show.pages.write import report as write

    began = time.perf_counter()
    with out.step_line() as step:
        drawers = workers or min(MOST_WORKERS, os.cpu_count() or 1)
        made = write(model, output, workers=drawers, proofs=not no_proofs, progress=step)
    seconds = time.perf_counter() - began
    value = {
        "directory": str(made.directory),
        "page": str(made.page),
        "page_bytes": made.page_bytes,
        "files": list(made.files),
        **shown_of(made.results),
        "verdict": made.verdict,
        "model_sha256": made.results.sha256,
        "seconds": seconds,
    }

    size = f"{made.page_bytes / 1e6:.1f} MB, {len(made.files)} files, {seconds:.0f} s"
    out.say(value, f"{made.page}: open it in a browser ({size})")


def explore(
    out: Output,
    output: OutputFile,
    model: ModelArgument = "pizza",
    no_history: bool = False,
) -> None:
    """Write one offline HTML page on which neurons can be dragged.

    The integral, the logits and the answers follow.

    Where snapshots of the training lie beside the model (`quadlens train --snapshots`), the page
    plays it.

    Options:
        no_history: Leave out the training, where it was kept beside the model.
    """
    from quadlens.base.atomic import check_writable, write_atomic
    from quadlens.network.study import study_of
    from quadlens.show.explorer.page import build_page
    from quadlens.training.played_run import run_to_play

    check_writable(output)
    study = study_of(model)
    loaded = study.model
    with out.step_line() as step:
        run = run_to_play(
            study, not no_history, lambda done, total: step(f"snapshot {done + 1} of {total}")
        )
        step("page")
        content = build_page(study, study.name, run).encode()
    write_atomic(output, content)
    value = {
        "file": str(output),
        "bytes": len(content),
        "model": model,
        "snapshots": 0 if run is None else len(run.epochs),
        "p": loaded.config.p,
        "neurons": loaded.config.d_mlp,
    }

    out.say(
        value, f"{output}: {len(content) / 1e6:.2f} MB; open it in any browser, no network needed"
    )


def _figures(
    model: str, output: Path, only: str, formats: str | None, proofs: bool, out: Output
) -> None:
    """Figure files: every figure of the paper and ours, or some by name."""
    from quadlens.base.atomic import check_directory
    from quadlens.network.bundled import resolve
    from quadlens.network.study import study_of
    from quadlens.proofs.pairs.of_study import without_proofs
    from quadlens.show.figures.registry import all_pictures, chosen_pictures, needs_proofs
    from quadlens.show.figures.style import FIGURE_FORMATS, parse_formats, write_figures
    from quadlens.show.pages.prepare import prepare

    kinds = FIGURE_FORMATS if formats is None else parse_formats(formats)
    names = None if only == "figures" else only.split(",")
    proofs = proofs and (names is None or needs_proofs(names))
    path = resolve(model)
    check_directory(output)
    with out.step_line() as step:
        study = study_of(path) if proofs else without_proofs(study_of(path))
        if names is None:
            prepare(study, step)
        # By name, only what the figures asked for need is computed.
        pictures = all_pictures(study) if names is None else chosen_pictures(study, names)

        def drawn() -> "Iterator[tuple[str, Figure]]":
            for number, picture in enumerate(pictures, start=1):
                step(f"figures {number}/{len(pictures)}")
                yield picture.name, picture.draw()

        written = [str(path) for path in write_figures(drawn(), output, kinds)]
    out.say({"files": written}, *written)
