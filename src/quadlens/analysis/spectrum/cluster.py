"""What every neuron reads and writes: spectra, roles, and clusters that share a frequency."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from quadlens.analysis.spectrum.amplitude_phase import TURN, AmplitudePhase, amplitude_phase, wrap
from quadlens.analysis.spectrum.key import is_key
from quadlens.base.display import short
from quadlens.network.tables import FloatTables

# A neuron whose waves are this small beside the largest neuron's carries no phase worth the name.
CONSTANT_SHARE = 1e-9
# The mean of both paths is what neurons read while it keeps this share of their waves' power; with
# less, a and b have phases of their own. The bundled adders keep 0.9999 and more; a public
# checkpoint with two vocabularies keeps 0.64.
SAME_PHASES = 0.9
# A cluster has a shift in common while the shifts of its neurons point one way at least this much.
COMMON_SHIFT = 0.5


@short
@dataclass(frozen=True, eq=False)
class Cluster:
    """I_k: the neurons whose primary input and primary output frequency are both k (`math.md` §1).

    Attributes:
        p: Modulus.
        k: The frequency.
        neurons: Indices of the neurons.
        phi: φ_i, input phase at k: (φ^a + φ^b)/2.
        psi: ψ_i, output phase at k.
        rho: ρ_i, input amplitude at k.
        omega: ω_i, output amplitude at k.
        shift: δ_i = (φ^a - φ^b)/2, which turns cos u into cos(u + δ) (`lens.md` 2); 0 where a and b
            share phases.
    """

    p: int
    k: int
    neurons: Int[np.ndarray, " n"]
    phi: Float[np.ndarray, " n"]
    psi: Float[np.ndarray, " n"]
    rho: Float[np.ndarray, " n"]
    omega: Float[np.ndarray, " n"]
    shift: Float[np.ndarray, " n"] | None = None

    @property
    def common_shift(self) -> float:
        """δ_k, the shift that the neurons have in common; 0 where they have none."""
        if self.shift is None:
            return 0.0
        weight = self.rho * self.omega
        # A shift by π changes nothing but the sign of two factors, so that shifts are angles modulo
        # π.
        total = complex((weight * np.exp(2j * self.shift)).sum())
        return (
            float(np.angle(total)) / 2
            if abs(total) >= COMMON_SHIFT * float(weight.sum()) > 0
            else 0.0
        )

    @property
    def is_sign_wave(self) -> bool:
        """Whether k = p/2: the wave (-1)^a has an amplitude and a sign, but no phase.

        Twice its angle is 0.
        """
        return 2 * self.k == self.p


@short
@dataclass(frozen=True, eq=False)
class NeuronSpectra:
    """Amplitude-phase form of everything a neuron reads and writes.

    Attributes:
        path_a: U_a.
        path_b: U_b.
        input: What a neuron reads; φ and ρ are its phase and amplitude. The waves of (U_a + U_b)/2
            where a and b have the same phases, else (A^a + A^b)/2 with the phase (φ^a + φ^b)/2.
        output: W_L, over c; ψ and ω are its phase and amplitude.
        shift: δ = (φ^a - φ^b)/2 of each wave, row k-1; None where a and b have the same phases.
    """

    path_a: AmplitudePhase
    path_b: AmplitudePhase
    input: AmplitudePhase
    output: AmplitudePhase
    shift: Float[np.ndarray, "half n"] | None = None


def neuron_spectra(collapsed: FloatTables) -> NeuronSpectra:
    """Spectra of every neuron, both sides."""
    path_a, path_b = amplitude_phase(collapsed.U_a), amplitude_phase(collapsed.U_b)
    mean, output = (
        amplitude_phase((collapsed.U_a + collapsed.U_b) / 2),
        amplitude_phase(collapsed.W_L),
    )
    halves = AmplitudePhase(
        mean.p, mean.mean, (path_a.amplitude + path_b.amplitude) / 2, mean.phase
    )
    k = halves.primary
    # Squares of amplitudes relative to the largest: weights of any size are compared without
    # overflow.
    largest = float(halves.amplitude.max(initial=0.0)) or 1.0
    kept, whole = (
        float(np.square(spectrum.at(k)[0] / largest).sum()) for spectrum in (mean, halves)
    )
    if kept >= SAME_PHASES * whole:
        return NeuronSpectra(path_a, path_b, mean, output)
    shift = _shifts(path_a, path_b)
    apart = AmplitudePhase(mean.p, mean.mean, halves.amplitude, wrap(path_a.phase - shift))
    return NeuronSpectra(path_a, path_b, apart, output, shift)


def _shifts(path_a: AmplitudePhase, path_b: AmplitudePhase) -> Float[np.ndarray, "half n"]:
    """Return (φ^a - φ^b)/2 of every wave.

    Of the two that differ by π it is the one closer to what the neurons have in common.
    """
    twice = path_a.phase - path_b.phase
    sizes = [path.amplitude / (path.amplitude.max(initial=0.0) or 1.0) for path in (path_a, path_b)]
    together = (sizes[0] * sizes[1] * np.exp(1j * twice)).sum(axis=1, keepdims=True)
    common = _upper(np.angle(together)) / 2
    return common + _upper(wrap(twice - 2 * common)) / 2


def _upper(angle: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Return the angle in (-π, π]; -π and what rounding makes of it become π.

    Half of the angle must not jump.
    """
    return np.where(angle < -np.pi + 1e-9, angle + TURN, angle)


def is_dead(spectra: NeuronSpectra) -> Bool[np.ndarray, " n"]:
    """Which neurons read or write no wave at all: the constant term is all they have."""
    reads, writes = spectra.input.amplitude.max(axis=0), spectra.output.amplitude.max(axis=0)
    return (reads <= CONSTANT_SHARE * reads.max()) | (writes <= CONSTANT_SHARE * writes.max())


def find_clusters(spectra: NeuronSpectra) -> tuple[Cluster, ...]:
    """Return one cluster for every frequency that neurons read and write, in order of k."""
    k_in, k_out = spectra.input.primary, spectra.output.primary
    matching = (k_in == k_out) & ~is_dead(spectra)
    rho, phi = spectra.input.at(k_in)
    omega, psi = spectra.output.at(k_in)
    clusters = []
    for k in np.unique(k_in[matching]):
        neurons = np.flatnonzero(matching & (k_in == k))
        shift = None if spectra.shift is None else spectra.shift[k - 1, neurons]
        clusters.append(
            Cluster(
                spectra.input.p,
                int(k),
                neurons,
                phi[neurons],
                psi[neurons],
                rho[neurons],
                omega[neurons],
                shift,
            )
        )
    return tuple(clusters)


@short
@dataclass(frozen=True, eq=False)
class NeuronRoles:
    """The roles of neurons: `matching`, `mismatching` and `constant` are disjoint, and cover all.

    Attributes:
        k_in: Primary input frequency.
        k_out: Primary output frequency.
        rho: ρ_i, input amplitude at k_in.
        phi: φ_i, input phase at k_in, half the sum of the phases for a and for b.
        omega: ω_i, output amplitude at k_in (zero where the neuron writes nothing).
        psi: ψ_i, output phase at k_in.
        variance_input: Share of the pre-activation's variance over all (a, b) that k_in explains.
        variance_output: Share of the variance of W_L[:, i] that k_out explains.
        dead: Reads no wave or writes none (see `is_dead` of `cluster.py`).
        constant: Dead, or the constant term is the largest Fourier component of what it reads or
            writes.
    """

    k_in: Int[np.ndarray, " d_mlp"]
    k_out: Int[np.ndarray, " d_mlp"]
    rho: Float[np.ndarray, " d_mlp"]
    phi: Float[np.ndarray, " d_mlp"]
    omega: Float[np.ndarray, " d_mlp"]
    psi: Float[np.ndarray, " d_mlp"]
    variance_input: Float[np.ndarray, " d_mlp"]
    variance_output: Float[np.ndarray, " d_mlp"]
    dead: Bool[np.ndarray, " d_mlp"]
    constant: Bool[np.ndarray, " d_mlp"]

    @property
    def matching(self) -> Bool[np.ndarray, " d_mlp"]:
        """Not constant, and reads and writes the same frequency."""
        return ~self.constant & (self.k_in == self.k_out)

    @property
    def mismatching(self) -> Bool[np.ndarray, " d_mlp"]:
        """Not constant, and reads one frequency and writes another."""
        return ~self.constant & (self.k_in != self.k_out)

    @property
    def good_model(self) -> bool:
        """The paper's "good model" (third observation of `sec:other-models`).

        All neurons read and write the same frequency, disregarding those whose largest component is
        the constant term; a model in which no neuron is left has no clusters to be good about.
        """
        return bool(self.matching.any()) and not self.mismatching.any()


def constant_is_largest(spectrum: AmplitudePhase) -> Bool[np.ndarray, " n"]:
    """Where the constant term has more power than every wave: mean² > max_k A_k²/2.

    Powers are the squared coefficients in the orthonormal Fourier basis, in which no term is
    favoured. The paper does not say how it compares them. On eight trained models (preset paper,
    seeds 0 to 7) |mean|/ρ, bias included, is at most 0.35 but for two nearly dead neurons with 0.9
    and 1.3: here both count as constant; if |mean| were compared with ρ itself, only one would.
    """
    return np.square(spectrum.mean) > spectrum.power.max(axis=0)


def find_roles(spectra: NeuronSpectra) -> NeuronRoles:
    """Find each neuron's primary frequencies and its role."""
    k_in, k_out = spectra.input.primary, spectra.output.primary
    rho, phi = spectra.input.at(k_in)
    omega, psi = spectra.output.at(k_in)
    dead = is_dead(spectra)
    # Over all (a, b) the two paths are independent, so the variances of U_a and U_b add.
    paths = spectra.path_a.power + spectra.path_b.power
    return NeuronRoles(
        k_in=k_in,
        k_out=k_out,
        rho=rho,
        phi=phi,
        omega=omega,
        psi=psi,
        variance_input=_share(paths, k_in),
        variance_output=_share(spectra.output.power, k_out),
        dead=dead,
        constant=dead | constant_is_largest(spectra.input) | constant_is_largest(spectra.output),
    )


def _share(power: Float[np.ndarray, "half n"], k: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The share of column i's power that k[i] has; 0 for a column without any."""
    total = power.sum(axis=0)
    own_power = power[k - 1, np.arange(len(k))]
    return np.divide(own_power, total, out=np.zeros_like(total), where=total > 0)


def key_frequencies(clusters: tuple[Cluster, ...]) -> tuple[int, ...]:
    """Frequencies whose cluster is key by Σ_i ρ_i ω_i."""
    sizes = [float((cluster.rho * cluster.omega).sum()) for cluster in clusters]
    return tuple(
        cluster.k for cluster, size in zip(clusters, sizes, strict=True) if is_key(size, sum(sizes))
    )
