"""What a report was made from, with what, and the hash of every file."""

import hashlib
import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Any

from quadlens import __version__
from quadlens.pages.directory import FORMAT, MANIFEST
from quadlens.studies import Study

PACKAGES = ("numpy", "scipy", "matplotlib", "Jinja2", "polars", "python-flint", "safetensors")


def write_manifest(directory: Path, study: Study, command: str) -> dict[str, Any]:
    """Write manifest.json over the files already there; no clock, so that equal reports are equal bytes."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    manifest = {
        "format": FORMAT,
        "version": 1,
        "command": command,
        "model": {"name": study.name, "sha256": study.sha256, **study.sizes},
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
