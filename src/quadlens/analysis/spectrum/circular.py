"""Statistics on the circle: distances, R² of one phase against another, the spacing of phases."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from quadlens.analysis.spectrum.amplitude_phase import TURN, wrap
from quadlens.analysis.spectrum.cluster import Cluster
from quadlens.base.display import short

# Spread, in radians², below which angles count as one point: rounding of angles near π is about
# 4e-16.
ONE_POINT = 1e-24


def mean_direction(angle: Float[np.ndarray, " n"]) -> float:
    """The circular mean, arg Σ_i e^{iα_i}; 0 when there is no angle."""
    return float(np.angle(np.exp(1j * angle).sum())) if len(angle) else 0.0


def circular_variance(angle: Float[np.ndarray, " n"]) -> float:
    """Return the variance on the circle, min_μ (1/n) Σ_i wrap(α_i - μ)².

    It is π²/3 for angles spread evenly, 0 for one point.

    A minimiser unrolls the circle at the point opposite to it. With α sorted, unrolling after the
    j-th angle adds 2π to the first j, so the minimum is the least ordinary variance of n unrolled
    samples, all computed from running sums.
    """
    n = len(angle)
    if n == 0:
        return 0.0
    # Cutting at the circular mean's antipode first keeps the numbers small for angles that huddle
    # together.
    alpha = np.sort(wrap(angle - mean_direction(angle)))
    before = np.concatenate([[0.0], np.cumsum(alpha)[:-1]])
    j = np.arange(n)
    first = (alpha.sum() + TURN * j) / n
    second = (np.square(alpha).sum() + 2 * TURN * before + TURN**2 * j) / n
    return float(max(0.0, (second - np.square(first)).min()))


def circular_r2(angle: Float[np.ndarray, " n"], predicted: Float[np.ndarray, " n"]) -> float | None:
    """R² of a prediction of angles: 1 - Σ wrap(α - α̂)² / (n · circular variance of α).

    It is the ordinary R² wherever the angles fit in a half circle, and no cut of the circle enters
    it. None where it has no meaning: fewer than two angles, or all of them in one point.
    """
    spread = circular_variance(angle)
    if len(angle) < 2 or spread <= ONE_POINT:
        return None
    return 1 - float(np.square(wrap(angle - predicted)).mean()) / spread


def interval_widths(angle: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Gaps between neighbours around the circle, the last back to the first: they sum to 2π."""
    alpha = np.sort(np.mod(angle, TURN))
    return np.diff(alpha, append=alpha[:1] + TURN)


@short
@dataclass(frozen=True)
class Uniformity:
    """Measures of how evenly angles cover the circle.

    Attributes:
        width_mean: Mean gap between neighbours, 2π/n.
        width_std: Standard deviation of the gaps.
        kuiper: Kuiper's V, the cut-free form of the Kolmogorov-Smirnov distance to the uniform
            distribution.
        kuiper_p: Chance that n independent uniform angles have a V at least this large (asymptotic
            series).
    """

    width_mean: float
    width_std: float
    kuiper: float
    kuiper_p: float

    @property
    def roughly_uniform(self) -> bool:
        """Whether the mean width is above its standard deviation (observation five)."""
        return self.width_mean > self.width_std


def uniformity(angle: Float[np.ndarray, " n"]) -> Uniformity:
    """Gaps and Kuiper's test of at least one angle."""
    widths, n = interval_widths(angle), len(angle)
    u, steps = np.sort(np.mod(angle, TURN)) / TURN, np.arange(n + 1) / n
    kuiper = float((steps[1:] - u).max() + (u - steps[:-1]).max())
    return Uniformity(float(widths.mean()), float(widths.std()), kuiper, _kuiper_p(kuiper, n))


def _kuiper_p(kuiper: float, n: int) -> float:
    """Q(λ) = 2 Σ_j (4j²λ² - 1) e^{-2j²λ²}, λ = (√n + 0.155 + 0.24/√n) V (Stephens 1970)."""
    scaled = (np.sqrt(n) + 0.155 + 0.24 / np.sqrt(n)) * kuiper
    # The series needs ever more terms as λ → 0, where Q is 1 to more digits than anyone reads.
    if scaled < 0.4:
        return 1.0
    j2 = np.square(np.arange(1, 101) * scaled)
    return float(np.clip(2 * ((4 * j2 - 1) * np.exp(-2 * j2)).sum(), 0.0, 1.0))


@short
@dataclass(frozen=True)
class ClusterPhases:
    """ψ against 2φ, and the spacing of φ, in one cluster.

    These are observations four and five of `sec:other-models`.

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
        r2=None if cluster.is_sign_wave else circular_r2(cluster.psi, 2 * cluster.phi),
        offset=mean_direction(cluster.psi - 2 * cluster.phi),
        rms_deviation=float(np.sqrt(np.square(deviation).mean())),
        max_deviation=float(deviation.max()),
        spacing=uniformity(cluster.phi),
    )
