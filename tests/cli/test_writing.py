"""Where commands write: never into the package, all or nothing, and what killed writers left is cleared."""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_runner import quadlens, refused
from quadlens.errors import BadFile
from quadlens.model.atomic import (
    TEMPORARY,
    check_directory,
    check_writable,
    clear_left_over,
    make_directory,
    write_all_atomic,
    write_atomic,
)
from quadlens.model.bundled import data_directory

TINY = (
    "--p",
    "5",
    "--d-model",
    "8",
    "--d-mlp",
    "8",
    "--n-heads",
    "1",
    "--d-head",
    "4",
    "--epochs",
    "2",
    "--threads",
    "1",
)
# Every command that writes, and what it is given for -o: a file of this suffix, or a directory.
WRITING = {
    "report": (("report", "pizza", "--no-proofs"), ""),
    "explore": (("explore", "pizza"), ".html"),
    "explain": (("explain", "pizza", "--neurons"), ".csv"),
    "certify": (("certify", "pizza"), ".json"),
    "certify --all": (("certify", "pizza", "--all"), ""),
    "train": (("train", *TINY), ".safetensors"),
    "train --resume": (("train", *TINY, "--resume"), ".safetensors"),
    "train --seeds": (("train", *TINY[:-2], "--seeds", "0:1"), ""),
    "history": (("history", "pizza"), ".parquet"),
    "sweep": (("sweep", *TINY[:-2], "--seeds", "0:1"), ""),
    "population": (("population", "--figures"), ""),
    "compare": (("compare", "pizza", "pizza"), ".html"),
    "ablate": (("ablate", "pizza", "--frequencies", "5"), ".safetensors"),
    "build": (("build", "--p", "5", "--keys", "1", "--neurons", "8"), ".safetensors"),
    "export": (("export", "pizza", "--format", "transformer-lens"), ".safetensors"),
    "report --only": (("report", "pizza", "--only", "quadrature", "--format", "svg"), ""),
}


def package_files() -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in data_directory().rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("name", WRITING)
def test_no_command_writes_into_the_package(name: str) -> None:
    words, suffix = WRITING[name]
    before = package_files()
    target = data_directory() / f"pizza{suffix}" if suffix else data_directory() / "new"
    flag = () if words[-1] in ("--neurons", "--figures") else ("-o",)
    refused(quadlens(*words, *flag, target), "inside the package quadlens, which is not changed")
    assert package_files() == before
    assert not (data_directory() / "new").exists()


def test_import_does_not_write_into_the_package(tmp_path: Path) -> None:
    assert quadlens("export", "pizza", "--format", "transformer-lens", "-o", tmp_path / "m.safetensors").code == 0
    before = package_files()
    for source, target in ((tmp_path / "m.safetensors", "pizza.safetensors"), (tmp_path, "new")):
        refused(quadlens("import", source, "-o", data_directory() / target), "inside the package quadlens")
    assert package_files() == before


def test_every_way_to_write_refuses_the_package_also_behind_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(data_directory())
    ways: list[Callable[[Path], object]] = [
        check_writable,
        check_directory,
        make_directory,
        lambda path: write_atomic(path, b""),
        lambda path: write_all_atomic({tmp_path / "first": b"", path: b""}),
    ]
    for write in ways:
        for place in (data_directory() / "new", link / "new", data_directory().parent / "new"):
            with pytest.raises(BadFile, match="inside the package"):
                write(place)
    assert list(tmp_path.iterdir()) == [link]


KILLED = """
import os, signal, sys
from pathlib import Path
from quadlens.model import atomic
def die(*words):
    os.kill(os.getpid(), signal.SIGKILL)
os.replace = os.fsync = die
atomic.write_atomic(Path(sys.argv[1]), b"half")
"""


def left_over(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir() if path.name.endswith(TEMPORARY)]


@pytest.mark.skipif(sys.platform == "win32", reason="nothing can be held there")
def test_what_a_killed_writer_left_is_cleared_by_the_next_and_what_a_living_one_holds_is_not(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    assert len(left_over(tmp_path)) == 1
    # Another, in the middle of writing, clears what the first left, and its own stays.
    code = KILLED.replace("os.kill(os.getpid(), signal.SIGKILL)", "print('here', flush=True); signal.pause()")
    with subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE, text=True) as living:
        assert living.stdout is not None
        assert living.stdout.readline() == "here\n"
        (held,) = left_over(tmp_path)
        write_atomic(target, b"whole")
        assert left_over(tmp_path) == [held]
        living.kill()
    write_atomic(target, b"again")
    assert left_over(tmp_path) == []
    assert target.read_bytes() == b"again"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("certify", "--all", "-o"), ("report", "--only", "quadrature", "--format", "svg,png", "-o")]
)
def test_a_disk_that_fills_leaves_all_files_or_none(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third write of a temporary file finds no space."""
    model, real, count = tmp_path / "m.safetensors", os.fsync, 0
    assert quadlens("build", "--p", "7", "--keys", "1,2", "--neurons", "24", "-o", model).code == 0

    def full(descriptor: int) -> None:
        nonlocal count
        count += 1
        if count == 3:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    refused(quadlens(words[0], model, *words[1:], tmp_path / "out", "-q"), "No space left on device")
    assert count == 3
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


def test_a_probe_that_another_run_cleared_was_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_and_cleared(**words: str) -> str:
        path = mkdtemp(**words)
        clear_left_over(tmp_path)
        assert not Path(path).exists()
        return path

    mkdtemp = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", made_and_cleared)
    check_directory(tmp_path)


@pytest.mark.slow
def test_train_clears_what_killed_runs_left_even_where_nothing_is_left_to_train(tmp_path: Path) -> None:
    words = ("train", *TINY, "--snapshots", "3", "-q", "-o", str(tmp_path / "m.safetensors"))
    quadlens(*words)
    for place in (tmp_path, tmp_path / "m.snapshots"):
        (place / f".m.safetensors.one{TEMPORARY}").touch()
        (place / f".m.manifest.json.two{TEMPORARY}").touch()
    quadlens(*words, "--resume")
    assert left_over(tmp_path) == left_over(tmp_path / "m.snapshots") == []
