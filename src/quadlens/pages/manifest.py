"""What a report was made from, with what, and the hash of every file."""

import hashlib
import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Any

from quadlens import __version__
from quadlens.pages.directory import FORMAT, MANIFEST
from quadlens.sequences.explain import reads_sequences
from quadlens.studies import Study

PACKAGES = ("numpy", "scipy", "matplotlib", "Jinja2", "polars", "python-flint", "safetensors")


def _sizes(study: Study) -> dict[str, Any]:
    config: Any = study.model.config
    what = {"task": config.task.name} if reads_sequences(study.model) else {"p": study.p}
    return {**what, "d_mlp": config.d_mlp}


def write_manifest(directory: Path, study: Study, command: str) -> dict[str, Any]:
    """Write manifest.json over the files already there; no clock, so that equal reports are equal bytes."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    manifest = {
        "format": FORMAT,
        "version": 1,
        "command": command,
        "model": {"name": study.name, "sha256": study.sha256, **_sizes(study)},
        "versions": {
            "python": platform.python_version(),
            "quadlens": __version__,
            **{name.lower(): importlib.metadata.version(name) for name in PACKAGES},
        },
        "files": {
            path.relative_to(directory).as_posix(): {
                "bytes": path.stat().st_size,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
            for path in files
        },
    }
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return manifest
