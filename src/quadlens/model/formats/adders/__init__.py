"""Readers of public networks of one layer that add."""

from quadlens.model.formats.adders.ordinary import LowRank, Masked, PlainAdder
from quadlens.model.formats.adders.qwen import ArcQwen, Qwen, TiedQwen
from quadlens.model.formats.adders.split_stream import MicroAdder, SpiralAdder
from quadlens.model.formats.protocol import Reader

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
