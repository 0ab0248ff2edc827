"""The files of a run: model, manifest, history, snapshots, and the checkpoint while it runs.

Each file is written whole or not at all, and a run that is resumed writes the same bytes again.
"""

import dataclasses
import hashlib
import importlib.metadata
import io
import math
import platform
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from quadlens.base.atomic import check_directory, make_directory, write_all_atomic, write_atomic
from quadlens.base.errors import BadConfig, BadFile
from quadlens.base.reading import read_limited
from quadlens.base.schema import from_json, to_json
from quadlens.network.native import MAX_FILE_BYTES, to_bytes
from quadlens.network.weights import Weights
from quadlens.training.config import DEFAULT_PRESET, TrainConfig, read_preset
from quadlens.training.layout import Layout
from quadlens.training.machines import machine_of
from quadlens.training.train import TrainingResult

SUFFIX = ".safetensors"
# At the end, when most is there: the last checkpoint, and where the run ends, of the run before and
# of this one, each of weights and two moments; and the model of both.
CHECKPOINT_BYTES_PER_WEIGHT = 3 * 3 * 8 + 2 * 8
SNAPSHOT_BYTES_PER_WEIGHT = 8
SPARE_BYTES = 8 << 20
MAX_MANIFEST_BYTES = 1 << 20
# Digits of the epoch in a snapshot's name, so that names are in the order of epochs.
EPOCH_DIGITS = 7


@dataclass(frozen=True)
class Outcome:
    """How well a trained model answers.

    Attributes:
        correct: Inputs (a, b) answered right; on sequences, words that are right at every step.
        pairs: All p² inputs; on sequences, the words that were tried, drawn evenly.
        min_margin: Smallest logit(a, b, right answer) - max over other c of logit(a, b, c).
        loss: Mean cross-entropy over these inputs.
    """

    correct: int
    pairs: int
    min_margin: float
    loss: float

    @classmethod
    def of(cls, result: TrainingResult) -> "Outcome":
        """What the trained model answers."""
        return cls(*machine_of(result.config).judged(result))


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
        machine: Processor, operating system, the processor's model and the instruction set that
            PyTorch uses on it.
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
        cls, result: TrainingResult, sha256: Mapping[str, str], seconds: float
    ) -> "TrainingManifest":
        """The manifest of a run that has just ended.

        Args:
            result: The run.
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
            machine=machine(),
            sha256=sha256,
            outcome=Outcome.of(result),
        )


def check_run_id(run_id: str, config: TrainConfig) -> None:
    """Refuse a manifest whose name is not that of its settings."""
    if run_id != config.run_id():
        raise BadConfig(f"run_id = {run_id!r}; the settings give {config.run_id()!r}")


def command_line(config: TrainConfig, threads: int, output: str) -> str:
    """Write the shortest `quadlens train` command that gives this run.

    Threads belong to it because they change rounding.
    """
    settings = dataclasses.asdict(config)
    defaults = dataclasses.asdict(TrainConfig()) | read_preset(DEFAULT_PRESET)
    preset = config.kind.preset(config)
    defaults |= read_preset(preset)
    words = [
        "quadlens",
        "train",
        "--preset",
        preset,
        "--seed",
        str(config.seed),
        "--threads",
        str(threads),
    ]
    for name, value in settings.items():
        if name != "seed" and value != defaults[name]:
            # Not every setting has a flag of its own; --set takes them all, written as in TOML.
            words += ["--set", f"{name}={value}"]
    return shlex.join([*words, "-o", output])


def versions() -> dict[str, str]:
    """Versions of everything the bytes depend on."""
    names = ("quadlens", "torch", "numpy", "numba", "scipy", "safetensors", "polars")
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in names},
    }


def machine() -> dict[str, str]:
    """Name what the bytes depend on beside versions.

    That is the processor's kind, model and instruction set, and the system.
    """
    import torch

    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": platform.machine(),
        "system": platform.system(),
        "model": models[0] if models else platform.processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }


@dataclass(frozen=True)
class RunFiles:
    """Where a run writes, all beside the model's file.

    Attributes:
        model: The trained weights.
    """

    model: Path

    @property
    def _stem(self) -> str:
        return self.model.name.removesuffix(SUFFIX)

    @property
    def manifest(self) -> Path:
        """Settings, versions, hashes, outcome."""
        return self.model.with_name(f"{self._stem}.manifest.json")

    @property
    def history(self) -> Path:
        """Learning curves, Parquet."""
        return self.model.with_name(f"{self._stem}.history.parquet")

    @property
    def spectrum(self) -> Path:
        """Frequencies over training, Parquet."""
        return self.model.with_name(f"{self._stem}.spectrum.parquet")

    @property
    def checkpoint(self) -> Path:
        """Where an unfinished run stands."""
        return self.model.with_name(f"{self._stem}.checkpoint")

    @property
    def optimiser(self) -> Path:
        """The optimiser's state of a finished run: more epochs continue from there."""
        return self.model.with_name(f"{self._stem}.optimiser")

    @property
    def snapshots(self) -> Path:
        """The directory of the weights at chosen epochs, a model file each."""
        return self.model.with_name(f"{self._stem}.snapshots")


def snapshot_epochs(count: int, epochs: int) -> tuple[int, ...]:
    """Choose `count` epochs from 0 to `epochs`, evenly spaced in log(epoch + 1).

    They are at least one epoch apart.

    >>> snapshot_epochs(8, 1000)
    (0, 2, 6, 18, 51, 138, 372, 1000)
    """
    if not 2 <= count <= epochs + 1:
        words = f"snapshots = {count}; expected 2 … {epochs + 1} of them in {epochs} epochs"
        raise BadConfig(words, settings=("snapshots",))
    chosen: list[int] = []
    for i in range(count):
        nearest = round(math.expm1(i / (count - 1) * math.log1p(epochs)))
        after_last = chosen[-1] + 1 if chosen else 0
        chosen.append(min(max(nearest, after_last), epochs - (count - 1 - i)))
    return tuple(chosen)


def snapshot_file(directory: Path, epoch: int) -> Path:
    """The file of one snapshot."""
    return directory / f"{epoch:0{EPOCH_DIGITS}d}.safetensors"


def save_snapshot(model: Weights, directory: Path, epoch: int) -> None:
    """Write the weights before the step with index `epoch`."""
    write_atomic(snapshot_file(directory, epoch), to_bytes(model))


def keep_snapshots(directory: Path, epochs: Sequence[int]) -> None:
    """Make the directory, and clear it of all but these snapshots of the run that is resumed."""
    make_directory(directory)
    kept = {snapshot_file(directory, epoch) for epoch in epochs}
    for file in directory.glob(f"{'[0-9]' * EPOCH_DIGITS}.safetensors"):
        if file not in kept:
            file.unlink()


def check_writable(files: RunFiles, config: TrainConfig, snapshots: int = 0) -> None:
    """Refuse before training, not after, a place or snapshots that cannot be written."""
    directory = files.model.parent
    if files.model.is_dir():
        raise BadFile(f"cannot write {files.model}: it is a directory; give a file name")
    check_directory(directory)
    try:
        free = shutil.disk_usage(directory).free
    except OSError as error:
        raise BadFile(
            f"cannot write to {directory}: {error.strerror}; "
            "choose a directory that exists and is writable"
        ) from None
    per_weight = CHECKPOINT_BYTES_PER_WEIGHT + SNAPSHOT_BYTES_PER_WEIGHT * snapshots
    needed = Layout.of_run(config).size * per_weight + SPARE_BYTES
    if free < needed:
        raise BadFile(
            f"{directory} has {free >> 20} MiB free and this run needs {needed >> 20} MiB; "
            "free some space or choose another directory"
        )


def write_run(
    files: RunFiles, result: TrainingResult, seconds: float, *, to_continue: bool = False
) -> TrainingManifest:
    """Write history, model and, last, the manifest, which is returned.

    A run with a manifest is whole.

    Args:
        files: Where.
        result: The run.
        seconds: Time taken.
        to_continue: Also write what more epochs would continue from, three times the size of the
            weights.
    """
    model = to_bytes(result.params)
    curves, spectrum = io.BytesIO(), io.BytesIO()
    result.history.curve_frame().write_parquet(curves)
    result.history.spectrum_frame().write_parquet(spectrum)
    digest = hashlib.sha256(model).hexdigest()
    manifest = TrainingManifest.of(result, {files.model.name: digest}, seconds)
    contents = {files.history: curves.getvalue(), files.spectrum: spectrum.getvalue()}
    contents |= {files.optimiser: result.end.to_bytes()} if to_continue else {}
    contents |= {files.model: model}
    write_all_atomic({**contents, files.manifest: to_json(manifest)})
    files.checkpoint.unlink(missing_ok=True)
    return manifest


def finished_manifest(files: RunFiles, config: TrainConfig) -> TrainingManifest | None:
    """The manifest of a run with these settings that is already whole on disk, else None."""
    manifest = whole_manifest(files)
    return manifest if manifest is not None and manifest.config == config else None


def whole_manifest(files: RunFiles) -> TrainingManifest | None:
    """The manifest of a run that is whole on disk, whatever its settings, else None."""
    try:
        manifest = from_json(
            TrainingManifest, read_limited(files.manifest, MAX_MANIFEST_BYTES), str(files.manifest)
        )
        digest = hashlib.sha256(read_limited(files.model, MAX_FILE_BYTES)).hexdigest()
    except (BadFile, BadConfig):
        return None
    return manifest if manifest.sha256.get(files.model.name) == digest else None
