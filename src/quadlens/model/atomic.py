"""Writing files whole or not at all."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from quadlens.errors import BadFile


def write_atomic(path: Path, content: bytes) -> None:
    """Write `content` to a temporary file beside `path`, flush it to disk, and rename it into place.

    A reader, or a process killed at any moment, sees the old file or the new one, never a part.

    Raises:
        BadFile: when the directory is missing or cannot be written, or the disk is full.
    """
    write_all_atomic({Path(path): content})


def check_writable(path: Path) -> None:
    """Refuse a file that `write_atomic` could not write, before any work is done for it; nothing is left behind.

    Raises:
        BadFile: as `write_atomic` would.
    """
    _stage(Path(path), b"").unlink()


def check_directory(path: Path) -> None:
    """Refuse a directory that could not be made, or not be written into; nothing is left behind.

    Raises:
        BadFile: with the reason.
    """
    path = Path(os.path.abspath(path))
    try:
        # What is not there yet will be made in the nearest directory that is.
        nearest = next(one for one in (path, *path.parents) if one.exists())
        os.rmdir(tempfile.mkdtemp(dir=nearest, prefix=".quadlens-probe."))
    except OSError as error:
        raise BadFile(f"cannot write into {path}: {error.strerror}; choose a place that is writable") from None


def make_directory(path: Path) -> None:
    """Make a directory and those above it, unless they are there.

    Raises:
        BadFile: when it cannot be made.
    """
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadFile(f"cannot make the directory {path}: {error.strerror}; choose another place") from None


def write_all_atomic(files: Mapping[Path, bytes]) -> None:
    """As `write_atomic` for files that belong together: none is renamed before all are written.

    The last one says that all are there: an old one goes before anything is renamed and the new one comes at the end,
    so that a process killed between two renames leaves it absent, never beside files of another time.

    Raises:
        BadFile: when one cannot be written; then none is.
    """
    staged: list[tuple[Path, Path]] = []
    try:
        # The last first: it is the one that the user named, so that a complaint is about that.
        for path, content in reversed(list(files.items())):
            staged.insert(0, (_stage(path, content), Path(os.path.realpath(path))))
        if len(staged) > 1:
            staged[-1][1].unlink(missing_ok=True)
        for temporary, target in staged:
            os.replace(temporary, target)
    except OSError as error:
        path = error.filename2 or error.filename or next(iter(files))
        raise BadFile(f"cannot write {path}: {error.strerror}; nothing was written") from None
    finally:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)


def _stage(path: Path, content: bytes) -> Path:
    """`content` in a temporary file beside the file that `path` is or links to."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise BadFile(f"cannot write {path}: it is a directory; give a file name")
    if target.exists() and not target.is_file():
        # Renaming over /dev/null or a pipe would replace the device itself.
        raise BadFile(f"cannot write {path}: it is not a regular file; give a file name")
    try:
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".tmp")
    except OSError as error:
        raise BadFile(
            f"cannot write {path}: {error.strerror}; choose a directory that exists and is writable"
        ) from None
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise BadFile(f"cannot write {path}: {error.strerror}; nothing was written") from None
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return Path(temporary)


def _umask() -> int:
    """The process's umask; mkstemp ignores it, a file people share should not."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
