"""PyTorch's `.pt`/`.pth` files without PyTorch: a zip of one pickle and one record a storage, none of it run."""

import io
import math
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np

from quadlens.errors import BadFile
from quadlens.model.formats.pickle_machine import Name, PickleMachine
from quadlens.model.storage_types import TORCH_STORAGES, StorageType, decode

MAX_RECORDS = 20_000
MAX_PICKLE_BYTES = 1 << 26
MAX_NUMBERS = 1 << 28
MAX_DIMENSIONS = 8

_NUMBER_TYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
_VALUES: dict[Name, Any] = {
    **{Name("torch", name): kind for name, kind in TORCH_STORAGES.items()},
    **{Name("torch", name): name for name in _NUMBER_TYPES},
}


@dataclass(frozen=True, eq=False)
class _Storage:
    """A flat run of numbers that tensors are views of."""

    numbers: np.ndarray


def read_torch(content: bytes, source: str) -> Any:
    """The value in a torch zip: nested dictionaries and lists, tensors as NumPy views; nothing is executed.

    Raises:
        BadFile: when the file is cut, damaged, compressed, too large, or its pickle asks for anything but tensors.
    """
    records = _records(content, source)
    prefix = next((name.removesuffix("data.pkl") for name in records if name.endswith("/data.pkl")), None)
    if prefix is None:
        raise BadFile(f"{source} is a zip without a data.pkl: not a file that torch.save wrote")
    if len(records[prefix + "data.pkl"]) > MAX_PICKLE_BYTES:
        raise BadFile(f"{source}: its data.pkl is larger than {MAX_PICKLE_BYTES} bytes; refused")
    byte_order = records.get(prefix + "byteorder", b"little").decode("ascii", "replace")
    if byte_order not in ("little", "big"):
        raise BadFile(f"{source}: byte order {byte_order!r}; expected little or big")
    storages: dict[tuple[str, StorageType], _Storage] = {}

    def storage(identifier: Any) -> _Storage:
        kind, key, count = identifier[1], str(identifier[2]), identifier[4]
        if identifier[0] != "storage" or not isinstance(kind, StorageType):
            raise BadFile(f"{source}: its pickle names a storage in a way torch.save does not")
        if prefix + f"data/{key}" not in records:
            raise BadFile(f"{source}: storage {key!r} is missing from the zip")
        if (key, kind) not in storages:
            storages[key, kind] = _Storage(decode(records[prefix + f"data/{key}"], kind, byte_order))
        found = storages[key, kind]
        if len(found.numbers) != count:
            raise BadFile(f"{source}: storage {key!r} has {len(found.numbers)} numbers, expected {count}")
        return found

    calls = {
        Name("torch._utils", "_rebuild_tensor_v2"): _view,
        Name("torch._utils", "_rebuild_tensor"): _view,
        Name("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
    }
    return PickleMachine(source, calls, _VALUES, storage).run(records[prefix + "data.pkl"])


def _records(content: bytes, source: str) -> dict[str, bytes]:
    """Every record of the zip, its checksum verified; torch compresses nothing, so a zip bomb has no way in."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_RECORDS:
                raise BadFile(f"{source}: {len(entries)} records in the zip; at most {MAX_RECORDS} are read")
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise BadFile(f"{source}: a compressed zip, which torch.save never writes; refused")
            if sum(entry.file_size for entry in entries) > len(content):
                raise BadFile(f"{source}: its records claim more bytes than the file has; refused")
            return {entry.filename: archive.read(entry) for entry in entries}
    except BadFile:
        raise
    except Exception as error:
        # zipfile reports damage through many types: BadZipFile, struct.error, NotImplementedError, RuntimeError, …
        raise BadFile(f"{source} is cut or damaged: its zip cannot be read ({error})") from None


def _view(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> np.ndarray:
    """The tensor as a view of its storage, after checking that it lies inside."""
    if not isinstance(storage, _Storage):
        raise TypeError("a tensor without a storage")
    numbers = (offset, *shape, *strides)
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers):
        raise ValueError("negative or fractional shape, stride or offset")
    if len(shape) != len(strides) or len(shape) > MAX_DIMENSIONS or math.prod(shape) > MAX_NUMBERS:
        raise ValueError(f"a tensor of shape {shape} with strides {strides} is not read")
    if math.prod(shape) == 0:
        return np.zeros(shape, storage.numbers.dtype)
    last = offset + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    if last >= len(storage.numbers):
        raise ValueError(f"a tensor reaches number {last} of a storage of {len(storage.numbers)}")
    size = storage.numbers.itemsize
    return np.lib.stride_tricks.as_strided(
        storage.numbers[offset:], tuple(shape), tuple(size * stride for stride in strides), writeable=False
    )
