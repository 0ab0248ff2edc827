"""Snapshots: the weights at chosen epochs of a run, a model file each, in a directory beside the model.

Each file is written whole or not at all, and a run that is resumed writes the same bytes again.
"""

import math
from pathlib import Path

from quadlens.errors import BadConfig
from quadlens.model.atomic import make_directory, write_atomic
from quadlens.model.native import to_bytes
from quadlens.model.weights import Weights

# Digits of the epoch in a snapshot's name, so that names are in the order of epochs.
DIGITS = 7


def snapshot_epochs(count: int, epochs: int) -> tuple[int, ...]:
    """`count` epochs from 0 to `epochs`, evenly spaced in log(epoch + 1) and at least one epoch apart.

    >>> snapshot_epochs(8, 1000)
    (0, 2, 6, 18, 51, 138, 372, 1000)
    """
    if not 2 <= count <= epochs + 1:
        words = f"snapshots = {count}; expected 2 … {epochs + 1} of them in {epochs} epochs"
        raise BadConfig(words, settings=("snapshots",))
    found: list[int] = []
    for i in range(count):
        even = round(math.expm1(i / (count - 1) * math.log1p(epochs)))
        after_last = found[-1] + 1 if found else 0
        found.append(min(max(even, after_last), epochs - (count - 1 - i)))
    return tuple(found)


def snapshot_directory(model: Path) -> Path:
    """Where the snapshots of a run are whose model is, or will be, in this file."""
    return model.with_name(f"{model.name.removesuffix('.safetensors')}.snapshots")


def prepare(model: Path, epochs: tuple[int, ...]) -> Path:
    """Make the directory, and clear it of all but these snapshots of the run that is resumed; returns it."""
    directory = snapshot_directory(model)
    make_directory(directory)
    wanted = {snapshot_file(directory, epoch) for epoch in epochs}
    for file in directory.glob(f"{'[0-9]' * DIGITS}.safetensors"):
        if file not in wanted:
            file.unlink()
    return directory


def snapshots_missing(model: Path, epochs: tuple[int, ...]) -> tuple[int, ...]:
    """Which snapshots have no file yet."""
    directory = snapshot_directory(model)
    return tuple(epoch for epoch in epochs if not snapshot_file(directory, epoch).is_file())


def snapshot_file(directory: Path, epoch: int) -> Path:
    """The file of one snapshot."""
    return directory / f"{epoch:0{DIGITS}d}.safetensors"


def save_snapshot(model: Weights, directory: Path, epoch: int) -> None:
    """Write the weights before the step with index `epoch`."""
    write_atomic(snapshot_file(directory, epoch), to_bytes(model))
