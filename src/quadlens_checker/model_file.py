"""The model file: safetensors with a config; its header, config and shapes are checked against each other."""

import math
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quadlens_checker import limits
from quadlens_checker.reading import integers, keys, parse_json, require

Tensor = tuple[list[int], Sequence[float]]  # shape and values
Tensors = Mapping[str, Tensor]
SIZES = "d_model", "n_heads", "d_head", "d_vocab", "d_vocab_out", "n_ctx"
COMMON_KEYS = "architecture", "p", "d_mlp", "activation"
TRANSFORMER_KEYS = (*COMMON_KEYS, *SIZES, "attention", "read_position", "b_token_offset")


@dataclass(frozen=True)
class Config:
    """What the file says of its model; the fields after `activation` are a transformer's and 0 or empty for an MLP.

    attention: the constant weight of each position, two or three.
    tokens: which rows of W_E each position may hold, as (start, stop).
    """

    architecture: str
    p: int
    d_mlp: int
    activation: str
    d_model: int = 0
    n_heads: int = 0
    d_head: int = 0
    d_vocab: int = 0
    d_vocab_out: int = 0
    n_ctx: int = 0
    attention: tuple[float, ...] = ()
    read_position: int = 0
    tokens: tuple[tuple[int, int], ...] = ()

    def shapes(self) -> dict[str, list[int]]:
        """The tensors this config asks for."""
        p, m, d, h, dh = self.p, self.d_mlp, self.d_model, self.n_heads, self.d_head
        if self.architecture == "mlp":
            return {"mlp.W_a": [p, m], "mlp.W_b": [p, m], "mlp.W_out": [m, p]}
        ends = {"embed.W_E": [self.d_vocab, d], "pos_embed.W_pos": [self.n_ctx, d]}
        ends |= {"unembed.W_U": [d, self.d_vocab_out], "unembed.b_U": [self.d_vocab_out]}
        attention = {"W_V": [h, d, dh], "b_V": [h, dh], "W_O": [h, dh, d], "b_O": [d]}
        mlp = {"W_in": [d, m], "b_in": [m], "W_out": [m, d], "b_out": [d]}
        inside = {f"blocks.0.attn.{name}": shape for name, shape in attention.items()}
        return ends | inside | {f"blocks.0.mlp.{name}": shape for name, shape in mlp.items()}


def read_config(value: Any) -> Config:
    """A config with the keys, types and ranges of one of the two architectures."""
    expected = {"mlp": COMMON_KEYS, "transformer": TRANSFORMER_KEYS}.get(value["architecture"], ())
    require(set(value) == set(expected), "the config has unknown or missing keys")
    p, d_mlp = integers([value["p"], value["d_mlp"]], "config", 2, 1, limits.MAX_MODEL_BYTES)
    require(3 <= p <= limits.MAX_MODULUS and p % 2 == 1, f"p is not an odd number in 3…{limits.MAX_MODULUS}")
    require(value["activation"] in limits.ACTIVATIONS, "unknown activation")
    common = value["architecture"], p, d_mlp, value["activation"]
    if value["architecture"] == "mlp":
        return Config(*common)
    d_model, n_heads, d_head, d_vocab, d_vocab_out, n_ctx = integers(
        [value[name] for name in SIZES], "config", 6, 1, limits.MAX_MODEL_BYTES
    )
    alphas = value["attention"]
    require(isinstance(alphas, list) and all(type(x) in (int, float) for x in alphas), "attention is not numbers")
    require(len(alphas) in (2, 3), "attention is not two or three numbers")
    read, offset = integers([value["read_position"], value["b_token_offset"]], "config", 2, 0, limits.MAX_MODULUS)
    tokens = ((0, p), (offset, offset + p), (offset + p, offset + p + 1))[: len(alphas)]
    require(read < len(alphas) <= n_ctx, "the config names positions that do not exist")
    require(offset in (0, p), "b_token_offset is neither 0 nor p")
    require(tokens[-1][1] <= d_vocab and p <= d_vocab_out, "the config names weights that do not exist")
    sizes = d_model, n_heads, d_head, d_vocab, d_vocab_out, n_ctx
    return Config(*common, *sizes, tuple(map(float, alphas)), read, tokens)


def read_model(content: bytes) -> tuple[Config, Tensors]:
    """Config and tensors of a safetensors file that quadlens wrote."""
    size = int.from_bytes(content[:8], "little")
    require(8 + size <= len(content), "the model file is cut")
    require(size <= limits.MAX_HEADER_BYTES, f"the model file's header is longer than {limits.MAX_HEADER_BYTES} bytes")
    header = parse_json(content[8 : 8 + size], floats=False)
    metadata = keys(header.pop("__metadata__"), ("quadlens",), "the model file's __metadata__")
    about = keys(
        parse_json(metadata["quadlens"], floats=True), ("format", "config", "checksum"), "the model's metadata"
    )
    require(repr(about["format"]) == "1", "unknown version of the model file")
    config, start = read_config(about["config"]), 8 + size
    tensors: dict[str, Tensor] = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        keys(entry, ("dtype", "shape", "data_offsets"), name)
        shape = integers(entry["shape"], name, None, 1, limits.MAX_MODEL_BYTES)
        require(shape == config.shapes().get(name), "the tensors do not fit the config")
        values = array({"F32": "f", "F64": "d"}[entry["dtype"]])
        stop = start + math.prod(shape) * values.itemsize
        require(entry["data_offsets"] == [start - 8 - size, stop - 8 - size], f"{name} has wrong offsets")
        require(stop <= len(content), "the model file is cut")
        values.frombytes(content[start:stop])
        if sys.byteorder == "big":
            values.byteswap()
        require(all(map(math.isfinite, values)), f"{name} has a weight that is not finite")
        tensors[name], start = (shape, values), stop
    require(start == len(content), "the model file has bytes that belong to no tensor")
    require(set(tensors) == set(config.shapes()), "the tensors do not fit the config")
    return config, tensors
