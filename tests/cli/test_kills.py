"""A few kills of the marathon (`kill_marathon.py`), and disks that fill while files are written."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kill_marathon import command, contents, run_export, run_train, run_writing
from places import TESTS
from quadlens.base.errors import BadFile

pytestmark = pytest.mark.slow

MARATHON = TESTS / "kill_marathon.py"
CASES = ["train --snapshots", "export", "report, writing"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_few_kills_leave_whole_files_and_the_same_bytes() -> None:
    """In a process of its own: forking this one, which has threads, could hang."""
    words = [sys.executable, str(MARATHON), "2", "0", *CASES]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("2 kills") == done.stdout.count("the same bytes") == len(CASES)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Make a file system of as many bytes as it is called with; called again, resize it."""
    place = tmp_path / "disk"
    place.mkdir()

    def sized(size: int) -> Path:
        option = "remount," if place.is_mount() else ""
        words = ["mount", "-t", "tmpfs", "-o", f"{option}size={size}", "tmpfs", str(place)]
        mounted = subprocess.run(words, capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            pytest.skip(
                f"cannot mount a small tmpfs here (it takes root): {mounted.stderr.strip()}"
            )
        return place

    yield sized
    if place.is_mount():
        subprocess.run(["umount", str(place)], check=True)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a tiny run with snapshots."""
    directory = tmp_path_factory.mktemp("trained")
    run_train(directory)
    return directory


def run_history(directory: Path, trained: Path) -> None:
    command(
        "history",
        str(trained / "m.safetensors"),
        "--no-proofs",
        "-q",
        "-o",
        str(directory / "rows.parquet"),
    )


def run_explore(directory: Path, trained: Path) -> None:
    command("explore", str(trained / "m.safetensors"), "-q", "-o", str(directory / "page.html"))


# `quadlens sweep` has its own, with workers, in test_sweep.py.
@pytest.mark.parametrize(
    "run",
    [
        lambda directory, _: run_train(directory),
        lambda directory, _: run_export(directory),
        lambda directory, _: run_writing(directory),
        run_history,
        run_explore,
    ],
    ids=["train", "export", "report", "history", "explore"],
)
def test_a_disk_that_fills_leaves_whole_files_and_the_same_bytes_once_there_is_room(
    run: Callable[[Path, Path], None],
    disk: Callable[[int], Path],
    trained: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Training refuses a disk that has no room to spare before it starts; here it fills later, by
    # others.
    monkeypatch.setattr("quadlens.training.outputs.SPARE_BYTES", -(1 << 30))
    whole = tmp_path / "whole"
    whole.mkdir()
    run(whole, trained)
    wanted = contents(whole)
    small = disk(4096 * (sum(-(-len(content) // 4096) for content in wanted.values()) * 6 // 10))
    capsys.readouterr()
    with pytest.raises((BadFile, SystemExit)) as refused:
        run(small, trained)
    said = str(refused.value) if isinstance(refused.value, BadFile) else capsys.readouterr().err
    assert "No space left on device" in said
    left = {
        name: content
        for name, content in contents(small).items()
        if not name.endswith(".checkpoint")
    }
    assert left.items() <= wanted.items()
    assert not left or all(".snapshots/" in name for name in left)
    assert not [path for path in small.rglob("*") if path.name.startswith(".")]
    run(disk(64 << 20), trained)
    assert contents(small) == wanted
