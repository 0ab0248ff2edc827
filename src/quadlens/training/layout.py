"""All trained weights as one flat vector, so that the optimiser is one loop and a checkpoint three arrays."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from quadlens.model.config import Config
from quadlens.model.params import Params

# Every weight starts at a multiple of this many numbers: aligned memory keeps BLAS results the same everywhere.
ALIGNMENT = 16


@dataclass(frozen=True)
class Layout:
    """Where each trained weight lies in the flat vector.

    Heads are concatenated: W_V is [d_model, n_heads·d_head] and W_O is [n_heads·d_head, d_model], so that all heads
    are one matrix product. b_V, b_O and b_U are not trained and stay zero (`math.md` §2.1).

    Attributes:
        config: The model.
        shapes: Shape of each weight, in order.
        offsets: Where it starts.
        size: Length of the flat vector, padding included.
    """

    config: Config
    shapes: dict[str, tuple[int, ...]]
    offsets: dict[str, int]
    size: int

    @classmethod
    def of(cls, config: Config) -> "Layout":
        """Lay out the weights of `config`."""
        d, m, heads = config.d_model, config.d_mlp, config.n_heads * config.d_head
        shapes: dict[str, tuple[int, ...]] = {
            "W_E": (config.d_vocab, d),
            "W_pos": (config.n_ctx, d),
            "W_V": (d, heads),
            "W_O": (heads, d),
            "W_in": (d, m),
            "b_in": (m,),
            "W_out": (m, d),
            "b_out": (d,),
            "W_U": (d, config.d_vocab_out),
        }
        offsets, size = {}, 0
        for name, shape in shapes.items():
            offsets[name] = size
            size += -(-int(np.prod(shape)) // ALIGNMENT) * ALIGNMENT
        return cls(config, shapes, offsets, size)

    def flatten(self, params: Params) -> Float[np.ndarray, " size"]:
        """The trained weights of `params` as a flat vector of their own type."""
        flat = np.zeros(self.size, dtype=params.W_in.dtype)
        heads = self.config.n_heads * self.config.d_head
        tensors = params.tensors() | {
            "W_V": params.W_V.transpose(1, 0, 2).reshape(self.config.d_model, heads),
            "W_O": params.W_O.reshape(heads, self.config.d_model),
        }
        for name, shape in self.shapes.items():
            start = self.offsets[name]
            flat[start : start + int(np.prod(shape))] = tensors[name].ravel()
        return flat

    def params(self, flat: Float[np.ndarray, " size"]) -> Params:
        """The model that a flat vector is."""
        config, weights = self.config, {}
        for name, shape in self.shapes.items():
            start = self.offsets[name]
            weights[name] = flat[start : start + int(np.prod(shape))].reshape(shape).copy()
        heads = (config.d_model, config.n_heads, config.d_head)
        weights["W_V"] = np.ascontiguousarray(weights["W_V"].reshape(heads).transpose(1, 0, 2))
        weights["W_O"] = weights["W_O"].reshape(config.n_heads, config.d_head, config.d_model)
        return Params.with_zero_biases(config, **weights)
