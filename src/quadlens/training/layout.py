"""All trained weights as one flat vector, so that the optimiser is one loop and a checkpoint three arrays."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from quadlens.errors import BadConfig
from quadlens.model.config import Config
from quadlens.model.sequence import SequenceConfig
from quadlens.model.tensor_names import norm_names
from quadlens.model.weights import Weights
from quadlens.training.config import TrainConfig

# Every weight starts at a multiple of this many numbers: aligned memory keeps BLAS results the same everywhere.
ALIGNMENT = 16
# Weights whose heads are columns in the flat vector, [d_model, n_heads·d_head], and come first in `Weights`.
HEADS_INSIDE = {"W_V", "W_Q", "W_K"}


@dataclass(frozen=True)
class Layout:
    """Where each trained weight lies in the flat vector.

    Heads are concatenated: W_V is [d_model, n_heads·d_head] and W_O is [n_heads·d_head, d_model], so that all heads
    are one matrix product; W_Q and W_K, where there are any, are laid out as W_V. Biases of attention and unembedding
    are not trained and stay zero (`math.md` §2.1). An MLP whose operands share their weights has W_a alone. A network
    on sequences is laid out as its file has it, without biases, but that positions may share a row of W_pos.

    Attributes:
        config: The model.
        shapes: Shape of each weight, in order.
        offsets: Where it starts.
        size: Length of the flat vector, padding included.
    """

    config: Config | SequenceConfig
    shapes: dict[str, tuple[int, ...]]
    offsets: dict[str, int]
    size: int

    @property
    def sequence(self) -> SequenceConfig:
        """The model, where it is a network on sequences."""
        if not isinstance(self.config, SequenceConfig):
            raise BadConfig("this network answers pairs; expected one on sequences")
        return self.config

    @classmethod
    def of(cls, config: Config | SequenceConfig, vocabularies: int = 1) -> "Layout":
        """Lay out the weights of `config`; `vocabularies` says whether the operands of an MLP share theirs."""
        if isinstance(config, SequenceConfig):
            shapes = _sequence_shapes(config)
        else:
            shapes = _transformer_shapes(config) if config.has_stream else _mlp_shapes(config, vocabularies)
        offsets, size = {}, 0
        for name, shape in shapes.items():
            offsets[name] = size
            size += -(-int(np.prod(shape)) // ALIGNMENT) * ALIGNMENT
        return cls(config, shapes, offsets, size)

    @classmethod
    def of_run(cls, config: TrainConfig) -> "Layout":
        """Lay out the weights that a run trains."""
        return cls.of(config.network_config(), config.vocabularies)

    def flatten(self, params: Weights) -> Float[np.ndarray, " size"]:
        """The trained weights of `params` as a flat vector of their own type."""
        tensors = params.tensors
        flat = np.zeros(self.size, dtype=params.W_U.dtype if "W_U" in tensors else params.W_out.dtype)
        for name, shape in self.shapes.items():
            start, array = self.offsets[name], tensors[name]
            if isinstance(self.config, SequenceConfig):
                rows = position_rows(self.config)
                first = array[[rows.index(i) for i in range(shape[0])]] if name == "W_pos" else array
                flat[start : start + first.size] = first.ravel()
                continue
            by_head = name in HEADS_INSIDE
            flat[start : start + int(np.prod(shape))] = (array.transpose(1, 0, 2) if by_head else array).ravel()
        return flat

    def params(self, flat: Float[np.ndarray, " size"]) -> Weights:
        """The model that a flat vector is."""
        config, weights = self.config, {}
        for name, shape in self.shapes.items():
            start = self.offsets[name]
            weights[name] = flat[start : start + int(np.prod(shape))].reshape(shape).copy()
        if isinstance(config, SequenceConfig):
            return Weights(config, **{**weights, "W_pos": weights["W_pos"][position_rows(config)]})
        if not config.has_stream:
            return Weights.mlp(config, weights["W_a"], weights.get("W_b", weights["W_a"]), weights["W_out"])
        heads = (config.d_model, config.n_heads, config.d_head)
        for name in HEADS_INSIDE & weights.keys():
            weights[name] = np.ascontiguousarray(weights[name].reshape(heads).transpose(1, 0, 2))
        weights["W_O"] = weights["W_O"].reshape(config.n_heads, config.d_head, config.d_model)
        return Weights.with_zero_biases(config, **weights)


def _transformer_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    d, m, heads = config.d_model, config.d_mlp, config.n_heads * config.d_head
    return {
        "W_E": (config.d_vocab, d),
        "W_pos": (config.n_ctx, d),
        "W_V": (d, heads),
        "W_O": (heads, d),
        "W_in": (d, m),
        "b_in": (m,),
        "W_out": (m, d),
        "b_out": (d,),
        "W_U": (d, config.d_vocab_out),
        **({"W_Q": (d, heads), "W_K": (d, heads)} if config.softmax is not None else {}),
        **dict.fromkeys(trained_norms(config), (d,)),
    }


def trained_norms(config: Config) -> list[str]:
    """The weights of norms, and the biases of LayerNorms: an RMSNorm has none in PyTorch, and its stays 0."""
    kinds = {norm.kind for norm in config.norms.places.values()}
    return [name for name in norm_names(config.norms) if name.endswith("_w") or "layer" in kinds]


def _sequence_shapes(config: SequenceConfig) -> dict[str, tuple[int, ...]]:
    trained = {name: shape for name, shape in config.shapes.items() if name[0] == "W" or name.endswith("_w")}
    return trained | {"W_pos": (max(position_rows(config)) + 1, config.d_model)}


def position_rows(config: SequenceConfig) -> list[int]:
    """Which row of the trained W_pos each position has: the i-th digits of operands and answer share row i.

    '+' and '=' have a row each; the answer's last digit, which is never fed, has that of '+'.
    """
    template = config.task.template
    if not template:
        return list(range(config.n_ctx))
    after = max(int(one[1:]) for one in template if isinstance(one, str))
    signs = [one for one in template if isinstance(one, int)]
    return [int(one[1:]) if isinstance(one, str) else after + signs.index(one) for one in template]


def _mlp_shapes(config: Config, vocabularies: int) -> dict[str, tuple[int, ...]]:
    shapes = config.shapes
    return {name: shape for name, shape in shapes.items() if name != "W_b" or vocabularies == 2}
