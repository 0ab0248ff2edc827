"""PyTorch's `.pt`/`.pth` files without PyTorch, and NumPy's `.npz`: zips of which nothing is run.

PyTorch's have one pickle and one record for each storage, NumPy's one `.npy` for each array;
nothing in them is believed before it is checked.
"""

import io
import math
import struct
import zipfile
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quadlens.base.errors import BadFile
from quadlens.network.storage_types import BFLOAT16, decode
from quadlens.readers.pickle_machine import Name, PickleMachine

MAX_RECORDS = 20_000
MAX_PICKLE_BYTES = 1 << 25
MAX_DIMENSIONS = 8
# Tied weights are several tensors of one storage; together they may have so many times its numbers.
MAX_SHARING = 4
ARRAY_SUFFIX = ".npy"
ARRAY_KINDS = "fiub?"

TORCH_STORAGES: dict[str, np.dtype[Any]] = {
    "FloatStorage": np.dtype("f4"),
    "DoubleStorage": np.dtype("f8"),
    "HalfStorage": np.dtype("f2"),
    "BFloat16Storage": BFLOAT16,
    "LongStorage": np.dtype("i8"),
    "IntStorage": np.dtype("i4"),
    "ShortStorage": np.dtype("i2"),
    "CharStorage": np.dtype("i1"),
    "ByteStorage": np.dtype("u1"),
    "BoolStorage": np.dtype("?"),
}

_NUMBER_TYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
)
_VALUES: dict[Name, Any] = {
    **{Name("torch", name): kind for name, kind in TORCH_STORAGES.items()},
    **{Name("torch", name): name for name in _NUMBER_TYPES},
}


@dataclass(eq=False)
class _Storage:
    """A flat run of numbers that tensors are views of.

    Attributes:
        numbers: The numbers.
        kind: Their type in the file.
        views: Each different view that a tensor is of them, by offset, shape and strides.
        viewed: How many numbers these views have together.
    """

    numbers: np.ndarray
    kind: np.dtype[Any]
    views: dict[tuple[int, tuple[int, ...], tuple[int, ...]], np.ndarray] = field(
        default_factory=dict
    )
    viewed: int = 0


def read_torch(content: bytes, source: str) -> Any:
    """Return the value in a torch zip, its tensors as NumPy views.

    It has nested dictionaries and lists. Nothing is executed.

    Raises:
        BadFile: when the file is cut, damaged, compressed, too large, or its pickle asks for
            anything but tensors.
    """
    records = zip_records(content, source)
    prefix = next(
        (name.removesuffix("data.pkl") for name in records if name.endswith("/data.pkl")), None
    )
    if prefix is None:
        raise BadFile(f"{source} is a zip without a data.pkl: not a file that torch.save wrote")
    if len(records[prefix + "data.pkl"]) > MAX_PICKLE_BYTES:
        raise BadFile(f"{source}: its data.pkl is larger than {MAX_PICKLE_BYTES} bytes; refused")
    byte_order = records.get(prefix + "byteorder", b"little").decode("ascii", "replace")
    if byte_order not in ("little", "big"):
        raise BadFile(f"{source}: byte order {byte_order!r}; expected little or big")
    storages: dict[str, _Storage] = {}

    def storage(identifier: Any) -> _Storage:
        if not isinstance(identifier, tuple) or len(identifier) < 5 or identifier[0] != "storage":
            raise BadFile(f"{source}: its pickle names a storage in a way torch.save does not")
        kind, key, count = identifier[1], identifier[2], identifier[4]
        if not isinstance(kind, np.dtype) or not isinstance(key, str):
            raise BadFile(f"{source}: its pickle names a storage in a way torch.save does not")
        if prefix + f"data/{key}" not in records:
            raise BadFile(f"{source}: storage {key[:80]!r} is missing from the zip")
        if key not in storages:
            storages[key] = _Storage(
                decode(records[prefix + f"data/{key}"], kind, byte_order), kind
            )
        stored = storages[key]
        if stored.kind != kind:
            raise BadFile(f"{source}: storage {key[:80]!r} is read as two types of numbers")
        if not isinstance(count, int) or len(stored.numbers) != count:
            raise BadFile(
                f"{source}: storage {key[:80]!r} has {len(stored.numbers)} numbers, expected "
                "another count"
            )
        return stored

    calls = {
        Name("torch._utils", "_rebuild_tensor_v2"): _view,
        Name("torch._utils", "_rebuild_tensor"): _view,
        Name("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
    }
    return PickleMachine(source, calls, _VALUES, storage).run(records[prefix + "data.pkl"])


def zip_records(content: bytes, source: str) -> dict[str, bytes]:
    """Return every record of the zip, its checksum verified.

    Compressed records are refused, so that a zip bomb cannot expand.
    """
    # Counted before the directory is parsed, which takes some 500 bytes of memory for each of its
    # entries.
    if content.count(b"PK\x01\x02") > 2 * MAX_RECORDS:
        raise BadFile(
            f"{source}: more than {2 * MAX_RECORDS} records in the zip; at most {MAX_RECORDS} are "
            "read"
        )
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_RECORDS:
                raise BadFile(
                    f"{source}: {len(entries)} records in the zip; at most {MAX_RECORDS} are read"
                )
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise BadFile(
                    f"{source}: a compressed zip, which torch.save and numpy.savez never write; "
                    "refused"
                )
            if any(entry.file_size != entry.compress_size for entry in entries):
                raise BadFile(
                    f"{source}: records whose two sizes differ, though nothing is compressed; "
                    "refused"
                )
            if sum(entry.file_size for entry in entries) > len(content):
                raise BadFile(f"{source}: its records claim more bytes than the file has; refused")
            return {entry.filename: archive.read(entry) for entry in entries}
    except BadFile:
        raise
    except Exception as error:
        # zipfile reports damage through many types: BadZipFile, struct.error, NotImplementedError,
        # RuntimeError, …
        raise BadFile(f"{source} is cut or damaged: its zip cannot be read ({error})") from None


def _view(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> np.ndarray:
    """Return the tensor as a view of its storage, if it lies inside.

    It must not have more numbers than the storage.
    """
    if (
        not isinstance(storage, _Storage)
        or not isinstance(shape, tuple)
        or not isinstance(strides, tuple)
    ):
        raise TypeError("a tensor without a storage, a shape or strides")
    size = len(storage.numbers)
    if len(shape) != len(strides) or len(shape) > MAX_DIMENSIONS:
        raise ValueError(
            f"a tensor with {len(shape)} dimensions and {len(strides)} strides is not read"
        )
    if not all(type(n) is int and n >= 0 for n in (offset, *shape, *strides)):
        raise ValueError("negative or fractional shape, stride or offset")
    if 0 in shape:
        return np.zeros(shape, storage.numbers.dtype)
    if any(n > size for n in shape) or math.prod(shape) > size:
        raise ValueError(f"a tensor has more numbers than its storage, which has {size}")
    last = offset + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    if last >= size:
        raise ValueError(f"a tensor reaches beyond the {size} numbers of its storage")
    if (offset, shape, strides) not in storage.views:
        storage.viewed += math.prod(shape)
        if storage.viewed > MAX_SHARING * size:
            raise ValueError(
                f"tensors that share a storage of {size} numbers have {storage.viewed} together"
            )
        step = storage.numbers.itemsize
        storage.views[offset, shape, strides] = np.lib.stride_tricks.as_strided(
            storage.numbers[offset:],
            shape,
            tuple(step * stride for stride in strides),
            writeable=False,
        )
    return storage.views[offset, shape, strides]


def is_npz(content: bytes) -> bool:
    """Return whether the first record of a zip is an array.

    Its name's length is at byte 26, its name at byte 30.
    """
    if len(content) < 30:
        return False
    (length,) = struct.unpack("<H", content[26:28])
    return content[30 : 30 + length].endswith(ARRAY_SUFFIX.encode())


def read_npz(content: bytes, source: str) -> dict[str, np.ndarray]:
    """The arrays by their names.

    Raises:
        BadFile: when the file is cut, damaged, compressed, too large, or holds anything but arrays
            of numbers.
    """
    records = zip_records(content, source)
    other = [name for name in records if not name.endswith(ARRAY_SUFFIX)]
    if other:
        raise BadFile(
            f"{source}: a zip of arrays with {other[0][:80]!r} among them; expected names that end "
            f"in {ARRAY_SUFFIX}"
        )
    return {
        name.removesuffix(ARRAY_SUFFIX): _array(record, name, source)
        for name, record in records.items()
    }


def _array(record: bytes, name: str, source: str) -> np.ndarray:
    """One array, its size compared with its bytes before any memory is taken for it."""
    stream = io.BytesIO(record)
    try:
        version = np.lib.format.read_magic(stream)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, in_columns, dtype = read(stream)
    except Exception as error:
        # The header is a Python literal; NumPy reports damage to it through many types.
        raise BadFile(
            f"{source}: {name[:80]} is no array that NumPy wrote ({type(error).__name__})"
        ) from None
    content = record[stream.tell() :]
    if dtype.kind not in ARRAY_KINDS or dtype.itemsize > 8 or len(shape) > MAX_DIMENSIONS:
        raise BadFile(
            f"{source}: {name[:80]} holds {str(dtype)[:40]} in {len(shape)} dimensions; expected "
            "numbers"
        )
    if math.prod(shape) * dtype.itemsize != len(content):
        raise BadFile(
            f"{source}: {name[:80]} has {len(content)} bytes, which its shape does not take; "
            "expected others"
        )
    array = np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if in_columns else "C")
    return array.astype(dtype.newbyteorder("="), copy=False)
