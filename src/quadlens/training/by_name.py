"""Training for users: settings by name."""

from collections.abc import Callable
from typing import Any

from quadlens.base.arguments import checked
from quadlens.base.errors import WrongArgument
from quadlens.training.config import TrainConfig, load_config
from quadlens.training.engine import StepMeasures
from quadlens.training.train import Hooks, TrainingResult
from quadlens.training.train import train as run


@checked
def train(
    config: TrainConfig | None = None,
    *,
    preset: str = "paper",
    device: str = "auto",
    threads: int | None = None,
    on_step: Callable[[int, StepMeasures], None] | None = None,
    **settings: Any,
) -> TrainingResult:
    """Train one model; needs the extra `train`.

    Args:
        config: All settings; or leave it out and give a preset and single settings by name (p=…,
            seed=…, epochs=…).
        preset: paper, original, text, eos, zhong, nanda, gromov, he, multiply, s5, adder or max.
        device: auto, cpu, cuda or mps.
        threads: CPU threads; all that help when None.
        on_step: Called after every step with its index and its losses, for a progress bar or a
            logger.
        settings: Fields of `TrainConfig` that differ from the preset.

    >>> import quadlens
    >>> result = quadlens.train(p=5, d_model=8, d_mlp=16, d_head=2, epochs=3, threads=1)
    >>> quadlens.evaluate(result).pairs
    25
    """
    if config is not None and settings:
        raise WrongArgument(f"got a config and also {', '.join(settings)}; give one or the other")
    hooks = (
        Hooks()
        if on_step is None
        else Hooks(on_step=lambda epoch, all_seeds: on_step(epoch, all_seeds[0]))
    )
    return run(
        config or load_config(preset, flags=settings), device=device, threads=threads, hooks=hooks
    )
