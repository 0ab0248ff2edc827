"""From the collapsed model to amplitudes, phases, frequencies and clusters of neurons."""

from quadlens.spectrum.amplitude_phase import (
    AmplitudePhase,
    AttendedSpectra,
    attended_paths,
    attended_spectra,
    synthesise,
    wrap,
)
from quadlens.spectrum.anatomy import Anatomy, anatomy_of
from quadlens.spectrum.circular import ClusterPhases, Uniformity, circular_r2, cluster_phases, uniformity
from quadlens.spectrum.cluster import (
    Cluster,
    NeuronRoles,
    NeuronSpectra,
    constant_neurons,
    find_clusters,
    find_roles,
    key_frequencies,
    neuron_spectra,
)
from quadlens.spectrum.harmonics import (
    HarmonicFit,
    Harmonics,
    SecondaryDoubling,
    find_harmonics,
    harmonic_fits,
    secondary_doubling,
)

__all__ = [
    "AmplitudePhase",
    "Anatomy",
    "AttendedSpectra",
    "Cluster",
    "ClusterPhases",
    "HarmonicFit",
    "Harmonics",
    "NeuronRoles",
    "NeuronSpectra",
    "SecondaryDoubling",
    "Uniformity",
    "anatomy_of",
    "attended_paths",
    "attended_spectra",
    "circular_r2",
    "cluster_phases",
    "constant_neurons",
    "find_clusters",
    "find_harmonics",
    "find_roles",
    "harmonic_fits",
    "key_frequencies",
    "neuron_spectra",
    "secondary_doubling",
    "synthesise",
    "uniformity",
    "wrap",
]
