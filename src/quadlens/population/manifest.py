"""What one model of a sweep was made from, with what, how long it took, and the hash of every file."""

from collections.abc import Mapping
from dataclasses import dataclass

from quadlens.training.config import TrainConfig
from quadlens.training.manifest import check_run_id


@dataclass(frozen=True)
class ModelManifest:
    """The manifest of a finished model; its file is written last, so a directory that has one is whole.

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
