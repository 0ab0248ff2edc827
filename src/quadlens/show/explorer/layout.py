"""What the files of the models hold that the explorer runs, as its reader in JavaScript is told it.

All of it is read off the configs: the page has no list of its own of fields, tensors or shapes that
could lag behind. A field that the page does not compute with must have its default, in
`why_not_playable` and in the page's reader.
"""

import dataclasses
import json
from typing import Any

from quadlens.network.activation import Activation
from quadlens.network.config import Config, Softmax
from quadlens.network.task import Task
from quadlens.show.explorer.words import WORDS

# The browser holds all p³ logits as doubles: 136 MB at 257.
LARGEST_P = 257
LARGEST_NEURONS = 8192

# Each size is another number, so that the shape of a tensor says which sizes it is made of.
SIZES: dict[str, Any] = {
    "p": 11,
    "d_model": 12,
    "d_mlp": 13,
    "n_heads": 14,
    "d_head": 15,
    "d_vocab": 16,
    "d_vocab_out": 17,
    "n_ctx": 18,
}
TRANSFORMER = Config(**SIZES, attention=(0.5, 0.5), read_position=1)
MLP = Config.mlp(SIZES["p"], SIZES["d_mlp"])

# The fields that `collapse.js` computes with, by architecture; those under `OPTIONS` bring tensors.
FIELDS = {
    "transformer": (
        *SIZES,
        "attention",
        "read_position",
        "activation",
        "b_token_offset",
        "softmax",
        "task",
    ),
    "mlp": ("p", "d_mlp", "activation", "bias", "task"),
}
PLAIN = {"transformer": TRANSFORMER, "mlp": MLP}
OPTIONS: dict[str, dict[str, Any]] = {
    "transformer": {"softmax": Softmax(1.0, 1.0)},
    "mlp": {"bias": True},
}
# How the reader calls the type of a field.
READERS = {
    int: "whole",
    bool: "flag",
    tuple[float, ...]: "numbers",
    Activation: "activation",
    Softmax | None: "softmax",
    Task: "task",
}


def file_layout() -> dict[str, Any]:
    """Return the fields and tensors of each architecture as JSON types.

    The largest sizes that the page takes stand beside them.
    """
    return {
        "largest": {"p": LARGEST_P, "d_mlp": LARGEST_NEURONS},
        "architectures": {
            name: {"fields": _fields(name), "tensors": _tensors(name)} for name in PLAIN
        },
    }


def _fields(architecture: str) -> list[dict[str, Any]]:
    """Name, reader and default of every field that a file may have, in the config's order.

    A field that the page does not compute with has the reader `default`, and its default as Python
    writes JSON.
    """
    described: list[dict[str, Any]] = []
    for field in PLAIN[architecture].file_fields():
        one: dict[str, Any] = {"name": field.name}
        if field.name not in FIELDS[architecture]:
            described.append(
                {
                    **one,
                    "reader": "default",
                    "default": json.dumps(_plain(field.default), sort_keys=True),
                }
            )
            continue
        one["reader"] = READERS[field.type]
        if field.default is not dataclasses.MISSING:
            one["default"] = "add" if field.name == "task" else _plain(field.default)
        described.append(one)
    return described


def _plain(value: object) -> Any:
    """A default as JSON has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return list(value) if isinstance(value, tuple) else value


def _tensors(architecture: str) -> list[dict[str, Any]]:
    """Return the short name, the name in the file and the shape of every tensor.

    Beside them stands the option without which there is no such tensor.
    """
    plain, sizes = PLAIN[architecture], {size: name for name, size in SIZES.items()}
    described: dict[str, tuple[Config, str | None]] = dict.fromkeys(plain.shapes, (plain, None))
    for option, value in OPTIONS[architecture].items():
        config = dataclasses.replace(plain, **{option: value})
        described |= {name: (config, option) for name in config.shapes if name not in described}
    return [
        {
            "name": name,
            "file": config.names[name],
            "shape": [sizes[size] for size in config.shapes[name]],
            "option": option,
        }
        for name, (config, option) in described.items()
    ]


def why_not_playable(config: Config) -> str | None:
    """Return why the page cannot run such a model; None where it can.

    The reason is a sentence without its full stop.
    """
    if config.p > LARGEST_P:
        return (
            f"p = {config.p}; the explorer holds all p³ logits in the browser: at most p = "
            f"{LARGEST_P}"
        )
    if config.d_mlp > LARGEST_NEURONS:
        return f"the model has {config.d_mlp} neurons; the explorer takes at most {LARGEST_NEURONS}"
    if config.no_tables is not None:
        return (
            f"{config.no_tables}; the explorer runs one layer without norms. `quadlens report` "
            "works"
        )
    if config.activation not in WORDS:
        return (
            f"the explorer does not know the activation {config.activation}; expected one of "
            f"{', '.join(WORDS)}. `quadlens report` works"
        )
    architecture = config.to_dict()["architecture"]
    for field in config.file_fields():
        if field.name not in FIELDS[architecture] and getattr(config, field.name) != field.default:
            return (
                f"the explorer does not know {field.name} = {getattr(config, field.name)}; "
                "`quadlens report` works"
            )
    return None
