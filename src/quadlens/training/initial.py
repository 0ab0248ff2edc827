"""Where a run starts: initial weights and the split into training and validation pairs."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from quadlens.network.evaluate import all_pairs
from quadlens.network.weights import Weights
from quadlens.training.config import TrainConfig

# In which order TransformerLens draws the weights, from its version 1.13 on and before it; W_Q and
# W_K are thrown away where attention is constant.
DRAW_ORDER = {
    "gbmi": ("W_E", "W_pos", "W_Q", "W_O", "W_K", "W_V", "W_in", "W_out", "W_U"),
    "original": ("W_E", "W_pos", "W_Q", "W_K", "W_V", "W_O", "W_in", "W_out", "W_U"),
}


@dataclass(frozen=True, eq=False)
class Start:
    """A run's settings, initial weights and split.

    Pairs are sorted for locality; there are none where words are drawn.
    """

    config: TrainConfig
    params: Weights
    train: Int[np.ndarray, "n 2"]
    validation: Int[np.ndarray, "m 2"]


def split_start(
    config: TrainConfig, initial: Callable[[TrainConfig, np.random.Generator | None], Weights]
) -> Start:
    """The start of a network on pairs: initial weights, and the split of all pairs."""
    pairs = all_pairs(config.p)
    if config.seeding in DRAW_ORDER:
        order = pairs.copy()
        np.random.default_rng(gbmi_reseed(config.seed, "dataset_seed")).shuffle(order)
        params = initial(config, None)
    else:
        weight_seed, split_seed = np.random.SeedSequence(config.seed).spawn(2)
        order = np.random.default_rng(split_seed).permutation(pairs)
        params = initial(config, np.random.default_rng(weight_seed))
    count = int(len(pairs) * config.train_share)
    return Start(config, params, _sorted(order[:count]), _sorted(order[count:]))


def gbmi_reseed(seed: int, label: str) -> int:
    """The paper's group derives a seed for each purpose from the run's seed (their `reseed`)."""
    digest = b"\x00" + hashlib.md5(f'[{seed},"{label}"]'.encode()).digest()
    return int.from_bytes(digest[:4], "little")


def gbmi_weights(
    config: TrainConfig, shapes: dict[str, tuple[int, ...]], scale: float
) -> dict[str, np.ndarray]:
    """Weights of these shapes as the paper's group draws them for `config.seed`."""
    import torch

    every = {"W_Q": shapes["W_V"], "W_K": shapes["W_V"]} | shapes
    generator = torch.Generator().manual_seed(gbmi_reseed(config.seed, "model"))
    order = DRAW_ORDER[config.seeding]
    drawn = {
        name: torch.empty(every[name]).normal_(std=scale, generator=generator) for name in order
    }
    return {name: tensor.numpy() for name, tensor in drawn.items() if name in shapes}


def _sorted(pairs: Int[np.ndarray, "n 2"]) -> Int[np.ndarray, "n 2"]:
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
