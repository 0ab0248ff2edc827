"""Build an MLP from its parts in their order: linear layers, norms, activations.

Tokens enter as a pair of one-hot vectors, so that an embedding is a linear layer of 2n rows. Linear
layers without an activation or a norm between them are one, multiplied in float64.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.base.errors import BadConfig, QuadlensError
from quadlens.network.activation import Activation
from quadlens.network.config import Config, Hidden
from quadlens.network.norm import Norm, Norms
from quadlens.network.weights import Weights

Matrix = Float[np.ndarray, "inputs outputs"]
Row = Float[np.ndarray, " width"]


@dataclass(frozen=True, eq=False)
class Linear:
    """x W + b, W as [in, out]; b is None where there is no bias."""

    name: str
    W: Matrix
    b: Row | None = None

    @property
    def takes(self) -> int:
        """How many numbers it reads."""
        return len(self.W)


@dataclass(frozen=True, eq=False)
class Normed:
    """A norm with its weight w and bias b."""

    name: str
    norm: Norm
    w: Row
    b: Row

    @property
    def takes(self) -> int:
        """How many numbers it reads."""
        return len(self.w)


@dataclass(frozen=True)
class Sigma:
    """An activation between two linear layers."""

    activation: Activation


LayerPart = Linear | Normed | Sigma


@dataclass(frozen=True, eq=False)
class _Layer:
    """σ(norm(x) W + b); σ and norm are None where there is none."""

    W: Matrix
    b: Row | None
    norm: Normed | None = None
    activation: Activation | None = None

    def then(self, other: "_Layer") -> "_Layer":
        """This linear layer and the next as one."""
        W, bias = self.W.astype(np.float64), other.b
        if self.b is not None:
            bias = self.b.astype(np.float64) @ other.W + (0.0 if bias is None else bias)
        return replace(other, W=W @ other.W, b=bias, norm=self.norm)


def embedded(tables: Sequence[Matrix], n: int, joined: bool) -> Linear:
    """Return the embeddings of a and b as one linear layer of 2n rows.

    a and b share a table or have one each. They lie side by side or are added up.
    """
    E_a, E_b = tables[0][:n], tables[-1][:n]
    if not joined:
        return Linear("the embedding", np.concatenate([E_a, E_b]))
    nothing = np.zeros_like
    return Linear("the embedding", np.block([[E_a, nothing(E_b)], [nothing(E_a), E_b]]))


def mlp_of(parts: Sequence[LayerPart], n: int, source: str) -> Weights:
    """The MLP with these parts, the first a linear layer of 2n rows, asked a + b.

    Raises:
        BadConfig: when they do not fit together, or are no MLP.
        BadWeights: when a weight is not finite.
    """
    layers = _merged(_layers(parts, source))
    ends = len(layers) > 1 and isinstance(parts[-1], Linear) and layers[-2].activation is not None
    if not ends:
        raise BadConfig(
            f"{source}: its parts are {in_words(parts)}; expected linear layers, at least one "
            "activation among them, a "
            "linear layer right after the last of these and nothing behind it but logits"
        )
    *before, last, out = layers
    if out.W.shape[1] < n:
        many = f"{out.W.shape[1]} logit{'s' if out.W.shape[1] != 1 else ''}"
        raise BadConfig(
            f"{source}: {many} for n = {n} elements; expected at least {n}, one for each answer"
        )
    hidden = tuple(
        Hidden(x.W.shape[1], x.activation, x.norm.norm if x.norm else None) for x in before
    )
    norms = Norms(
        mlp=last.norm.norm if last.norm else None, final=out.norm.norm if out.norm else None
    )
    bias = any(x.b is not None for x in layers)
    first = layers[0]
    tensors: dict[str, np.ndarray | None] = {
        "W_a": first.W[:n],
        "W_b": first.W[n:],
        "b_in": first.b,
        "W_out": out.W[:, :n],
    }
    tensors |= {"b_out": None if out.b is None else out.b[:n]}
    for number, layer in enumerate(layers[1:-1], 1):
        tensors |= {f"{number}.W_in": layer.W, f"{number}.b_in": layer.b}
        if layer.norm is not None:
            tensors |= {f"{number}.ln2_w": layer.norm.w, f"{number}.ln2_b": layer.norm.b}
    if out.norm is not None:
        tensors |= {"ln_final_w": out.norm.w, "ln_final_b": out.norm.b}
    try:
        activation: Any = last.activation
        config = Config.mlp(n, last.W.shape[1], activation, hidden=hidden, bias=bias, norms=norms)
        return Weights.with_zero_biases(
            config, **{name: x for name, x in tensors.items() if x is not None}
        )
    except QuadlensError as error:
        raise error.about(source) from None


def multiplied_out(parts: Sequence[LayerPart], model: Weights) -> tuple[str, ...]:
    """Return a note where linear layers became one.

    Proofs are about their product, rounded to float64.
    """
    if sum(isinstance(part, Linear) for part in parts) <= len(model.config.hidden) + 2:
        return ()
    return (
        "neighbouring linear layers (an embedding is one) multiplied in float64: proofs are about "
        "their product",
    )


def _layers(parts: Sequence[LayerPart], source: str) -> list[_Layer]:
    """Return one layer per linear part, with the norm before it and the activation after it.

    Where a norm stands right before an activation, a layer of the identity is between them.
    """
    layers: list[_Layer] = []
    pending: Normed | None = None
    width = None
    for part in parts:
        if not isinstance(part, Sigma) and width not in (None, part.takes):
            raise BadConfig(
                f"{source}: {part.name} takes {part.takes} numbers, but gets {width} from what is "
                "before it; say which "
                "part is which with map={'embed': …, 'hidden': …, 'out': …}",
                settings=("map",),
            )
        if isinstance(part, Linear):
            layers.append(_Layer(part.W, part.b, pending))
            pending, width = None, part.W.shape[1]
        elif (
            isinstance(part, Sigma) and pending is None and layers and layers[-1].activation is None
        ):
            layers[-1] = replace(layers[-1], activation=part.activation)
        elif width is not None:
            if isinstance(part, Sigma) or pending is not None:
                layers.append(
                    _Layer(np.eye(width), None, pending, getattr(part, "activation", None))
                )
            pending = part if isinstance(part, Normed) else None
        else:
            raise BadConfig(
                f"{source}: its parts are {in_words(parts)}; expected a linear layer or an "
                "embedding first"
            )
    return layers


def _merged(layers: list[_Layer]) -> list[_Layer]:
    """Linear layers with nothing between them as one."""
    merged: list[_Layer] = []
    for layer in layers:
        if merged and merged[-1].activation is None and layer.norm is None:
            merged[-1] = merged[-1].then(layer)
        else:
            merged.append(layer)
    return merged


def in_words(parts: Sequence[LayerPart]) -> str:
    """The parts in a few words, linear layers with their widths."""
    widths = {id(x): f" [{x.W.shape[0]} to {x.W.shape[1]}]" for x in parts if isinstance(x, Linear)}
    words = [
        x.activation if isinstance(x, Sigma) else f"{x.name}{widths.get(id(x), '')}" for x in parts
    ]
    return ", ".join(words) or "none"
