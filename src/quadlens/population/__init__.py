"""Many models: sweeps that survive anything, the dataset they leave, and the paper's population beside ours."""

from quadlens.population.backends import LocalBackend
from quadlens.population.store import RunDirectory, Store
from quadlens.population.sweep import DiskFull, SweepReport, SweepState, sweep

__all__ = ["DiskFull", "LocalBackend", "RunDirectory", "Store", "SweepReport", "SweepState", "sweep"]
