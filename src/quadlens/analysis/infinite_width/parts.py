"""The logits as a sum of parts: the integral and everything else, as waves over c.

A part is its complex amplitude at each frequency of c, [a, b, k]: logit(a,b,c) = Σ_k Re(
part_k(a,b) e^{ikwc} ). The mean over c, which no answer depends on, is left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float

from quadlens.analysis.infinite_width.inputs import Inputs
from quadlens.analysis.infinite_width.integral import (
    Rule,
    SharedFunction,
    angles,
    by_difference,
    finite_sums,
    over_inputs,
    rotated_limit,
    rule_of,
)
from quadlens.analysis.infinite_width.waves import (
    PlaneCluster,
    PlaneSpectrum,
    find_plane_clusters,
    plane_spectrum,
)
from quadlens.analysis.spectrum.amplitude_phase import mean_squares
from quadlens.analysis.spectrum.fourier import sequences_of, waves_of
from quadlens.base.display import short

Amplitudes = Complex[np.ndarray, "n n half"]


@short
@dataclass(frozen=True, eq=False)
class ClusterReading:
    """One cluster with what its neurons add at their own frequency, in four versions.

    Attributes:
        cluster: The neurons.
        rule: What the lens claims of them.
        limit: C(d), the integral over rotations of each neuron, with what it writes (ψ).
        theory: The integral of the shared function, with 2φ in place of ψ: the rule's own integral.
        departure: What each neuron's own waves change of it.
        phase_error: What ψ in place of 2φ changes after that; theory + departure + phase_error =
            limit.
        finite: The finite sum over neurons, pre-activations as they are, [a, b].
        finite_waves: The finite sum with the waves up to the degree, [a, b].
    """

    cluster: PlaneCluster
    rule: Rule
    limit: Complex[np.ndarray, " n"]
    theory: Complex[np.ndarray, " n"]
    departure: Complex[np.ndarray, " n"]
    phase_error: Complex[np.ndarray, " n"]
    finite: Complex[np.ndarray, "n n"]
    finite_waves: Complex[np.ndarray, "n n"]

    @property
    def shared(self) -> SharedFunction:
        """The neurons' shared function."""
        return self.rule.shared

    @property
    def strength(self) -> Complex[np.ndarray, " n"]:
        """Γ(d) = C(d) e^{ikwd}; real and positive is right.

        The integral is Re Γ(a - b) e^{ikw(c - a - b)}.
        """
        return self.limit * np.exp(1j * angles(self.cluster))


def read_cluster(cluster: PlaneCluster, inputs: Inputs) -> ClusterReading:
    """Integrals and finite sums of one cluster."""
    sigma = inputs.sigma
    rule = rule_of(cluster, sigma)
    written = (
        cluster.omega[:, None] * np.exp(1j * np.stack([cluster.psi, 2 * cluster.phi], axis=1))
    ).astype(complex)
    limit, own_waves = rotated_limit(cluster, cluster.charges, written, sigma).T
    theory, as_written = rule.integral, written[:, :1]
    return ClusterReading(
        cluster=cluster,
        rule=rule,
        limit=limit,
        theory=theory,
        departure=own_waves - theory,
        phase_error=limit - own_waves,
        finite=sigma.apply(inputs.pre[:, :, cluster.neurons]) @ as_written[:, 0],
        finite_waves=finite_sums(cluster, cluster.charges, as_written, sigma.apply)[..., 0],
    )


@short
@dataclass(frozen=True, eq=False)
class LensParts:
    """The logits, and the seven parts that add up to them.

    Attributes:
        logits: All of them.
        integral: The integrals of all clusters, each at its own frequency.
        quadrature_error: Finite sums of the same waves minus the integrals.
        higher_waves: What waves beyond the degree change of the finite sums.
        cross_writing: What neurons of one cluster write at the frequencies of the others.
        other_frequencies: What neurons of clusters write at all other frequencies.
        outside_clusters: Neurons in no cluster.
        skip: What does not pass through the hidden layer.
        readings: One per cluster.
        written: What every neuron writes, ω e^{iψ} at each frequency.
    """

    logits: Amplitudes
    integral: Amplitudes
    quadrature_error: Amplitudes
    higher_waves: Amplitudes
    cross_writing: Amplitudes
    other_frequencies: Amplitudes
    outside_clusters: Amplitudes
    skip: Amplitudes
    readings: tuple[ClusterReading, ...]
    written: Complex[np.ndarray, "half d_mlp"]

    @property
    def n(self) -> int:
        """Number of elements."""
        return len(self.logits)

    @property
    def shared(self) -> Amplitudes:
        """The claim: the integrals of the shared functions of all clusters."""
        return self.at_keys(reading.theory for reading in self.readings)

    def at_keys(self, integrals: Iterable[Complex[np.ndarray, " n"]]) -> Amplitudes:
        """A function C(a - b) for each cluster, over all inputs at the cluster's frequency."""
        total = np.zeros_like(self.logits)
        for reading, C in zip(self.readings, integrals, strict=True):
            total[..., reading.cluster.k] = over_inputs(reading.cluster, C)
        return total

    @property
    def symmetric(self) -> Amplitudes:
        """The part of the logits at key frequencies that depends on a - b and c - a - b alone."""
        total = np.zeros_like(self.logits)
        for k in self.keys:
            total[..., k] = symmetric(self.logits[..., [k]], k)[..., 0]
        return total

    @property
    def keys(self) -> list[int]:
        """The clusters' frequencies."""
        return [reading.cluster.k for reading in self.readings]

    @property
    def residual(self) -> dict[str, Amplitudes]:
        """Every part but the integral, by name."""
        names = (
            "quadrature_error",
            "higher_waves",
            "cross_writing",
            "other_frequencies",
            "outside_clusters",
            "skip",
        )
        return {name: getattr(self, name) for name in names}

    def inner(self, x: Amplitudes, y: Amplitudes) -> float:
        """Σ over a, b and mean over c of x · y, the mean over c left out."""
        weights = mean_squares(self.n, np.arange(x.shape[2]))
        weights[0] = 0.0
        return float(
            np.einsum("abk,abk,k->", x.real, y.real, weights)
            + np.einsum("abk,abk,k->", x.imag, y.imag, weights)
        )

    def share(self, part: Amplitudes) -> float:
        """⟨part, logits⟩ / ‖logits‖²: the shares of parts that add up to the logits add up to 1."""
        total = self.inner(self.logits, self.logits)
        return self.inner(part, self.logits) / total if total > 0 else 0.0

    def r2(self, part: Amplitudes) -> float:
        """1 - ‖logits - part‖² / ‖logits‖², nothing fitted."""
        left, total = self.logits - part, self.inner(self.logits, self.logits)
        return 1 - self.inner(left, left) / total if total > 0 else 0.0

    def values(self, part: Amplitudes) -> Float[np.ndarray, "n n n"]:
        """A part as numbers over c."""
        waves = np.moveaxis(part, 2, 0).copy()
        waves[0] = 0
        return np.ascontiguousarray(np.moveaxis(sequences_of(waves, self.n), 0, 2))


def symmetric(x: Complex[np.ndarray, "n n many"], k: int) -> Complex[np.ndarray, "n n many"]:
    """Project amplitudes at k on e^{-2ikwb} times functions of a - b.

    It is the mean over moving a and b together.
    """
    n = len(x)
    b = np.arange(n)
    turn = np.exp(2j * np.pi * (k * 2 * b % n) / n)
    along = np.einsum("dbw,b->dw", x[(b + b[:, None]) % n, b], turn) / n
    return by_difference(along) / turn[:, None]


def share_right(logits: Float[np.ndarray, "n n n"]) -> float:
    """Share of inputs at which a + b has the largest logit; 0 where all are 0."""
    n = len(logits)
    answer = np.add.outer(np.arange(n), np.arange(n)) % n
    return float((logits.argmax(axis=2) == answer).mean()) if np.any(logits) else 0.0


def lens_parts(inputs: Inputs) -> LensParts:
    """Clusters, their integrals and sums, and the logits as the sum of seven parts."""
    spectrum = plane_spectrum(inputs.pre, inputs.W_L)
    readings = tuple(read_cluster(cluster, inputs) for cluster in find_plane_clusters(spectrum))
    logits = np.ascontiguousarray(np.moveaxis(waves_of(np.moveaxis(inputs.logits, 2, 0)), 0, 2))
    zero = np.zeros_like(logits)
    parts = {
        name: zero.copy()
        for name in ("integral", "quadrature_error", "higher_waves", "cross_writing")
    }
    inside = (
        np.concatenate([reading.cluster.neurons for reading in readings])
        if readings
        else np.zeros(0, dtype=int)
    )
    outside = np.setdiff1d(np.arange(inputs.W_L.shape[1]), inside)
    clustered = _written(inputs, spectrum, inside)
    unclustered = _written(inputs, spectrum, outside)
    other = clustered.copy()
    for reading in readings:
        k, integral = reading.cluster.k, over_inputs(reading.cluster, reading.limit)
        parts["integral"][..., k] = integral
        parts["quadrature_error"][..., k] = reading.finite_waves - integral
        parts["higher_waves"][..., k] = reading.finite - reading.finite_waves
        parts["cross_writing"][..., k] = clustered[..., k] - reading.finite
        other[..., k] = 0
    skip = logits - clustered - unclustered
    return LensParts(
        logits=logits,
        **parts,
        other_frequencies=other,
        outside_clusters=unclustered,
        skip=skip,
        readings=readings,
        written=spectrum.written,
    )


def _written(inputs: Inputs, spectrum: PlaneSpectrum, neurons: np.ndarray) -> Amplitudes:
    """Return the part of the logits that some neurons write, at every frequency of c."""
    hidden = inputs.sigma.apply(inputs.pre[:, :, neurons])
    written = spectrum.written[:, neurons].T
    return hidden @ written.real + 1j * (hidden @ written.imag)
