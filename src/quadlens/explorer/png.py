"""A small table of values as a PNG in a data address: 3,481 SVG squares would weigh a hundred times more."""

import base64
import struct
import zlib

import numpy as np
from jaxtyping import Float

PLUS, MINUS = (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)
GROUND = (0xFF, 0xFF, 0xFF)


def heatmap_address(values: Float[np.ndarray, "p p"], scale: float, contrast: float = 1.0) -> str:
    """`values[a, b]` with a to the right and b upwards: blue above zero, vermilion below, white at zero."""
    strength = (np.clip(np.abs(values) / max(scale, 1e-300), 0.0, 1.0) ** contrast)[:, :, None]
    ink = np.where(values[:, :, None] > 0, np.array(PLUS, dtype=float), np.array(MINUS, dtype=float))
    pixels = (np.array(GROUND) + (ink - np.array(GROUND)) * strength).astype(np.uint8)
    # Rows of a PNG run from the top, each after a filter byte of 0.
    rows = np.ascontiguousarray(pixels.transpose(1, 0, 2)[::-1])
    raw = b"".join(b"\0" + row.tobytes() for row in rows)
    height, width = rows.shape[:2]
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        (
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
            _chunk(b"IDAT", zlib.compress(raw, 9)),
            _chunk(b"IEND", b""),
        )
    )
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
