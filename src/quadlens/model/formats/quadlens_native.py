"""Our own files, so that `import` and `export` also take what quadlens itself writes."""

import json

from quadlens.model.formats.checkpoint import Checkpoint
from quadlens.model.formats.protocol import Exported, Hints, Imported, Sniff
from quadlens.model.native import METADATA_KEY, from_tensors, to_bytes
from quadlens.model.params import Model


class QuadlensNative:
    """Safetensors with the config in the metadata; everything is in the file."""

    name = "quadlens"

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """Our key in the metadata."""
        found = METADATA_KEY in checkpoint.extras
        return Sniff(1.0 if found else 0.0, (f"{'has' if found else 'no'} metadata {METADATA_KEY!r}",))

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """The model as it is; flags that could contradict it play no part."""
        header = json.dumps(checkpoint.extras.get(METADATA_KEY))
        return Imported(from_tensors(dict(checkpoint.tensors), header, checkpoint.source), self.name)

    def write(self, model: Model) -> Exported:
        """The bytes that `quadlens.save` writes."""
        return Exported(to_bytes(model))
