"""Secondary to quaternary frequencies: multiples of the primary one, and their phases."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from quadlens.analysis.spectrum.amplitude_phase import AmplitudePhase, wrap
from quadlens.analysis.spectrum.circular import circular_r2, mean_direction
from quadlens.base.display import short

RANKS = 4
RANK_NAMES = ("primary", "secondary", "tertiary", "quaternary")
# A wave this small beside the primary one is rounding of float32 weights (6e-8 each), not a wave.
PRESENT_SHARE = 1e-6
# The paper's figures fit a line where at least this many neurons share both frequencies.
MIN_NEURONS = 10
# They draw it only above this R².
DRAWN_R2 = 0.9


def doubled(k: int, p: int) -> int:
    """Return the frequency in 0 … ⌊p/2⌋ of a wave with twice the angle; 0 of a sign wave.

    cos(2k w a) = cos((p - 2k) w a).

    >>> doubled(5, 59), doubled(28, 59)
    (10, 3)
    """
    return min(2 * k % p, -2 * k % p)


@short
@dataclass(frozen=True, eq=False)
class Harmonics:
    """The largest waves of each input, row r the r-th largest; row 0 is the primary.

    Attributes:
        p: Modulus.
        k: Frequency in 1 … ⌊p/2⌋.
        amplitude: A_k.
        present: Whether the wave is there at all (amplitude above rounding).
        multiple: Smallest m ≥ 1 with m·k_primary ≡ ±k (mod p); 0 where k is no multiple (p not
            prime).
        phase: Phase θ of the wave written as cos(m k_primary w a + θ); the wave's own phase where m
            = 0.
    """

    p: int
    k: Int[np.ndarray, "ranks n"]
    amplitude: Float[np.ndarray, "ranks n"]
    present: Bool[np.ndarray, "ranks n"]
    multiple: Int[np.ndarray, "ranks n"]
    phase: Float[np.ndarray, "ranks n"]


def find_harmonics(
    spectrum: AmplitudePhase, shift: Float[np.ndarray, "half n"] | None = None
) -> Harmonics:
    """The four largest frequencies of every column (fewer where p has fewer).

    Args:
        spectrum: What each neuron reads.
        shift: δ of each wave where a and b have phases of their own (`NeuronSpectra.shift`).
    """
    half, n = spectrum.amplitude.shape
    ranks = min(RANKS, half)
    order = np.argsort(-spectrum.size, axis=0, kind="stable")[:ranks]
    amplitude = np.take_along_axis(spectrum.amplitude, order, axis=0)
    phase = np.take_along_axis(spectrum.phase, order, axis=0)
    k = order + 1
    multiple, folded = np.zeros((ranks, n), dtype=np.int64), np.zeros((ranks, n), dtype=bool)
    for primary in np.unique(k[0]):
        sharing = k[0] == primary
        table, mirrored = multiples_of(int(primary), spectrum.p)
        multiple[:, sharing], folded[:, sharing] = (
            table[k[:, sharing] - 1],
            mirrored[k[:, sharing] - 1],
        )
    # m·k_primary ≡ -k: cos(k w a + θ) = cos(m k_primary w a - θ).
    phase = np.where(folded, -phase, phase)
    if shift is not None:
        # Half a sum of phases is known up to π. A wave shaped like the neuron's own one, m times as
        # fast, has m times its shift, which says which half.
        delta = np.where(folded, -1, 1) * np.take_along_axis(shift, order, axis=0)
        phase = np.where(
            (multiple > 0) & (np.cos(delta - multiple * delta[0]) < 0), wrap(phase + np.pi), phase
        )
    return Harmonics(
        p=spectrum.p,
        k=k,
        amplitude=amplitude,
        present=(amplitude > PRESENT_SHARE * amplitude[0]) & (amplitude > 0),
        multiple=multiple,
        phase=phase,
    )


def multiples_of(
    primary: int, p: int
) -> tuple[Int[np.ndarray, " half"], Bool[np.ndarray, " half"]]:
    """Return for each k the smallest m ≥ 1 with m·primary ≡ ±k (mod p), 0 if none.

    The second array is where the sign is minus.
    """
    half = p // 2
    m = np.arange(half, 0, -1)
    residue = m * primary % p
    k, folded = np.minimum(residue, p - residue), residue > half
    table, mirrored = np.zeros(half + 1, dtype=np.int64), np.zeros(half + 1, dtype=bool)
    # From large m to small, so that the smallest is written last.
    table[k], mirrored[k] = m, folded
    return table[1:], mirrored[1:]


@short
@dataclass(frozen=True)
class HarmonicFit:
    """The phase relation θ = mφ + π among the neurons that share primary and r-th frequency.

    Attributes:
        rank: 2 secondary, 3 tertiary, 4 quaternary.
        k: Primary frequency.
        frequency: The other frequency.
        multiple: m, or None where it is no multiple of k.
        neurons: How many neurons share the two.
        r2: Circular R² of θ = mφ + π.
        offset: Circular mean of θ - mφ; π where the relation holds.
        r2_offset: Circular R² of θ = mφ + offset.
    """

    rank: int
    k: int
    frequency: int
    multiple: int | None
    neurons: int
    r2: float | None
    offset: float | None
    r2_offset: float | None


def harmonic_fits(
    harmonics: Harmonics, alive: Bool[np.ndarray, " n"], min_neurons: int = MIN_NEURONS
) -> tuple[HarmonicFit, ...]:
    """Fit every rank and pair of frequencies that `min_neurons` living neurons share."""
    fits = []
    for row in range(1, len(harmonics.k)):
        there = alive & harmonics.present[row]
        pairs, counts = np.unique(harmonics.k[[0, row]][:, there].T, axis=0, return_counts=True)
        for k, frequency in pairs[counts >= min_neurons]:
            sharing = there & (harmonics.k[0] == k) & (harmonics.k[row] == frequency)
            fits.append(_fit(harmonics, row, np.flatnonzero(sharing)))
    return tuple(fits)


def _fit(harmonics: Harmonics, row: int, neurons: Int[np.ndarray, " m"]) -> HarmonicFit:
    m = int(harmonics.multiple[row, neurons[0]])
    theta, multiplied = harmonics.phase[row, neurons], m * harmonics.phase[0, neurons]
    offset = mean_direction(theta - multiplied)
    return HarmonicFit(
        rank=row + 1,
        k=int(harmonics.k[0, neurons[0]]),
        frequency=int(harmonics.k[row, neurons[0]]),
        multiple=m or None,
        neurons=len(neurons),
        r2=circular_r2(theta, multiplied + np.pi) if m else None,
        offset=offset if m else None,
        r2_offset=circular_r2(theta, multiplied + offset) if m else None,
    )


@dataclass(frozen=True)
class SecondaryDoubling:
    """How far the secondary frequency is the double of the primary, over a set of neurons.

    Attributes:
        neurons: Living neurons that have a secondary frequency at all.
        doubled: How many of them have 2k (folded) as their secondary.
        share: doubled / neurons; None where there is no secondary frequency.
        phase_r2: Circular R² of θ = 2φ + π over the doubled ones.
    """

    neurons: int
    doubled: int
    share: float | None
    phase_r2: float | None


def secondary_doubling(harmonics: Harmonics, among: Bool[np.ndarray, " n"]) -> SecondaryDoubling:
    """Count doubled secondaries among the neurons given.

    See `sec:secondary-freqs` and the figures `primsecfreq` and `primsecr2` of the paper.
    """
    if len(harmonics.k) < 2:
        return SecondaryDoubling(0, 0, None, None)
    present = among & harmonics.present[1]
    doubled = present & (harmonics.multiple[1] == 2)
    neurons, count = int(present.sum()), int(doubled.sum())
    return SecondaryDoubling(
        neurons=neurons,
        doubled=count,
        share=count / neurons if neurons else None,
        phase_r2=circular_r2(harmonics.phase[1, doubled], 2 * harmonics.phase[0, doubled] + np.pi),
    )
