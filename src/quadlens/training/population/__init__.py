"""Many models: sweeps, the dataset they leave, and the paper's population."""

from quadlens.training.population.backends import LocalBackend
from quadlens.training.population.store import RunDirectory, Store
from quadlens.training.population.sweep import DiskFull, SweepReport, SweepState, sweep

__all__ = [
    "DiskFull",
    "LocalBackend",
    "RunDirectory",
    "Store",
    "SweepReport",
    "SweepState",
    "sweep",
]
