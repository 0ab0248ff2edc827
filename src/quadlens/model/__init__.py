"""From a file or a config to weights, and from weights to the collapsed model."""

from quadlens.model.bundled import load
from quadlens.model.collapsed import Collapsed
from quadlens.model.config import Config, MLPConfig
from quadlens.model.evaluate import Evaluation, evaluate
from quadlens.model.handmade import Recipe, build_mlp, build_transformer
from quadlens.model.native import save, sha256
from quadlens.model.params import MLPParams, Model, Params

__all__ = [
    "Collapsed",
    "Config",
    "Evaluation",
    "MLPConfig",
    "MLPParams",
    "Model",
    "Params",
    "Recipe",
    "build_mlp",
    "build_transformer",
    "evaluate",
    "load",
    "save",
    "sha256",
]
