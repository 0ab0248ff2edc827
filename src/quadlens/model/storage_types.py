"""Number types as files name them, and their bytes as arrays."""

from dataclasses import dataclass

import numpy as np

from quadlens.errors import BadFile


@dataclass(frozen=True)
class StorageType:
    """How the numbers of one storage are written.

    Attributes:
        code: NumPy's code without byte order; "u2" also for bfloat16.
        bfloat16: Whether the two bytes are the upper half of a float32.
    """

    code: str
    bfloat16: bool = False

    @property
    def size(self) -> int:
        """Bytes a number."""
        return np.dtype(self.code).itemsize


BFLOAT16 = StorageType("u2", bfloat16=True)

TORCH_STORAGES = {
    "FloatStorage": StorageType("f4"),
    "DoubleStorage": StorageType("f8"),
    "HalfStorage": StorageType("f2"),
    "BFloat16Storage": BFLOAT16,
    "LongStorage": StorageType("i8"),
    "IntStorage": StorageType("i4"),
    "ShortStorage": StorageType("i2"),
    "CharStorage": StorageType("i1"),
    "ByteStorage": StorageType("u1"),
    "BoolStorage": StorageType("?"),
}

SAFETENSORS_TYPES = {
    "F32": StorageType("f4"),
    "F64": StorageType("f8"),
    "F16": StorageType("f2"),
    "BF16": BFLOAT16,
    "I64": StorageType("i8"),
    "I32": StorageType("i4"),
    "I16": StorageType("i2"),
    "I8": StorageType("i1"),
    "U8": StorageType("u1"),
    "BOOL": StorageType("?"),
}


def decode(content: bytes, kind: StorageType, byte_order: str) -> np.ndarray:
    """The numbers in `content`, in this machine's byte order; bfloat16 widened to float32, which is exact.

    >>> decode(bytes([0x80, 0x3F]), BFLOAT16, "little")
    array([1.], dtype=float32)
    """
    if len(content) % kind.size:
        raise BadFile(f"{len(content)} bytes are not a whole number of {kind.size}-byte numbers")
    stored = np.dtype(kind.code).newbyteorder("<" if byte_order == "little" else ">")
    numbers = np.frombuffer(content, dtype=stored).astype(stored.newbyteorder("="), copy=False)
    if kind.bfloat16:
        return (numbers.astype(np.uint32) << 16).view(np.float32)
    return numbers
