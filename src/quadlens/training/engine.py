"""What takes a training step: a protocol for CPU cores and for accelerators."""

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from quadlens.training.config import TrainConfig


class Measure(NamedTuple):
    """Mean loss and share of right answers over a set of pairs."""

    loss: float
    accuracy: float


class StepMeasures(NamedTuple):
    """What one step measured at the weights it started from.

    Validation is None without validation pairs.
    """

    train: Measure
    validation: Measure | None


class OptimiserState(NamedTuple):
    """Flat weights and AdamW's moments, one row per seed."""

    theta: Float[np.ndarray, "seeds size"]
    first: Float[np.ndarray, "seeds size"]
    second: Float[np.ndarray, "seeds size"]


@runtime_checkable
class Engine(Protocol):
    """Full-batch AdamW steps for one or more seeds of the same settings."""

    def step(self, epoch: int, config: TrainConfig, validate: bool) -> list[StepMeasures]:
        """Take the step with index `epoch`; return the measures before it, by seed."""

    def state(self) -> OptimiserState:
        """A copy of weights and moments."""

    def close(self) -> None:
        """Let go of threads and memory."""
