"""From the collapsed model to amplitudes, phases, frequencies and clusters of neurons."""

from quadlens.analysis.spectrum.amplitude_phase import AttendedSpectra, attended_spectra
from quadlens.analysis.spectrum.anatomy import Anatomy, anatomy_of
from quadlens.analysis.spectrum.circular import ClusterPhases, cluster_phases
from quadlens.analysis.spectrum.cluster import Cluster, NeuronRoles, NeuronSpectra
from quadlens.analysis.spectrum.harmonics import (
    HarmonicFit,
    Harmonics,
    SecondaryDoubling,
    harmonic_fits,
    secondary_doubling,
)

__all__ = [
    "Anatomy",
    "AttendedSpectra",
    "Cluster",
    "ClusterPhases",
    "HarmonicFit",
    "Harmonics",
    "NeuronRoles",
    "NeuronSpectra",
    "SecondaryDoubling",
    "anatomy_of",
    "attended_spectra",
    "cluster_phases",
    "harmonic_fits",
    "secondary_doubling",
]
