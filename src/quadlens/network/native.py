"""Our file format: safetensors with TransformerLens' names and the config as JSON."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from quadlens.base.atomic import write_atomic
from quadlens.base.errors import BadFile, QuadlensError
from quadlens.base.reading import parse_json, read_limited
from quadlens.network.architectures import config_from_dict
from quadlens.network.config import Config
from quadlens.network.sequence import SequenceConfig
from quadlens.network.storage_types import SAFETENSORS_TYPES, decode
from quadlens.network.tensor_names import TASK_TABLE
from quadlens.network.weights import Weights

METADATA_KEY = "quadlens"
FORMAT_VERSION = 1
HEADER_KEYS = {"format", "config", "checksum"}
MAX_FILE_BYTES = 1 << 32
# Most names of tensors in one message.
MAX_NAMES = 6
# The JSON at the start of a safetensors file: some 100 bytes per tensor, and a config.
MAX_HEADER_BYTES = 1 << 22
_IMPORT_HINT = "read other people's checkpoints with: quadlens import -o MODEL.safetensors"


def tensor_list(what: str, names: Sequence[str]) -> str:
    """Return the names of tensors as a message prints them.

    >>> tensor_list("missing", ["embed.W_E"]), tensor_list("unknown", [])
    ('missing tensors: embed.W_E', 'no unknown tensors')
    """
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return (
        f"{what} tensors: {', '.join(name[:80] for name in names[:MAX_NAMES])}{more}"
        if names
        else f"no {what} tensors"
    )


def to_bytes(model: Weights) -> bytes:
    """Return the file as bytes; the same model always gives the same bytes."""
    from safetensors.numpy import save

    names, config = model.config.names, model.config.to_dict()
    tensors = {names[name]: np.ascontiguousarray(array) for name, array in model.tensors.items()}
    tensors |= model.config.task_tensors
    header = {"format": FORMAT_VERSION, "config": config, "checksum": _checksum(tensors, config)}
    # One metadata key only: safetensors does not promise the order of several, and bytes must be
    # deterministic.
    return save(tensors, {METADATA_KEY: json.dumps(header, sort_keys=True)})


def _checksum(tensors: dict[str, np.ndarray], config: Any) -> str:
    """Return the SHA-256 of config, names, dtypes, shapes and bytes.

    safetensors itself does not notice a flipped bit.
    """
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def sha256(model: Weights) -> str:
    """Return the SHA-256 of the file that the model is saved as."""
    return hashlib.sha256(to_bytes(model)).hexdigest()


def save(model: Weights, path: Path) -> None:
    """Write `model` to `path`, whole or not at all."""
    write_atomic(path, to_bytes(model))


def load_file(path: Path) -> Weights:
    """Read a file that `save` wrote.

    Raises:
        BadFile: when the file is missing, cut, damaged or not ours.
        BadConfig, BadWeights: when its config or weights cannot be a model's.
    """
    return load_with_sha256(path)[0]


def load_with_sha256(path: Path) -> tuple[Weights, str]:
    """Return the model in a file, and the SHA-256 of that file, from one read.

    The hash is the file's own, which may differ from `sha256(model)` when something else than
    `save` wrote it.

    Raises:
        BadFile, BadConfig, BadWeights: as `load_file`.
    """
    content = _read(path)
    return from_bytes(content, path), hashlib.sha256(content).hexdigest()


def from_bytes(content: bytes, path: Path) -> Weights:
    """Return the model that `to_bytes` made these bytes of.

    `path` names the source in messages.
    """
    tensors, metadata = parse_safetensors(content, path)
    if METADATA_KEY not in metadata:
        raise BadFile(
            f"{path} is a safetensors file without quadlens' config in its metadata; "
            f"{_IMPORT_HINT} {path}"
        )
    return from_tensors(tensors, metadata[METADATA_KEY], str(path))


def from_tensors(tensors: dict[str, np.ndarray], header_json: str, where: str) -> Weights:
    """Return the model in parsed tensors and metadata.

    `where` names the source in messages.

    Strict, as the checker is: a key that stands twice, a key that is not known and a version that
    is not the integer 1 are refused, for two readers could understand such a file in two ways.
    """
    try:
        header = parse_json(header_json, "it", strict=True)
    except BadFile as error:
        raise BadFile(
            f"{where}: the metadata {METADATA_KEY!r} is not the JSON that quadlens writes: {error}"
        ) from None
    if not isinstance(header, dict) or not header.keys() >= HEADER_KEYS:
        raise BadFile(
            f"{where}: the metadata {METADATA_KEY!r} is not the JSON that quadlens writes"
        )
    unknown = sorted(header.keys() - HEADER_KEYS)
    if unknown:
        raise BadFile(
            f"{where}: its metadata {METADATA_KEY!r} has the unknown key {unknown[0][:80]!r}"
        )
    version, config_data, checksum = header["format"], header["config"], header["checksum"]
    if type(version) is not int or version != FORMAT_VERSION:
        named = version if isinstance(version, (int, float)) else type(version).__name__
        raise BadFile(f"{where}: file format {named}; this quadlens reads format {FORMAT_VERSION}")
    # Before anything else is believed: a damaged file should say so, not complain about what the
    # damage looks like.
    if checksum != _checksum(tensors, config_data):
        raise BadFile(
            f"{where} is damaged: its weights or config do not match its checksum; get the file "
            "again"
        )
    table = tensors.get(TASK_TABLE)
    if table is not None and table.dtype != np.int32:
        raise BadFile(f"{where}: {TASK_TABLE} has dtype {table.dtype}, expected int32")
    config = config_from_dict(config_data, where, None if table is None else table.astype(np.int64))
    return _named(
        config, {name: x for name, x in tensors.items() if name not in config.task_tensors}, where
    )


def _named(config: Config | SequenceConfig, tensors: dict[str, np.ndarray], where: str) -> Weights:
    """Return the network whose tensors have these names in a file."""
    names = config.names
    missing = sorted(
        long
        for short, long in names.items()
        if long not in tensors and short not in config.optional
    )
    unknown = sorted(set(tensors) - set(names.values()))
    if missing or unknown:
        raise BadFile(
            f"{where}: {tensor_list('missing', missing)}, {tensor_list('unknown', unknown)}"
        )
    arrays = {short: tensors[long] for short, long in names.items() if long in tensors}
    try:
        return Weights(config, **arrays)
    except QuadlensError as error:
        raise error.about(where) from None


def read_safetensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return all tensors and the metadata of any safetensors file.

    bfloat16 is widened to float32, which is exact.
    """
    return parse_safetensors(_read(path), path)


def _read(path: Path) -> bytes:
    path = Path(path)
    if path.is_dir():
        raise BadFile(f"{path} is a directory; give a safetensors file")
    if not path.exists():
        raise BadFile(
            f"{path}: no such file; give a safetensors file or the name of a bundled model"
        )
    return read_limited(path, MAX_FILE_BYTES)


def parse_safetensors(content: bytes, path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return all tensors and the metadata in the bytes of a safetensors file.

    `path` names it in messages.

    Raises:
        BadFile: when it is cut, damaged, something else, or a name stands in it twice.
    """
    from safetensors import SafetensorError, deserialize

    if file_kind(content) != "safetensors":
        raise BadFile(f"{path} is a PyTorch file, not a safetensors file; {_IMPORT_HINT} {path}")
    length = int.from_bytes(content[:8], "little")
    if MAX_HEADER_BYTES < length <= len(content):
        raise BadFile(f"{path}: its header has {length} bytes; at most {MAX_HEADER_BYTES} are read")
    try:
        views = deserialize(content)  # type: ignore[no-untyped-call]
        tensors = {name: _tensor(name, view) for name, view in views}
        # `deserialize` has checked the header, and that its metadata are strings, but does not give
        # them.
        header = parse_json(content[8 : 8 + length], f"{path}: its header", strict=True)
        metadata = dict(header.get("__metadata__") or {})
    except (SafetensorError, ValueError, TypeError, MemoryError) as error:
        raise BadFile(
            f"{path} is not a readable safetensors file (cut or damaged): {error}"
        ) from None
    return tensors, metadata


def file_kind(content: bytes) -> Literal["zip", "pickle", "safetensors"]:
    """Return what a file is, by its first bytes.

    What is neither zip nor pickle is left to safetensors to judge.

    A safetensors file starts with the length of its header in eight bytes, and a length may well
    start with the byte that starts a pickle; but a length leaves the upper bytes zero and a pickle
    does not.

    >>> file_kind((640).to_bytes(8, "little") + b"{}"), file_kind(bytes([0x80, 2]) + b"}q@(X")
    ('safetensors', 'pickle')
    """
    if content.startswith(b"PK\x03\x04"):
        return "zip"
    if content[:1] == b"\x80" and content[1:2] <= b"\x05" and any(content[4:8]):
        return "pickle"
    return "safetensors"


def _tensor(name: str, view: dict[str, Any]) -> np.ndarray:
    """Return one tensor from the bytes, number type and shape that safetensors gives."""
    if view["dtype"] not in SAFETENSORS_TYPES:
        raise BadFile(
            f"{name} has the number type {view['dtype']}; expected one of "
            f"{', '.join(SAFETENSORS_TYPES)}"
        )
    return decode(bytes(view["data"]), SAFETENSORS_TYPES[view["dtype"]], "little").reshape(
        view["shape"]
    )
