"""NumPy's `.npz` files: a zip of one `.npy` for each array, none of it executed, none of it believed before checked."""

import io
import math
import struct

import numpy as np

from quadlens.errors import BadFile
from quadlens.model.formats.torch_files import MAX_DIMENSIONS, zip_records

SUFFIX = ".npy"
_KINDS = "fiub?"


def is_npz(content: bytes) -> bool:
    """Whether the first record of a zip is an array: its name's length is at byte 26, the name at byte 30."""
    if len(content) < 30:
        return False
    (length,) = struct.unpack("<H", content[26:28])
    return content[30 : 30 + length].endswith(SUFFIX.encode())


def read_npz(content: bytes, source: str) -> dict[str, np.ndarray]:
    """The arrays by their names.

    Raises:
        BadFile: when the file is cut, damaged, compressed, too large, or holds anything but arrays of numbers.
    """
    records = zip_records(content, source)
    other = [name for name in records if not name.endswith(SUFFIX)]
    if other:
        raise BadFile(
            f"{source}: a zip of arrays with {other[0][:80]!r} among them; expected names that end in {SUFFIX}"
        )
    return {name.removesuffix(SUFFIX): _array(record, name, source) for name, record in records.items()}


def _array(record: bytes, name: str, source: str) -> np.ndarray:
    """One array, its size compared with its bytes before any memory is taken for it."""
    stream = io.BytesIO(record)
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, in_columns, dtype = read(stream)
    except Exception as error:
        # The header is a Python literal; NumPy reports damage to it through many types.
        raise BadFile(f"{source}: {name[:80]} is no array that NumPy wrote ({type(error).__name__})") from None
    content = record[stream.tell() :]
    if dtype.kind not in _KINDS or dtype.itemsize > 8 or len(shape) > MAX_DIMENSIONS:
        raise BadFile(f"{source}: {name[:80]} holds {str(dtype)[:40]} in {len(shape)} dimensions; expected numbers")
    if math.prod(shape) * dtype.itemsize != len(content):
        raise BadFile(f"{source}: {name[:80]} has {len(content)} bytes, which its shape does not take; expected others")
    array = np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if in_columns else "C")
    return array.astype(dtype.newbyteorder("="), copy=False)
