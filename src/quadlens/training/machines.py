"""What each kind of network starts from, what trains it, and how it is judged.

The rest of a kind is in `training.kinds`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from quadlens.base.errors import BadConfig
from quadlens.network.evaluate import evaluate
from quadlens.network.weights import Weights
from quadlens.training.config import TrainConfig
from quadlens.training.device import DeviceEngine
from quadlens.training.engine import Engine, OptimiserState
from quadlens.training.initial import Start, gbmi_weights, split_start
from quadlens.training.sequence import SequenceEngine, initial_weights, tried

if TYPE_CHECKING:
    from quadlens.training.train import TrainingResult


class Machine(ABC):
    """What trains one kind of network."""

    @abstractmethod
    def start(self, config: TrainConfig) -> Start:
        """What a run starts from."""

    @abstractmethod
    def engine(
        self, starts: Sequence[Start], state: OptimiserState, device: str, threads: int
    ) -> Engine:
        """What takes the steps of these runs, which differ in their seeds."""

    @abstractmethod
    def judged(self, result: "TrainingResult") -> tuple[int, int, float, float]:
        """Count right answers, of how many; measure the smallest margin and the mean loss."""


class PairMachine(Machine):
    """Start, engine and judgement of networks that answer pairs (a, b)."""

    def start(self, config: TrainConfig) -> Start:
        """Initial weights, and the split of all pairs."""
        return split_start(config, self.initial)

    @abstractmethod
    def initial(self, config: TrainConfig, rng: np.random.Generator | None) -> Weights:
        """Initial weights, from `rng` or, where it is None, as the paper's group draws them."""

    def engine(
        self, starts: Sequence[Start], state: OptimiserState, device: str, threads: int
    ) -> Engine:
        """The step written by hand where there is one, else by automatic differentiation."""
        from quadlens.training.cpu import CpuEngine, has_fused_step

        config = starts[0].config
        if device == "cpu" and len(starts) == 1 and has_fused_step(config):
            return CpuEngine(
                config.model_config(), state, starts[0].train, starts[0].validation, threads
            )
        train, validation = (
            np.stack([getattr(s, name) for s in starts]) for name in ("train", "validation")
        )
        return DeviceEngine(config, state, train, validation, device, threads)

    def judged(self, result: "TrainingResult") -> tuple[int, int, float, float]:
        """Judge over all pairs."""
        answers = evaluate(result.params.collapse())
        return answers.correct, answers.pairs, answers.min_margin, answers.loss


class TransformerMachine(PairMachine):
    """Start of a network of one layer with attention."""

    def initial(self, config: TrainConfig, rng: np.random.Generator | None) -> Weights:
        """Draw weights from N(0, initial_scale²/d_model), or by other widths.

        The setting `initial_rule` says by which; norms' weights are 1.
        """
        model = config.model_config()
        shapes = model.shapes
        # Both W_in and W_U end with the width that Zhong et al. divide by.
        widths = (
            {name: shapes[name][-1] for name in ("W_in", "W_U")}
            if config.initial_rule == "zhong"
            else {}
        )
        scales = {
            name: float(config.initial_scale / np.sqrt(widths.get(name, model.d_model)))
            for name in shapes
        }
        if rng is None:
            weights = gbmi_weights(config, shapes, scales["W_E"])
        else:
            weights = {
                name: scales[name] * rng.standard_normal(s)
                for name, s in shapes.items()
                if name[0] == "W"
            }
        weights |= {name: np.ones(shapes[name]) for name in shapes if name.endswith("_w")}
        return Weights.with_zero_biases(
            model, **{name: w.astype(config.precision) for name, w in weights.items()}
        )


class MLPMachine(PairMachine):
    """Start of a network of two layers on one-hot tokens."""

    def initial(self, config: TrainConfig, rng: np.random.Generator | None) -> Weights:
        """Weights from N(0, initial_scale²); operands that share their weights have W_b = W_a."""
        if rng is None:
            raise BadConfig("an MLP is drawn from a generator of ours")
        model = config.model_config()
        weights = {
            name: config.initial_scale * rng.standard_normal(shape)
            for name, shape in model.shapes.items()
        }
        if config.vocabularies == 1:
            weights["W_b"] = weights["W_a"]
        return Weights(
            model, **{name: weight.astype(config.precision) for name, weight in weights.items()}
        )


class SequenceMachine(Machine):
    """Start, engine and judgement of networks on sequences.

    Words are drawn anew for every step.
    """

    def start(self, config: TrainConfig) -> Start:
        """Initial weights; there is no split."""
        none = np.empty((0, 2), dtype=np.int64)
        return Start(config, initial_weights(config), none, none)

    def engine(
        self, starts: Sequence[Start], state: OptimiserState, device: str, threads: int
    ) -> Engine:
        """Steps on words drawn anew."""
        configs = [start.config for start in starts]
        return SequenceEngine(
            configs[0], [config.seed for config in configs], state, device, threads
        )

    def judged(self, result: "TrainingResult") -> tuple[int, int, float, float]:
        """Judge over words drawn evenly."""
        return tried(result.config, result.end.theta)


MACHINES: dict[str, Machine] = {
    "transformer": TransformerMachine(),
    "mlp": MLPMachine(),
    "sequence": SequenceMachine(),
}


def machine_of(config: TrainConfig) -> Machine:
    """What trains the networks of this architecture."""
    return MACHINES[config.architecture]


def start_of(config: TrainConfig) -> Start:
    """The start that `config.seed` and `config.seeding` name.

    A transformer's weights are drawn from N(0, initial_scale²/d_model), TransformerLens' "gpt2"
    initialisation, or with other widths in place of d_model (`initial_rule`), its norms' weights
    are 1 and its biases 0; an MLP's from N(0, initial_scale²).
    """
    return machine_of(config).start(config)
