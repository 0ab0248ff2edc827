"""Normalisation of a residual stream: its kind, its eps and its places."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from quadlens.base.arguments import above_zero, check_fields
from quadlens.base.errors import BadConfig
from quadlens.network.ring import Array, Ring

NormKind = Literal["layer", "rms"]
WORDS: dict[NormKind, str] = {"layer": "a LayerNorm", "rms": "an RMSNorm"}


@dataclass(frozen=True)
class Norm:
    """One norm of a network: LayerNorm or RMSNorm over the d numbers of a row x.

        layer: (x - mean x) / √(mean (x - mean x)² + eps) · w + b
        rms:   x / √(mean x² + eps) · w + b

    The weight w and the bias b are tensors of the network, not of this value.

    >>> Norm("layer", 1e-5)
    Norm(kind='layer', eps=1e-05)

    Attributes:
        kind: `layer` or `rms`.
        eps: Added under the square root; above 0, so that no row is divided by 0.
    """

    kind: NormKind
    eps: float

    def __post_init__(self) -> None:
        check_fields(self)
        if self.kind not in get_args(NormKind):
            raise BadConfig(
                f"a norm of the kind {self.kind!r}; expected one of {', '.join(get_args(NormKind))}"
            )
        object.__setattr__(self, "eps", above_zero("a norm with eps =", self.eps))

    @property
    def takes_mean(self) -> bool:
        """Whether the mean of x is taken off first."""
        return self.kind == "layer"

    def over(self, d: int) -> int:
        """Return the divisor of the sum of d squares: d, for their mean."""
        return d


@dataclass(frozen=True)
class Norms:
    """Where a network has norms; the same in every block. A place without one is None.

    Attributes:
        attention: Of what attention reads, queries, keys and values; tensors `ln1_w`, `ln1_b`.
        query_key: Of each head's queries and keys; tensors `q_norm_w`, `k_norm_w`.
        mlp: Of what the MLP reads; tensors `ln2_w`, `ln2_b`.
        final: Of what the unembedding reads; tensors `ln_final_w`, `ln_final_b`.
    """

    attention: Norm | None = None
    query_key: Norm | None = None
    mlp: Norm | None = None
    final: Norm | None = None

    def __bool__(self) -> bool:
        return any(self.places.values())

    @property
    def places(self) -> dict[str, Norm]:
        """The norms of the network, by their places."""
        norms = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {place: norm for place, norm in norms.items() if norm is not None}

    @property
    def words(self) -> str:
        """Which norms there are.

        >>> Norms(mlp=Norm("layer", 1e-5), final=Norm("rms", 1e-6)).words
        'a LayerNorm before the MLP, an RMSNorm before the unembedding'
        """
        where = {
            "attention": "attention",
            "query_key": "scores",
            "mlp": "the MLP",
            "final": "the unembedding",
        }
        return ", ".join(
            f"{WORDS[norm.kind]} before {where[place]}" for place, norm in self.places.items()
        )


NO_NORMS = Norms()


def norm_shapes(norm: Norm | None, name: str, width: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a norm's weight and bias; none without a norm."""
    return {f"{name}_w": (width,), f"{name}_b": (width,)} if norm is not None else {}


def normalised(
    ring: Ring[Any], norm: Norm | None, x: Any, tensors: Mapping[str, Array], name: str
) -> Any:
    """Return the rows of x after a norm; x itself without one.

    The norm has the weight `name_w` and the bias `name_b` of these tensors.
    """
    if norm is None:
        return x
    x = centred(ring, norm, x)
    scaled = x * inverse_size(ring, norm, x)
    return scaled * ring.of(tensors[f"{name}_w"][None]) + ring.of(tensors[f"{name}_b"][None])


def centred(ring: Ring[Any], norm: Norm, x: Any) -> Any:
    """Return the rows of x less their mean, if the norm subtracts the mean."""
    if not norm.takes_mean:
        return x
    d = x.shape[-1]
    return x + ring.scaled(ring.inner(x, ring.of(np.ones((1, d))), float(d)), -1.0)


def inverse_size(ring: Ring[Any], norm: Norm, x: Any) -> Any:
    """Return 1 / √(mean x² + eps) of each row of x, the output of `centred`."""
    return ring.inverse_root(
        ring.inner(x, x, float(norm.over(x.shape[-1]))) + ring.of(np.full((1, 1), norm.eps))
    )
