"""Snapshots: the weights at chosen epochs of a run, one compressed file each, in a directory beside the model.

A snapshot is a model file like any other whose float32 weights are rounded to 14 bits after the leading one (a relative
change of at most 2^-15), its bytes sorted by significance and compressed by zlib: a third of the size is saved. Each
file is written whole or not at all, and a run that is resumed writes the same bytes again.
"""

import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from quadlens.errors import BadConfig, BadFile
from quadlens.model.atomic import make_directory, write_atomic
from quadlens.model.native import from_bytes, to_bytes
from quadlens.model.weights import Weights
from quadlens.reading import read_limited

SUFFIX = ".snapshot"
# Bits of a float32's mantissa that are kept, of 23.
KEPT_BITS = 14
LEVEL = 6
MAX_BYTES = 1 << 28


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
    for file in directory.glob(f"*{SUFFIX}"):
        if file not in wanted:
            file.unlink()
    return directory


def snapshots_missing(model: Path, epochs: tuple[int, ...]) -> tuple[int, ...]:
    """Which snapshots have no file yet."""
    directory = snapshot_directory(model)
    return tuple(epoch for epoch in epochs if not snapshot_file(directory, epoch).is_file())


def snapshot_file(directory: Path, epoch: int) -> Path:
    """The file of one snapshot."""
    return directory / f"{epoch:07d}{SUFFIX}"


def save_snapshot(model: Weights, directory: Path, epoch: int) -> None:
    """Write the weights before the step with index `epoch`."""
    content = np.frombuffer(to_bytes(_rounded(model)), dtype=np.uint8)
    # safetensors pads its header, so that every weight starts at a multiple of 4 bytes.
    planes = content[: len(content) // 4 * 4].reshape(-1, 4).T.tobytes() + content[len(content) // 4 * 4 :].tobytes()
    write_atomic(snapshot_file(directory, epoch), zlib.compress(planes, LEVEL))


def _rounded(model: Weights) -> Weights:
    """The same model with float32 weights to the nearest that has its last bits zero; other types stay."""
    drop = 23 - KEPT_BITS
    rounded: dict[str, Any] = {}
    for name, array in model.tensors.items():
        if array.dtype == np.float32:
            bits = array.view(np.uint32) if array.flags.c_contiguous else np.ascontiguousarray(array).view(np.uint32)
            bits = (bits + np.uint32(1 << (drop - 1))) & np.uint32(~((1 << drop) - 1) & 0xFFFFFFFF)
            rounded[name] = bits.view(np.float32)
        else:
            rounded[name] = array
    return model.replace(**rounded)


def load_snapshot(path: Path) -> Weights:
    """The model in a file that `save_snapshot` wrote; a damaged one is refused."""
    content = inflated(path, "a snapshot of a run; run the training again")
    cut = len(content) // 4 * 4
    return from_bytes(np.frombuffer(content[:cut], dtype=np.uint8).reshape(4, -1).T.tobytes() + content[cut:], path)


def inflated(path: Path, expected: str) -> bytes:
    """The content of a file that zlib compressed; `expected` says what it should be, and what to do if it is not."""
    machine = zlib.decompressobj()
    try:
        content = machine.decompress(read_limited(path, MAX_BYTES), MAX_BYTES)
    except zlib.error as error:
        raise BadFile(f"{path} ({error}) is not {expected}") from None
    if machine.unconsumed_tail or not machine.eof:
        raise BadFile(f"{path} (cut short, or too large) is not {expected}")
    return content
