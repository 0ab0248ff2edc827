"""What a training run was and what came of it: the manifest beside its weights."""

import dataclasses
import importlib.metadata
import platform
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from quadlens.errors import BadConfig
from quadlens.model.evaluate import Evaluation
from quadlens.training.config import DEFAULT_PRESET, TrainConfig, read_preset
from quadlens.training.train import TrainingResult


@dataclass(frozen=True)
class Outcome:
    """How well a trained model answers.

    Attributes:
        correct: Inputs (a, b) answered right.
        pairs: All p² inputs.
        min_margin: Smallest logit(a, b, (a+b) mod p) - max over other c of logit(a, b, c).
        loss: Mean cross-entropy over all inputs.
    """

    correct: int
    pairs: int
    min_margin: float
    loss: float


@dataclass(frozen=True)
class TrainingManifest:
    """A finished training run; its file is written last, so a run that has one is whole.

    Attributes:
        command: The `quadlens train` command that gives this run.
        run_id: The hash of the settings.
        config: The settings.
        device: Where it ran.
        threads: CPU threads; they fix the order of sums and so the bytes.
        seconds: Time taken, from the last resume on.
        versions: Package → version, of everything the bytes depend on.
        machine: Processor and operating system.
        sha256: The weights' file name → its hash.
        outcome: How well the model answers.
    """

    command: str
    run_id: str
    config: TrainConfig
    device: str
    threads: int
    seconds: float
    versions: Mapping[str, str]
    machine: Mapping[str, str]
    sha256: Mapping[str, str]
    outcome: Outcome

    def __post_init__(self) -> None:
        check_run_id(self.run_id, self.config)

    @classmethod
    def of(
        cls, result: TrainingResult, answers: Evaluation, sha256: Mapping[str, str], seconds: float
    ) -> "TrainingManifest":
        """The manifest of a run that has just ended.

        Args:
            result: The run.
            answers: Its model on every input.
            sha256: The weights' file name → its hash.
            seconds: Time taken.
        """
        (name,) = sha256
        return cls(
            command=command_line(result.config, result.threads, name),
            run_id=result.config.run_id(),
            config=result.config,
            device=result.device,
            threads=result.threads,
            seconds=round(seconds, 1),
            versions=versions(),
            machine={"processor": platform.machine(), "system": platform.system()},
            sha256=sha256,
            outcome=Outcome(answers.correct, answers.pairs, answers.min_margin, answers.loss),
        )


def check_run_id(run_id: str, config: TrainConfig) -> None:
    """Refuse a manifest whose name is not that of its settings."""
    if run_id != config.run_id():
        raise BadConfig(f"run_id = {run_id!r}; the settings give {config.run_id()!r}")


def command_line(config: TrainConfig, threads: int, output: str) -> str:
    """The shortest `quadlens train` command that gives this run; threads belong to it because they change rounding."""
    settings = dataclasses.asdict(config)
    defaults = dataclasses.asdict(TrainConfig()) | read_preset(DEFAULT_PRESET)
    preset = "eos" if config.equals else DEFAULT_PRESET
    defaults |= read_preset(preset)
    words = ["quadlens", "train", "--preset", preset, "--seed", str(config.seed), "--threads", str(threads)]
    for name, value in settings.items():
        if name != "seed" and value != defaults[name]:
            # Not every setting has a flag of its own; --set takes them all, written as in TOML.
            words += ["--set", f"{name}={value}"]
    return shlex.join([*words, "-o", output])


def versions() -> dict[str, str]:
    """Versions of everything the bytes depend on."""
    names = ("quadlens", "torch", "numpy", "numba", "scipy", "safetensors", "polars")
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in names}}
