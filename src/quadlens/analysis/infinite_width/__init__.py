"""The infinite-width reading of a hidden layer.

Clusters in the plane, shared functions, integrals, and what is left.
"""

from quadlens.analysis.infinite_width.controls import Controls
from quadlens.analysis.infinite_width.lens import R2, Lens, LensCluster, lens

__all__ = ["R2", "Controls", "Lens", "LensCluster", "lens"]
