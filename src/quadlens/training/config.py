"""What to train: every setting of a run, from a preset, a TOML file and flags."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from quadlens.base.arguments import check_fields
from quadlens.base.display import Displayed
from quadlens.base.errors import BadConfig, BadFile
from quadlens.base.reading import parse_toml, read_limited
from quadlens.base.schema import parse_dataclass

if TYPE_CHECKING:
    from quadlens.network.config import Config
    from quadlens.network.task import Task
    from quadlens.training.kinds import Kind

PRESETS = (
    "paper",
    "original",
    "text",
    "eos",
    "zhong",
    "nanda",
    "gromov",
    "he",
    "multiply",
    "s5",
    "adder",
    "max",
)
DEFAULT_PRESET = "paper"
# What a task begins with that is given by its table: rows of answers, `table:0,1;1,0`.
TABLE = "table:"
MAX_TOML_BYTES = 1 << 20

Seeding = Literal["quadlens", "gbmi", "original"]
Precision = Literal["float32", "float64"]
Architecture = Literal["transformer", "mlp", "sequence"]
Loss = Literal["cross-entropy", "squares"]
Rest = Literal["mean", "ones"]
InitialRule = Literal["gpt2", "zhong"]
NormOf = Literal["none", "layer", "rms"]
Schedule = Literal["constant", "cosine"]

NORM_EPS = 1e-5
SEQUENCE_SETTINGS = ("d_value", "batch")
# Settings that came after the first runs were named: at its default none of them is part of a run's
# name.
LATER_SETTINGS = (
    "task", "activation", "architecture", "attention_rate", "attention_rest", "vocabularies",
    "initial_scale", "loss",
    "initial_rule", "norm", *SEQUENCE_SETTINGS, "schedule",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class TrainConfig(Displayed):
    """Settings of one training run; the same settings, threads and machine give the same bytes.

    Attributes:
        p: Number of elements: the modulus; p - 1 of it for multiply and divide; the order of a
            group.
        d_model: Width of the residual stream.
        d_mlp: Number of neurons.
        n_heads: Attention heads.
        d_head: Width of a head.
        equals: Whether an '=' token follows the operands.
        train_share: Share of the p² pairs that is trained on; the rest is for validation.
        epochs: Full-batch steps.
        lr: Learning rate after the warm-up.
        beta_1: AdamW's decay of the first moment.
        beta_2: AdamW's decay of the second moment.
        epsilon: AdamW's ε.
        weight_decay: Decoupled weight decay.
        warmup: Epochs over which the learning rate rises linearly: epoch t (from 0) has lr·min(1,
            (t+1)/warmup).
        seed: Seed of initial weights and split.
        seeding: `quadlens`, or the initial weights and split of the paper's group for that seed:
            `original` as when the paper's model was trained (before TransformerLens 1.13), `gbmi`
            as in August 2024.
        precision: Type of weights and activations; the loss is always float64.
        history_every: Epochs between two rows of the history.
        spectrum_every: Epochs between two collapsed spectra.
        task: What is learned: add, subtract, linear:α,β, multiply, divide, multiply0, a group such
            as S5 or D59, or a file with a table of answers (.csv, .npy), kept as its rows:
            `table:0,1;1,0`. On sequences: add:N, the sum of two numbers of N digits in base p, or
            max:K, the largest of K tokens.
        activation: The nonlinearity: relu, abs, square, quartic, gelu, tanh, silu or softplus.
        architecture: `transformer`, `mlp` for two layers on one-hot tokens, or `sequence`, one
            layer that reads many.
        attention_rate: Share of softmax in the attention: 0 is constant attention, 1 is softmax
            alone.
        attention_rest: The constant beside softmax: `mean`, (1 - rate) over the positions, or
            `ones`, 1 - rate on each.
        vocabularies: 1 where a and b share tokens (in an MLP the first layer), 2 where each has its
            own.
        initial_scale: Standard deviation of initial weights, times √d_model in a transformer.
        loss: `cross-entropy`, or `squares` for squared distances to one-hot answers.
        initial_rule: By whose root a transformer's initial weights are divided: `gpt2`, all by
            √d_model, or `zhong`, as Zhong et al. do, W_in by √d_mlp, W_U by the root of how many
            logits there are, the others by √d_model.
        d_value: On sequences: width of a value; 0 for that of a head.
        norm: `layer` (LayerNorm) or `rms` (RMSNorm) before attention, MLP and logits, with trained
            weights and, of a LayerNorm, biases; or `none`. On sequences `rms` or `none`.
        batch: On sequences: words of a step; they are drawn anew for each.
        schedule: `cosine` lowers the learning rate to 0 over the epochs; else it is `constant`
            after the warm-up.
    """

    p: int = 59
    d_model: int = 128
    d_mlp: int = 512
    n_heads: int = 4
    d_head: int = 32
    equals: bool = False
    train_share: float = 0.8
    epochs: int = 10_000
    lr: float = 1e-3
    beta_1: float = 0.9
    beta_2: float = 0.98
    epsilon: float = 1e-8
    weight_decay: float = 1.0
    warmup: int = 10
    seed: int = 0
    seeding: Seeding = "quadlens"
    precision: Precision = "float32"
    history_every: int = 20
    spectrum_every: int = 100
    task: str = "add"
    activation: str = "relu"
    architecture: Architecture = "transformer"
    attention_rate: float = 0.0
    attention_rest: Rest = "mean"
    vocabularies: int = 1
    initial_scale: float = 0.8
    loss: Loss = "cross-entropy"
    initial_rule: InitialRule = "gpt2"
    d_value: int = 0
    norm: NormOf = "none"
    batch: int = 256
    schedule: Schedule = "constant"

    def __post_init__(self) -> None:
        check_fields(self)
        # 1 and 1.0 are one setting: the same run, under one name.
        for field in dataclasses.fields(self):
            if field.type is float:
                object.__setattr__(self, field.name, float(getattr(self, field.name)))
        self._check_model()
        if not 0 < self.train_share <= 1 or int(self.p * self.p * self.train_share) < 1:
            raise BadConfig(
                f"train_share = {self.train_share}; expected a share in (0, "
                "1] that leaves a pair to train on"
            )
        for name in ("epochs", "warmup", "history_every", "spectrum_every", "batch"):
            if getattr(self, name) < 1:
                raise BadConfig(f"{name} = {getattr(self, name)}; expected at least 1")
        if not 0 <= self.seed < 2**32:
            raise BadConfig(f"seed = {self.seed}; expected 0 … 2^32 - 1")
        if not (
            self.lr > 0 and self.epsilon > 0 and self.weight_decay >= 0 and self.initial_scale > 0
        ):
            raise BadConfig(
                f"lr = {self.lr}, epsilon = {self.epsilon}, initial_scale = {self.initial_scale}, "
                f"weight_decay = {self.weight_decay}; "
                "expected lr and epsilon above 0, initial_scale too, and weight_decay at least 0"
            )
        if not (0 <= self.beta_1 < 1 and 0 <= self.beta_2 < 1):
            raise BadConfig(
                f"beta_1 = {self.beta_1}, beta_2 = {self.beta_2}; expected both in [0, 1)"
            )

    def _check_model(self) -> None:
        """Refuse a model that cannot be, and settings that would have no effect on it."""
        if self.p < 2:
            raise BadConfig(f"p = {self.p} is not supported; expected at least 2 elements")
        if not 0 <= self.attention_rate <= 1:
            raise BadConfig(
                f"attention_rate = {self.attention_rate}; expected 0 (constant) … 1 (softmax)"
            )
        if self.vocabularies not in (1, 2):
            raise BadConfig(f"vocabularies = {self.vocabularies}; expected 1 or 2")
        if self.architecture not in get_args(Architecture):
            raise BadConfig(
                f"architecture {self.architecture!r}; expected one of "
                f"{', '.join(get_args(Architecture))}"
            )
        if self.initial_rule == "zhong" and self.seeding != "quadlens":
            raise BadConfig(
                "initial_rule = zhong is for transformers with seeding quadlens; expected gpt2"
            )
        self.kind.check(self)
        self.kind.network(self)  # refuses an impossible model

    def _facts(self) -> dict[str, object]:
        always = ("p", "d_mlp", "epochs", "seed")
        return {
            field.name: "table"
            if str(getattr(self, field.name)).startswith(TABLE)
            else getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name in always or getattr(self, field.name) != field.default
        }

    @property
    def kind(self) -> "Kind":
        """What is particular about the networks of this architecture."""
        from quadlens.training.kinds import KINDS

        return KINDS[self.architecture]

    def model_config(self) -> "Config":
        """The network on pairs that is trained, without its weights."""
        network: Config = self.kind.network(self)
        return network

    def pair_task(self) -> "Task":
        """What is learned, by its name or, after `table:`, by its rows."""
        from quadlens.network.task import task_by_name, task_from_rows

        rows = self.task.removeprefix(TABLE)
        return task_by_name(self.task, self.p) if rows == self.task else task_from_rows(rows)

    def learning_rate(self, epoch: int) -> float:
        """The learning rate of the step with index `epoch`, from 0."""
        left = (
            1.0
            if self.schedule == "constant"
            else (1 + math.cos(math.pi * epoch / self.epochs)) / 2
        )
        return self.lr * min(1.0, (epoch + 1) / self.warmup) * left

    def run_id(self) -> str:
        """A name for this run: the first 16 hex digits of the hash of all its settings.

        Settings that came later count where they differ from their default, so that older runs keep
        their names.
        """
        usual = {
            field.name: field.default
            for field in dataclasses.fields(self)
            if field.name in LATER_SETTINGS
        }
        chosen = {
            n: v for n, v in dataclasses.asdict(self).items() if n not in usual or v != usual[n]
        }
        settings = json.dumps(chosen, sort_keys=True)
        return hashlib.sha256(settings.encode()).hexdigest()[:16]


def load_config(
    preset: str = DEFAULT_PRESET, file: Path | None = None, flags: Mapping[str, Any] | None = None
) -> TrainConfig:
    """Read a preset's settings, overridden by a TOML file, then by flags.

    Unknown keys are errors.
    """
    settings = read_preset(preset)
    if file is not None:
        if not file.exists():
            raise BadFile(f"{file}: no such file; expected a TOML file of training settings")
        settings |= parse_toml(read_limited(file, MAX_TOML_BYTES, may_be_empty=True), str(file))
    settings |= dict(flags or {})
    if str(settings.get("task", "")).endswith((".csv", ".npy")):
        from quadlens.network.task import task_from_file

        answers = task_from_file(Path(settings["task"])).answers
        settings["task"] = TABLE + ";".join(",".join(map(str, row)) for row in answers.tolist())
        settings["p"] = (flags or {}).get("p", len(answers))
    # What was given beside a preset or a file is nothing that these have wrong.
    where = "settings" if flags else str(file) if file is not None else f"preset {preset}"
    return parse_dataclass(TrainConfig, settings, where)


def read_preset(preset: str) -> dict[str, Any]:
    """The settings of a preset, as its file has them."""
    if preset not in PRESETS:
        raise BadConfig(f"preset {preset!r}; expected one of {', '.join(PRESETS)}")
    file = files("quadlens.training") / "presets" / f"{preset}.toml"
    return parse_toml(file.read_bytes(), f"preset {preset}")
