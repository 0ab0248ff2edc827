"""The model file: safetensors with a config.

Its header, config and shapes are checked against each other.
"""

import math
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quadlens_checker import limits
from quadlens_checker.norms import Norm, read_norm
from quadlens_checker.reading import integers, keys, parse_json, require
from quadlens_checker.tasks import Task, read_task

Tensor = tuple[list[int], Sequence[float]]  # shape and values
Tensors = Mapping[str, Tensor]
SIZES = "d_model", "n_heads", "d_head", "d_vocab", "d_vocab_out", "n_ctx"
COMMON_KEYS = "architecture", "p", "d_mlp", "activation"
TRANSFORMER_KEYS = (*COMMON_KEYS, *SIZES, "attention", "read_position", "b_token_offset")
OPTIONAL_KEYS = {
    "mlp": {"task", "hidden", "bias", "norms"},
    "transformer": {"task", "softmax", "n_layers", "norms"},
}
NORM_PLACES = "attention", "query_key", "mlp", "final"
TASK_TABLE = "task.answers"
TYPES = {"F32": "f", "F64": "d", "I32": "i"}


@dataclass(frozen=True)
class Softmax:
    """What is added to each position's constant weight: scale · softmax(q · k / divisor)."""

    scale: float
    divisor: float
    causal: bool


Norms = Mapping[str, Norm | None]  # by the places of NORM_PLACES
NO_NORMS: Norms = dict.fromkeys(NORM_PLACES)


@dataclass(frozen=True)
class Hidden:
    """A hidden layer of an MLP before its last: its width, σ and its input's norm.

    σ is None where the layer is linear.
    """

    width: int
    activation: str | None
    norm: Norm | None


@dataclass(frozen=True)
class Config:
    """What the file says of its model.

    The fields after `activation` are a transformer's and 0 or empty for an MLP.

    attention: the constant weight of each position, two or three; softmax: what depends on the
    tokens, or None. tokens: which rows of W_E each position may hold, as (start, stop). hidden and
    bias are an MLP's: its hidden layers before the last, and whether it has biases.
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
    n_layers: int = 1
    norms: Norms = field(default_factory=lambda: NO_NORMS)
    hidden: tuple[Hidden, ...] = ()
    bias: bool = False

    @property
    def is_stack(self) -> bool:
        """Say whether there are several layers or norms.

        Then the forward pass is what is enclosed.
        """
        return self.n_layers > 1 or bool(self.hidden) or any(self.norms.values())

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
        if self.architecture == "mlp":
            return self.mlp_shapes()
        m, d, h, dh = self.d_mlp, self.d_model, self.n_heads, self.d_head
        ends = {"embed.W_E": [self.d_vocab, d], "pos_embed.W_pos": [self.n_ctx, d]}
        ends |= {"unembed.W_U": [d, self.d_vocab_out], "unembed.b_U": [self.d_vocab_out]}
        attention = {"W_V": [h, d, dh], "b_V": [h, dh], "W_O": [h, dh, d], "b_O": [d]}
        if self.softmax is not None:
            attention |= {"W_Q": [h, d, dh], "b_Q": [h, dh], "W_K": [h, d, dh], "b_K": [h, dh]}
        mlp = {"W_in": [d, m], "b_in": [m], "W_out": [m, d], "b_out": [d]}
        if self.norms["final"] is not None:
            ends |= {"ln_final.w": [d], "ln_final.b": [d]}
        for at in (f"blocks.{number}." for number in range(self.n_layers)):
            ends |= {f"{at}attn.{name}": shape for name, shape in attention.items()}
            ends |= {f"{at}mlp.{name}": shape for name, shape in mlp.items()}
            for place, name in (("attention", "ln1"), ("mlp", "ln2")):
                ends |= {
                    f"{at}{name}.{part}": [d] for part in "wb" if self.norms[place] is not None
                }
        return ends

    def mlp_shapes(self) -> dict[str, list[int]]:
        """Return the shapes of an MLP's tensors."""
        p, m, widths = self.p, self.d_mlp, [*(layer.width for layer in self.hidden), self.d_mlp]
        shapes = {"mlp.W_a": [p, widths[0]], "mlp.W_b": [p, widths[0]], "mlp.W_out": [m, p]}
        shapes |= {"mlp.b_in": [widths[0]], "mlp.b_out": [p]} if self.bias else {}
        norms = [*(layer.norm for layer in self.hidden), self.norms["mlp"]]
        for number in range(1, len(widths)):
            before, width, at = widths[number - 1], widths[number], f"mlp.{number}."
            shapes |= {f"{at}W_in": [before, width], f"{at}b_in": [width]}
            shapes |= {f"{at}ln2_{part}": [before] for part in "wb" if norms[number] is not None}
        return shapes | {
            f"mlp.ln_final_{part}": [m] for part in "wb" if self.norms["final"] is not None
        }


def read_softmax(value: Any) -> Softmax:
    """Two numbers and a yes or no."""
    keys(value, ("scale", "divisor", "causal"), "softmax")
    scale, divisor, causal = value["scale"], value["divisor"], value["causal"]
    require(
        all(type(x) in (int, float) for x in (scale, divisor)) and type(causal) is bool,
        "softmax is malformed",
    )
    require(
        scale != 0 and divisor > 0, "softmax times 0, or scores divided by what is not positive"
    )
    return Softmax(float(scale), float(divisor), causal)


def read_positive_norm(value: Any) -> Norm | None:
    """A norm that never divides by zero, or nothing."""
    norm = read_norm(value)
    require(norm is None or 0 < norm.eps < limits.MAX_EPS, "a norm is malformed")
    return norm


def read_norms(value: Any) -> Norms:
    """Norms by their places; here there is none of queries and keys."""
    keys(value, NORM_PLACES, "norms")
    require(value["query_key"] is None, "a norm of queries and keys")
    return {place: read_positive_norm(value[place]) for place in NORM_PLACES}


def read_hidden(value: Any, norms: Norms, bias: Any) -> tuple[Hidden, ...]:
    """The hidden layers of an MLP before its last; the first reads tokens, which no norm does."""
    require(
        isinstance(value, list) and len(value) < limits.MAX_HIDDEN,
        "the hidden layers are not a short list",
    )
    layers = []
    for layer in value:
        keys(layer, ("width", "activation", "norm"), "a hidden layer")
        (width,) = integers([layer["width"]], "a hidden layer", 1, 1, limits.MAX_MODEL_BYTES)
        require(
            layer["activation"] is None or layer["activation"] in limits.ACTIVATIONS,
            "unknown activation",
        )
        layers.append(Hidden(width, layer["activation"], read_positive_norm(layer["norm"])))
    first = layers[0].norm if layers else norms["mlp"]
    require(norms["attention"] is None and first is None, "a norm of tokens")
    require(type(bias) is bool and (bias or not layers), "hidden layers without biases")
    return tuple(layers)


def read_config(value: Any, table: Sequence[int] | None) -> Config:
    """Read a config of one of the two architectures: keys, types and ranges.

    `table` is the task's, if any.
    """
    architecture = value["architecture"]
    expected = {"mlp": COMMON_KEYS, "transformer": TRANSFORMER_KEYS}.get(architecture, ())
    given = set(value) - OPTIONAL_KEYS.get(architecture, set())
    require(given == set(expected), "the config has unknown or missing keys")
    p, d_mlp = integers([value["p"], value["d_mlp"]], "config", 2, 1, limits.MAX_MODEL_BYTES)
    require(2 <= p <= limits.MAX_DIRECT_MODULUS, f"p is not in 2…{limits.MAX_DIRECT_MODULUS}")
    require(value["activation"] in limits.ACTIVATIONS, "unknown activation")
    common = (
        architecture,
        p,
        d_mlp,
        value["activation"],
        read_task(value.get("task", "add"), p, table),
    )
    norms = read_norms(value["norms"]) if "norms" in value else NO_NORMS
    if architecture == "mlp":
        bias = value.get("bias", False)
        return Config(
            *common,
            norms=norms,
            hidden=read_hidden(value.get("hidden", []), norms, bias),
            bias=bias,
        )
    (n_layers,) = integers([value.get("n_layers", 1)], "n_layers", 1, 1, limits.MAX_LAYERS)
    d_model, n_heads, d_head, d_vocab, d_vocab_out, n_ctx = integers(
        [value[name] for name in SIZES], "config", 6, 1, limits.MAX_MODEL_BYTES
    )
    alphas = value["attention"]
    require(
        isinstance(alphas, list) and all(type(x) in (int, float) for x in alphas),
        "attention is not numbers",
    )
    require(len(alphas) in (2, 3), "attention is not two or three numbers")
    read, offset = integers(
        [value["read_position"], value["b_token_offset"]], "config", 2, 0, limits.MAX_MODEL_BYTES
    )
    tokens = ((0, p), (offset, offset + p), (offset + p, offset + p + 1))[: len(alphas)]
    require(read < len(alphas) <= n_ctx, "the config names positions that do not exist")
    require(offset in (0, p), "b_token_offset is neither 0 nor p")
    require(
        tokens[-1][1] <= d_vocab and p <= d_vocab_out, "the config names weights that do not exist"
    )
    sizes = d_model, n_heads, d_head, d_vocab, d_vocab_out, n_ctx
    softmax = read_softmax(value["softmax"]) if "softmax" in value else None
    return Config(
        *common, *sizes, tuple(map(float, alphas)), read, tokens, softmax, n_layers, norms
    )


def read_tensors(content: bytes) -> tuple[Any, dict[str, Tensor]]:
    """Config, not looked at yet, and tensors of a safetensors file that quadlens wrote."""
    size = int.from_bytes(content[:8], "little")
    require(8 + size <= len(content), "the model file is cut")
    require(
        size <= limits.MAX_HEADER_BYTES,
        f"the model file's header is longer than {limits.MAX_HEADER_BYTES} bytes",
    )
    header = parse_json(content[8 : 8 + size], floats=False)
    metadata = keys(header.pop("__metadata__"), ("quadlens",), "the model file's __metadata__")
    about = keys(
        parse_json(metadata["quadlens"], floats=True),
        ("format", "config", "checksum"),
        "the model's metadata",
    )
    require(repr(about["format"]) == "1", "unknown version of the model file")
    start, tensors = 8 + size, dict[str, Tensor]()
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        keys(entry, ("dtype", "shape", "data_offsets"), name)
        shape = integers(entry["shape"], name, None, 1, limits.MAX_MODEL_BYTES)
        require(
            (entry["dtype"] == "I32") == (name == TASK_TABLE),
            f"{name} has the wrong type of numbers",
        )
        values = array(TYPES[entry["dtype"]])
        stop = start + math.prod(shape) * values.itemsize
        require(
            entry["data_offsets"] == [start - 8 - size, stop - 8 - size],
            f"{name} has wrong offsets",
        )
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
    require(
        {name: shape for name, (shape, _) in tensors.items()} == shapes,
        "the tensors do not fit the config",
    )
    require(
        table is None or shape == [config.p, config.p], "the task's table does not fit the config"
    )
    return config, tensors
