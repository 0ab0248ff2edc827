"""Other people's checkpoints: readers, one class per format behind the protocol `Reader`, and a few writers."""

from quadlens.model.formats.facts import parse_attention, parse_weights
from quadlens.model.formats.protocol import Exported, Hints, Imported, Reader, Sniff, SoftmaxAttention
from quadlens.model.formats.registry import (
    READERS,
    WRITERS,
    FileOutcome,
    export_file,
    from_state_dict,
    import_directory,
    import_file,
)

__all__ = [
    "READERS",
    "WRITERS",
    "Exported",
    "FileOutcome",
    "Hints",
    "Imported",
    "Reader",
    "Sniff",
    "SoftmaxAttention",
    "export_file",
    "from_state_dict",
    "import_directory",
    "import_file",
    "parse_attention",
    "parse_weights",
]
