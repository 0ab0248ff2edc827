"""What to train: every setting of a run, from a preset, a TOML file and flags."""

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from quadlens.display import Displayed
from quadlens.errors import BadConfig, BadFile
from quadlens.schema import parse_dataclass

if TYPE_CHECKING:
    from quadlens.model.config import Config

PRESETS = ("paper", "text", "eos")
DEFAULT_PRESET = "paper"

Seeding = Literal["quadlens", "gbmi"]
Precision = Literal["float32", "float64"]


@dataclass(frozen=True, repr=False)
class TrainConfig(Displayed):
    """Settings of one training run; the same settings, threads and machine give the same bytes.

    Attributes:
        p: Modulus, odd.
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
        warmup: Epochs over which the learning rate rises linearly: epoch t (from 0) has lr·min(1, (t+1)/warmup).
        seed: Seed of initial weights and split.
        seeding: `quadlens`, or `gbmi` for the initial weights and split of the paper's group for that seed.
        precision: Type of weights and activations; the loss is always float64.
        history_every: Epochs between two rows of the history.
        spectrum_every: Epochs between two collapsed spectra.
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

    def __post_init__(self) -> None:
        # Here, so that the settings can be shown as flags without loading the numerical libraries.
        from quadlens.model.config import check_modulus

        check_modulus(self.p)
        self.model_config()  # refuses an impossible model
        if not 0 < self.train_share <= 1 or int(self.p * self.p * self.train_share) < 1:
            raise BadConfig(
                f"train_share = {self.train_share}; expected a share in (0, 1] that leaves a pair to train on"
            )
        for name in ("epochs", "warmup", "history_every", "spectrum_every"):
            if getattr(self, name) < 1:
                raise BadConfig(f"{name} = {getattr(self, name)}; expected at least 1")
        if not 0 <= self.seed < 2**32:
            raise BadConfig(f"seed = {self.seed}; expected 0 … 2^32 - 1")
        if not (self.lr > 0 and self.epsilon > 0 and self.weight_decay >= 0):
            raise BadConfig(
                f"lr = {self.lr}, epsilon = {self.epsilon}, weight_decay = {self.weight_decay}; "
                "expected lr and epsilon above 0 and weight_decay at least 0"
            )
        if not (0 <= self.beta_1 < 1 and 0 <= self.beta_2 < 1):
            raise BadConfig(f"beta_1 = {self.beta_1}, beta_2 = {self.beta_2}; expected both in [0, 1)")

    def _facts(self) -> dict[str, object]:
        always = ("p", "d_mlp", "epochs", "seed")
        return {
            one.name: getattr(self, one.name)
            for one in dataclasses.fields(self)
            if one.name in always or getattr(self, one.name) != one.default
        }

    def model_config(self) -> "Config":
        """The architecture that is trained."""
        from quadlens.model.config import Config

        return Config.paper(self.p, self.d_model, self.d_mlp, self.n_heads, self.d_head, self.equals)

    def learning_rate(self, epoch: int) -> float:
        """The learning rate of the step with index `epoch`, from 0."""
        return self.lr * min(1.0, (epoch + 1) / self.warmup)

    def run_id(self) -> str:
        """A name for this run: the first 16 hex digits of the hash of all its settings."""
        settings = json.dumps(dataclasses.asdict(self), sort_keys=True)
        return hashlib.sha256(settings.encode()).hexdigest()[:16]


def load_config(
    preset: str = DEFAULT_PRESET, file: Path | None = None, flags: Mapping[str, Any] | None = None
) -> TrainConfig:
    """The preset's settings, overridden by a TOML file, overridden by flags; unknown keys are errors."""
    settings = read_preset(preset)
    if file is not None:
        settings |= _read_toml(file.read_bytes() if file.is_file() else None, str(file))
    settings |= dict(flags or {})
    return parse_dataclass(TrainConfig, settings, str(file) if file is not None else f"preset {preset}")


def read_preset(preset: str) -> dict[str, Any]:
    """The settings of a preset, as its file has them."""
    if preset not in PRESETS:
        raise BadConfig(f"preset {preset!r}; expected one of {', '.join(PRESETS)}")
    file = files("quadlens.training") / "presets" / f"{preset}.toml"
    return _read_toml(file.read_bytes(), f"preset {preset}")


def _read_toml(content: bytes | None, where: str) -> dict[str, Any]:
    if content is None:
        raise BadFile(f"{where}: no such file; expected a TOML file of training settings")
    try:
        return tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadFile(f"{where} is not TOML: {error}") from None
