"""`quadlens import` and `export`: others' files in and out."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from quadlens.cli.options import ModelArgument, OutputFile, PathArgument
from quadlens.cli.output import Output, check_model_name, key_value_table

if TYPE_CHECKING:
    from rich.console import Console

    from quadlens.readers import Hints, Imported


def import_(
    out: Output,
    source: PathArgument,
    output: Path | None = None,
    format_name: str = "auto",
    config: Path | None = None,
    attention: str | None = None,
    p: int | None = None,
    activation: str | None = None,
    task: str | None = None,
    answers: str | None = None,
    checkpoint: int | None = None,
    names: str | None = None,
) -> None:
    """Read someone else's checkpoint and write it as a quadlens model; nothing in it is executed.

    With a directory: read every checkpoint in it and print one row per file, read or refused and
    why.

    Options:
        source (SRC): A .pt, .pth, .npz or .safetensors checkpoint, or a directory of them.
        output (--output -o FILE): Where to write; replaced whole or not at all. For a directory:
            another directory, or nothing.
        format_name (--format F): Whose file: auto, {readers}.
        config (JSON): The checkpoint's config; config_<id>.json or cfg.json beside it is found.
        attention (W,W): A constant weight on each position, 0.5,0.5 or 1/3,1/3,1/3; or computed
            from W_Q and W_K: softmax, softmax:2 (a and b are fed), softmax:3 (and '='), of scores
            over √d_head unless a config has attn_scale.
        p: The modulus, when the shapes do not say.
        activation (NAME): As relu or gelu, when no config says.
        task (NAME): As add, subtract, multiply, S5, cumsum-sign:20, max:4; when no config says.
        answers (FILE|model): The task's table (CSV, .npy), or the model's own answers.
        checkpoint (N): Which of several state dicts in one file, from 0.
        names (--map ROLE=NAME,…): Which weight is which in an MLP with names of its own, as
            embed=emb.weight,hidden=fc1,out=fc2.
    """
    from quadlens.readers.mlps import parse_map
    from quadlens.readers.registry import hints_of

    known = {
        "p": p,
        "activation": activation,
        "task": task,
        "answers": answers,
        "checkpoint": checkpoint,
    }
    hints = hints_of(attention, map=None if names is None else parse_map(names), **known)
    if source.is_dir():
        _directory(source, output, format_name, config, hints, out)
        return
    if output is None:
        raise typer.BadParameter("give -o FILE, the model to write", param_hint="'--output' / '-o'")
    _file(source, output, format_name, config, hints, out)


def _file(
    source: Path, output: Path, format_name: str, config: Path | None, hints: "Hints", out: Output
) -> None:
    from quadlens.network import save
    from quadlens.readers import import_file

    check_model_name(output)
    imported = import_file(source, format_name, hints, config)
    save(imported.model, output)
    value = _described(source, output, imported)

    def render(console: "Console") -> None:
        right = f"{imported.correct} of {imported.pairs} inputs"
        rows = {"read as": imported.format, "right": right, "sha256": value["sha256"]}
        key_value_table(console, f"wrote {output}", rows)
        for line in imported.notes:
            console.print(f"  {line}", markup=False, soft_wrap=True)

    out.emit(value, render)


def _directory(
    source: Path,
    output: Path | None,
    format_name: str,
    config: Path | None,
    hints: "Hints",
    out: Output,
) -> None:
    """One row per checkpoint; what was read is written below `output` when there is one."""
    from rich.table import Table
    from rich.text import Text

    from quadlens.base.atomic import write_together
    from quadlens.base.errors import BadConfig
    from quadlens.network.native import to_bytes
    from quadlens.readers.registry import checkpoints_in, import_directory, output_names

    if config is not None:
        raise BadConfig(
            f"--config is one checkpoint's, and {source} is a directory; put config_<id>.json "
            "beside each"
        )
    sources = checkpoints_in(source)
    names = output_names(source, sources, output) if output is not None else {}
    if {path.resolve() for path in names.values()} & {path.resolve() for path in sources}:
        raise BadConfig(
            f"writing into {output} would replace checkpoints that are read; choose another "
            "directory"
        )
    rows: list[dict[str, Any]] = []

    def models() -> Iterator[tuple[Path, bytes]]:
        for outcome in import_directory(source, format_name, hints):
            row: dict[str, Any] = {
                "source": str(outcome.source),
                "read": outcome.imported is not None,
            }
            if outcome.imported is not None:
                target = names.get(outcome.source)
                row |= _described(outcome.source, target, outcome.imported)
                if target is not None:
                    yield target, to_bytes(outcome.imported.model)
            rows.append(row | {"reason": outcome.refusal})

    if output is None:
        list(models())
    else:
        write_together(output, models())

    def render(console: "Console") -> None:
        header = (
            "file",
            "read as",
            "p or task",
            "inputs right",
            "why not, or where it was written",
        )
        table = Table(*header, box=None, padding=(0, 1))
        for row in rows:
            outcome = row["reason"] or row["output"] or ""
            name, right = str(Path(row["source"]).relative_to(source)), "–"
            if row["read"]:
                right = f"{row['correct']} of {row['pairs']}"
            cells = (
                name,
                row.get("format", "–"),
                str(row.get("p", row.get("task", "–"))),
                right,
                outcome,
            )
            table.add_row(*(Text(cell, overflow="fold") for cell in cells))
        console.print(table)
        console.print(f"{sum(row['read'] for row in rows)} of {len(rows)} read")

    out.emit(rows, render)
    if not any(row["read"] for row in rows):
        raise typer.Exit(2)


def _described(source: Path, output: Path | None, imported: "Imported") -> dict[str, Any]:
    """What is said about a checkpoint that was read."""
    from quadlens.analysis.spectrum.of_study import facts_of
    from quadlens.network.study import study_of
    from quadlens.show.pages.prepare import sizes_of

    study = study_of(imported)
    return {
        "source": str(source),
        "output": None if output is None else str(output),
        "format": imported.format,
        "sha256": study.sha256,
        **{name: value for name, value in sizes_of(study).items() if name != "d_mlp"},
        "correct": imported.correct,
        "pairs": imported.pairs,
        **facts_of(study),
        "config": study.model.config.to_dict(),
        "notes": list(imported.notes),
    }


def export(
    out: Output,
    model: ModelArgument,
    output: OutputFile,
    format_name: str,
) -> None:
    """Write a model as another program's file.

    Where the format needs a config, config_<id>.json goes beside it.

    Options:
        format_name (--format F): Whose file: {writers}.
    """
    from quadlens.base.atomic import check_writable
    from quadlens.network.bundled import resolve
    from quadlens.network.native import load_file
    from quadlens.readers import export_file

    path = resolve(model)
    weights = load_file(path)
    check_writable(output)
    files, notes = export_file(weights, format_name, output, path)
    value = {
        "model": model,
        "format": format_name,
        "files": [str(file) for file in files],
        "notes": list(notes),
    }

    out.say(value, *(f"wrote {file}" for file in files), *(f"  {line}" for line in notes))
