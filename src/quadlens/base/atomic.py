"""Writing files whole or not at all.

Nothing is written into the package itself or over an input of the same command.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files as resources
from pathlib import Path

from quadlens.base.errors import BadFile
from quadlens.base.reading import input_at, inputs_below

# How temporary files and directories end: what a killed writer leaves is known by it.
TEMPORARY = ".quadlens-tmp"
NOTHING = "nothing was written"


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file by a temporary one beside it that is renamed into place.

    A reader, or a process killed at any moment, sees the old file or the new one, never a part.

    Raises:
        BadFile: when the directory is missing or cannot be written, or the disk is full.
    """
    write_all_atomic({Path(path): content})


def check_writable(path: Path) -> None:
    """Refuse a file that `write_atomic` could not write, before any work is done for it.

    Nothing is left behind.

    Raises:
        BadFile: as `write_atomic` would.
    """
    with _place_for(path):
        pass


def check_directory(path: Path) -> None:
    """Refuse a directory that could not be made, or not be written into; nothing is left behind.

    Raises:
        BadFile: with the reason.
    """
    path = Path(os.path.abspath(path))
    refuse_package(path)
    if path.is_file():
        raise BadFile(f"cannot write into {path}: it is a file; give the name of a directory")
    with _refused(f"cannot write into {path}", "choose a place that is writable"):
        # What is not there yet will be made in the nearest directory that is.
        nearest = next(place for place in (path, *path.parents) if place.exists())
        made = tempfile.mkdtemp(dir=nearest, prefix=".probe.", suffix=TEMPORARY)
        with contextlib.suppress(
            FileNotFoundError
        ):  # another run took it for left over: it could be made
            os.rmdir(made)


def make_directory(path: Path) -> None:
    """Make a directory and those above it, unless they are there.

    Raises:
        BadFile: when it cannot be made.
    """
    refuse_package(path)
    with _refused(f"cannot make the directory {path}", "choose another place"):
        Path(path).mkdir(parents=True, exist_ok=True)


def refuse_package(path: Path) -> None:
    """Refuse a place inside the package.

    Everything is compared with its bundled models and tables.

    Raises:
        BadFile: when `path`, or what it links to, is the package's directory or inside it.
    """
    if Path(os.path.realpath(path)).is_relative_to(
        os.path.realpath(str(resources(__name__.partition(".")[0])))
    ):
        raise BadFile(
            f"cannot write {path}: it is inside the package quadlens, which is not changed; choose "
            "another place"
        )


def refuse_input(path: Path) -> None:
    """Refuse to replace a file that is being read, under this name or another.

    `reading.keeping_inputs` lists the files that are read.

    Raises:
        BadFile: when it is one, or a directory to be replaced that holds one.
    """
    kept = [input_at(path)] if not path.is_dir() else inputs_below(path)
    if kept and kept[0] is not None:
        where = f"it is {kept[0]}" if not path.is_dir() else f"it holds {kept[0]}"
        raise BadFile(
            f"cannot write {path}: {where}, an input, which would be lost; give another name"
        )


def write_all_atomic(files: Mapping[Path, bytes]) -> None:
    """Write files that belong together: none is renamed before all are written.

    The last one says that all are there: an old one goes before anything is renamed and the new one
    comes at the end, so that a process killed between two renames leaves it absent, never beside
    files of another time.

    Raises:
        BadFile: when one cannot be written; then none is.
    """
    staged: list[tuple[Path, Path]] = []
    with contextlib.ExitStack() as places:
        # The last first: it is the one that the user named, so that a complaint is about that.
        for path, content in reversed(list(files.items())):
            temporary, target = places.enter_context(_place_for(path))
            with _refused(f"cannot write {path}", NOTHING):
                _write(temporary, content)
            staged.insert(0, (temporary, target))
        if len(staged) > 1:
            with _refused(f"cannot write {staged[-1][1]}", NOTHING):
                staged[-1][1].unlink(missing_ok=True)
        for temporary, target in staged:
            with _refused(f"cannot write {target}", NOTHING):
                os.replace(temporary, target)


def write_together(directory: Path, files: Iterable[tuple[Path, bytes]]) -> list[Path]:
    """Write files below `directory`, which is made, as their content comes.

    None is in place before all are written.

    Raises:
        BadFile: when one cannot be written; then none is.
    """
    make_directory(directory)
    paths: list[Path] = []
    with (
        _refused(f"cannot write into {directory}", NOTHING),
        temporary_directory(directory / "files") as place,
    ):
        for path, content in files:
            _check_target(path)
            _write(place / str(len(paths)), content)
            paths.append(path)
        for path in paths:
            make_directory(path.parent)
        for number, path in enumerate(paths):
            os.replace(place / str(number), os.path.realpath(path))
    return paths


def clear_left_over(directory: Path) -> None:
    """Remove the temporary files that killed writers left in a directory.

    What another process holds stays.
    """
    with contextlib.suppress(
        OSError
    ):  # a directory that is not there, or not ours, has nothing to clear
        # All names first: not every file system lists what is left while entries go.
        for entry in list(os.scandir(directory)):
            if not (entry.name.startswith(".") and entry.name.endswith(TEMPORARY)):
                continue
            with contextlib.suppress(OSError):  # another writer is at work with it
                held = _hold(entry.path, wait=False)
                if held is None:
                    return
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    os.unlink(entry.path)
                os.close(held)


@contextlib.contextmanager
def temporary_directory(target: Path) -> Iterator[Path]:
    """Make a fresh directory beside `target` for the block and remove it afterwards.

    It is held while the block runs.
    """
    clear_left_over(target.parent)
    while True:
        made = tempfile.mkdtemp(
            dir=target.parent, prefix=f".{target.name[:100]}.", suffix=TEMPORARY
        )
        with contextlib.suppress(FileNotFoundError):  # cleared by another before it was held
            held = _hold(made)
            break
    try:
        yield Path(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)
        if held is not None:
            os.close(held)


def _hold(path: str, wait: bool = True) -> int | None:
    """Lock a file or directory until the descriptor is closed or this process ends.

    None where the system or the file system has no locks.

    Raises:
        FileNotFoundError: when it is there no more.
        BlockingIOError: when another holds it and `wait` is false.
    """
    try:
        import fcntl
    except ModuleNotFoundError:  # not on this system
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if not os.path.samestat(os.fstat(descriptor), os.stat(path)):
            raise FileNotFoundError(path)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, FileNotFoundError | BlockingIOError):
            raise
        return None  # a file system without locks
    return descriptor


@contextlib.contextmanager
def _place_for(path: Path) -> Iterator[tuple[Path, Path]]:
    """Yield where new content goes until it is renamed, and the file that is replaced.

    That file is `path` or what it links to.
    """
    target = _check_target(path)
    with contextlib.ExitStack() as places:
        with _refused(f"cannot write {path}", "choose a directory that exists and is writable"):
            place = places.enter_context(temporary_directory(target))
        yield place / "new", target


@contextlib.contextmanager
def _refused(what: str, remedy: str) -> Iterator[None]:
    """What the system refuses in the block, as a message."""
    try:
        yield
    except OSError as error:
        raise BadFile(f"{what}: {error.strerror}; {remedy}") from None


def _check_target(path: Path) -> Path:
    """The file that `path` is or links to, unless it is none that may be written."""
    target = Path(os.path.realpath(path))
    refuse_package(target)
    if target.is_dir():
        raise BadFile(f"cannot write {path}: it is a directory; give a file name")
    if target.exists() and not target.is_file():
        # Renaming over /dev/null or a pipe would replace the device itself.
        raise BadFile(f"cannot write {path}: it is not a regular file; give a file name")
    refuse_input(Path(path))
    return target


def _write(temporary: Path, content: bytes) -> None:
    """Content, on the disk."""
    with temporary.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
