"""Real sequences over Z_p as sums of cosines: one amplitude and one phase a frequency."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True, eq=False)
class AmplitudePhase:
    """x[t,i] = mean[i] + Σ_k amplitude[k-1,i] cos(k w t + phase[k-1,i]),  w = 2π/p  (`math.md` §1).

    Attributes:
        p: Length of the sequences, odd; frequencies are k = 1 … (p-1)/2.
        mean: The constant term of each column.
        amplitude: A_k ≥ 0, row k-1.
        phase: In (-π, π], row k-1.
    """

    p: int
    mean: Float[np.ndarray, " n"]
    amplitude: Float[np.ndarray, "half n"]
    phase: Float[np.ndarray, "half n"]

    @property
    def primary(self) -> Int[np.ndarray, " n"]:
        """The frequency with the largest amplitude, for each column."""
        return self.amplitude.argmax(axis=0) + 1

    @property
    def power(self) -> Float[np.ndarray, "half n"]:
        """A_k²/2, the variance of each wave; the constant term's counterpart is mean²."""
        return np.square(self.amplitude) / 2

    @property
    def variance(self) -> Float[np.ndarray, " n"]:
        """Variance of each column over Z_p: Σ_k A_k²/2 (Parseval)."""
        return self.power.sum(axis=0)

    def at(self, k: Int[np.ndarray, " n"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Amplitude and phase of column i at frequency k[i]."""
        columns = np.arange(self.amplitude.shape[1])
        return self.amplitude[k - 1, columns], self.phase[k - 1, columns]


def amplitude_phase(x: Float[np.ndarray, "p n"]) -> AmplitudePhase:
    """Decompose every column of `x` with one real FFT."""
    p = x.shape[0]
    coefficients = np.fft.rfft(x, axis=0)
    waves = coefficients[1:] * (2 / p)
    return AmplitudePhase(p=p, mean=coefficients[0].real / p, amplitude=np.abs(waves), phase=np.angle(waves))


def synthesise(spectrum: AmplitudePhase) -> Float[np.ndarray, "p n"]:
    """The sequences themselves, from the formula of `AmplitudePhase`."""
    waves = spectrum.amplitude * np.exp(1j * spectrum.phase) * (spectrum.p / 2)
    constant = spectrum.mean[None] * spectrum.p
    return np.fft.irfft(np.concatenate([constant.astype(complex), waves]), n=spectrum.p, axis=0)
