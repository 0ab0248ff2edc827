"""Which formats there are, which one a file is in, and files in and out."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from quadlens.errors import BadConfig, BadFile
from quadlens.model.atomic import write_all_atomic
from quadlens.model.formats.checkpoint import Checkpoint, read_checkpoint
from quadlens.model.formats.gbmi import Gbmi
from quadlens.model.formats.mlps import Gromov, He
from quadlens.model.formats.nanda import Nanda
from quadlens.model.formats.onnx_graph import Onnx
from quadlens.model.formats.protocol import Exported, Format, Hints, Imported
from quadlens.model.formats.quadlens_native import QuadlensNative
from quadlens.model.formats.torch_write import write_torch
from quadlens.model.formats.transformer_lens import TransformerLens
from quadlens.model.formats.transformer_lens4 import TransformerLens4
from quadlens.model.formats.zhong import Zhong
from quadlens.model.params import Model

_ALL: tuple[Format, ...] = (
    QuadlensNative(),
    TransformerLens(),
    TransformerLens4("raw"),
    TransformerLens4("bridge"),
    Gbmi(),
    Zhong(),
    Nanda(),
    He(),
    Gromov(),
    Onnx(),
)
FORMATS: Mapping[str, Format] = {format_.name: format_ for format_ in _ALL}

AUTO = "auto"
SAFETENSORS_SUFFIX = ".safetensors"


def format_named(name: str) -> Format:
    """The format that `--format` names."""
    if name not in FORMATS:
        raise BadConfig(f"format {name!r} is not known; expected one of {', '.join(FORMATS)}")
    return FORMATS[name]


def _readable(name: str) -> Format:
    """The format that `import --format` names."""
    if name not in FORMATS:
        readable = ", ".join((AUTO, *(known for known in FORMATS if known != Onnx.name)))
        raise BadConfig(f"format {name!r} is not known; expected one of {readable}")
    return FORMATS[name]


def recognise(checkpoint: Checkpoint, hints: Hints) -> Format:
    """The one format that is surest a checkpoint is its own.

    Raises:
        BadFile: when none is, or several are equally sure; with everybody's reasons.
    """
    sniffs = {name: format_.sniff(checkpoint, hints) for name, format_ in FORMATS.items()}
    best = max(sniff.confidence for sniff in sniffs.values())
    winners = [name for name, sniff in sniffs.items() if sniff.confidence == best]
    if best > 0 and len(winners) == 1:
        return FORMATS[winners[0]]
    asked = winners if best > 0 else list(sniffs)
    reasons = "; ".join(f"{name}: {', '.join(sniffs[name].reasons)}" for name in asked)
    what = "could be several formats" if best > 0 else "is in no known format"
    raise BadFile(f"{checkpoint.source} {what} ({reasons}). If you know which it is, say so with --format")


def sidecar_path(path: Path) -> Path:
    """Where the config of a checkpoint lies: `config_<id>.json` beside `model_<id>.pt`.

    >>> sidecar_path(Path("runs/model_abc.pt")).name
    'config_abc.json'
    """
    return path.with_name(f"config_{path.stem.removeprefix('model_')}.json")


def read_sidecar(path: Path) -> Mapping[str, Any]:
    """A config file: one JSON object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadFile(f"cannot read the config {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadFile(f"{path} holds a {type(value).__name__}; expected a JSON object")
    return value


def import_file(
    path: str | Path, format_name: str = AUTO, hints: Hints | None = None, config: Path | None = None
) -> Imported:
    """Read someone else's checkpoint; nothing in it is executed and nothing about it is guessed.

    Args:
        path: A .pt, .pth or .safetensors file.
        format_name: One of `FORMATS`, or auto to recognise it by its keys.
        hints: What you know beside the file: attention, p, activation.
        config: Its config file; without one, `config_<id>.json` beside it is used when it is there.

    Raises:
        QuadlensError: with what came, what was expected and what to do.
    """
    path, hints = Path(path), hints or Hints()
    if config is None and hints.sidecar is None and sidecar_path(path).is_file():
        config = sidecar_path(path)
    if config is not None:
        hints = dataclasses.replace(hints, sidecar=read_sidecar(Path(config)), sidecar_name=str(Path(config).name))
    chosen = None if format_name == AUTO else _readable(format_name)
    checkpoint = read_checkpoint(path)
    return (chosen or recognise(checkpoint, hints)).read(checkpoint, hints)


def export_file(model: Model, format_name: str, path: str | Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Write `model` as another program's file, whole or not at all.

    Returns:
        The files written (the checkpoint, then its config when the format needs one), and notes for a person.
    """
    path = Path(path)
    exported = format_named(format_name).write(model)
    files = {path: _content(exported, format_name, path)}
    if exported.sidecar is not None:
        files[sidecar_path(path)] = (json.dumps(exported.sidecar, indent=2) + "\n").encode()
    write_all_atomic(files)
    return tuple(files), exported.notes


def _content(exported: Exported, format_name: str, path: Path) -> bytes:
    """The bytes of the checkpoint: as they are, safetensors when the name says so, else a torch zip."""
    if isinstance(exported.content, bytes):
        return exported.content
    if path.suffix != SAFETENSORS_SUFFIX:
        return write_torch(exported.content)
    from safetensors.numpy import save

    if not all(isinstance(x, np.ndarray) for x in exported.content.values()):
        raise BadConfig(f"{format_name} holds more than tensors, which safetensors cannot; name the file .pth")
    return save({name: np.ascontiguousarray(x) for name, x in exported.content.items()})
