"""A few kills of the marathon (`kill_marathon.py`), and a disk that fills while snapshots are written."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kill_marathon import TINY
from quadlens.errors import BadFile
from quadlens.training.initial import start_of
from quadlens.training.snapshots import load_snapshot, save_snapshot

MARATHON = Path(__file__).with_name("kill_marathon.py")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_few_kills_leave_whole_files_and_the_same_bytes() -> None:
    """In a process of its own: forking this one, which has threads, could hang."""
    words = [sys.executable, str(MARATHON), "7", "0", "train --snapshots", "export"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the same bytes") == 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for a few snapshots."""
    words = ["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", str(tmp_path)]
    mounted = subprocess.run(words, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small tmpfs here (it takes root): {mounted.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_snapshots_on_a_disk_that_fills_are_whole_or_absent(small_disk: Path) -> None:
    model = start_of(TINY).params

    def fill() -> None:
        for epoch in range(100):
            save_snapshot(model, small_disk, epoch)

    with pytest.raises(BadFile, match="No space left on device"):
        fill()
    written = sorted(small_disk.iterdir())
    assert [one.name for one in written] == [f"{epoch:07d}.snapshot" for epoch in range(len(written))]
    assert 1 <= len(written) < 100
    assert all(load_snapshot(one).config == model.config for one in written)
