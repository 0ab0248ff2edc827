"""From a file or a config to weights, and from weights to the collapsed model."""

from quadlens.model.bundled import load
from quadlens.model.config import Config
from quadlens.model.evaluate import Evaluation, evaluate
from quadlens.model.handmade import Recipe, build_mlp, build_transformer
from quadlens.model.native import save, sha256
from quadlens.model.tables import Tables
from quadlens.model.weights import Weights

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
