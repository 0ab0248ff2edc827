"""Networks on sequences small enough to try every input, of every kind."""

import numpy as np

from quadlens.network import Weights
from quadlens.network.norm import Norm, Norms
from quadlens.network.sequence import Automaton, Fed, SequenceConfig, Step, TaskSpec


def addition_task(
    digits: int = 2, base: int = 3, stop: bool = False, highest_first: bool = False
) -> TaskSpec:
    """x + y of few digits, with tokens base and base + 1 for '+' and '='."""
    order = range(digits, -1, -1) if highest_first else range(digits + 1)
    x, y = ([f"{name}{i}" for i in range(digits)] for name in "xy")
    template: tuple[str | int, ...] = (*x, base, *y, base + 1, *(f"z{i}" for i in order))
    return TaskSpec(f"add:{digits}", template, tuple(range(base)), "nondigit" if stop else None)


PARITY = TaskSpec(
    "parity",
    automaton=Automaton(
        next=(((0, 1),), ((0, 1), (1, 0)), ((0, 1), (1, 0))),
        positions=(
            2,
            Fed(0, ((0, 1),)),
            Fed(1, ((0, 1), (0, 1))),
            Fed(2, ((0, 1), (0, 1))),
        ),
        steps=(Step(2, 1, ((0, 1), (1, 0))), Step(3, 2, ((0, 1), (1, 0)))),
        answers=((0,), (1, 2)),
    ),
)


def random_config(
    seed: int, task: TaskSpec, tokens: int, positions: int, **fixed: object
) -> SequenceConfig:
    """A config of any kind."""
    rng = np.random.default_rng(seed)

    def norm() -> Norm | None:
        kinds = (None, Norm("rms", 1e-6), Norm("layer", 1e-5))
        return kinds[rng.integers(3)]

    d_mlp = int(rng.integers(0, 3)) * 3
    values = {
        "d_vocab": tokens,
        "d_vocab_out": tokens,
        "n_ctx": positions,
        "d_model": int(rng.integers(2, 5)),
        "n_heads": int(rng.integers(1, 3)),
        "d_head": 2 * int(rng.integers(1, 3)),
        "d_value": int(rng.integers(1, 3)),
        "d_mlp": d_mlp,
        "task": task,
        "activation": str(rng.choice(["relu", "gelu", "gelu_tanh", "silu"])),
        "gated": bool(d_mlp and rng.integers(2)),
        "divisor": float(rng.choice([1.0, 2.0**0.5])),
        "norms": Norms(norm(), norm(), norm() if d_mlp else None, norm()),
        "rope": (None, "halves", "pairs")[rng.integers(3)],
        "mask": ("causal", "tensor")[rng.integers(2)],
    }
    return SequenceConfig(**{**values, **fixed})  # type: ignore[arg-type]


def random_network(
    config: SequenceConfig, seed: int, scale: float = 1.0, share_left_out: float = 0.3
) -> Weights:
    """Random float32 weights; tensors that may be left out are, with some probability."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, shape in config.shapes.items():
        if name in config.optional and rng.random() < share_left_out:
            continue
        tensors[name] = (scale * rng.standard_normal(shape)).astype(np.float32)
    if config.mask == "tensor":
        mask = np.tril(rng.integers(0, 2, (config.n_heads, config.n_ctx, config.n_ctx)))
        tensors["mask"] = np.maximum(mask, np.eye(config.n_ctx, dtype=np.int64)).astype(np.float32)
    if config.rope:
        angle = rng.standard_normal((config.n_ctx, config.d_head // 2))
        tensors |= {
            "rope_cos": np.cos(angle).astype(np.float32),
            "rope_sin": np.sin(angle).astype(np.float32),
        }
    return Weights(config, **tensors)
