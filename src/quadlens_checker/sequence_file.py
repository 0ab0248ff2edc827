"""The model file of a one-layer network on sequences.

Config, tensors and task are checked against each other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from quadlens_checker import limits
from quadlens_checker.automata import Automaton, read_automaton
from quadlens_checker.matrices import Matrix, matrix
from quadlens_checker.model_file import Tensors
from quadlens_checker.norms import Norm, read_norm
from quadlens_checker.reading import integers, keys, require

SIZES = "d_vocab", "d_vocab_out", "n_ctx", "d_model", "n_heads", "d_head", "d_value", "d_mlp"
PLACES = {"attention": "ln1", "query_key": "qk", "mlp": "ln2", "final": "ln_final"}
CONFIG_KEYS = (
    "architecture",
    *SIZES,
    "activation",
    "gated",
    "divisor",
    "norms",
    "rope",
    "mask",
    "task",
)
REQUIRED = {
    "W_E",
    "W_Q",
    "W_K",
    "W_V",
    "W_O",
    "W_gate",
    "W_in",
    "W_out",
    "rope_cos",
    "rope_sin",
    "mask",
    "W_U",
}
HOMES = (
    ("embed.", ("W_E",)),
    ("pos_embed.", ("W_pos",)),
    (
        "blocks.0.attn.",
        ("W_Q", "b_Q", "W_K", "b_K", "q_norm_w", "k_norm_w", "W_V", "b_V", "W_O", "b_O"),
    ),
    ("blocks.0.attn.", ("rope_cos", "rope_sin", "mask", "score_bias")),
    ("blocks.0.mlp.", ("W_gate", "b_gate", "W_in", "b_in", "W_out", "b_out")),
    ("unembed.", ("W_U", "b_U")),
)
HOME_OF = {name: home + name for home, names in HOMES for name in names}
NORM_HOMES = {"ln1": "blocks.0.ln1.", "ln2": "blocks.0.ln2.", "ln_final": "ln_final."}
HOME_OF |= {f"{norm}_{end}": home + end for norm, home in NORM_HOMES.items() for end in "wb"}


@dataclass(frozen=True)
class Network:
    """A one-layer network on sequences: its sizes and kinds, and its exact weights.

    tensors: by their short names, all axes but the last one multiplied out; a bias that the file
    leaves out is 0, a norm's weight is 1.
    """

    sizes: dict[str, int]
    activation: str
    gated: bool
    divisor: float
    norms: dict[str, Norm | None]
    rope: str | None
    causal: bool
    task: Automaton
    tensors: dict[str, Matrix]

    def __getitem__(self, size: str) -> int:
        """A width or a count, by its name in the config."""
        return self.sizes[size]

    def row(self, name: str, n: int = 0) -> list[int]:
        """A row of a tensor, over its power of two."""
        return self.tensors[name][0][n]

    def seen(self, head: int, query: int) -> list[int]:
        """Return the positions that a head sees from `query`: at least one, and none later."""
        if self.causal:
            return list(range(query + 1))
        row = self.row("mask", head * self["n_ctx"] + query)
        seen = [j for j, x in enumerate(row) if x]
        require(
            seen and seen[-1] <= query,
            f"from position {query} a head sees nothing, or what is not there yet",
        )
        return seen


def shapes(
    sizes: dict[str, int], norms: dict[str, Norm | None], gated: bool, rope: bool, mask: bool
) -> Iterator[Any]:
    """(short name, shape) of every tensor there may be."""
    V, out, t, d, h, q, v, m = (sizes[name] for name in SIZES)
    yield from (("W_E", [V, d]), ("W_pos", [t, d]), ("W_U", [d, out]), ("b_U", [out]))
    yield from (
        (f"{end}_{name}", [h, *shape])
        for name in "QK"
        for end, shape in (("W", [d, q]), ("b", [q]))
    )
    yield from (
        ("W_V", [h, d, v]),
        ("b_V", [h, v]),
        ("W_O", [h, v, d]),
        ("b_O", [d]),
        ("score_bias", [h, t, t]),
    )
    for place, name in PLACES.items():
        if norms[place] and place == "query_key":
            yield from (("q_norm_w", [q]), ("k_norm_w", [q]))
        elif norms[place] and (m or place != "mlp"):
            yield from ((f"{name}_w", [d]), (f"{name}_b", [d]))
    if rope:
        yield from (("rope_cos", [t, q // 2]), ("rope_sin", [t, q // 2]))
    if mask:
        yield "mask", [h, t, t]
    for name in (("in", "gate") if gated else ("in",)) if m else ():
        yield from ((f"W_{name}", [d, m]), (f"b_{name}", [m]))
    if m:
        yield from (("W_out", [m, d]), ("b_out", [d]))


def read_network(value: Any, tensors: Tensors) -> Network:
    """The network of a config and the tensors beside it."""
    keys(value, CONFIG_KEYS, "the config")
    numbers = integers(
        [value[name] for name in SIZES], "config", len(SIZES), 0, limits.MAX_MODEL_BYTES
    )
    sizes = dict(zip(SIZES, numbers, strict=True))
    gated, divisor, rope, mask = (value[name] for name in ("gated", "divisor", "rope", "mask"))
    require(all(sizes[name] for name in SIZES if name != "d_mlp"), "a width of 0")
    require(value["activation"] in limits.SEQUENCE_ACTIVATIONS, "unknown activation")
    require(
        type(gated) is bool and type(divisor) in (int, float) and divisor > 0,
        "gate or divisor is malformed",
    )
    require(
        rope in ("halves", "pairs", None) and mask in ("causal", "tensor"), "unknown rope or mask"
    )
    require(
        (sizes["d_mlp"] or not gated) and not (rope and sizes["d_head"] % 2),
        "the config contradicts itself",
    )
    keys(value["norms"], PLACES, "norms")
    norms = {place: read_norm(value["norms"][place]) for place in PLACES}
    weights, left = {}, dict(tensors)
    for name, shape in shapes(sizes, norms, gated, rope is not None, mask == "tensor"):
        if HOME_OF[name] in left:
            given, values = left.pop(HOME_OF[name])
            require(given == shape, f"{name} has the shape {given}, expected {shape}")
            weights[name] = matrix(shape, values)
        else:
            require(name not in REQUIRED, f"the model file lacks {name}")
            *above, width = shape
            count = 1
            for n in above:
                count *= n
            require(
                count * width <= limits.MAX_MODEL_BYTES,
                "the config asks for more weights than there are",
            )
            weights[name] = [[int(name.endswith("_w"))] * width] * count, 0
    require(not left, f"the model file has tensors of no use: {sorted(left)[:5]}")
    if mask == "tensor":
        entries, shift = weights["mask"]
        require(all(x in (0, 1 << shift) for row in entries for x in row), "mask")
    task = read_automaton(value["task"], sizes["d_vocab"], sizes["d_vocab_out"], sizes["n_ctx"])
    kinds = value["activation"], gated, float(divisor), norms, rope, mask == "causal"
    return Network(sizes, *kinds, task, weights)
