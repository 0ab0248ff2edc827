"""The directory of a report, which appears whole or not at all.

It holds a manifest of what it was made from.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path

from quadlens.base.atomic import check_directory, make_directory, refuse_input, temporary_directory
from quadlens.base.errors import BadFile
from quadlens.base.reading import parse_json, read_limited
from quadlens.base.version import VERSION
from quadlens.network.study import Study
from quadlens.show.pages.prepare import sizes_of

MANIFEST = "manifest.json"
FORMAT = "quadlens-report"
MAX_MANIFEST_BYTES = 1 << 24
PACKAGES = ("numpy", "scipy", "matplotlib", "Jinja2", "polars", "python-flint", "safetensors")


def check_target(target: Path) -> None:
    """Refuse, before any work, a place that a report cannot replace.

    It holds something else than a previous report, or cannot be written.
    """
    # The report is made beside its target.
    check_directory(Path(os.path.abspath(target)).parent)
    if not target.exists():
        return
    if not target.is_dir():
        raise BadFile(f"{target} is a file; give the name of a directory for the report")
    if any(target.iterdir()) and not is_report(target):
        raise BadFile(
            f"{target} holds files that are not a report of quadlens, and a report replaces its "
            "directory; choose another directory, or empty this one"
        )
    refuse_input(target)


def is_report(directory: Path) -> bool:
    """Whether a manifest says that quadlens wrote this directory."""
    try:
        manifest = parse_json(
            read_limited(directory / MANIFEST, MAX_MANIFEST_BYTES, replaceable=True), MANIFEST
        )
        return isinstance(manifest, dict) and manifest.get("format") == FORMAT
    except BadFile:
        return False


def write_directory(target: Path, files: Mapping[str, bytes], study: Study, command: str) -> None:
    """Write all files of a report, by their paths in it, and last its manifest."""
    with replaced_directory(target) as fresh:
        for name, content in {**files, MANIFEST: _manifest(files, study, command)}.items():
            (fresh / name).parent.mkdir(exist_ok=True)
            (fresh / name).write_bytes(content)


def _manifest(files: Mapping[str, bytes], study: Study, command: str) -> bytes:
    """Return what a report was made from, with what, and every file's hash.

    There is no clock in it: equal reports are equal bytes.
    """
    manifest = {
        "format": FORMAT,
        "version": 1,
        "command": command,
        "model": {"name": study.name, "sha256": study.sha256, **sizes_of(study)},
        "versions": {
            "python": platform.python_version(),
            "quadlens": VERSION,
            **{name.lower(): importlib.metadata.version(name) for name in PACKAGES},
        },
        "files": {
            name: {"bytes": len(files[name]), "sha256": hashlib.sha256(files[name]).hexdigest()}
            for name in sorted(files)
        },
    }
    return (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode()


@contextlib.contextmanager
def replaced_directory(target: Path) -> Iterator[Path]:
    """Make a fresh directory beside `target`.

    It takes the place of `target` when the block ends well, else it vanishes.
    """
    target = Path(os.path.abspath(target))
    check_target(target)
    make_directory(target.parent)
    try:
        with temporary_directory(target) as fresh:
            fresh.chmod(0o755)
            yield fresh
            _swap(fresh, target)
    except OSError as error:
        raise BadFile(f"cannot write {target}: {error.strerror}; nothing was changed") from None


def _swap(fresh: Path, target: Path) -> None:
    """Two renames: a reader sees the old report, for an instant none, then the new one."""
    if not target.exists():
        fresh.rename(target)
        return
    with temporary_directory(target) as old:
        target.rename(old / "report")
        try:
            fresh.rename(target)
        except OSError:
            (old / "report").rename(target)
            raise
