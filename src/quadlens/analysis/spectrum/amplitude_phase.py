"""Amplitude-phase form of real sequences, and of what attention alone brings to each neuron."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from quadlens.analysis.spectrum.fourier import waves_of
from quadlens.base.display import short
from quadlens.network.collapse import attended_parts
from quadlens.network.ring import FLOATS
from quadlens.network.weights import Weights

TURN = 2 * np.pi


def wrap(angle: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Return the angle in [-π, π]; its size is the distance to 0 on the circle.

    See erratum 8 of `math.md`.
    """
    return angle - TURN * np.round(angle / TURN)


def mean_squares(p: int, k: Int[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """Mean of cos²(k w t) over Z_p: ½, but 1 for the sign wave 2k = p."""
    return np.where(2 * k == p, 1.0, 0.5)


@short
@dataclass(frozen=True, eq=False)
class AmplitudePhase:
    """x[t,i] = mean[i] + Σ_k amplitude[k-1,i] cos(k w t + phase[k-1,i]),  w = 2π/p  (`math.md` §1).

    Attributes:
        p: Length of the sequences; frequencies are k = 1 … ⌊p/2⌋. For even p the last is the sign
            wave (-1)^t, whose phase is 0 or π and whose variance is A², not A²/2.
        mean: The constant term of each column.
        amplitude: A_k ≥ 0, row k-1.
        phase: In (-π, π], row k-1.
    """

    p: int
    mean: Float[np.ndarray, " n"]
    amplitude: Float[np.ndarray, "half n"]
    phase: Float[np.ndarray, "half n"]

    @property
    def size(self) -> Float[np.ndarray, "half n"]:
        """√2 times the root mean square of each wave.

        It is the amplitude, but √2 times that of a sign wave.
        """
        return (
            self.amplitude
            * np.sqrt(2 * mean_squares(self.p, np.arange(1, len(self.amplitude) + 1)))[:, None]
        )

    @property
    def primary(self) -> Int[np.ndarray, " n"]:
        """The frequency of the largest wave, for each column."""
        return self.size.argmax(axis=0) + 1

    @property
    def power(self) -> Float[np.ndarray, "half n"]:
        """The variance of each wave, A_k²/2 (A² of a sign wave).

        The constant term's counterpart is mean².
        """
        return (
            np.square(self.amplitude)
            * mean_squares(self.p, np.arange(1, len(self.amplitude) + 1))[:, None]
        )

    @property
    def variance(self) -> Float[np.ndarray, " n"]:
        """Variance of each column over Z_p: the sum of all powers (Parseval)."""
        return self.power.sum(axis=0)

    def at(
        self, k: Int[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Amplitude and phase of column i at frequency k[i]."""
        columns = np.arange(self.amplitude.shape[1])
        return self.amplitude[k - 1, columns], self.phase[k - 1, columns]


def amplitude_phase(x: Float[np.ndarray, "p n"]) -> AmplitudePhase:
    """Decompose every column of `x` with one real FFT."""
    mean, *_ = waves = waves_of(x)
    return AmplitudePhase(
        p=len(x), mean=mean.real, amplitude=np.abs(waves[1:]), phase=np.angle(waves[1:])
    )


@short
@dataclass(frozen=True, eq=False)
class AttendedSpectra:
    """Amplitude-phase form of the OV part of each path.

    Attributes:
        path_a: α_a (W_E + pos_0) OV W_in; all of U_a when the output is read at b or '='.
        path_b: α_b (W_E + pos_1) OV W_in, the part of U_b that is symmetric to a's.
    """

    path_a: AmplitudePhase
    path_b: AmplitudePhase


def attended_paths(
    params: Weights,
) -> tuple[Float[np.ndarray, "p d_mlp"], Float[np.ndarray, "p d_mlp"]]:
    """Return ½OV(a) and ½OV(b) of `eq:logit-approx`, weighted by the config's attention.

    No bias is included.
    """
    task, W_in = params.config.task, params.blocks[0]["W_in"]
    path_a, path_b, *_ = (part @ W_in for part in attended_parts(params, FLOATS))
    if task.cyclic is None:
        return path_a, path_b
    return path_a[np.argsort(task.cyclic.of_a)], path_b[np.argsort(task.cyclic.of_b)]


def attended_spectra(model: Weights) -> AttendedSpectra | None:
    """Spectra of the OV parts; None for a model without constant attention."""
    if model.config.attends != "constant":
        return None
    path_a, path_b = attended_paths(model)
    return AttendedSpectra(amplitude_phase(path_a), amplitude_phase(path_b))
