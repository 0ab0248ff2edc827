"""From a file or a config to weights, and from weights to the collapsed model."""

from typing import TYPE_CHECKING, Any

from quadlens.network.bundled import load
from quadlens.network.config import Config
from quadlens.network.evaluate import Evaluation, evaluate
from quadlens.network.native import save, sha256
from quadlens.network.tables import Tables
from quadlens.network.weights import Weights

if TYPE_CHECKING:
    from quadlens.network.handmade import Recipe, build_mlp, build_transformer

__all__ = [
    "Config",
    "Evaluation",
    "Recipe",
    "Tables",
    "Weights",
    "build_mlp",
    "build_transformer",
    "evaluate",
    "load",
    "save",
    "sha256",
]


def __getattr__(name: str) -> Any:
    """Networks by hand are loaded when one is asked for: files and figures need none."""
    if name not in ("Recipe", "build_mlp", "build_transformer"):
        raise AttributeError(f"module 'quadlens.network' has no attribute {name!r}")
    from quadlens.network import handmade

    return getattr(handmade, name)
