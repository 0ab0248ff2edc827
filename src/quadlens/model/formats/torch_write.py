"""Writing PyTorch's `.pt` files without PyTorch: a zip whose pickle is written opcode by opcode."""

import io
import struct
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from quadlens.model.storage_types import TORCH_NAME


def write_torch(value: Mapping[str, Any]) -> bytes:
    """The bytes of a file that `torch.load(weights_only=True)` reads as `value`.

    Args:
        value: Nested dictionaries, lists, tuples, strings, integers, floats, booleans, None and NumPy arrays.
    """
    writer = _Writer()
    pickle = b"\x80\x02" + writer.pickled(dict(value)) + b"."
    records = {"data.pkl": pickle, "byteorder": b"little"}
    records |= {f"data/{key}": content for key, content in enumerate(writer.storages)}
    records["version"] = b"3\n"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, content in records.items():
            # A fixed date: the same value always gives the same bytes.
            archive.writestr(zipfile.ZipInfo(f"archive/{name}", date_time=(1980, 1, 1, 0, 0, 0)), content)
    return stream.getvalue()


class _Writer:
    """Pickle opcodes for plain values, collecting the bytes of each array on the way."""

    def __init__(self) -> None:
        self.storages: list[bytes] = []

    def pickled(self, value: Any) -> bytes:
        """Opcodes that leave `value` on the stack."""
        if isinstance(value, Mapping):
            return b"}(" + b"".join(self.pickled(k) + self.pickled(v) for k, v in value.items()) + b"u"
        if isinstance(value, tuple):
            return b"(" + b"".join(map(self.pickled, value)) + b"t"
        if isinstance(value, list):
            return b"](" + b"".join(map(self.pickled, value)) + b"e"
        if isinstance(value, np.ndarray):
            return self._tensor(value)
        return _scalar(value)

    def _tensor(self, array: np.ndarray) -> bytes:
        flat = np.ascontiguousarray(array)
        name, key = TORCH_NAME[flat.dtype], str(len(self.storages))
        self.storages.append(flat.astype(flat.dtype.newbyteorder("<"), copy=False).tobytes())
        strides = tuple(stride // flat.itemsize for stride in flat.strides) if array.ndim else ()
        storage = b"(" + b"".join(
            [self.pickled("storage"), f"ctorch\n{name}\n".encode(), self.pickled(key), self.pickled("cpu")]
        )
        return (
            b"ctorch._utils\n_rebuild_tensor_v2\n("
            + storage
            + self.pickled(flat.size)
            + b"tQ"
            + self.pickled(0)
            + self.pickled(tuple(array.shape))
            + self.pickled(strides)
            + self.pickled(False)
            + b"ccollections\nOrderedDict\n)RtR"
        )


def _scalar(value: Any) -> bytes:
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, str):
        encoded = value.encode()
        return b"X" + struct.pack("<I", len(encoded)) + encoded
    raise TypeError(f"{type(value).__name__} has no place in a checkpoint")


def _integer(value: int) -> bytes:
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    content = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(content)]) + content
