"""Writing files whole or not at all."""

import os
import tempfile
from pathlib import Path

from quadlens.errors import BadFile


def write_atomic(path: Path, content: bytes) -> None:
    """Write `content` to a temporary file beside `path`, flush it to disk, and rename it into place.

    A reader, or a process killed at any moment, sees the old file or the new one, never a part.

    Raises:
        BadFile: when the directory is missing or cannot be written, or the disk is full.
    """
    path = Path(path)
    if path.is_dir():
        raise BadFile(f"cannot write {path}: it is a directory; give a file name")
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
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
        os.replace(temporary, path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise BadFile(f"cannot write {path}: {error.strerror}; nothing was written") from None
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The process's umask; mkstemp ignores it, a file people share should not."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
