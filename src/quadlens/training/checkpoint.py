"""A run stopped in the middle; resuming it gives the same bytes as not stopping."""

import contextlib
import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from quadlens.base.atomic import write_atomic
from quadlens.base.errors import BadConfig, BadFile
from quadlens.base.reading import parse_json
from quadlens.base.schema import parse_dataclass
from quadlens.network.native import read_safetensors
from quadlens.training.config import TrainConfig
from quadlens.training.history import History
from quadlens.training.layout import Layout

METADATA_KEY = "quadlens_checkpoint"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Everything a run is after `epoch` steps.

    Attributes:
        config: The run's settings.
        device: Where it ran; another device rounds differently.
        threads: With how many threads; another number rounds differently.
        epoch: Steps taken.
        theta: Flat weights.
        first: AdamW's first moment.
        second: AdamW's second moment.
        history: Rows recorded so far.
    """

    config: TrainConfig
    device: str
    threads: int
    epoch: int
    theta: Float[np.ndarray, " size"]
    first: Float[np.ndarray, " size"]
    second: Float[np.ndarray, " size"]
    history: History

    def save(self, path: Path) -> None:
        """Write to `path`, whole or not at all."""
        write_atomic(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """The file that `save` writes and `load_checkpoint` reads."""
        from safetensors.numpy import save

        arrays = {name: getattr(self, name) for name in ("theta", "first", "second")}
        arrays |= {
            f"history.{f.name}": getattr(self.history, f.name)
            for f in dataclasses.fields(self.history)
        }
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        header = {
            "config": dataclasses.asdict(self.config),
            "device": self.device,
            "threads": self.threads,
            "epoch": self.epoch,
            "checksum": _checksum(arrays),
        }
        return bytes(save(arrays, {METADATA_KEY: json.dumps(header, sort_keys=True)}))


def remove_left_over(path: Path, config: TrainConfig) -> None:
    """Remove the checkpoint that a kill left beside a whole run of these settings."""
    with contextlib.suppress(BadFile):  # what cannot be read is not known to be this run's
        if path.exists() and load_checkpoint(path).config == config:
            path.unlink()


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a file that `Checkpoint.save` wrote; a damaged one is refused."""
    arrays, metadata = read_safetensors(path)
    remedy = f"delete {path} to start this run from the beginning"
    try:
        header = parse_dataclass(
            _Header, parse_json(metadata[METADATA_KEY], "its metadata"), "header"
        )
        history = {
            name.removeprefix("history."): a
            for name, a in arrays.items()
            if name.startswith("history.")
        }
        flat = {name: arrays[name] for name in ("theta", "first", "second")}
        checkpoint = Checkpoint(
            header.config,
            header.device,
            header.threads,
            header.epoch,
            **flat,
            history=History(**history),
        )
    except (KeyError, ValueError, TypeError, BadConfig, BadFile) as error:
        why = f" ({error})" if isinstance(error, BadConfig | BadFile) else ""
        raise BadFile(f"{path} is not a training checkpoint{why}; {remedy}") from None
    if header.checksum != _checksum(arrays):
        raise BadFile(f"{path} is damaged: its arrays do not match their checksum; {remedy}")
    if not 0 <= checkpoint.epoch <= checkpoint.config.epochs or checkpoint.threads < 1:
        raise BadFile(
            f"{path} says epoch {header.epoch} and {header.threads} threads, which no run does; "
            f"{remedy}"
        )
    size = Layout.of_run(checkpoint.config).size
    if any(array.shape != (size,) for array in flat.values()):
        raise BadFile(
            f"{path} holds arrays of other sizes than its settings have ({size} weights); {remedy}"
        )
    return checkpoint


@dataclass(frozen=True)
class _Header:
    """What a checkpoint's file says beside its arrays."""

    config: TrainConfig
    device: str
    threads: int
    epoch: int
    checksum: str


def _checksum(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()
