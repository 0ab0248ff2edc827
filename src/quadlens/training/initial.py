"""Where a run starts: initial weights and the split into training and validation pairs."""

import hashlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from quadlens.model.config import Config
from quadlens.model.evaluate import all_pairs
from quadlens.model.params import Params
from quadlens.training.config import TrainConfig

# Weights are drawn from N(0, 0.8²/d_model), TransformerLens' "gpt2" initialisation; biases are 0.
INITIAL_SCALE = 0.8

# In the order in which TransformerLens draws them; W_Q and W_K are drawn and thrown away.
GBMI_ORDER = ("W_E", "W_pos", "W_Q", "W_O", "W_K", "W_V", "W_in", "W_out", "W_U")


@dataclass(frozen=True, eq=False)
class Start:
    """Initial weights and the split; pairs are sorted, for locality."""

    params: Params
    train: Int[np.ndarray, "n 2"]
    validation: Int[np.ndarray, "m 2"]


def start_of(config: TrainConfig) -> Start:
    """The start that `config.seed` and `config.seeding` name."""
    model = config.model_config()
    pairs = all_pairs(config.p)
    if config.seeding == "gbmi":
        weights = _gbmi_weights(model, gbmi_reseed(config.seed, "model"))
        order = pairs.copy()
        np.random.default_rng(gbmi_reseed(config.seed, "dataset_seed")).shuffle(order)
    else:
        weight_seed, split_seed = np.random.SeedSequence(config.seed).spawn(2)
        weights = _own_weights(model, np.random.default_rng(weight_seed))
        order = np.random.default_rng(split_seed).permutation(pairs)
    weights = {name: array.astype(config.precision) for name, array in weights.items()}
    count = int(len(pairs) * config.train_share)
    return Start(Params.with_zero_biases(model, **weights), _sorted(order[:count]), _sorted(order[count:]))


def gbmi_reseed(seed: int, label: str) -> int:
    """The paper's group derives a seed for each purpose from the run's seed (their `reseed`)."""
    digest = b"\x00" + hashlib.md5(f'[{seed},"{label}"]'.encode()).digest()
    return int.from_bytes(digest[:4], "little")


def _own_weights(config: Config, rng: np.random.Generator) -> dict[str, np.ndarray]:
    scale = INITIAL_SCALE / np.sqrt(config.d_model)
    shapes = Params.shapes(config)
    return {name: scale * rng.standard_normal(shape) for name, shape in shapes.items() if name.startswith("W_")}


def _gbmi_weights(config: Config, seed: int) -> dict[str, np.ndarray]:
    import torch

    shapes = Params.shapes(config)
    shapes |= {"W_Q": shapes["W_V"], "W_K": shapes["W_V"]}
    generator = torch.Generator().manual_seed(seed)
    scale = float(INITIAL_SCALE / np.sqrt(config.d_model))
    drawn = {name: torch.empty(shapes[name]).normal_(std=scale, generator=generator) for name in GBMI_ORDER}
    return {name: tensor.numpy() for name, tensor in drawn.items() if name not in ("W_Q", "W_K")}


def _sorted(pairs: Int[np.ndarray, "n 2"]) -> Int[np.ndarray, "n 2"]:
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
