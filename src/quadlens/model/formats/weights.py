"""A checkpoint's tensors under our names and in our orientation, made into a model."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from quadlens.errors import BadFile, QuadlensError
from quadlens.model.activation import Activation
from quadlens.model.config import Config
from quadlens.model.formats.attention import Mix, QueryKey, constant_attention, token_streams
from quadlens.model.formats.checkpoint import Checkpoint
from quadlens.model.params import Params, check_tensors

Weights = Mapping[str, np.ndarray]

RANKS = {"W_E": 2, "W_pos": 2, "W_V": 3, "W_O": 3, "W_in": 2, "W_out": 2, "W_U": 2}


def take(
    checkpoint: Checkpoint, names: Mapping[str, str], optional: Sequence[str] = (), dropped: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """The tensors of a checkpoint by our short names; every missing and every unknown one is named.

    Args:
        checkpoint: Where from.
        names: Short name → name in the file.
        optional: Short names that may be absent.
        dropped: Names in the file that carry no weights (masks, buffers).
    """
    missing = [long for short, long in names.items() if long not in checkpoint.tensors and short not in optional]
    unknown = sorted(set(checkpoint.tensors) - set(names.values()) - set(dropped))
    if missing or unknown:
        hint = "; only one layer without normalisation is read" if any("ln" in n or ".1." in n for n in unknown) else ""
        raise BadFile(f"{checkpoint.source}: missing tensors {missing}, unknown tensors {unknown[:20]}{hint}")
    found = {short: checkpoint.tensors[long] for short, long in names.items() if long in checkpoint.tensors}
    # Half precision widens to float32 exactly; other types are left for Params to refuse.
    return {s: x.astype(np.float32) if x.dtype == np.float16 else x for s, x in found.items()}


def transformer_from(
    source: str,
    weights: Weights,
    p: int,
    attention: tuple[float, ...],
    activation: Activation,
    b_token_offset: int = 0,
    read_position: int | None = None,
) -> Params:
    """A `Params` whose widths are the weights' own; the position read is the last one unless told.

    Args:
        source: For messages.
        weights: By our short names, in our orientation; biases left out are zero.
        p: Modulus.
        attention: Weight on each position.
        activation: σ.
        b_token_offset: Token of b minus b.
        read_position: Which position is read.
    """
    try:
        config = Config(
            p=p,
            d_model=weights["W_E"].shape[1],
            d_mlp=weights["W_in"].shape[1],
            n_heads=weights["W_V"].shape[0],
            d_head=weights["W_V"].shape[2],
            d_vocab=weights["W_E"].shape[0],
            d_vocab_out=weights["W_U"].shape[1],
            n_ctx=weights["W_pos"].shape[0],
            attention=attention,
            read_position=len(attention) - 1 if read_position is None else read_position,
            activation=activation,
            b_token_offset=b_token_offset,
        )
        return Params.with_zero_biases(config, **weights)
    except QuadlensError as error:
        raise type(error)(f"{source}: {error}") from None


def check_ranks(checkpoint: Checkpoint, weights: Weights, ranks: Mapping[str, int]) -> None:
    """Refuse tensors with the wrong number of dimensions before their sizes are read off."""
    wrong = [
        f"{name} has shape {weights[name].shape}, expected {rank} dimensions"
        for name, rank in ranks.items()
        if name in weights and weights[name].ndim != rank
    ]
    if wrong:
        raise BadFile(f"{checkpoint.source}: {'; '.join(wrong)}")


def softmax_attention(
    source: str, weights: Weights, p: int, b_token_offset: int, positions: int, mix: Mix, divisor: float | None = None
) -> tuple[float, ...]:
    """The attention that W_Q and W_K give on every input, when it is the same on all (see `constant_attention`).

    Args:
        source: For messages.
        weights: W_E, W_pos, W_V and W_Q, W_K in our orientation; b_Q, b_K when there are any.
        p: Modulus.
        b_token_offset: Token of b minus b.
        positions: How many positions are fed, the last of them read.
        mix: How softmax becomes attention.
        divisor: What scores are divided by, √d_head when None.
    """
    if "W_Q" not in weights or "W_K" not in weights:
        raise BadFile(f"{source} has no W_Q and W_K to compute attention from; give the constant with --attention")
    heads, _, width = shape = weights["W_V"].shape
    biases = {name: weights.get(name, np.zeros((heads, width), weights["W_Q"].dtype)) for name in ("b_Q", "b_K")}
    arrays = {"W_Q": weights["W_Q"], "W_K": weights["W_K"], **biases}
    try:
        check_tensors(arrays, {"W_Q": shape, "W_K": shape, "b_Q": (heads, width), "b_K": (heads, width)})
        streams = token_streams(weights["W_E"], weights["W_pos"], p, b_token_offset, positions)
        return constant_attention(QueryKey(**arrays, divisor=divisor or math.sqrt(width)), streams, mix)
    except QuadlensError as error:
        raise type(error)(f"{source}: {error}") from None
