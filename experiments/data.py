"""The files of `run.py`: a model each, a row per neuron, its own values in the metadata."""

import base64
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, eq=False)
class Measured:
    """One model: its own values, and a column of each quantity of its neurons."""

    name: str
    values: dict[str, Any]
    neurons: dict[str, np.ndarray]


def measured_models(experiment: int | None = None, directory: Path = DATA) -> list[Measured]:
    """The models there are, in the order of their names."""
    pattern = "*.parquet" if experiment is None else f"{experiment}_*.parquet"
    return [read(path) for path in sorted(directory.glob(pattern))]


def read(path: Path) -> Measured:
    """One model's file."""
    file = pq.ParquetFile(path)
    text = zlib.decompress(base64.b64decode(file.metadata.metadata[b"model"]))
    columns = file.read().to_pydict()
    return Measured(
        path.stem, json.loads(text), {name: np.array(column) for name, column in columns.items()}
    )
