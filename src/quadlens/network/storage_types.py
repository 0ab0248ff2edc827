"""Number types as files name them, and their bytes as arrays."""

from typing import Any

import numpy as np

from quadlens.base.errors import BadFile

# The upper half of a float32. NumPy has no such type; no file has unsigned integers of two bytes.
BFLOAT16 = np.dtype("u2")

SAFETENSORS_TYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("f4"),
    "F64": np.dtype("f8"),
    "F16": np.dtype("f2"),
    "BF16": BFLOAT16,
    "I64": np.dtype("i8"),
    "I32": np.dtype("i4"),
    "I16": np.dtype("i2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}


def decode(content: bytes, kind: np.dtype[Any], byte_order: str) -> np.ndarray:
    """Return the numbers in `content`, in this machine's byte order.

    bfloat16 is widened to float32, which is exact.

    >>> decode(bytes([0x80, 0x3F]), BFLOAT16, "little")
    array([1.], dtype=float32)
    """
    if len(content) % kind.itemsize:
        raise BadFile(
            f"{len(content)} bytes are not a whole number of {kind.itemsize}-byte numbers"
        )
    stored = kind.newbyteorder("<" if byte_order == "little" else ">")
    numbers = np.frombuffer(content, dtype=stored).astype(kind, copy=False)
    if kind == BFLOAT16:
        return (numbers.astype(np.uint32) << 16).view(np.float32)
    return numbers
