"""Write torch zips for tests that read them.

PyTorch itself writes them, of NumPy arrays and plain values.
"""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest


def torch_zip(value: Mapping[str, Any]) -> bytes:
    """What `torch.save` writes of `value`, its arrays as tensors."""
    torch = pytest.importorskip("torch")

    def with_tensors(part: Any) -> Any:
        if isinstance(part, np.ndarray):
            return torch.from_numpy(np.array(part))
        if isinstance(part, Mapping):
            return {name: with_tensors(inner) for name, inner in part.items()}
        if isinstance(part, list | tuple):
            return type(part)(map(with_tensors, part))
        return part

    stream = io.BytesIO()
    torch.save(with_tensors(value), stream)
    return stream.getvalue()
