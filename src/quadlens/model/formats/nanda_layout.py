"""The layout of Nanda et al. and Zhong et al.: column vectors, heads concatenated in W_O (formats.md, 4 and 5)."""

import numpy as np

from quadlens.errors import BadConfig, BadFile
from quadlens.model.formats.checkpoint import Checkpoint
from quadlens.model.formats.weights import Weights, check_ranks, take
from quadlens.model.params import Params

NAMES = {
    "W_E": "embed.W_E",
    "W_pos": "pos_embed.W_pos",
    "W_U": "unembed.W_U",
    **{f"W_{x}": f"blocks.0.attn.W_{x}" for x in "KQVO"},
    "W_in": "blocks.0.mlp.W_in",
    "b_in": "blocks.0.mlp.b_in",
    "W_out": "blocks.0.mlp.W_out",
    "b_out": "blocks.0.mlp.b_out",
}
MASK = "blocks.0.attn.mask"
OPTIONAL = ("W_K", "W_Q", "b_in", "b_out")
RANKS = {"W_E": 2, "W_pos": 2, "W_U": 2, "W_K": 3, "W_Q": 3, "W_V": 3, "W_O": 2, "W_in": 2, "W_out": 2}


def layout_weights(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    """The weights in our orientation: W_E [v, d], W_V [h, d, dh], W_O [h, dh, d], W_in [d, m], W_out [m, d].

    The layout's own are W_E [d, v] (columns are tokens), W_V [h, dh, d], W_O [d, h·dh], W_in [m, d], W_out [d, m].
    """
    tensors = take(checkpoint, NAMES, OPTIONAL, (MASK,))
    check_ranks(checkpoint, tensors, RANKS)
    heads, width, d_model = tensors["W_V"].shape
    if tensors["W_O"].shape != (d_model, heads * width):
        raise BadFile(f"{checkpoint.source}: W_O has shape {tensors['W_O'].shape}, expected {(d_model, heads * width)}")
    weights = dict(tensors)
    weights |= {name: tensors[name].T for name in ("W_E", "W_in", "W_out")}
    weights |= {name: tensors[name].transpose(0, 2, 1) for name in ("W_K", "W_Q", "W_V") if name in tensors}
    weights["W_O"] = tensors["W_O"].T.reshape(heads, width, d_model)
    return weights


def layout_state_dict(params: Params, d_vocab: int, positions: int, format_name: str) -> dict[str, np.ndarray]:
    """The state dict, with zero queries and keys.

    Rows and columns that no input reaches are cut or filled with zeros, so that the embedding and the unembedding
    both have `d_vocab` tokens as the layout requires; the p logits do not change.
    """
    for name in ("b_V", "b_O", "b_U"):
        if np.any(getattr(params, name)):
            raise BadConfig(f"{name} is not zero, and {format_name} has no place for it; use --format transformer-lens")
    weights: Weights = params.tensors()
    W_U = np.zeros((params.config.d_model, d_vocab), dtype=params.W_U.dtype)
    columns = min(d_vocab, params.W_U.shape[1])
    W_U[:, :columns] = params.W_U[:, :columns]
    W_V = weights["W_V"].transpose(0, 2, 1)
    turned = {
        "W_E": weights["W_E"][:d_vocab].T,
        "W_pos": weights["W_pos"][:positions],
        "W_U": W_U,
        "W_K": np.zeros_like(W_V),
        "W_Q": np.zeros_like(W_V),
        "W_V": W_V,
        "W_O": weights["W_O"].reshape(-1, params.config.d_model).T,
        "W_in": weights["W_in"].T,
        "b_in": weights["b_in"],
        "W_out": weights["W_out"].T,
        "b_out": weights["b_out"],
    }
    content = {NAMES[name]: np.ascontiguousarray(array) for name, array in turned.items()}
    return content | {MASK: np.tril(np.ones((positions, positions), dtype=np.float32))}
