"""Readers of public networks of one layer that add."""

from quadlens.readers.adders.ordinary import LowRank, Masked, PlainAdder
from quadlens.readers.adders.qwen import ArcQwen, Qwen, TiedQwen
from quadlens.readers.adders.split_stream import MicroAdder, SpiralAdder
from quadlens.readers.protocol import Reader

ADDERS: tuple[Reader, ...] = (
    MicroAdder(),
    SpiralAdder(),
    LowRank(),
    PlainAdder(),
    Qwen(),
    ArcQwen(),
    TiedQwen(),
    Masked(),
)

__all__ = ["ADDERS"]
