"""The model file: safetensors with a config; its header, config and shapes are checked against each other."""

import math
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quadlens_checker import limits
from quadlens_checker.reading import integers, keys, parse_json, require
from quadlens_checker.tasks import Task, read_task

Tensor = tuple[list[int], Sequence[float]]  # shape and values
Tensors = Mapping[str, Tensor]
SIZES = "d_model", "n_heads", "d_head", "d_vocab", "d_vocab_out", "n_ctx"
COMMON_KEYS = "architecture", "p", "d_mlp", "activation"
TRANSFORMER_KEYS = (*COMMON_KEYS, *SIZES, "attention", "read_position", "b_token_offset")
OPTIONAL_KEYS = {"mlp": {"task"}, "transformer": {"task", "softmax"}}
TASK_TABLE = "task.answers"
TYPES = {"F32": "f", "F64": "d", "I32": "i"}


@dataclass(frozen=True)
class Softmax:
    """What is added to the constant weight of each position seen: scale · softmax(query · key / divisor)."""

    scale: float
    divisor: float
    causal: bool


@dataclass(frozen=True)
class Config:
    """What the file says of its model; the fields after `activation` are a transformer's and 0 or empty for an MLP.

    attention: the constant weight of each position, two or three; softmax: what depends on the tokens, or None.
    tokens: which rows of W_E each position may hold, as (start, stop).
    """

    architecture: str
    p: int
    d_mlp: int
    activation: str
    task: Task
    d_model: int = 0
    n_heads: int = 0
    d_head: int = 0
    d_vocab: int = 0
    d_vocab_out: int = 0
    n_ctx: int = 0
    attention: tuple[float, ...] = ()
    read_position: int = 0
    tokens: tuple[tuple[int, int], ...] = ()
    softmax: Softmax | None = None

    @property
    def attention_kind(self) -> str:
        """constant; softmax alone; or a mixture of both."""
        if self.softmax is None:
            return "constant"
        return "mixture" if any(self.attention) or self.softmax.scale != 1 else "softmax"

    @property
    def seen(self) -> int:
        """How many positions, from the first on, softmax attends to."""
        if self.softmax is None:
            return 0
        return self.read_position + 1 if self.softmax.causal else len(self.attention)

    def shapes(self) -> dict[str, list[int]]:
        """The tensors this config asks for."""
        p, m, d, h, dh = self.p, self.d_mlp, self.d_model, self.n_heads, self.d_head
        if self.architecture == "mlp":
            return {"mlp.W_a": [p, m], "mlp.W_b": [p, m], "mlp.W_out": [m, p]}
        ends = {"embed.W_E": [self.d_vocab, d], "pos_embed.W_pos": [self.n_ctx, d]}
        ends |= {"unembed.W_U": [d, self.d_vocab_out], "unembed.b_U": [self.d_vocab_out]}
        attention = {"W_V": [h, d, dh], "b_V": [h, dh], "W_O": [h, dh, d], "b_O": [d]}
        if self.softmax is not None:
            attention |= {"W_Q": [h, d, dh], "b_Q": [h, dh], "W_K": [h, d, dh], "b_K": [h, dh]}
        mlp = {"W_in": [d, m], "b_in": [m], "W_out": [m, d], "b_out": [d]}
        inside = {f"blocks.0.attn.{name}": shape for name, shape in attention.items()}
        return ends | inside | {f"blocks.0.mlp.{name}": shape for name, shape in mlp.items()}


def read_softmax(value: Any) -> Softmax:
    """Two numbers and a yes or no."""
    keys(value, ("scale", "divisor", "causal"), "softmax")
    scale, divisor, causal = value["scale"], value["divisor"], value["causal"]
    require(all(type(x) in (int, float) for x in (scale, divisor)) and type(causal) is bool, "softmax is malformed")
    require(scale != 0 and divisor > 0, "softmax times 0, or scores divided by what is not positive")
    return Softmax(float(scale), float(divisor), causal)


def read_config(value: Any, table: Sequence[int] | None) -> Config:
    """A config with the keys, types and ranges of one of the two architectures; `table` is the task's, if any."""
    architecture = value["architecture"]
    expected = {"mlp": COMMON_KEYS, "transformer": TRANSFORMER_KEYS}.get(architecture, ())
    found = set(value) - OPTIONAL_KEYS.get(architecture, set())
    require(found == set(expected), "the config has unknown or missing keys")
    p, d_mlp = integers([value["p"], value["d_mlp"]], "config", 2, 1, limits.MAX_MODEL_BYTES)
    require(2 <= p <= limits.MAX_DIRECT_MODULUS, f"p is not in 2…{limits.MAX_DIRECT_MODULUS}")
    require(value["activation"] in limits.ACTIVATIONS, "unknown activation")
    common = architecture, p, d_mlp, value["activation"], read_task(value.get("task", "add"), p, table)
    if architecture == "mlp":
        return Config(*common)
    d_model, n_heads, d_head, d_vocab, d_vocab_out, n_ctx = integers(
        [value[name] for name in SIZES], "config", 6, 1, limits.MAX_MODEL_BYTES
    )
    alphas = value["attention"]
    require(isinstance(alphas, list) and all(type(x) in (int, float) for x in alphas), "attention is not numbers")
    require(len(alphas) in (2, 3), "attention is not two or three numbers")
    read, offset = integers([value["read_position"], value["b_token_offset"]], "config", 2, 0, limits.MAX_MODEL_BYTES)
    tokens = ((0, p), (offset, offset + p), (offset + p, offset + p + 1))[: len(alphas)]
    require(read < len(alphas) <= n_ctx, "the config names positions that do not exist")
    require(offset in (0, p), "b_token_offset is neither 0 nor p")
    require(tokens[-1][1] <= d_vocab and p <= d_vocab_out, "the config names weights that do not exist")
    sizes = d_model, n_heads, d_head, d_vocab, d_vocab_out, n_ctx
    softmax = read_softmax(value["softmax"]) if "softmax" in value else None
    return Config(*common, *sizes, tuple(map(float, alphas)), read, tokens, softmax)


def read_tensors(content: bytes) -> tuple[Any, dict[str, Tensor]]:
    """Config, not looked at yet, and tensors of a safetensors file that quadlens wrote."""
    size = int.from_bytes(content[:8], "little")
    require(8 + size <= len(content), "the model file is cut")
    require(size <= limits.MAX_HEADER_BYTES, f"the model file's header is longer than {limits.MAX_HEADER_BYTES} bytes")
    header = parse_json(content[8 : 8 + size], floats=False)
    metadata = keys(header.pop("__metadata__"), ("quadlens",), "the model file's __metadata__")
    about = keys(
        parse_json(metadata["quadlens"], floats=True), ("format", "config", "checksum"), "the model's metadata"
    )
    require(repr(about["format"]) == "1", "unknown version of the model file")
    start, tensors = 8 + size, dict[str, Tensor]()
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        keys(entry, ("dtype", "shape", "data_offsets"), name)
        shape = integers(entry["shape"], name, None, 1, limits.MAX_MODEL_BYTES)
        require((entry["dtype"] == "I32") == (name == TASK_TABLE), f"{name} has the wrong type of numbers")
        values = array(TYPES[entry["dtype"]])
        stop = start + math.prod(shape) * values.itemsize
        require(entry["data_offsets"] == [start - 8 - size, stop - 8 - size], f"{name} has wrong offsets")
        require(stop <= len(content), "the model file is cut")
        values.frombytes(content[start:stop])
        if sys.byteorder == "big":
            values.byteswap()
        require(all(map(math.isfinite, values)), f"{name} has a weight that is not finite")
        tensors[name], start = (shape, values), stop
    require(start == len(content), "the model file has bytes that belong to no tensor")
    return about["config"], tensors


def read_model(content: bytes) -> tuple[Config, Tensors]:
    """Config and tensors of a network on pairs."""
    value, tensors = read_tensors(content)
    shape, numbers = tensors.pop(TASK_TABLE, ([], None))
    table = None if numbers is None else [int(x) for x in numbers]
    config = read_config(value, table)
    shapes = config.shapes()
    require({name: shape for name, (shape, _) in tensors.items()} == shapes, "the tensors do not fit the config")
    require(table is None or shape == [config.p, config.p], "the task's table does not fit the config")
    return config, tensors
