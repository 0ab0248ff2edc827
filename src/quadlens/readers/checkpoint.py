"""Read a file before its format is known: tensors by name, and what lies beside them.

A reader takes the tensors it knows by name, complete and of the right rank.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quadlens.base.errors import BadConfig, BadFile
from quadlens.base.reading import parse_json, read_limited
from quadlens.network.config import MAX_LAYERS
from quadlens.network.native import (
    MAX_FILE_BYTES,
    METADATA_KEY,
    file_kind,
    parse_safetensors,
    tensor_list,
)
from quadlens.network.tensor_names import OUTER, layered, unnumbered
from quadlens.readers.pickle_machine import PickleMachine, StandIn
from quadlens.readers.zip_files import is_npz, read_npz, read_torch

Tensors = Mapping[str, np.ndarray]

# Where people put the state dict when they save more than it.
STATE_DICT_KEYS = ("model", "state_dict", "model_state_dict", "model_state")

NO_LAYER_NORM = (
    "it has LayerNorm, which files of this format are read without; TransformerLens' are read with "
    "it, and so is a module in memory (quadlens.from_module)"
)
# What a clone holds in place of a large file that was not downloaded.
LFS_POINTER = b"version https://git-lfs.github.com/"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A file's contents.

    Attributes:
        source: The file, for messages.
        tensors: The state dict.
        extras: Everything beside the state dict: configs, seeds, metrics; our own metadata as the
            text it is.
    """

    source: str
    tensors: Mapping[str, np.ndarray]
    extras: Mapping[str, Any]

    def rank(self, name: str) -> int | None:
        """Number of dimensions of a tensor, None when the file does not have it."""
        return self.tensors[name].ndim if name in self.tensors else None


def read_checkpoint(path: Path, which: int | None = None) -> Checkpoint:
    """Read a torch zip, an .npz or a safetensors file; nothing in it is executed.

    The first bytes tell them apart.

    `which` of several state dicts is read, counted from 0, where a file has several.

    Raises:
        BadFile: when it is neither, or is cut, damaged, too large, or would run code.
    """
    path = Path(path)
    if not path.exists():
        raise BadFile(
            f"{path}: no such file; expected a .pt, .pth, .npz or .safetensors checkpoint"
        )
    content = read_limited(path, MAX_FILE_BYTES)
    if content.startswith(LFS_POINTER):
        raise BadFile(
            f"{path} is a Git LFS pointer, not the checkpoint itself; fetch it with `git lfs pull`"
        )
    kind = file_kind(content)
    if kind == "zip" and is_npz(content):
        return _with_state_dict(read_npz(content, str(path)), str(path))
    if kind == "zip":
        return _with_state_dict(
            _one_of(read_torch(content, str(path)), which, str(path)), str(path)
        )
    if kind == "pickle":
        # A pickle that calls anything is refused by name; a harmless one is still no checkpoint.
        PickleMachine(str(path), persistent=lambda identifier: None).run(content)
        raise BadFile(
            f"{path} is a bare pickle (PyTorch before 1.6 wrote these); "
            "load it with PyTorch and save it again with torch.save, or as safetensors"
        )
    tensors, metadata = parse_safetensors(content, path)
    extras = {
        key: text if key == METADATA_KEY else _json_or_text(text) for key, text in metadata.items()
    }
    return Checkpoint(str(path), tensors, extras)


def take(
    checkpoint: Checkpoint,
    names: Mapping[str, str],
    optional: Sequence[str] = (),
    dropped: Sequence[str] = (),
) -> dict[str, np.ndarray]:
    """The tensors of a checkpoint by our short names; missing and unknown ones are named.

    Args:
        checkpoint: Where from.
        names: Short name → name in the file; those with `.0.` are of layer 0. Where the file has
            more layers, the short names of a layer's weights have its number before them, as in
            `Config.shapes`.
        optional: Short names that may be absent.
        dropped: Names in the file that carry no weights (masks, buffers).
    """
    layers = _count_layers(checkpoint, names)
    names = layered(names, layers)
    dropped = [name.replace(".0.", f".{i}.") for name in dropped for i in range(layers)]
    missing = [
        long
        for short, long in names.items()
        if long not in checkpoint.tensors and unnumbered(short) not in optional
    ]
    unknown = sorted(set(checkpoint.tensors) - set(names.values()) - set(dropped))
    if any(re.search(r"(^|[._])(ln|norm|layer_?norm)", name, re.IGNORECASE) for name in unknown):
        raise BadFile(f"{checkpoint.source}: {NO_LAYER_NORM}")
    if missing or unknown:
        raise BadFile(
            f"{checkpoint.source}: {tensor_list('missing', missing)}, "
            f"{tensor_list('unknown', unknown)}"
        )
    taken = {
        short: checkpoint.tensors[long]
        for short, long in names.items()
        if long in checkpoint.tensors
    }
    # Half precision widens to float32 exactly; other types are left for Weights to refuse.
    return {s: x.astype(np.float32) if x.dtype == np.float16 else x for s, x in taken.items()}


def _count_layers(checkpoint: Checkpoint, names: Mapping[str, str]) -> int:
    """How many layers a checkpoint has, by the numbers in the names of its tensors."""
    stems = {long.partition(".0.")[0] for long in names.values() if ".0." in long}
    numbered = [
        re.match(rf"({'|'.join(map(re.escape, stems))})\.(\d{{1,6}})\.", name)
        for name in checkpoint.tensors
        if stems
    ]
    layers = max((int(match[2]) for match in numbered if match), default=0) + 1
    if layers > MAX_LAYERS:
        raise BadConfig(
            f"{checkpoint.source}: it has {layers} layers; quadlens reads up to {MAX_LAYERS}"
        )
    return layers


def each_layer(
    weights: Tensors, turn: Callable[[Tensors], Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Tensors of one layer or several, each layer turned by a function that knows one."""
    if not is_deep(weights):
        return dict(turn(weights))
    outer = {name: weights[name] for name in OUTER if name in weights}
    turned: dict[str, np.ndarray] = {}
    for i in sorted({name.partition(".")[0] for name in weights if "." in name}):
        layer = {
            unnumbered(name): array for name, array in weights.items() if name.startswith(f"{i}.")
        }
        turned |= {
            name if name in OUTER else f"{i}.{name}": array
            for name, array in turn(outer | layer).items()
        }
    return turned


def is_deep(weights: Tensors) -> bool:
    """Whether these are the weights of several layers."""
    return "0.W_in" in weights


def check_ranks(checkpoint: Checkpoint, weights: Tensors, ranks: Mapping[str, int]) -> None:
    """Refuse tensors with the wrong number of dimensions before their sizes are read off."""
    wrong = [
        f"{name} has shape {array.shape}, expected {ranks[unnumbered(name)]} dimensions"
        for name, array in weights.items()
        if array.ndim != ranks.get(unnumbered(name), array.ndim)
    ]
    if wrong:
        raise BadFile(f"{checkpoint.source}: {'; '.join(wrong)}")


def checkpoint_in_memory(state: Mapping[str, Any], source: str) -> Checkpoint:
    """Return a state dict in memory as a file would hold it.

    It has NumPy arrays or PyTorch tensors, or is a dictionary with such a dictionary in it.

    Raises:
        BadFile: when there is no dictionary of tensors in it.
    """
    if not isinstance(state, Mapping):
        raise BadFile(
            f"{source} is a {type(state).__name__}; expected a dictionary from names to tensors"
        )
    plain = {
        key: {name: _as_array(item) for name, item in value.items()}
        if isinstance(value, Mapping)
        else _as_array(value)
        for key, value in state.items()
    }
    return _with_state_dict(plain, source)


def _as_array(value: Any) -> Any:
    """A PyTorch tensor as a NumPy array, recognised by its methods; anything else as it is."""
    if not callable(getattr(value, "detach", None)):
        return value
    value = value.detach().cpu()
    # NumPy has no bfloat16; float32 holds it exactly.
    return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()


def _one_of(value: Any, which: int | None, source: str) -> Any:
    """Return the file with one of its state dicts, when it has a list of them."""
    key, several = None, value
    if isinstance(value, dict):
        lists = {
            k: v
            for k, v in value.items()
            if isinstance(v, list) and v and all(map(_is_state_dict, v))
        }
        named = any(k in value for k in STATE_DICT_KEYS)
        if not lists and not named and len(value) > 1 and all(map(_is_state_dict, value.values())):
            several = list(value.values())
        else:
            key, several = next(iter(lists.items()), (None, None))
    if not isinstance(several, list) or not several or not all(map(_is_state_dict, several)):
        if which not in (None, 0):
            raise BadConfig(
                f"{source} has one state dict; leave out checkpoint={which}",
                settings=("checkpoint",),
            )
        return value
    if (
        which is None
        and isinstance(value, dict)
        and any(isinstance(value.get(k), dict) for k in STATE_DICT_KEYS)
    ):
        # The one that the file itself calls its model.
        return value
    if which is None or not 0 <= which < len(several):
        raise BadConfig(
            f"{source} has {len(several)} state dicts; choose one with checkpoint=N, from 0 to "
            f"{len(several) - 1}",
            settings=("checkpoint",),
        )
    rest = (
        {k: v for k, v in value.items() if k != key and k not in STATE_DICT_KEYS}
        if key is not None
        else {}
    )
    return {**rest, STATE_DICT_KEYS[0]: several[which]}


def _is_state_dict(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(isinstance(x, np.ndarray) for x in value.values())
    )


def _with_state_dict(value: Any, source: str) -> Checkpoint:
    """Find the state dict: the value itself, or the dictionary of tensors inside it."""
    if not isinstance(value, dict):
        raise BadFile(
            f"{source} holds {_what(value)}; expected a state dict (a dictionary of tensors)"
        )
    for key in STATE_DICT_KEYS:
        if isinstance(value.get(key), dict):
            tensors, extras = value[key], {k: v for k, v in value.items() if k != key}
            break
    else:
        tensors = {k: v for k, v in value.items() if isinstance(v, np.ndarray)}
        extras = {k: v for k, v in value.items() if k not in tensors}
    odd = [
        _label(key)
        for key, item in tensors.items()
        if not (isinstance(key, str) and isinstance(item, np.ndarray))
    ]
    if odd or not tensors:
        others = f" but {', '.join(map(_label, list(extras)[:5]))}" if extras else ""
        what = f"entries that are not tensors: {odd[:5]}" if odd else f"no tensors{others}"
        raise BadFile(
            f"{source}: its state dict has {what}; expected a dictionary from names to tensors"
        )
    return Checkpoint(source, tensors, {_label(key): item for key, item in extras.items()})


def _label(key: Any) -> str:
    """Return a key for messages.

    Only strings are shown: anything else can be made to print without end.
    """
    return key[:80] if isinstance(key, str) else f"<{type(key).__name__}>"


def _what(value: Any) -> str:
    """The kind of a thing that is no dictionary, for messages."""
    return (
        f"a pickled {value.name.module}.{value.name.name}"[:120]
        if isinstance(value, StandIn)
        else f"a {type(value).__name__}"
    )


def _json_or_text(text: str) -> Any:
    try:
        return parse_json(text, "metadata")
    except BadFile:
        return text
