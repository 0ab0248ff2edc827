"""The phases of a cluster: is the output phase twice the input phase, and do the phases cover the circle evenly?"""

from dataclasses import dataclass

import numpy as np

from quadlens.spectrum.circular import Uniformity, circular_r2, mean_direction, uniformity, wrap
from quadlens.spectrum.cluster import Cluster


@dataclass(frozen=True)
class ClusterPhases:
    """ψ against 2φ, and the spacing of φ, in one cluster (observations four and five of `sec:other-models`).

    Attributes:
        k: Frequency of the cluster.
        r2: Circular R² of ψ = 2φ; None when ψ does not vary.
        offset: Circular mean of ψ - 2φ, radians.
        rms_deviation: Root mean square of the circular distance |ψ - 2φ|.
        max_deviation: Largest |ψ - 2φ|.
        spacing: Gaps between sorted φ and a test of uniformity.
    """

    k: int
    r2: float | None
    offset: float
    rms_deviation: float
    max_deviation: float
    spacing: Uniformity


def cluster_phases(cluster: Cluster) -> ClusterPhases:
    """Circular statistics of one cluster."""
    deviation = np.abs(wrap(cluster.psi - 2 * cluster.phi))
    return ClusterPhases(
        k=cluster.k,
        r2=circular_r2(cluster.psi, 2 * cluster.phi),
        offset=mean_direction(cluster.psi - 2 * cluster.phi),
        rms_deviation=float(np.sqrt(np.square(deviation).mean())),
        max_deviation=float(deviation.max()),
        spacing=uniformity(cluster.phi),
    )
