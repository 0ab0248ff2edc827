"""Constant attention as ordinary softmax attention: W_Q = W_K = 0 makes it uniform, W_V carries the rest."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from quadlens.errors import BadConfig
from quadlens.model.params import Model, Params


@dataclass(frozen=True)
class Uniform:
    """A model whose attention is 1/n on each of the n positions fed, and what was done to make it so."""

    params: Params
    notes: tuple[str, ...]


def transformer_only(model: Model, format_name: str) -> Params:
    """Refuse an MLP where the format holds transformers."""
    if not isinstance(model, Params):
        raise BadConfig(f"{format_name} holds transformers; this model is an MLP: export it as he, gromov or onnx")
    return model


def uniform_attention(model: Model, format_name: str, weight: float) -> Uniform:
    """The same function with the attention `weight` on every position: W_V and b_V are scaled by α / weight.

    Requires equal weights α on all positions and the last position read; refuses anything else.
    """
    params = transformer_only(model, format_name)
    config = params.config
    if len(set(config.attention)) != 1:
        raise BadConfig(
            f"attention {', '.join(f'{x:.6g}' for x in config.attention)} is not uniform; "
            f"{format_name} can only express equal weights on all positions. Use --format onnx or quadlens"
        )
    if config.read_position != len(config.attention) - 1:
        raise BadConfig(
            f"the model reads position {config.read_position}; {format_name} reads the last one, "
            f"{len(config.attention) - 1}. Use --format onnx or quadlens"
        )
    if config.activation != "relu":
        raise BadConfig(f"activation {config.activation!r} has no name in {format_name}; expected relu")
    alpha = config.attention[0]
    if alpha == weight:
        return Uniform(params, ())
    factor = alpha / weight
    W_V, b_V = ((x * factor).astype(x.dtype) for x in (params.W_V, params.b_V))
    exact = all(
        np.array_equal(y.astype(np.float64), x.astype(np.float64) * factor)
        for x, y in ((params.W_V, W_V), (params.b_V, b_V))
    )
    scaled = dataclasses.replace(
        params,
        config=dataclasses.replace(config, attention=(weight,) * len(config.attention)),
        W_V=W_V,
        b_V=b_V,
    )
    how = "exactly" if exact else "rounded to the weights' own precision"
    return Uniform(
        scaled, (f"attention {alpha:.6g} became {weight:.6g} by scaling W_V and b_V by {factor:.6g}, {how}",)
    )


def uniform_softmax(model: Model, format_name: str) -> Uniform:
    """The same function with softmax attention over n positions: weight 1/n on each."""
    return uniform_attention(model, format_name, 1 / len(transformer_only(model, format_name).config.attention))
