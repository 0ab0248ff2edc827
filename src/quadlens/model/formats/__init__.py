"""Other people's checkpoints, in and out: one small file a format, behind the protocol `Format`."""

from quadlens.model.formats.facts import parse_attention
from quadlens.model.formats.protocol import Exported, Format, Hints, Imported, Sniff, SoftmaxAttention
from quadlens.model.formats.registry import FORMATS, export_file, import_file

__all__ = [
    "FORMATS",
    "Exported",
    "Format",
    "Hints",
    "Imported",
    "Sniff",
    "SoftmaxAttention",
    "export_file",
    "import_file",
    "parse_attention",
]
