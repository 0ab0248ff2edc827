"""A run in one small file, to be played.

It has what `history` says, and collapsed weights, rounded, at epochs to look at.

The explorer's scrubber plays it, and a bundled model has one where 60 snapshots would not fit.
`NAME.run` is compressed by zlib: the length of a JSON header (8 bytes, little-endian), the header,
then six arrays of 16-bit integers per snapshot, low bytes before high bytes. An array is what the
snapshot before has, plus these integers times a step that the header names. In order: the real
Fourier transforms over tokens of (U_a + U_b)/2, of (U_b - U_a)/2 and of W_L (math.md §1; frequency
by neuron: constant, cosines, sines, orthonormal), then S_a, S_b and the margins. All of it is in
the elements' names that make the task addition. Steps are shares of the root mean square, `STEPS`,
so that every number is off by at most half a step; margins, which were not made from the rounded
weights, keep their sign.
"""

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.analysis.spectrum.amplitude_phase import mean_squares
from quadlens.analysis.spectrum.fourier import waves_of
from quadlens.analysis.spectrum.of_study import layer_of, no_waves
from quadlens.base.errors import BadConfig, BadFile
from quadlens.base.reading import parse_json, read_limited
from quadlens.base.schema import parse_dataclass, plain
from quadlens.network.evaluate import margins
from quadlens.network.study import Study
from quadlens.network.tables import FloatTables
from quadlens.training.outputs import RunFiles
from quadlens.training.over_time import PLAYED, RunHistory, Snapshot, files_of, history, model_in

FORMAT = 2
# Steps over the root mean square of the array; the half difference has the mean's step.
STEPS = {"mean": 0.3, "difference": 0.3, "W_L": 0.3, "S_a": 0.2, "S_b": 0.2, "margins": 0.1}
# A snapshot is kept when it has this many times as many epochs as the last one kept, both counted
# from -FROM.
APART, FROM = 1.12, 6
LARGEST = 32767
MAX_BYTES = 1 << 28


@dataclass(frozen=True, eq=False)
class PlayedRun:
    """A run that can be played.

    Attributes:
        history: One row per snapshot.
        epochs: Of the snapshots that have weights.
        steps: The steps of the six arrays, one row per snapshot.
        codes: The integers of the six arrays, one tuple per snapshot.
        file: What it was read from, unchanged; None where it was made here.
    """

    history: RunHistory
    epochs: tuple[int, ...]
    steps: tuple[tuple[float, ...], ...]
    codes: tuple[tuple[np.ndarray, ...], ...]
    file: bytes | None = None

    def arrays(self) -> list[tuple[Float[np.ndarray, "rows columns"], ...]]:
        """The six arrays of every snapshot that has weights."""
        arrays: list[tuple[np.ndarray, ...]] = []
        for steps, codes in zip(self.steps, self.codes, strict=True):
            before: tuple[Any, ...] = arrays[-1] if arrays else (0.0,) * len(STEPS)
            arrays.append(
                tuple(x + step * q for x, step, q in zip(before, steps, codes, strict=True))
            )
        return arrays

    def to_bytes(self) -> bytes:
        """The file; the one it was read from, where there is one, since packing takes seconds."""
        if self.file is not None:
            return self.file
        p, d = self.codes[0][0].shape
        weights = [
            {"epoch": epoch, "steps": steps}
            for epoch, steps in zip(self.epochs, self.steps, strict=True)
        ]
        header = {
            "format": FORMAT,
            "p": p,
            "d_mlp": d,
            "weights": weights,
            "history": self.history.to_dict(),
        }
        text = json.dumps(plain(header)).encode()
        flat = [
            np.ascontiguousarray(q, "<i2").view(np.uint8) for codes in self.codes for q in codes
        ]
        planes = [array.reshape(-1, 2).T.tobytes() for array in flat]
        return zlib.compress(len(text).to_bytes(8, "little") + text + b"".join(planes), 9)


def run_to_play(
    study: Study,
    run: str | Path | bool = True,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> PlayedRun | None:
    """The run to be played on the page of a model: from snapshots, or from NAME.run.

    Args:
        study: The model.
        run: A file with snapshots or NAME.run beside it; True is the model's own file, which need
            not have any (nor is a run without frequencies played), False is none.
        progress: As for `history`.
    """
    file = study.file if run is True else None if run is False else Path(run)
    if file is None:
        return None
    has_snapshots, has_run = RunFiles(file).snapshots.is_dir(), file.with_suffix(PLAYED).is_file()
    playable = study.once(no_waves) is None and layer_of(study).is_additive
    if run is True and not (playable and (has_snapshots or has_run)):
        return None
    return (
        played_run(file, history(file, progress=progress))
        if has_snapshots
        else read_run(file.with_suffix(PLAYED))
    )


def played_run(run: Path, rows: RunHistory) -> PlayedRun:
    """Make a played run of known rows, with weights of snapshots far enough apart.

    Raises:
        BadConfig: for models without frequencies: softmax attention, several layers, a task that is
            not cyclic.
    """
    layers: list[tuple[int, FloatTables]] = []
    files = files_of(run)
    for epoch, file in files:
        if layers and epoch != files[-1][0] and epoch + FROM < APART * (layers[-1][0] + FROM):
            continue
        model = model_in(file)
        layer = model.collapse()
        if not layer.is_additive or layer.task.cyclic is None:
            raise BadConfig(
                f"{run} has no frequencies to play; use quadlens history -o rows.parquet"
            )
        layers.append((epoch, layer))
    return record(rows, layers)


def record(history: RunHistory, layers: list[tuple[int, FloatTables]]) -> PlayedRun:
    """Make a played run of its rows and its collapsed models by epoch.

    Epochs are as numbered in the files.
    """
    steps: list[tuple[float, ...]] = []
    codes: list[tuple[np.ndarray, ...]] = []
    now: list[Any] = [0.0] * len(STEPS)
    for _, layer in layers:
        arrays = _arrays(layer)
        sizes = [
            STEPS[name] * float(np.sqrt(np.square(x).mean())) or 1.0 for name, x in arrays.items()
        ]
        sizes[1] = sizes[0]
        changes = [(x - y) / step for x, y, step in zip(arrays.values(), now, sizes, strict=True)]
        rounded = [np.clip(np.rint(x), -LARGEST, LARGEST).astype(np.int64) for x in changes]
        # A margin that rounds to nothing, or to the other sign, goes to the next step on its own
        # side.
        side, wanted = np.sign(arrays["margins"]), now[-1] + sizes[-1] * rounded[-1]
        rounded[-1] = (
            rounded[-1] + (side * wanted <= 0) * np.ceil(-side * wanted / sizes[-1] + 1e-9) * side
        )
        rounded[-1] = rounded[-1].astype(np.int64)
        now = [x + step * q for x, step, q in zip(now, sizes, rounded, strict=True)]
        steps.append(tuple(sizes))
        codes.append(tuple(rounded))
    return PlayedRun(history, tuple(epoch for epoch, _ in layers), tuple(steps), tuple(codes))


def _arrays(layer: FloatTables) -> dict[str, Float[np.ndarray, "rows columns"]]:
    """The six arrays of a model, in order."""
    x = layer.as_addition()
    waves = [
        orthonormal_waves(table) for table in ((x.U_a + x.U_b) / 2, (x.U_b - x.U_a) / 2, x.W_L)
    ]
    return dict(zip(STEPS, (*waves, x.S_a, x.S_b, margins(x)), strict=True))


def orthonormal_waves(x: Float[np.ndarray, "p d"]) -> Float[np.ndarray, "p d"]:
    """The real Fourier transform of every column: constant, cosines, sines; orthonormal."""
    p, waves = len(x), waves_of(x)
    # The root mean square of a cosine is √½, that of a constant and of the sign wave 1.
    size = (
        np.sqrt(p * np.concatenate([[1.0], mean_squares(p, np.arange(1, len(waves)))]))[:, None]
        * waves
    )
    return np.concatenate([size.real, size.imag[1 : (p + 1) // 2]])


@dataclass(frozen=True)
class _Weights:
    """What the header says of one snapshot's arrays."""

    epoch: int
    steps: tuple[float, float, float, float, float, float]


def _inflated(path: Path, file: bytes) -> bytes:
    """The content of a file that zlib compressed, as far as that is whole and not too large."""
    machine = zlib.decompressobj()
    try:
        content = machine.decompress(file, MAX_BYTES)
        why = "cut short, or too large" if machine.unconsumed_tail or not machine.eof else None
        # A browser refuses a stream with anything behind its end.
        why = "something lies behind its end" if machine.unused_data else why
    except zlib.error as error:
        why = str(error)
    if why is not None:
        raise BadFile(
            f"{path} is not a run to be played ({why}); make it again with quadlens history -o"
        )
    return content


def read_run(path: Path) -> PlayedRun:
    """The run in a file that `to_bytes` made; a damaged one is refused."""
    file = read_limited(path, MAX_BYTES)
    content = _inflated(path, file)
    try:
        start = 8 + int.from_bytes(content[:8], "little")
        header = parse_json(content[8:start], "its header", strict=True)
        if header["format"] != FORMAT:
            raise ValueError(f"format {str(header['format'])[:40]}")
        p, d = header["p"], header["d_mlp"]
        if not all(type(x) is int and x > 0 for x in (p, d)):
            raise ValueError("p and d_mlp that are no sizes")
        shapes = [(p, d)] * 3 + [(p, p)] * 3
        size = 2 * sum(rows * columns for rows, columns in shapes)
        if not header["weights"] or len(content) != start + size * len(header["weights"]):
            raise ValueError(f"{len(content)} bytes")
        codes = []
        for _ in header["weights"]:
            arrays = []
            for rows, columns in shapes:
                planes = (
                    np.frombuffer(content, np.uint8, 2 * rows * columns, start).reshape(2, -1).T
                )
                arrays.append(
                    np.ascontiguousarray(planes).view("<i2").reshape(rows, columns).astype(np.int64)
                )
                start += 2 * rows * columns
            codes.append(tuple(arrays))
        keys, rows_of = tuple(header["history"]["key_frequencies"]), header["history"]["snapshots"]
        listed = [{**row, "frequencies": list(row["frequencies"].values())} for row in rows_of]
        snapshots = tuple(parse_dataclass(Snapshot, row, "a row") for row in listed)
        history = RunHistory(str(header["history"]["name"])[:200], keys, snapshots)
        weights = [parse_dataclass(_Weights, entry, "the header") for entry in header["weights"]]
        epochs, steps = tuple(x.epoch for x in weights), tuple(x.steps for x in weights)
        if not all(type(k) is int and 0 < k <= p // 2 for k in keys) or any(
            len(x.frequencies) != len(keys) for x in snapshots
        ):
            raise ValueError("key frequencies that are none, or of other rows")
        for row in (epochs, tuple(x.epoch for x in snapshots)):
            if not row or row[0] < 0 or any(x >= y for x, y in pairwise(row)):
                raise ValueError("epochs that do not ascend from 0 on")
    except (ValueError, KeyError, TypeError, AttributeError, BadConfig, BadFile) as error:
        raise BadFile(
            f"{path} is not a run to be played ({error}); make it again with quadlens history -o"
        ) from None
    return PlayedRun(history, epochs, steps, tuple(codes), file)
