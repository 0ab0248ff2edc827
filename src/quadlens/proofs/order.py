"""The order of the neurons: grouped by the frequency they read, each group sorted around its circle of phases."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from quadlens.spectrum.amplitude_phase import AmplitudePhase


@dataclass(frozen=True, eq=False)
class Group:
    """Neurons that read the same frequency, in order of their input phase φ.

    Attributes:
        k: The frequency.
        neurons: Their indices.
    """

    k: int
    neurons: Int[np.ndarray, " n"]


def group_by_frequency(spectrum: AmplitudePhase) -> tuple[Group, ...]:
    """Every neuron in exactly one group, by the spectrum of what it reads: only that decides when it is active.

    Neurons of one group are close to copies of one function of the angle k w (a + b)/2 + φ (`math.md` §5), so
    in this order the active ones form few arcs.
    """
    k_in = spectrum.primary
    _, phi = spectrum.at(k_in)
    groups = []
    for k in np.unique(k_in):
        mine = np.flatnonzero(k_in == k)
        groups.append(Group(int(k), mine[np.argsort(phi[mine], kind="stable")]))
    return tuple(groups)
