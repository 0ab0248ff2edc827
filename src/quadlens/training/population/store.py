"""Where a sweep keeps everything: one directory a model, named by the hash of its settings."""

import contextlib
import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quadlens.base.atomic import make_directory, write_atomic
from quadlens.base.errors import BadConfig, BadFile, QuadlensError
from quadlens.base.reading import parse_json, read_limited
from quadlens.base.schema import from_json
from quadlens.training.config import TrainConfig
from quadlens.training.outputs import RunFiles, check_run_id

# A worker whose node was lost may live a little longer than the news of its loss.
LOCK_SECONDS = 60.0
# More than any model of a sweep needs; a directory that somebody sends must not fill the memory.
MAX_FILE_BYTES = 1 << 30
MAX_JSON_BYTES = 1 << 26


def read_here(path: Path, limit: int) -> bytes:
    """Read a regular file of a model's directory that fits in memory, and no link."""
    if path.is_symlink():
        raise BadFile(f"{path.name} is a link; expected a file of the model's own")
    return read_limited(path, limit, "cannot read")


class Busy(QuadlensError):
    """Another process works on the same directory."""


@dataclass(frozen=True)
class ModelManifest:
    """The manifest of a finished model.

    Its file is written last, so a directory that has one is whole.

    Attributes:
        run_id: The hash of the settings; the name of the directory.
        config: The settings of its training run.
        command: The `quadlens train` command that gives the same weights.
        versions: Package → version, at training.
        machine: Processor and operating system, at training.
        seconds: Step → time taken: `train`, `evaluate`, `explain`, `bounds`, `certify_<strategy>`.
        sha256: File name → hash, of all other files of the directory.
    """

    run_id: str
    config: TrainConfig
    command: str
    versions: Mapping[str, str]
    machine: Mapping[str, str]
    seconds: Mapping[str, float]
    sha256: Mapping[str, str]

    def __post_init__(self) -> None:
        check_run_id(self.run_id, self.config)
        # A name from a file may lead anywhere: only plain names of files in the directory itself.
        for name in self.sha256:
            if name in (".", "..") or any(sign in name for sign in ("/", "\\", "\0")):
                raise BadConfig(
                    f"sha256 names {name!r}; expected the name of a file in the model's directory"
                )


@dataclass(frozen=True)
class RunDirectory:
    """The files of one model.

    Attributes:
        path: The directory.
    """

    path: Path

    @property
    def training(self) -> RunFiles:
        """Weights, training manifest, history and spectrum, and the checkpoint during training."""
        return RunFiles(self.path / "model.safetensors")

    @property
    def results(self) -> Path:
        """Evaluation, explanation, bounds and a summary of every proof.

        The bytes are the same wherever it was computed.
        """
        return self.path / "results.json"

    @property
    def neurons(self) -> Path:
        """One row per neuron; not there for a model without frequencies."""
        return self.path / "neurons.parquet"

    @property
    def certificate(self) -> Path:
        """The cheapest of the strongest proofs."""
        return self.path / "certificate.json"

    @property
    def manifest(self) -> Path:
        """Hashes of all other files, settings, versions, times; written last."""
        return self.path / "manifest.json"

    def problem(self, run_id: str) -> str | None:
        """Why this is not the whole, undamaged directory of the run; None when it is."""
        try:
            manifest = self.read_manifest()
            if manifest.run_id != run_id:
                return f"its manifest is of run {manifest.run_id}"
            for name, digest in manifest.sha256.items():
                if (
                    hashlib.sha256(read_here(self.path / name, MAX_FILE_BYTES)).hexdigest()
                    != digest
                ):
                    return f"{name} does not match its hash"
        except BadFile as error:
            return str(error)
        except BadConfig as error:
            return f"{self.manifest.name} is damaged: {error}"
        analysis = {self.results.name, self.certificate.name}
        required = {
            self.training.model.name,
            *(analysis if analysis & set(manifest.sha256) else ()),
        }
        missing = sorted(required - set(manifest.sha256))
        return f"its manifest does not name {', '.join(missing)}" if missing else None

    def read_manifest(self) -> ModelManifest:
        """The manifest; `BadConfig` when the file is damaged."""
        return from_json(
            ModelManifest, read_here(self.manifest, MAX_JSON_BYTES), str(self.manifest)
        )

    @property
    def analysed(self) -> bool:
        """Whether there are results, or only a trained model."""
        return self.results.is_file()

    def strategies(self) -> set[str]:
        """The proof strategies that were tried on a whole model; none where it was only trained."""
        if not self.analysed:
            return set()
        return {proof["strategy"] for proof in self.read_results()["proofs"]}

    def read_results(self) -> dict[str, Any]:
        """What results.json says; `BadFile` or `ValueError` when the file is damaged."""
        results: dict[str, Any] = parse_json(
            read_here(self.results, MAX_JSON_BYTES), str(self.results)
        )
        return results


@dataclass(frozen=True)
class Store:
    """The directory of a sweep.

    In `models/` are whole models, in `unfinished/` others; `failed/` says what was given up.

    Attributes:
        root: The directory.
    """

    root: Path

    @property
    def dataset(self) -> Path:
        """One row per model, rebuilt from `models/`."""
        return self.root / "population.parquet"

    def finished(self, run_id: str) -> RunDirectory:
        """The directory of a whole model."""
        return RunDirectory(self.root / "models" / run_id)

    def unfinished(self, run_id: str) -> RunDirectory:
        """The directory in which a model is made."""
        return RunDirectory(self.root / "unfinished" / run_id)

    def failure(self, run_id: str) -> Path:
        """The record of a model that was given up."""
        return self.root / "failed" / f"{run_id}.json"

    def lock(self, run_id: str) -> Path:
        """Held by the worker that makes a model; its text is host and process."""
        return self.root / "unfinished" / f".{run_id}.lock"

    def prepare(self) -> None:
        """Make the directories."""
        for name in ("models", "unfinished", "failed"):
            make_directory(self.root / name)

    def is_finished(self, run_id: str) -> bool:
        """Whether a whole model is there; the rename that put it there came last."""
        return self.finished(run_id).manifest.is_file()

    def run_ids(self) -> list[str]:
        """All whole models, analysed or only trained."""
        models = self.root / "models"
        return (
            sorted(d.name for d in models.iterdir() if self.is_finished(d.name))
            if models.is_dir()
            else []
        )

    def take_back(self, run_id: str) -> None:
        """Move a damaged model back to `unfinished/`: what of it is whole is used again."""
        target = self.unfinished(run_id).path
        if target.exists():
            os.replace(target, target.with_name(f"{run_id}.before-{time.time_ns()}"))
        os.replace(self.finished(run_id).path, target)
        self.unfinished(run_id).manifest.unlink(missing_ok=True)

    def record_failure(self, run_id: str, config: dict[str, Any], reasons: list[str]) -> None:
        """Say why a model was given up."""
        value = {"run_id": run_id, "config": config, "attempts": len(reasons), "reasons": reasons}
        write_atomic(self.failure(run_id), (json.dumps(value, indent=2) + "\n").encode())

    def failures(self) -> dict[str, str]:
        """Run → last reason, of all models given up."""
        reasons = {}
        for file in sorted((self.root / "failed").glob("*.json")):
            with contextlib.suppress(BadFile, KeyError, IndexError, TypeError):
                reasons[file.stem] = str(
                    parse_json(read_here(file, MAX_JSON_BYTES), file.name)["reasons"][-1]
                )
        return {
            run_id: reason for run_id, reason in reasons.items() if not self.is_finished(run_id)
        }

    def only_driver(self) -> contextlib.AbstractContextManager[None]:
        """Hold the sweep's lock; a second sweep into the same directory is refused."""
        message = f"another sweep is at work in {self.root}; wait for it, or stop it"
        return _locked(self.root / ".sweep.lock", 0.0, message)

    def only_worker(
        self, run_id: str, seconds: float = LOCK_SECONDS
    ) -> contextlib.AbstractContextManager[None]:
        """Hold the lock of one model while it is made; it ends with the process."""
        message = f"another worker still works on {run_id} after {seconds:.0f} s"
        return _locked(self.lock(run_id), seconds, message)


@contextlib.contextmanager
def _locked(path: Path, seconds: float, message: str) -> Iterator[None]:
    try:
        import fcntl
    except ModuleNotFoundError:  # not on this system; directories are still renamed whole
        yield
        return
    try:
        stream = path.open("ab")
    except OSError as error:
        raise BadFile(f"cannot write {path}: {error.strerror}") from error
    with stream:
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise Busy(message) from None
                time.sleep(0.05)
        with contextlib.suppress(
            OSError
        ):  # who holds it helps a person, on a full disk it is left out
            stream.truncate(0)
            stream.write(f"{socket.gethostname()} {os.getpid()}\n".encode())
            stream.flush()
        yield
