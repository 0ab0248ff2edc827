"""The files of a run: model, manifest, history, and the checkpoint while it goes on."""

import hashlib
import io
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from quadlens.errors import BadConfig, BadFile
from quadlens.model.atomic import write_atomic
from quadlens.model.evaluate import evaluate
from quadlens.model.native import to_bytes
from quadlens.schema import from_json, to_json
from quadlens.training.config import TrainConfig
from quadlens.training.layout import Layout
from quadlens.training.manifest import TrainingManifest
from quadlens.training.train import TrainingResult

SUFFIX = ".safetensors"
# Weights, two moments and history, twice: the old checkpoint stays until the new one is whole.
CHECKPOINT_BYTES_PER_WEIGHT = 2 * 3 * 8
SPARE_BYTES = 8 << 20


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


def check_writable(files: RunFiles, config: TrainConfig) -> None:
    """Say before training, not after, that the results could not be written."""
    directory = files.model.parent
    if files.model.is_dir():
        raise BadFile(f"cannot write {files.model}: it is a directory; give a file name")
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".quadlens-probe."):
            pass
        free = shutil.disk_usage(directory).free
    except OSError as error:
        raise BadFile(
            f"cannot write to {directory}: {error.strerror}; choose a directory that exists and is writable"
        ) from None
    needed = Layout.of(config.model_config()).size * CHECKPOINT_BYTES_PER_WEIGHT + SPARE_BYTES
    if free < needed:
        raise BadFile(
            f"{directory} has {free >> 20} MiB free and this run needs {needed >> 20} MiB; "
            "free some space or choose another directory"
        )


def write_run(files: RunFiles, result: TrainingResult, seconds: float) -> TrainingManifest:
    """Write history, model and, last, the manifest: a run with a manifest is whole. Returns the manifest."""
    model = to_bytes(result.params)
    curves, spectrum = io.BytesIO(), io.BytesIO()
    result.history.curve_frame().write_parquet(curves)
    result.history.spectrum_frame().write_parquet(spectrum)
    write_atomic(files.history, curves.getvalue())
    write_atomic(files.spectrum, spectrum.getvalue())
    write_atomic(files.model, model)
    answers = evaluate(result.params.collapse())
    digest = hashlib.sha256(model).hexdigest()
    manifest = TrainingManifest.of(result, answers, {files.model.name: digest}, seconds)
    write_atomic(files.manifest, to_json(manifest))
    files.checkpoint.unlink(missing_ok=True)
    return manifest


def finished_manifest(files: RunFiles, config: TrainConfig) -> TrainingManifest | None:
    """The manifest of a run with these settings that is already whole on disk, else None."""
    try:
        manifest = from_json(TrainingManifest, files.manifest.read_bytes(), str(files.manifest))
        digest = hashlib.sha256(files.model.read_bytes()).hexdigest()
    except (OSError, BadConfig):
        return None
    whole = manifest.sha256.get(files.model.name) == digest
    return manifest if whole and manifest.config == config else None
