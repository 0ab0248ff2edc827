"""The kinds of networks that are trained: what each may be set to, and where its weights lie."""

import dataclasses
import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from quadlens.base.errors import BadConfig
from quadlens.network.activation import parse_activation
from quadlens.network.config import Config, Softmax
from quadlens.network.norm import Norm, Norms
from quadlens.network.sequence import SequenceConfig, TaskSpec
from quadlens.training.config import NORM_EPS, SEQUENCE_SETTINGS, TrainConfig
from quadlens.training.layout import Layout, PairLayout, SequenceLayout


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
        """Return where its weights lie in the flat vector."""

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
            raise BadConfig(
                f"{', '.join(given)}: for networks on sequences (architecture = sequence); "
                "leave it out"
            )

    def layout(self, config: TrainConfig) -> Layout:
        """Every weight but what stays zero."""
        return PairLayout.of(self.network(config))

    def preset(self, config: TrainConfig) -> str:
        """With '=' or without."""
        return "eos" if config.equals else "paper"

    def words(self, config: TrainConfig) -> tuple[str, str]:
        """Return the task with its modulus, and the number of pairs, in words."""
        return f"p = {config.p}", f"{int(config.p**2 * config.train_share)} of {config.p**2} pairs"


class Transformer(OnPairs):
    """One layer with attention."""

    def network(self, config: TrainConfig) -> Config:
        """The paper's architecture with the settings' changes."""
        paper = Config.paper(
            config.p, config.d_model, config.d_mlp, config.n_heads, config.d_head, config.equals
        )
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


class OneHotMLP(OnPairs):
    """Two layers on one-hot tokens."""

    def check(self, config: TrainConfig) -> None:
        """Refuse what belongs to attention and its residual stream."""
        super().check(config)
        if config.attention_rate or config.equals or config.seeding != "quadlens":
            raise BadConfig(
                "an MLP has no attention, no '=' and no seeding but quadlens; "
                "leave these settings out"
            )
        if config.initial_rule == "zhong":
            raise BadConfig(
                "initial_rule = zhong is for transformers with seeding quadlens; expected gpt2"
            )
        if config.norm != "none":
            raise BadConfig(f"norm = {config.norm} is not for this architecture, mlp; leave it out")

    def network(self, config: TrainConfig) -> Config:
        """Its widths, activation and task."""
        return Config.mlp(
            config.p, config.d_mlp, parse_activation(config.activation), config.pair_task()
        )

    def layout(self, config: TrainConfig) -> Layout:
        """W_b is W_a where the operands share their weights."""
        return PairLayout.of(
            self.network(config), {"W_b": "W_a"} if config.vocabularies == 1 else {}
        )


def parse_task(name: str) -> tuple[str, int]:
    """`add:10` → ("add", 10)."""
    kind, _, size = name.partition(":")
    if kind not in ("add", "max") or not size.isdecimal() or not 1 <= int(size) <= 999:
        raise BadConfig(
            f"task {name!r} of a network on sequences; expected add:N or max:N, for example add:10"
        )
    return kind, int(size)


def sequence_config(config: TrainConfig) -> SequenceConfig:
    """The network that these settings train."""
    kind, size, p = *parse_task(config.task), config.p
    norm = Norm("rms", NORM_EPS) if config.norm == "rms" else None
    if kind == "add":
        numbers = [[f"{name}{i}" for i in range(size + (name == "z"))] for name in "xyz"]
        template: tuple[str | int, ...] = (*numbers[0], p, *numbers[1], p + 1, *numbers[2])
        task = TaskSpec(config.task, template=template, digits=tuple(range(p)))
        tokens, positions = p + 2, len(template)
    else:
        task, tokens, positions = TaskSpec(config.task, tokens=p), p, size
    return SequenceConfig(
        d_vocab=tokens,
        d_vocab_out=tokens,
        n_ctx=positions,
        d_model=config.d_model,
        n_heads=config.n_heads,
        d_head=config.d_head,
        d_value=config.d_value or config.d_head,
        d_mlp=config.d_mlp,
        task=task,
        divisor=math.sqrt(config.d_head),
        norms=Norms(attention=norm, mlp=norm if config.d_mlp else None, final=norm),
    )


class OnSequences(Kind):
    """One layer that reads a sequence of tokens; words are drawn anew for every step."""

    inputs: ClassVar[str] = "words tried"
    no_sweep: ClassVar[str | None] = "a sweep analyses networks on pairs"
    # The gradient of W_E adds up in whatever order several threads come, and matrices are too small
    # for them.
    most_threads: ClassVar[int | None] = 1

    def check(self, config: TrainConfig) -> None:
        """Refuse what its training does not know."""
        if config.norm not in ("none", "rms"):
            raise BadConfig(
                f"norm = {config.norm} is not for this architecture, sequence; leave it out"
            )
        only = {"seeding": "quadlens", "loss": "cross-entropy", "activation": "relu"}
        if any(getattr(config, name) != value for name, value in only.items()):
            raise BadConfig(
                f"networks on sequences have {', '.join(f'{n} = {v}' for n, v in only.items())} "
                "alone"
            )

    def network(self, config: TrainConfig) -> SequenceConfig:
        """Widths, norms and task."""
        return sequence_config(config)

    def layout(self, config: TrainConfig) -> Layout:
        """Return the layout that files have."""
        return SequenceLayout.of(self.network(config))

    def preset(self, config: TrainConfig) -> str:
        """Choose the preset by the task."""
        return "adder" if config.task.startswith("add") else "max"

    def words(self, config: TrainConfig) -> tuple[str, str]:
        """Task, base and words per step."""
        of = f"in base {config.p}" if config.task.startswith("add") else f"of {config.p}"
        return f"{config.task} {of}", f"{config.batch} new words a step"


KINDS: dict[str, Kind] = {
    "transformer": Transformer(),
    "mlp": OneHotMLP(),
    "sequence": OnSequences(),
}
