"""Clusters: the neurons that read and write the same frequency, as nodes of one quadrature rule."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from quadlens.model.collapsed import Collapsed
from quadlens.spectrum.amplitude_phase import AmplitudePhase, amplitude_phase

# A neuron whose waves are this small beside the largest neuron's carries no phase worth the name.
CONSTANT_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class Cluster:
    """I_k: the neurons whose primary input and primary output frequency are both k (`math.md` §1).

    Attributes:
        p: Modulus.
        k: The frequency.
        neurons: Indices of the neurons.
        phi: φ_i, input phase at k.
        psi: ψ_i, output phase at k.
        rho: ρ_i, input amplitude at k.
        omega: ω_i, output amplitude at k.
    """

    p: int
    k: int
    neurons: Int[np.ndarray, " n"]
    phi: Float[np.ndarray, " n"]
    psi: Float[np.ndarray, " n"]
    rho: Float[np.ndarray, " n"]
    omega: Float[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class NeuronSpectra:
    """Amplitude-phase form of everything a neuron reads and writes.

    Attributes:
        path_a: U_a.
        path_b: U_b.
        input: (U_a + U_b)/2, the wave a neuron reads; φ and ρ are its phase and amplitude.
        output: W_L, over c; ψ and ω are its phase and amplitude.
    """

    path_a: AmplitudePhase
    path_b: AmplitudePhase
    input: AmplitudePhase
    output: AmplitudePhase


def neuron_spectra(collapsed: Collapsed) -> NeuronSpectra:
    """Spectra of every neuron, both sides."""
    return NeuronSpectra(
        path_a=amplitude_phase(collapsed.U_a),
        path_b=amplitude_phase(collapsed.U_b),
        input=amplitude_phase((collapsed.U_a + collapsed.U_b) / 2),
        output=amplitude_phase(collapsed.W_L),
    )


def constant_neurons(spectra: NeuronSpectra) -> Int[np.ndarray, " n"]:
    """Neurons that read or write no wave at all: the constant term is all they have."""
    reads, writes = spectra.input.amplitude.max(axis=0), spectra.output.amplitude.max(axis=0)
    dead = (reads <= CONSTANT_SHARE * reads.max()) | (writes <= CONSTANT_SHARE * writes.max())
    return np.flatnonzero(dead)


def find_clusters(spectra: NeuronSpectra) -> tuple[Cluster, ...]:
    """One cluster for every frequency that is both read and written by some neuron, in order of k."""
    k_in, k_out = spectra.input.primary, spectra.output.primary
    alive = np.ones(len(k_in), dtype=bool)
    alive[constant_neurons(spectra)] = False
    matching = (k_in == k_out) & alive
    rho, phi = spectra.input.at(k_in)
    omega, psi = spectra.output.at(k_in)
    clusters = []
    for k in np.unique(k_in[matching]):
        mine = np.flatnonzero(matching & (k_in == k))
        clusters.append(Cluster(spectra.input.p, int(k), mine, phi[mine], psi[mine], rho[mine], omega[mine]))
    return tuple(clusters)
