"""Readers of other people's checkpoints, one class per format, and a few writers."""

from quadlens.readers.facts import parse_attention
from quadlens.readers.protocol import Hints, Imported, SoftmaxAttention
from quadlens.readers.registry import (
    READERS,
    WRITERS,
    export_file,
    from_state_dict,
    import_directory,
    import_file,
)

__all__ = [
    "READERS",
    "WRITERS",
    "Hints",
    "Imported",
    "SoftmaxAttention",
    "export_file",
    "from_state_dict",
    "import_directory",
    "import_file",
    "parse_attention",
]
