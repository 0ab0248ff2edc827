"""The list of formats; recognise, read and write files, directories and state dicts."""

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quadlens.base.atomic import write_all_atomic
from quadlens.base.errors import BadConfig, BadFile, QuadlensError
from quadlens.base.reading import keeping_inputs, parse_json, read_limited
from quadlens.network.native import METADATA_KEY, from_tensors, to_bytes
from quadlens.network.task import task_given
from quadlens.network.weights import Weights
from quadlens.readers.adders import ADDERS
from quadlens.readers.checkpoint import Checkpoint, checkpoint_in_memory, read_checkpoint
from quadlens.readers.chughtai import Chughtai
from quadlens.readers.facts import check_settings, parse_attention
from quadlens.readers.gbmi import Gbmi
from quadlens.readers.mlps import He, TwoLayerMLP, ZhongLinear, read_mapped
from quadlens.readers.nanda_layout import Nanda, Zhong
from quadlens.readers.onnx_graph import write_onnx
from quadlens.readers.protocol import Exported, Hints, Imported, Reader, Sniff
from quadlens.readers.tasks import with_task
from quadlens.readers.transformer_lens import HookedSequence, TransformerLens, TransformerLens4

AUTO = "auto"
SAFETENSORS_SUFFIX = ".safetensors"
# Files that are read and never written: who writes them, and what reads ours there.
READ_SUFFIXES = {
    **dict.fromkeys((".pt", ".pth", ".ckpt"), ("PyTorch", "safetensors.torch.load_file")),
    ".npz": ("NumPy", "safetensors.numpy.load_file"),
}
CHECKPOINT_SUFFIXES = (*READ_SUFFIXES, SAFETENSORS_SUFFIX)
# Of a directory.
MAX_ENTRIES = 100_000
MAX_TOTAL_BYTES = 1 << 34
MAX_SIDECAR_BYTES = 1 << 20
IN_MEMORY = "the state dict"
# Beside each model of Chughtai et al.
CHUGHTAI_CONFIG = "cfg.json"


class QuadlensNative:
    """Read our own files, which contain every fact."""

    name = "quadlens"

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """Our key in the metadata."""
        found = METADATA_KEY in checkpoint.extras
        return Sniff(
            1.0 if found else 0.0, (f"{'has' if found else 'no'} metadata {METADATA_KEY!r}",)
        )

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """The model as it is; a setting can say no more than the file does."""
        header = str(checkpoint.extras.get(METADATA_KEY))
        model = from_tensors(dict(checkpoint.tensors), header, checkpoint.source)
        check_settings(hints, model.config, checkpoint.source, "the file")
        return Imported(model, self.name, task=model.config.task.name)


_HOOKED = TransformerLens()
_READERS: tuple[Reader, ...] = (
    QuadlensNative(),
    _HOOKED,
    TransformerLens4("raw"),
    TransformerLens4("bridge"),
    Gbmi(),
    Zhong(),
    ZhongLinear(),
    Nanda(),
    Chughtai(),
    He(),
    TwoLayerMLP(),
    *ADDERS,
    HookedSequence(),
)
READERS: Mapping[str, Reader] = {reader.name: reader for reader in _READERS}
WRITERS: Mapping[str, Callable[[Weights], Exported]] = {
    QuadlensNative.name: lambda model: Exported(to_bytes(model)),
    _HOOKED.name: _HOOKED.write,
    "onnx": write_onnx,
}


def reader_named(name: str) -> Reader | None:
    """The reader that a user names, None for auto."""
    if name == AUTO or name in READERS:
        return READERS.get(name)
    what = "is written, not read" if name in WRITERS else "is not known"
    raise BadConfig(f"format {name!r} {what}; expected one of {', '.join((AUTO, *READERS))}")


def recognise(checkpoint: Checkpoint, hints: Hints) -> Reader:
    """The one reader that is surest a checkpoint is its own.

    Raises:
        BadFile: when none is, or several are equally sure; with everybody's reasons.
    """
    sniffs = {name: reader.sniff(checkpoint, hints) for name, reader in READERS.items()}
    best = max(sniff.confidence for sniff in sniffs.values())
    winners = [name for name, sniff in sniffs.items() if sniff.confidence == best]
    if best > 0 and len(winners) == 1:
        return READERS[winners[0]]
    named = winners if best > 0 else list(sniffs)
    reasons = "; ".join(f"{name}: {', '.join(sniffs[name].reasons)}" for name in named)
    what = "could be several formats" if best > 0 else "is in no known format"
    words = (
        f"{checkpoint.source}, which holds {_named(checkpoint)}, {what} ({reasons}). If it is an "
        "MLP, say which weight is which with map={'embed': …, 'hidden': …, 'out': …}. If you "
        "know the format, say so with format=NAME"
    )
    raise BadFile(words, settings=("map", "format"))


def _named(checkpoint: Checkpoint) -> str:
    """The first tensors by their names and shapes, for somebody who is to recognise them."""
    shapes = [
        f"{name[:80]} {list(tensor.shape)}" for name, tensor in list(checkpoint.tensors.items())[:6]
    ]
    more = len(checkpoint.tensors) - len(shapes)
    return ", ".join(shapes or ["no tensor"]) + (f" and {more} more" if more else "")


def sidecar_path(path: Path) -> Path:
    """Where the config of a checkpoint lies: `config_<id>.json` beside `model_<id>.pt`.

    >>> sidecar_path(Path("runs/model_abc.pt")).name
    'config_abc.json'
    """
    return path.with_name(f"config_{path.stem.removeprefix('model_')}.json")


def read_sidecar(path: Path) -> Mapping[str, Any]:
    """A config file: one JSON object of at most a megabyte."""
    value = parse_json(read_limited(path, MAX_SIDECAR_BYTES, "cannot read the config"), str(path))
    if not isinstance(value, dict):
        raise BadFile(f"{path} holds a {type(value).__name__}; expected a JSON object")
    return value


def import_file(
    path: str | Path,
    format_name: str = AUTO,
    hints: Hints | None = None,
    config: Path | None = None,
) -> Imported:
    """Read someone else's checkpoint; nothing in it is executed and nothing about it is guessed.

    Args:
        path: A .pt, .pth, .npz or .safetensors file.
        format_name: One of `READERS`, or auto to recognise it by its keys.
        hints: What you know beside the file: attention, p, activation.
        config: Its config file; without one, `config_<id>.json` or `cfg.json` beside it is used
            when it is there.

    Raises:
        QuadlensError: with what came, what was expected and what to do.
    """
    path, hints = Path(path), hints or Hints()
    if config is None and hints.sidecar is None:
        config = next(
            filter(Path.is_file, (sidecar_path(path), path.with_name(CHUGHTAI_CONFIG))), None
        )
    if config is not None:
        hints = dataclasses.replace(
            hints, sidecar=read_sidecar(Path(config)), sidecar_name=str(Path(config).name)
        )
    chosen = reader_named(format_name)
    return _imported(read_checkpoint(path, hints.checkpoint), chosen, hints)


def _imported(checkpoint: Checkpoint, chosen: Reader | None, hints: Hints) -> Imported:
    """By the map if there is one, else by the reader that was chosen or is surest."""
    if hints.map is not None:
        imported = read_mapped(checkpoint, hints.map, hints)
    else:
        imported = (chosen or recognise(checkpoint, hints)).read(checkpoint, hints)
    return with_task(imported, hints, checkpoint.source)


@dataclass(frozen=True)
class FileOutcome:
    """One checkpoint of a directory.

    Attributes:
        source: The file.
        imported: What was read, None when it was refused.
        refusal: Why it was refused, None when it was read.
    """

    source: Path
    imported: Imported | None
    refusal: str | None


def checkpoints_in(directory: Path) -> tuple[Path, ...]:
    """Return the checkpoints below `directory`, sorted; linked directories are left out.

    Raises:
        BadFile: when there are none, or too many, or too many bytes.
    """
    found: list[Path] = []
    entries, total = 0, 0
    for folder, folders, names in os.walk(directory):
        folders.sort()
        entries += len(folders) + len(names)
        if entries > MAX_ENTRIES:
            raise BadFile(
                f"{directory} has more than {MAX_ENTRIES} files; give a directory further down"
            )
        found += [
            Path(folder) / name for name in names if name.lower().endswith(CHECKPOINT_SUFFIXES)
        ]
    for path in found:
        total += path.stat().st_size if path.is_file() else 0
    if total > MAX_TOTAL_BYTES:
        raise BadFile(
            f"the checkpoints in {directory} have {total} bytes together; at most "
            f"{MAX_TOTAL_BYTES} are read at once"
        )
    if not found:
        raise BadFile(
            f"{directory} has no checkpoints; expected files named {', '.join(CHECKPOINT_SUFFIXES)}"
        )
    return tuple(sorted(found))


def import_directory(
    directory: Path, format_name: str = AUTO, hints: Hints | None = None
) -> Iterator[FileOutcome]:
    """Every checkpoint below `directory`, one after the other, so that one at a time is in memory.

    Args:
        directory: Where to look, subdirectories included.
        format_name: As `import_file`, for all of them.
        hints: As `import_file`, for all of them.

    Raises:
        BadFile: as `checkpoints_in`.
    """
    for path in checkpoints_in(Path(directory)):
        try:
            yield FileOutcome(path, import_file(path, format_name, hints), None)
        except QuadlensError as error:
            yield FileOutcome(path, None, str(error).removeprefix(f"{path}").lstrip(": "))


def output_names(directory: Path, sources: tuple[Path, ...], target: Path) -> dict[Path, Path]:
    """Where each checkpoint goes below `target`: the same place and name, as .safetensors.

    Two sources that would share a name (m.pt and m.pth) keep their own endings before ours.

    >>> sources = (Path("runs/x/m.pt"), Path("runs/x/m.pth"), Path("runs/y.pt"))
    >>> names = output_names(Path("runs"), sources, Path("out"))
    >>> [str(path) for path in names.values()]
    ['out/x/m.pt.safetensors', 'out/x/m.pth.safetensors', 'out/y.safetensors']
    """
    short = {
        path: target / path.relative_to(directory).with_suffix(SAFETENSORS_SUFFIX)
        for path in sources
    }
    shared = [name for name in short.values() if list(short.values()).count(name) > 1]
    return {
        path: name.with_name(path.name + SAFETENSORS_SUFFIX) if name in shared else name
        for path, name in short.items()
    }


def hints_of(attention: Sequence[float] | str | None = None, **known: Any) -> Hints:
    """Return what a user says as `Hints`.

    Attention is numbers or words, a task has any form.
    """
    known["task"] = task_given(known.get("task"))
    if isinstance(attention, str):
        return Hints(parse_attention(attention), **known)
    return Hints(None if attention is None else tuple(float(x) for x in attention), **known)


def from_state_dict(
    state: Mapping[str, Any],
    *,
    attention: Sequence[float] | str | None = None,
    activation: str | None = None,
    p: int | None = None,
    read_position: int | None = None,
    task: Any = None,
    answers: str | None = None,
    config: Mapping[str, Any] | None = None,
    map: Mapping[str, str] | None = None,
    format: str = AUTO,
) -> Imported:
    """Read a state dict of another library in memory, as a file would be read.

    Args:
        state: Names with NumPy arrays or PyTorch tensors (which are copied), or what a file wraps
            around them.
        attention: The constant attention on each position, or "softmax", "softmax:2", "softmax:3"
            to compute it.
        activation: The activation, as "relu".
        p: The modulus, where the shapes do not say it.
        read_position: Which position is read, the last one when None.
        task: What the model was trained for, as "add" or "S5", or its table; addition when neither
            this nor the config says.
        answers: A file with the task's table (CSV, .npy), or "model" for the model's own answers.
        config: The model's config as a dictionary, as a file's `config_<id>.json` would have it.
        map: Which weight is which in an MLP with names of its own, as {"hidden": "fc1", "out":
            "fc2"}.
        format: One of `READERS`, or auto to recognise it by its keys.

    Returns:
        The model with notes on how each fact was settled, and how many inputs it answers right;
        every verb takes it.

    Raises:
        QuadlensError: with what came, what was expected and what to do.

    >>> import numpy as np
    >>> state = {"fc1.weight": np.ones((8, 10)), "fc2.weight": np.ones((5, 8))}
    >>> imported = from_state_dict(state, activation="relu")
    >>> imported.correct, imported.pairs, imported.notes[2]
    (0, 25, 'activation relu: the setting activation')
    """
    hints = hints_of(
        attention,
        p=p,
        activation=activation,
        sidecar=config,
        sidecar_name="the config",
        read_position=read_position,
        task=task,
        answers=answers,
        map=map,
    )
    return _imported(checkpoint_in_memory(state, IN_MEMORY), reader_named(format), hints)


def export_file(
    model: Weights, format_name: str, path: str | Path, source: Path | None = None
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Write `model` as another program's file, whole or not at all.

    Its own file, `source`, is not replaced.

    Returns:
        The files written (the checkpoint, then its config when the format needs one), and notes for
        the user.
    """
    if format_name not in WRITERS:
        what = "is read, not written" if format_name in READERS else "is not known"
        raise BadConfig(f"format {format_name!r} {what}; expected one of {', '.join(WRITERS)}")
    path = Path(path)
    if path.suffix.lower() in READ_SUFFIXES:
        program, reads = READ_SUFFIXES[path.suffix.lower()]
        raise BadConfig(
            f"{path} has the name of a file that {program} writes, and quadlens writes none; give "
            f"a name that ends in {SAFETENSORS_SUFFIX}, which {reads} reads, or in .onnx for ONNX"
        )
    exported = WRITERS[format_name](model)
    files = {}
    if exported.sidecar is not None:
        files[sidecar_path(path)] = (json.dumps(exported.sidecar, indent=2) + "\n").encode()
    # Last, because weights without their config would be taken for a whole export.
    files[path] = exported.content
    with keeping_inputs(source):
        write_all_atomic(files)
    return tuple(reversed(files)), exported.notes
