"""`quadlens population`: many models, with the paper's population beside them."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from quadlens.base.errors import BadConfig
from quadlens.cli.options import Natural, PathArgument
from quadlens.cli.output import Output

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# The checker's time per certificate.
CHECK_SECONDS = 600.0


def command(
    out: Output,
    directory: PathArgument | None = None,
    where: list[str] | None = None,
    by: Literal["p", "equals", "weight_decay", "d_mlp", "epochs"] | None = None,
    by_model: bool = False,
    figures: Path | None = None,
    format: str | None = None,
    seed: Natural = 0,
    verify: bool = False,
    markdown: bool = False,
) -> None:
    """Set the population of a sweep beside the paper's.

    Each statement has a 95 % interval and a plain verdict.

    Options:
        directory (DIR): A sweep's directory, or its population.parquet; else what is shipped.
        where (CONDITION): Only some models, in SQL: p=59, good_model, 'min_margin>10'.
        by: How things depend on a setting, instead of the comparison.
        by_model: One row per model, instead of the comparison.
        figures (DIR): Also draw the paper's histograms, ours over them; with --by p, how things
            depend on p.
        format: File formats of --figures, separated by commas; svg if left out.
        seed: Seed of the bootstrap.
        verify: Prove every certificate again and compare what is claimed with it, instead of the
            comparison; of a dataset alone, only that it does not contradict itself. Exit code 1 if
            anything is not supported.
        markdown: Tables as Markdown, to paste into a document.
    """
    import numpy as np

    from quadlens.base.atomic import check_directory
    from quadlens.base.numbers import counted
    from quadlens.training.population import dataset, tables
    from quadlens.training.population.comparison import compare
    from quadlens.training.population.dataset import filter_models

    _check_flags(by, by_model, figures, format, markdown, out.json)
    if figures is not None:
        check_directory(figures)
    if verify:
        _verify(directory or dataset.shipped_path(), out)
        return
    every = dataset.read(directory or dataset.shipped_path())
    frame = filter_models(every, where or [])
    if frame.is_empty():
        raise BadConfig(
            f"no model is left by --where {' --where '.join(where or [])}; see --by-model for what "
            "there is"
        )
    if words := _which(len(frame), len(every), directory):
        out.note(words)
    if by is not None or by_model:
        rows = dataset.by_model(frame) if by is None else dataset.by_group(frame, by)
        title = counted(len(frame), "model") + ("" if by is None else f" by {by}")
        if figures is not None:
            from quadlens.show.figures.population_sweep import draw_by_p

            _write(
                [("population-by-p", draw_by_p(dataset.by_model(frame)))],
                figures,
                format or "svg",
                out,
            )
        if markdown:
            sys.stdout.write(tables.rows_table(rows) + "\n")
        else:
            out.emit(
                {"models": len(frame), "rows": rows},
                lambda console: tables.render_rows(console, title, rows),
            )
        return
    comparison = compare(frame, np.random.default_rng(seed))
    if markdown:
        sys.stdout.write(tables.comparison_table(comparison) + "\n")
        return
    written = []
    if figures is not None:
        from quadlens.show.figures.population_sweep import comparison_figures

        written = _write(
            comparison_figures(comparison, dataset.by_model(frame)), figures, format or "svg", out
        )
    out.emit(
        {**comparison.to_dict(), "figures": written},
        lambda console: tables.render(comparison, console),
    )


def _verify(path: Path, out: Output) -> None:
    """`--verify`: one line per problem, or that there is none."""
    from quadlens.training.population.verify import verify

    with out.step_line() as step:
        verified = verify(path, CHECK_SECONDS, lambda done: step(f"verifying model {done + 1}"))

    lines = [f"{name}: {problem}" for name, problem in verified.problems.items()]
    what = verified.to_dict()["verified"]
    out.say(
        verified.to_dict(),
        *lines,
        f"{verified.models} models, {what}: {len(verified.problems) or 'no'} problems",
    )
    if verified.problems:
        raise typer.Exit(1)


def _check_flags(
    by: str | None,
    by_model: bool,
    figures: Path | None,
    format: str | None,
    markdown: bool,
    json: bool,
) -> None:
    """Refuse flags that would be ignored, or that ask for two things at once."""
    if markdown and (json or figures is not None):
        raise BadConfig("--markdown is a form of output of its own; leave out --json and --figures")
    if by is not None and by_model:
        raise BadConfig("--by and --by-model were both given; give one of them")
    if figures is not None and (by not in (None, "p") or by_model):
        table = "--by-model" if by is None else f"--by {by}"
        raise BadConfig(f"--figures draws the comparison, or --by p; there is none for {table}")
    if format is not None and figures is None:
        raise BadConfig(
            f"--format {format} is about --figures, which was not given; add --figures DIR"
        )


def _which(left: int, every: int, directory: Path | None) -> str:
    """Which models these are, where that is not what was asked for anyway."""
    some = f"{left} of " if left < every else ""
    if directory is None:
        return (
            f"{some}the {every} models shipped with the package; make your own with: quadlens "
            "sweep -o DIR"
        )
    return f"{some}the {every} models in {directory}" if some else ""


def _write(
    drawn: "Iterable[tuple[str, Figure]]", directory: Path, formats: str, out: Output
) -> list[str]:
    """Write figures by name in every format asked for; returns the files."""
    from quadlens.show.figures.style import parse_formats, write_figures

    files = [str(path) for path in write_figures(drawn, directory, parse_formats(formats))]
    out.note(f"wrote {len(files)} files into {directory}")
    return files
