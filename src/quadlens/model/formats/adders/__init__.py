"""Readers of public networks on sequences: transformers of one layer that add, and TransformerLens' with a task."""

from quadlens.model.formats.adders.hooked import HookedSequence
from quadlens.model.formats.adders.low_rank import LowRank, PlainAdder
from quadlens.model.formats.adders.masked import Masked
from quadlens.model.formats.adders.qwen import ArcQwen, Qwen
from quadlens.model.formats.adders.split_stream import MicroAdder, SpiralAdder

__all__ = [
    "ArcQwen",
    "HookedSequence",
    "LowRank",
    "Masked",
    "MicroAdder",
    "PlainAdder",
    "Qwen",
    "SpiralAdder",
]
