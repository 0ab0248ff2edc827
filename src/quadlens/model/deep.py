"""Transformers of two to four layers, without LayerNorm: their weights, and the forward pass over all inputs."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from quadlens.errors import BadConfig, BadWeights
from quadlens.model.activation import NONLINEARITIES, apply_activation
from quadlens.model.collapsed import Collapsed
from quadlens.model.config import Config
from quadlens.model.params import Layer, Pairs, Params, Weighted, check_arrays, check_tensors, freeze
from quadlens.model.token_tables import HiddenLayer, LastMLP

# The weights that all layers share.
OUTER = ("W_E", "W_pos", "W_U", "b_U")
# Inputs that go through the layers together.
BLOCK = 1 << 11

Streams = Float[np.ndarray, "n positions d_model"]


@dataclass(frozen=True, eq=False, repr=False)
class DeepParams(Weighted):
    """A transformer of several layers; each adds what attention brings, then what its MLP computes of that.

    A layer's weight on position t, seen from position q, is attention[t] + scale · softmax_t(q · k / divisor); where
    softmax is causal it leaves out t > q. Row-vector mathematics, TransformerLens' names.
    """

    config: Config
    W_E: Float[np.ndarray, "d_vocab d_model"]
    W_pos: Float[np.ndarray, "n_ctx d_model"]
    layers: tuple[Layer, ...]
    W_U: Float[np.ndarray, "d_model d_vocab_out"]
    b_U: Float[np.ndarray, " d_vocab_out"]

    def __post_init__(self) -> None:
        if self.config.n_layers != len(self.layers):
            raise BadConfig(f"n_layers is {self.config.n_layers}, but there are {len(self.layers)} layers")
        shapes, found = self.shapes(self.config), self.tensors()
        if found.keys() != shapes.keys():
            raise BadWeights(f"attention is {self.config.attention_kind}: {_difference(found, shapes)}")
        check_tensors(found, shapes)
        frozen = [
            Layer(**{name: freeze(array) for name, array in vars(layer).items() if array is not None})
            for layer in self.layers
        ]
        object.__setattr__(self, "layers", tuple(frozen))
        for name in OUTER:
            object.__setattr__(self, name, freeze(getattr(self, name)))

    @staticmethod
    def shapes(config: Config) -> dict[str, tuple[int, ...]]:
        """The shape every weight must have; a layer's weights have its number before their names, as `1.W_in`."""
        one = Params.shapes(dataclasses.replace(config, n_layers=1))
        inner = [name for name in one if name not in OUTER]
        layers = {f"{i}.{name}": one[name] for i in range(config.n_layers) for name in inner}
        return {name: one[name] for name in OUTER} | layers

    @classmethod
    def from_tensors(cls, config: Config, weights: Mapping[str, np.ndarray]) -> "DeepParams":
        """The model from weights named as in `shapes`; a bias left out is zero, a weight left out is an error."""
        check_arrays(weights)
        shapes, dtype = cls.shapes(config), weights["0.W_in"].dtype
        biases = {name: np.zeros(shape, dtype) for name, shape in shapes.items() if "b_" in name}
        filled = biases | dict(weights)
        if filled.keys() != shapes.keys():
            raise BadWeights(_difference(filled, shapes))
        check_tensors(filled, shapes)
        layers = [
            Layer(**{name.partition(".")[2]: x for name, x in filled.items() if name.startswith(f"{i}.")})
            for i in range(config.n_layers)
        ]
        return cls(config=config, layers=tuple(layers), **{name: filled[name] for name in OUTER})

    @classmethod
    def of(cls, model: "Params | DeepParams") -> "DeepParams":
        """The model itself, or one layer as a stack of one, for what is computed layer by layer."""
        if isinstance(model, DeepParams):
            return model
        return cls.from_tensors(model.config, {n if n in OUTER else f"0.{n}": x for n, x in model.tensors().items()})

    def tensors(self) -> dict[str, Float[np.ndarray, "..."]]:
        """Every weight by the name it has in `shapes`."""
        layers = {
            f"{i}.{name}": x for i, layer in enumerate(self.layers) for name, x in vars(layer).items() if x is not None
        }
        return {name: getattr(self, name) for name in OUTER} | layers

    @cached_property
    def _in_float64(self) -> tuple[Layer, ...]:
        return tuple(
            Layer(**{name: x.astype(np.float64) for name, x in vars(layer).items() if x is not None})
            for layer in self.layers
        )

    def forward(self, pairs: Pairs) -> Float[np.ndarray, "n p"]:
        """Layer by layer, in float64."""
        x, last = self.stream(pairs), self._in_float64[-1]
        final = x + self._neurons(last, x) @ last.W_out + last.b_out
        return (final @ self.W_U + self.b_U)[:, : self.config.p]

    def stream(self, pairs: Pairs) -> Float[np.ndarray, "n d_model"]:
        """The residual stream that the last MLP reads, at the position read.

        Raises:
            BadWeights: when it is too large for float64.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            blocks = [self._stream(pairs[start : start + BLOCK]) for start in range(0, len(pairs), BLOCK)]
        if not all(np.isfinite(block).all() for block in blocks):
            raise BadWeights("the residual stream overflows: the weights are too large for float64")
        return np.concatenate(blocks) if blocks else np.zeros((0, self.config.d_model))

    def _stream(self, pairs: Pairs) -> Float[np.ndarray, "n d_model"]:
        *_, (x, weights) = self.attended(pairs)
        read, last = self.config.read_position, self._in_float64[-1]
        return x[:, read] + _brought(last, x, weights)[:, read]

    def attended(self, pairs: Pairs) -> Iterator[tuple[Streams, Float[np.ndarray, "n heads positions positions"]]]:
        """For each layer the residual stream of every position before it, and its attention [input, head, from, to]."""
        config = self.config
        tokens = [pairs[:, 0], pairs[:, 1] + config.b_token_offset, np.full(len(pairs), config.equals_token)]
        fed = np.stack(tokens[: len(config.attention)], axis=1)
        x = self.W_E.astype(np.float64)[fed] + self.W_pos[: len(config.attention)]
        for layer in self._in_float64:
            weights = self._attention(layer, x)
            yield x, weights
            x = x + _brought(layer, x, weights)
            x = x + self._neurons(layer, x) @ layer.W_out + layer.b_out

    def _attention(self, layer: Layer, x: Streams) -> Float[np.ndarray, "n heads positions positions"]:
        """The weight of each head, from each position, on each position."""
        config, softmax, positions = self.config, self.config.softmax, x.shape[1]
        constant = np.broadcast_to(np.array(config.attention), (len(x), config.n_heads, positions, positions))
        if softmax is None or layer.W_Q is None or layer.W_K is None or layer.b_Q is None or layer.b_K is None:
            return constant
        queries = np.einsum("nqd,hdk->nhqk", x, layer.W_Q, optimize=True) + layer.b_Q[:, None]
        keys = np.einsum("ntd,hdk->nhtk", x, layer.W_K, optimize=True) + layer.b_K[:, None]
        scores = queries @ keys.swapaxes(2, 3) / softmax.divisor
        if softmax.causal:
            scores[:, :, np.triu(np.ones((positions, positions), dtype=bool), 1)] = -np.inf
        powers = np.exp(scores - scores.max(axis=3, keepdims=True))
        shares: Float[np.ndarray, "n heads positions positions"] = powers / powers.sum(axis=3, keepdims=True)
        return constant + softmax.scale * shares

    def _neurons(self, layer: Layer, x: Float[np.ndarray, "... d_model"]) -> Float[np.ndarray, "... d_mlp"]:
        return apply_activation(self.config.activation, x @ layer.W_in + layer.b_in)

    def token_gradients(
        self, pairs: Pairs, c: Int[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "n d_model"], Float[np.ndarray, "n d_model"]]:
        """∂logit(a,b,c)/∂E_a and ∂logit(a,b,c)/∂E_b of each input, back through the layers, in float64."""
        before = list(self.attended(pairs))
        g = np.zeros_like(before[0][0])
        g[:, self.config.read_position] = self.W_U.T[c]
        for layer, (x, weights) in zip(self._in_float64[::-1], before[::-1], strict=True):
            middle = x + _brought(layer, x, weights)
            slope = NONLINEARITIES[self.config.activation].derivative(middle @ layer.W_in + layer.b_in)
            g = g + (g @ layer.W_out.T * slope) @ layer.W_in.T
            g = g + self._back_through_attention(layer, x, weights, g)
        return g[:, 0], g[:, 1]

    def _back_through_attention(
        self, layer: Layer, x: Streams, weights: Float[np.ndarray, "n heads positions positions"], g: Streams
    ) -> Streams:
        """What a gradient after attention is before it, by values, and by scores: ∂/∂s_t = P_t (g_t - Σ_u P_u g_u)."""
        values = np.einsum("ntd,hdk->nhtk", x, layer.W_V, optimize=True) + layer.b_V[:, None]
        back = np.einsum("nqe,hke->nhqk", g, layer.W_O, optimize=True)
        found = np.einsum("nhtk,hdk->ntd", weights.swapaxes(2, 3) @ back, layer.W_V, optimize=True)
        softmax = self.config.softmax
        if softmax is None or layer.W_Q is None or layer.W_K is None or layer.b_Q is None or layer.b_K is None:
            return found
        by_share = back @ values.swapaxes(2, 3) * softmax.scale
        shares = (weights - np.array(self.config.attention)) / softmax.scale
        by_score = shares * (by_share - (shares * by_share).sum(axis=3, keepdims=True)) / softmax.divisor
        queries = np.einsum("nqd,hdk->nhqk", x, layer.W_Q, optimize=True) + layer.b_Q[:, None]
        keys = np.einsum("ntd,hdk->nhtk", x, layer.W_K, optimize=True) + layer.b_K[:, None]
        found = found + np.einsum("nhqk,hdk->nqd", by_score @ keys, layer.W_Q, optimize=True)
        return found + np.einsum("nhtk,hdk->ntd", by_score.swapaxes(2, 3) @ queries, layer.W_K, optimize=True)

    def collapse(self) -> Collapsed:
        """There is none."""
        raise BadConfig(f"{self.config.no_collapse}: only `quadlens evaluate`, `explain`, `lens` and `report` work")

    def hidden_layer(self) -> HiddenLayer:
        """The last MLP, over the stream that the layers before it compute."""
        p, last = self.config.p, self.layers[-1]
        W_U = self.W_U[:, :p].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            W_L, b_S = (last.W_out @ W_U).T, last.b_out @ W_U + self.b_U[:p]
        if not (np.isfinite(W_L).all() and np.isfinite(b_S).all()):
            raise BadWeights("what the last neurons write overflows: the weights are too large for float64")
        return LastMLP(
            task=self.config.task,
            activation=self.config.activation,
            stream=self.stream,
            W_in=last.W_in.astype(np.float64),
            b_in=last.b_in.astype(np.float64),
            W_L=W_L,
            W_S=W_U,
            b_S=b_S,
        )


def _brought(layer: Layer, x: Streams, weights: Float[np.ndarray, "n heads positions positions"]) -> Streams:
    """What attention brings to each position."""
    values = np.einsum("ntd,hdk->nhtk", x, layer.W_V, optimize=True) + layer.b_V[:, None]
    return np.einsum("nhqk,hke->nqe", weights @ values, layer.W_O, optimize=True) + layer.b_O


def _difference(found: Mapping[str, object], expected: Mapping[str, object]) -> str:
    missing, needless = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    return f"missing weights {', '.join(missing) or 'none'}, weights without use {', '.join(needless) or 'none'}"
