"""The kinds of networks that are trained: what each may be set to, what it starts from, and what takes its steps."""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from quadlens.errors import BadConfig
from quadlens.model.activation import parse_activation
from quadlens.model.config import Config, Softmax
from quadlens.model.evaluate import evaluate
from quadlens.model.norm import Norm, Norms
from quadlens.model.sequence import SequenceConfig
from quadlens.model.weights import Weights
from quadlens.training.config import NORM_EPS, SEQUENCE_SETTINGS, TrainConfig
from quadlens.training.device import DeviceEngine
from quadlens.training.engine import Engine, OptimiserState
from quadlens.training.initial import Start, gbmi_weights, split_start
from quadlens.training.layout import Layout, PairLayout, SequenceLayout
from quadlens.training.sequence import SequenceEngine, initial_weights, sequence_config, tried

if TYPE_CHECKING:
    from quadlens.training.train import TrainingResult


class Kind(ABC):
    """One kind of network.

    Attributes:
        inputs: What is counted when a trained network is judged.
        no_sweep: Why there are no sweeps of it; None where there are.
        most_threads: On a CPU; None where any number gives the same bytes every time.
    """

    inputs: ClassVar[str] = "pairs"
    no_sweep: ClassVar[str | None] = None
    most_threads: ClassVar[int | None] = None

    @abstractmethod
    def check(self, config: TrainConfig) -> None:
        """Refuse settings that would have no effect."""

    @abstractmethod
    def network(self, config: TrainConfig) -> Any:
        """The network that is trained, without its weights."""

    @abstractmethod
    def layout(self, config: TrainConfig) -> Layout:
        """Where its weights lie."""

    @abstractmethod
    def start(self, config: TrainConfig) -> Start:
        """What a run starts from."""

    @abstractmethod
    def engine(self, starts: Sequence[Start], state: OptimiserState, device: str, threads: int) -> Engine:
        """What takes the steps of these runs, which differ in their seeds."""

    @abstractmethod
    def judged(self, result: "TrainingResult") -> tuple[int, int, float, float]:
        """How many inputs a trained network answers right, of how many; the smallest margin; the mean loss."""

    @abstractmethod
    def preset(self, config: TrainConfig) -> str:
        """The preset that has most of these settings."""

    @abstractmethod
    def words(self, config: TrainConfig) -> tuple[str, str]:
        """What is learned, and on which inputs."""


class OnPairs(Kind):
    """A network that answers pairs (a, b)."""

    def check(self, config: TrainConfig) -> None:
        """Refuse settings of networks on sequences."""
        usual = {field.name: field.default for field in dataclasses.fields(config)}
        given = [name for name in SEQUENCE_SETTINGS if getattr(config, name) != usual[name]]
        if given:
            raise BadConfig(f"{', '.join(given)}: for networks on sequences (architecture = sequence); leave it out")

    def layout(self, config: TrainConfig) -> Layout:
        """Every weight but what stays zero."""
        return PairLayout.of(self.network(config))

    def start(self, config: TrainConfig) -> Start:
        """Initial weights, and the split of all pairs."""
        return split_start(config, self.initial)

    @abstractmethod
    def initial(self, config: TrainConfig, rng: np.random.Generator | None) -> Weights:
        """Initial weights, from `rng` or, where it is None, as the paper's group draws them."""

    def engine(self, starts: Sequence[Start], state: OptimiserState, device: str, threads: int) -> Engine:
        """The step written by hand where there is one, else by automatic differentiation."""
        from quadlens.training.cpu import CpuEngine, has_fused_step

        config = starts[0].config
        if device == "cpu" and len(starts) == 1 and has_fused_step(config):
            return CpuEngine(config.model_config(), state, starts[0].train, starts[0].validation, threads)
        train, validation = (np.stack([getattr(s, name) for s in starts]) for name in ("train", "validation"))
        return DeviceEngine(config, state, train, validation, device, threads)

    def judged(self, result: "TrainingResult") -> tuple[int, int, float, float]:
        """Over all pairs."""
        answers = evaluate(result.params.collapse())
        return answers.correct, answers.pairs, answers.min_margin, answers.loss

    def preset(self, config: TrainConfig) -> str:
        """With '=' or without."""
        return "eos" if config.equals else "paper"

    def words(self, config: TrainConfig) -> tuple[str, str]:
        """Modulus and pairs."""
        return f"p = {config.p}", f"{int(config.p**2 * config.train_share)} of {config.p**2} pairs"


class Transformer(OnPairs):
    """One layer with attention."""

    def network(self, config: TrainConfig) -> Config:
        """The paper's architecture with the settings' changes."""
        paper = Config.paper(config.p, config.d_model, config.d_mlp, config.n_heads, config.d_head, config.equals)
        positions, rate = len(paper.attention), config.attention_rate
        rest = (1 - rate) / positions if config.attention_rest == "mean" else 1 - rate
        offset = config.p if config.vocabularies == 2 else 0
        norm = None if config.norm == "none" else Norm(config.norm, NORM_EPS)
        return dataclasses.replace(
            paper,
            d_vocab=paper.d_vocab + offset,
            b_token_offset=offset,
            attention=(rest,) * positions,
            softmax=Softmax(rate, math.sqrt(config.d_head)) if rate else None,
            activation=parse_activation(config.activation),
            task=config.pair_task(),
            norms=Norms(attention=norm, mlp=norm, final=norm),
        )

    def initial(self, config: TrainConfig, rng: np.random.Generator | None) -> Weights:
        """Weights from N(0, initial_scale²/d_model), or by other widths (`initial_rule`); norms' weights are 1."""
        model = self.network(config)
        shapes = model.shapes
        # Both W_in and W_U end with the width that Zhong et al. divide by.
        widths = {name: shapes[name][-1] for name in ("W_in", "W_U")} if config.initial_rule == "zhong" else {}
        scales = {name: float(config.initial_scale / np.sqrt(widths.get(name, model.d_model))) for name in shapes}
        if rng is None:
            weights = gbmi_weights(config, shapes, scales["W_E"])
        else:
            weights = {name: scales[name] * rng.standard_normal(s) for name, s in shapes.items() if name[0] == "W"}
        weights |= {name: np.ones(shapes[name]) for name in shapes if name.endswith("_w")}
        return Weights.with_zero_biases(model, **{name: w.astype(config.precision) for name, w in weights.items()})


class OneHotMLP(OnPairs):
    """Two layers on one-hot tokens."""

    def check(self, config: TrainConfig) -> None:
        """Refuse what belongs to attention and its residual stream."""
        super().check(config)
        if config.attention_rate or config.equals or config.seeding != "quadlens":
            raise BadConfig("an MLP has no attention, no '=' and no seeding but quadlens; leave these settings out")
        if config.initial_rule == "zhong":
            raise BadConfig("initial_rule = zhong is for transformers with seeding quadlens; expected gpt2")
        if config.norm != "none":
            raise BadConfig(f"norm = {config.norm} is not for this architecture, mlp; leave it out")

    def network(self, config: TrainConfig) -> Config:
        """Its widths, activation and task."""
        return Config.mlp(config.p, config.d_mlp, parse_activation(config.activation), config.pair_task())

    def layout(self, config: TrainConfig) -> Layout:
        """W_b is W_a where the operands share their weights."""
        return PairLayout.of(self.network(config), {"W_b": "W_a"} if config.vocabularies == 1 else {})

    def initial(self, config: TrainConfig, rng: np.random.Generator | None) -> Weights:
        """Weights from N(0, initial_scale²); operands that share their weights have W_b = W_a."""
        if rng is None:
            raise BadConfig("an MLP is drawn from a generator of ours")
        model = self.network(config)
        weights = {name: config.initial_scale * rng.standard_normal(shape) for name, shape in model.shapes.items()}
        if config.vocabularies == 1:
            weights["W_b"] = weights["W_a"]
        return Weights(model, **{name: weight.astype(config.precision) for name, weight in weights.items()})


class OnSequences(Kind):
    """One layer that reads a sequence of tokens; words are drawn anew for every step."""

    inputs: ClassVar[str] = "words tried"
    no_sweep: ClassVar[str | None] = "a sweep analyses networks on pairs"
    # The gradient of W_E adds up in whatever order several threads come, and matrices are too small for them.
    most_threads: ClassVar[int | None] = 1

    def check(self, config: TrainConfig) -> None:
        """Refuse what its training does not know."""
        if config.norm not in ("none", "rms"):
            raise BadConfig(f"norm = {config.norm} is not for this architecture, sequence; leave it out")
        only = {"seeding": "quadlens", "loss": "cross-entropy", "activation": "relu"}
        if any(getattr(config, name) != value for name, value in only.items()):
            raise BadConfig(f"networks on sequences have {', '.join(f'{n} = {v}' for n, v in only.items())} alone")

    def network(self, config: TrainConfig) -> SequenceConfig:
        """Widths, norms and task."""
        return sequence_config(config)

    def layout(self, config: TrainConfig) -> Layout:
        """As files have it."""
        return SequenceLayout.of(self.network(config))

    def start(self, config: TrainConfig) -> Start:
        """Initial weights; there is no split."""
        none = np.empty((0, 2), dtype=np.int64)
        return Start(config, initial_weights(config), none, none)

    def engine(self, starts: Sequence[Start], state: OptimiserState, device: str, threads: int) -> Engine:
        """Steps on words drawn anew."""
        configs = [start.config for start in starts]
        return SequenceEngine(configs[0], [config.seed for config in configs], state, device, threads)

    def judged(self, result: "TrainingResult") -> tuple[int, int, float, float]:
        """Over words drawn evenly."""
        return tried(result.config, result.end.theta)

    def preset(self, config: TrainConfig) -> str:
        """By the task."""
        return "adder" if config.task.startswith("add") else "max"

    def words(self, config: TrainConfig) -> tuple[str, str]:
        """Task, base and words per step."""
        of = f"in base {config.p}" if config.task.startswith("add") else f"of {config.p}"
        return f"{config.task} {of}", f"{config.batch} new words a step"


KINDS: dict[str, Kind] = {"transformer": Transformer(), "mlp": OneHotMLP(), "sequence": OnSequences()}
