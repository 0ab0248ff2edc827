"""All trained weights as one flat vector.

So the optimiser is one loop and a checkpoint three arrays.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.network.config import Config
from quadlens.network.sequence import SequenceConfig
from quadlens.network.weights import Weights
from quadlens.training.config import TrainConfig

# Every weight starts at a multiple of this many numbers: aligned memory keeps BLAS results the same
# everywhere.
ALIGNMENT = 16
# Weights whose heads are columns in the flat vector, [d_model, n_heads·d_head], and come first in
# `Weights`.
HEADS_INSIDE = {"W_V", "W_Q", "W_K"}
# Biases of attention and unembedding are not trained and stay zero (`math.md` §2.1).
UNTRAINED = {"b_V", "b_O", "b_U", "b_Q", "b_K"}


@dataclass(frozen=True)
class Layout(ABC):
    """Where each trained weight lies in the flat vector.

    Attributes:
        config: The model.
        shapes: Shape of each weight, in order.
        offsets: Where a weight starts.
        size: Length of the flat vector, padding included.
    """

    config: Config | SequenceConfig
    shapes: Mapping[str, tuple[int, ...]]

    @staticmethod
    def of_run(config: TrainConfig) -> "Layout":
        """Lay out the weights that a run trains."""
        return config.kind.layout(config)

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        padded = (-(-math.prod(shape) // ALIGNMENT) * ALIGNMENT for shape in self.shapes.values())
        return tuple(accumulate(padded, initial=0))

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Where each weight starts."""
        return dict(zip(self.shapes, self._ends, strict=False))

    @property
    def size(self) -> int:
        """Length of the flat vector."""
        return self._ends[-1]

    def flatten(self, params: Weights) -> Float[np.ndarray, " size"]:
        """The trained weights of `params` as a flat vector of their own type."""
        arrays = self._trained(params)
        flat = np.zeros(self.size, dtype=arrays[next(iter(self.shapes))].dtype)
        for name, start in self.offsets.items():
            flat[start : start + arrays[name].size] = arrays[name].ravel()
        return flat

    def params(self, flat: Float[np.ndarray, " size"]) -> Weights:
        """The model that a flat vector is."""
        return self._whole({name: part.copy() for name, part in self.views(flat).items()})

    def views(self, flat: Any) -> dict[str, Any]:
        """Each weight as a part of a flat vector of NumPy or PyTorch, or of one row per seed."""
        rows, parts = flat.shape[:-1], {}
        for name, shape in self.shapes.items():
            start = self.offsets[name]
            parts[name] = flat[..., start : start + math.prod(shape)].reshape(*rows, *shape)
        return parts

    @abstractmethod
    def _trained(self, params: Weights) -> dict[str, np.ndarray]:
        """Weights in the order of their numbers in the vector."""

    @abstractmethod
    def _whole(self, weights: dict[str, np.ndarray]) -> Weights:
        """The model with these trained weights, of the vector's shapes."""


@dataclass(frozen=True)
class PairLayout(Layout):
    """The layout of a network on pairs.

    Heads are concatenated: W_V is [d_model, n_heads·d_head] and W_O is [n_heads·d_head, d_model],
    so that all heads are one matrix product; W_Q and W_K, where there are any, are laid out as W_V.

    Attributes:
        twins: Weights that are not there because they are the same as another: an MLP whose
            operands share their weights has W_a alone.
    """

    config: Config
    twins: Mapping[str, str]

    @classmethod
    def of(cls, config: Config, twins: Mapping[str, str] | None = None) -> "PairLayout":
        """Lay out the weights of `config`."""
        kinds = {norm.kind for norm in config.norms.places.values()}
        # An RMSNorm has no bias in PyTorch, and its stays 0.
        biases = () if "layer" in kinds else ("ln1_b", "ln2_b", "ln_final_b")
        left_out = UNTRAINED.union(biases, twins or ())
        shapes = {
            name: _flat_shape(name, shape)
            for name, shape in config.shapes.items()
            if name not in left_out
        }
        return cls(config, shapes, twins or {})

    def _trained(self, params: Weights) -> dict[str, np.ndarray]:
        turned = {
            name: params.tensors[name].transpose(1, 0, 2)
            for name in HEADS_INSIDE & self.shapes.keys()
        }
        return dict(params.tensors) | turned

    def _whole(self, weights: dict[str, np.ndarray]) -> Weights:
        config = self.config
        heads = (config.d_model, config.n_heads, config.d_head)
        for name in HEADS_INSIDE & weights.keys():
            weights[name] = np.ascontiguousarray(weights[name].reshape(heads).transpose(1, 0, 2))
        weights |= {name: weights[twin] for name, twin in self.twins.items()}
        own = {name: weight.reshape(config.shapes[name]) for name, weight in weights.items()}
        return Weights.with_zero_biases(config, **own)


@dataclass(frozen=True)
class SequenceLayout(Layout):
    """The layout of a network on sequences: as its file has it, without biases.

    Positions may share a row of W_pos.
    """

    config: SequenceConfig

    @classmethod
    def of(cls, config: SequenceConfig) -> "SequenceLayout":
        """Lay out the weights of `config`."""
        trained = {
            name: shape
            for name, shape in config.shapes.items()
            if name[0] == "W" or name.endswith("_w")
        }
        return cls(config, trained | {"W_pos": (max(position_rows(config)) + 1, config.d_model)})

    def _trained(self, params: Weights) -> dict[str, np.ndarray]:
        rows = position_rows(self.config)
        first = params.W_pos[[rows.index(i) for i in range(max(rows) + 1)]]
        return dict(params.tensors) | {"W_pos": first}

    def _whole(self, weights: dict[str, np.ndarray]) -> Weights:
        return Weights(
            self.config, **{**weights, "W_pos": weights["W_pos"][position_rows(self.config)]}
        )


def _flat_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a weight with its heads as columns, or as rows where heads write."""
    if len(shape) < 3:
        return shape
    heads, rows, columns = shape
    return (rows, heads * columns) if name in HEADS_INSIDE else (heads * rows, columns)


def position_rows(config: SequenceConfig) -> list[int]:
    """Say which row of the trained W_pos each position has.

    The i-th digits of operands and answer share row i.

    '+' and '=' have a row each; the answer's last digit, which is never fed, has that of '+'.
    """
    template = config.task.template
    if not template:
        return list(range(config.n_ctx))
    after = max(int(digit[1:]) for digit in template if isinstance(digit, str))
    signs = [sign for sign in template if isinstance(sign, int)]
    return [
        int(place[1:]) if isinstance(place, str) else after + signs.index(place)
        for place in template
    ]
