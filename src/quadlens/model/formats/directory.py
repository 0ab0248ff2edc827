"""Everything in a directory: each checkpoint read, or refused with its reason."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from quadlens.errors import BadFile, QuadlensError
from quadlens.model.formats.protocol import Hints, Imported
from quadlens.model.formats.registry import AUTO, SAFETENSORS_SUFFIX, import_file

CHECKPOINT_SUFFIXES = (".pt", ".pth", ".ckpt", SAFETENSORS_SUFFIX)
MAX_ENTRIES = 100_000
MAX_TOTAL_BYTES = 1 << 34


@dataclass(frozen=True)
class FileOutcome:
    """One checkpoint of a directory.

    Attributes:
        source: The file.
        imported: What was read, None when it was refused.
        refusal: Why it was refused, None when it was read.
    """

    source: Path
    imported: Imported | None
    refusal: str | None


def checkpoints_in(directory: Path) -> tuple[Path, ...]:
    """The files below `directory` whose names are a checkpoint's, sorted; links to directories are not followed.

    Raises:
        BadFile: when there are none, or too many, or too many bytes.
    """
    found: list[Path] = []
    entries, total = 0, 0
    for folder, folders, names in os.walk(directory):
        folders.sort()
        entries += len(folders) + len(names)
        if entries > MAX_ENTRIES:
            raise BadFile(f"{directory} has more than {MAX_ENTRIES} files; give a directory further down")
        found += [Path(folder) / name for name in names if name.lower().endswith(CHECKPOINT_SUFFIXES)]
    for path in found:
        total += path.stat().st_size if path.is_file() else 0
    if total > MAX_TOTAL_BYTES:
        raise BadFile(
            f"the checkpoints in {directory} have {total} bytes together; at most {MAX_TOTAL_BYTES} are read at once"
        )
    if not found:
        raise BadFile(f"{directory} has no checkpoints; expected files named {', '.join(CHECKPOINT_SUFFIXES)}")
    return tuple(sorted(found))


def import_directory(directory: Path, format_name: str = AUTO, hints: Hints | None = None) -> Iterator[FileOutcome]:
    """Every checkpoint below `directory`, one after the other, so that one at a time is in memory.

    Args:
        directory: Where to look, subdirectories included.
        format_name: As `import_file`, for all of them.
        hints: As `import_file`, for all of them.

    Raises:
        BadFile: as `checkpoints_in`.
    """
    for path in checkpoints_in(Path(directory)):
        try:
            yield FileOutcome(path, import_file(path, format_name, hints), None)
        except QuadlensError as error:
            yield FileOutcome(path, None, str(error).removeprefix(f"{path}").lstrip(": "))


def output_names(directory: Path, sources: tuple[Path, ...], target: Path) -> dict[Path, Path]:
    """Where each checkpoint goes below `target`: the same place and name, as .safetensors.

    Two sources that would share a name (m.pt and m.pth) keep their own endings before ours.

    >>> names = output_names(Path("runs"), (Path("runs/x/m.pt"), Path("runs/x/m.pth"), Path("runs/y.pt")), Path("out"))
    >>> [str(path) for path in names.values()]
    ['out/x/m.pt.safetensors', 'out/x/m.pth.safetensors', 'out/y.safetensors']
    """
    short = {path: target / path.relative_to(directory).with_suffix(SAFETENSORS_SUFFIX) for path in sources}
    shared = [name for name in short.values() if list(short.values()).count(name) > 1]
    return {
        path: name.with_name(path.name + SAFETENSORS_SUFFIX) if name in shared else name for path, name in short.items()
    }
