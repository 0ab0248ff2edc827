"""A checkpoint's tensors under our names, complete and of the right rank."""

from collections.abc import Mapping, Sequence

import numpy as np

from quadlens.errors import BadFile
from quadlens.model.formats.checkpoint import Checkpoint

Weights = Mapping[str, np.ndarray]


def take(
    checkpoint: Checkpoint, names: Mapping[str, str], optional: Sequence[str] = (), dropped: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """The tensors of a checkpoint by our short names; every missing and every unknown one is named.

    Args:
        checkpoint: Where from.
        names: Short name → name in the file.
        optional: Short names that may be absent.
        dropped: Names in the file that carry no weights (masks, buffers).
    """
    missing = [long for short, long in names.items() if long not in checkpoint.tensors and short not in optional]
    unknown = sorted(set(checkpoint.tensors) - set(names.values()) - set(dropped))
    if missing or unknown:
        hint = "; only one layer without normalisation is read" if any("ln" in n or ".1." in n for n in unknown) else ""
        raise BadFile(f"{checkpoint.source}: missing tensors {missing}, unknown tensors {unknown[:20]}{hint}")
    found = {short: checkpoint.tensors[long] for short, long in names.items() if long in checkpoint.tensors}
    # Half precision widens to float32 exactly; other types are left for Params to refuse.
    return {s: x.astype(np.float32) if x.dtype == np.float16 else x for s, x in found.items()}


def check_ranks(checkpoint: Checkpoint, weights: Weights, ranks: Mapping[str, int]) -> None:
    """Refuse tensors with the wrong number of dimensions before their sizes are read off."""
    wrong = [
        f"{name} has shape {weights[name].shape}, expected {rank} dimensions"
        for name, rank in ranks.items()
        if name in weights and weights[name].ndim != rank
    ]
    if wrong:
        raise BadFile(f"{checkpoint.source}: {'; '.join(wrong)}")
