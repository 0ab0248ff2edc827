"""What each neuron reads as waves over the plane (a, b), and clusters of neurons.

With θ = k w b and d = a - b, a neuron that reads frequency k is

    g(d, θ) = Re Σ_{m≥0} c_m(d) e^{imθ}

with c_m(d) from the waves e^{ikw(ja + hb)} with j + h = ±m, |j|, |h| ≤ D.

Moving a and b by the same step turns θ and leaves d alone: the wave of charge m turns m times as
fast. The wave of the answer, e^{ikw(a+b)}, has charge 2. No angle is halved, so even and composite
n need nothing special.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float, Int

from quadlens.analysis.spectrum.fourier import waves_of
from quadlens.analysis.spectrum.key import is_key
from quadlens.base.display import short

# The degree is the smallest up to MAX_DEGREE whose waves hold this share of a cluster's
# pre-activations.
ENOUGH = 0.999
MAX_DEGREE = 3
# Below this share of the strongest neuron's size a neuron has no phase worth the name.
SILENT = 1e-9


@dataclass(frozen=True, eq=False)
class PlaneSpectrum:
    """Fourier coefficients of every neuron over (a, b), and of what it writes over c.

    Attributes:
        n: Number of elements.
        half: Coefficients of pre at (j, h), h = 0 … ⌊n/2⌋; the rest follows since pre is real.
        energy: Mean over (a, b) of pre².
        written: Amplitude e^{iψ} ω of W_L[:, i] at every frequency 0 … ⌊n/2⌋.
    """

    n: int
    half: Complex[np.ndarray, "n half d_mlp"]
    energy: Float[np.ndarray, " d_mlp"]
    written: Complex[np.ndarray, "half d_mlp"]

    def at(self, j: int, h: int) -> Complex[np.ndarray, " d_mlp"]:
        """The coefficient of e^{iw(ja + hb)}."""
        j, h = j % self.n, h % self.n
        return self.half[j, h] if h <= self.n // 2 else self.half[-j % self.n, self.n - h].conj()


def plane_spectrum(
    pre: Float[np.ndarray, "n n d_mlp"], W_L: Float[np.ndarray, "n d_mlp"]
) -> PlaneSpectrum:
    """One FFT over the plane, one over c."""
    n = len(pre)
    energy = np.einsum("abi,abi->i", pre, pre) / n**2
    return PlaneSpectrum(n, np.fft.rfft2(pre, axes=(0, 1)) / n**2, energy, waves_of(W_L))


@short
@dataclass(frozen=True, eq=False)
class PlaneCluster:
    """Neurons whose strongest block of waves {0, ±k}² and strongest output wave are those of k.

    Attributes:
        n: Number of elements.
        k: The frequency.
        neurons: Their indices.
        rho: ρ_i, amplitude of the sum waves cos(kwa + φ^a), cos(kwb + φ^b): root mean square of the
            two.
        phi: φ_i = (φ^a + φ^b)/2, of the two branches the one nearer to the cluster's δ.
        delta: δ_i = (φ^a - φ^b)/2 relative to no one: in (-π/2, π/2].
        omega: ω_i, amplitude of W_L[:, i] at k.
        psi: ψ_i, its phase.
        degree: D, the smallest whose waves hold 99.9 % of the pre-activations, at most 3.
        share: What they hold.
        charges: c_m(d), [neuron, m, d].
        fourier: Share of the pre-activations' energy by kind of wave; adds up to 1 with `other`.
    """

    n: int
    k: int
    neurons: Int[np.ndarray, " m"]
    rho: Float[np.ndarray, " m"]
    phi: Float[np.ndarray, " m"]
    delta: Float[np.ndarray, " m"]
    omega: Float[np.ndarray, " m"]
    psi: Float[np.ndarray, " m"]
    degree: int
    share: float
    charges: Complex[np.ndarray, "m charges n"]
    fourier: dict[str, float]

    @property
    def q(self) -> int:
        """Number of different values of kwa."""
        return self.n // math.gcd(self.k, self.n)

    @property
    def delta_coherence(self) -> float:
        """|Σ ρω e^{2iδ}| / Σ ρω: 1 where all neurons have one δ, 0 where δ is spread evenly."""
        weights = self.rho * self.omega
        return float(np.abs((weights * np.exp(2j * self.delta)).sum()) / weights.sum())

    @property
    def mean_delta(self) -> float:
        """The cluster's δ, in (-π/2, π/2]."""
        return float(np.angle((self.rho * self.omega * np.exp(2j * self.delta)).sum())) / 2


def harmonics(q: int, degree: int) -> tuple[int, ...]:
    """Return the j with |j| ≤ degree that differ modulo q.

    q/2 stands for itself and its negative.
    """
    return tuple(j for j in range(-degree, degree + 1) if -q < 2 * j <= q)


def find_plane_clusters(spectrum: PlaneSpectrum) -> tuple[PlaneCluster, ...]:
    """The clusters that are key by Σ ρω over all neurons, in order of k."""
    n, d_mlp = spectrum.n, spectrum.written.shape[1]
    every, column = range(1, n // 2 + 1), np.arange(d_mlp)
    blocks = np.stack([_block_energy(spectrum, k) for k in every])
    k_in, k_out = blocks.argmax(axis=0) + 1, np.abs(spectrum.written[1:]).argmax(axis=0) + 1
    size = np.sqrt(blocks[k_in - 1, column]) * np.abs(spectrum.written[k_in, column])
    alive = size > SILENT * size.max(initial=0.0)
    members = {k: np.flatnonzero((k_in == k) & (k_out == k) & alive) for k in every}
    total = size.sum()
    return tuple(
        cluster_of(spectrum, k, neurons)
        for k, neurons in members.items()
        if len(neurons) and is_key(size[neurons].sum(), total)
    )


def _block_energy(spectrum: PlaneSpectrum, k: int) -> Float[np.ndarray, " d_mlp"]:
    """Energy of the waves (k,0), (0,k), (k,k), (k,-k) of every neuron, with their mirror images."""
    waves = {(j * k % spectrum.n, h * k % spectrum.n) for j in (-1, 0, 1) for h in (-1, 0, 1)} - {
        (0, 0)
    }
    energy = np.zeros(len(spectrum.energy))
    for j, h in waves:
        energy += np.square(np.abs(spectrum.at(j, h)))
    return energy


def cluster_of(
    spectrum: PlaneSpectrum, k: int, neurons: Int[np.ndarray, " m"], least: int = 1
) -> PlaneCluster:
    """Return these neurons as a cluster at frequency k.

    The degree is that of the module's rule, but not below `least`.
    """
    n = spectrum.n
    q = n // math.gcd(k, n)
    energy = spectrum.energy[neurons]
    degree, share = 0, 0.0
    while degree < least or (degree < MAX_DEGREE and share < ENOUGH):
        degree += 1
        chosen = harmonics(q, degree)
        waves = {(j, h): spectrum.at(j * k, h * k)[neurons] for j in chosen for h in chosen}
        share = float(sum(np.square(np.abs(wave)).sum() for wave in waves.values()) / energy.sum())
    # A wave that is its own mirror image is counted once, every other twice.
    alpha, beta = waves[1, 0] * (1 if q == 2 else 2), waves[0, 1] * (1 if q == 2 else 2)
    phi, delta = _phases(alpha, beta)
    written = spectrum.written[k, neurons]
    return PlaneCluster(
        n=n,
        k=k,
        neurons=neurons,
        rho=np.sqrt((np.square(np.abs(alpha)) + np.square(np.abs(beta))) / 2),
        phi=phi,
        delta=delta,
        omega=np.abs(written),
        psi=np.angle(written),
        degree=degree,
        share=share,
        charges=_charges(waves, n, k),
        fourier=_fourier(waves, float(energy.sum())),
    )


def _phases(
    alpha: Complex[np.ndarray, " m"], beta: Complex[np.ndarray, " m"]
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Return φ = (φ^a + φ^b)/2 and δ = (φ^a - φ^b)/2.

    Of (φ, δ) and (φ + π, δ + π) it is the one whose δ is near the cluster's.
    """
    common = np.angle((alpha * beta.conj()).sum()) / 2
    phi = np.angle(alpha * beta) / 2
    ahead = (alpha * np.exp(-1j * (phi + common)) + beta * np.exp(-1j * (phi - common))).real
    return np.where(ahead < 0, phi + np.pi, phi), np.angle(alpha * beta.conj()) / 2


def _charges(
    waves: dict[tuple[int, int], Complex[np.ndarray, " m"]], n: int, k: int
) -> Complex[np.ndarray, "m charges n"]:
    """c_m(d): waves j, h with j + h = m, and the conjugates of those with j + h = -m."""
    d = np.arange(n)
    top = max(abs(j + h) for j, h in waves)
    charges = np.zeros((len(waves[0, 0]), top + 1, n), dtype=complex)
    for (j, h), wave in waves.items():
        moved = wave[:, None] * np.exp(2j * np.pi * (j * k * d % n) / n)
        charges[:, abs(j + h)] += moved if j + h >= 0 else moved.conj()
    charges[:, 0] = charges[:, 0].real
    return charges


def _fourier(
    waves: dict[tuple[int, int], Complex[np.ndarray, " m"]], total: float
) -> dict[str, float]:
    """Shares of energy: (0,0); (±1,0), (0,±1); (±2,0), (0,±2); (±1,±1); and all the rest."""
    shares = dict.fromkeys(("constant", "sum_waves", "double_waves", "product_waves"), 0.0)
    kinds = {
        (0, 0): "constant",
        (0, 1): "sum_waves",
        (0, 2): "double_waves",
        (1, 1): "product_waves",
    }
    for (j, h), wave in waves.items():
        kind = kinds.get((min(abs(j), abs(h)), max(abs(j), abs(h))))
        if kind is not None:
            shares[kind] += float(np.square(np.abs(wave)).sum()) / total
    return {**shares, "other": 1.0 - sum(shares.values())}
