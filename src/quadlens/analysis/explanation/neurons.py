"""What every neuron reads and writes: waves, clusters and phases."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from quadlens.analysis.columns import MAX_ROWS, Column, as_dict, as_table
from quadlens.analysis.spectrum import (
    Anatomy,
    AttendedSpectra,
    Cluster,
    ClusterPhases,
    HarmonicFit,
    Harmonics,
    NeuronRoles,
    NeuronSpectra,
    SecondaryDoubling,
    attended_spectra,
    cluster_phases,
    harmonic_fits,
    secondary_doubling,
)
from quadlens.analysis.spectrum.harmonics import DRAWN_R2, RANK_NAMES, doubled
from quadlens.base.display import short
from quadlens.base.numbers import decimals, fit
from quadlens.base.table import Table

# Clusters are called clear when this share of the neurons that are not constant match, and when the
# largest frequency explains at least half of a typical pre-activation; eight trained models (seeds
# 0 to 7) have 0.96 and more of both.
CLEAR_MATCHING = 0.9
CLEAR_VARIANCE = 0.5
MAX_LISTED = 100


class ClusterRow(NamedTuple):
    """One cluster with what is said of it; medians of shares of variance are over its neurons."""

    cluster: Cluster
    phases: ClusterPhases
    doubling: SecondaryDoubling
    is_key: bool
    variance_input: float | None
    variance_output: float | None

    @property
    def label(self) -> str:
        """Its frequency, and whether it hardly matters."""
        return str(self.cluster.k) + ("" if self.is_key else " (faint)")


CLUSTERS = (
    Column("", "label", "k"),
    Column("k", "cluster.k"),
    Column("key", "is_key"),
    Column("neurons", "cluster.neurons.size", "neurons"),
    Column("r2_angles", "phases.r2", "R² ψ=2φ", fit),
    Column("angle_offset", "phases.offset"),
    Column("angle_rms_deviation", "phases.rms_deviation"),
    Column("angle_max_deviation", "phases.max_deviation"),
    Column("interval_width_mean", "phases.spacing.width_mean", "gap mean", decimals),
    Column("interval_width_std", "phases.spacing.width_std", "gap std", decimals),
    Column("kuiper", "phases.spacing.kuiper"),
    Column("kuiper_p", "phases.spacing.kuiper_p"),
    Column("variance_input_median", "variance_input", "variance in", decimals),
    Column("variance_output_median", "variance_output", "variance out", decimals),
    Column("secondary_is_double", "doubling.share", "2nd is 2k", decimals),
    Column("secondary_phase_r2", "doubling.phase_r2", "R² 2φ+π", fit),
)
# In a table shares of variance come first.
CLUSTER_ORDER = (
    *(
        "k",
        "neurons",
        "variance in",
        "variance out",
        "R² ψ=2φ",
        "gap mean",
        "gap std",
        "2nd is 2k",
        "R² 2φ+π",
    ),
)
HARMONICS = (
    Column("rank", "", "rank", lambda rank: RANK_NAMES[rank - 1]),
    Column("k", "", "k"),
    Column("frequency", "", "frequency"),
    Column("multiple", "", "m", lambda m: str(m or "–")),
    Column("neurons", "", "neurons"),
    Column("r2", "", "R² mφ+π", fit),
    Column("offset", "", "θ-mφ", decimals),
    Column("r2_offset", "", "R² mφ+offset", fit),
)


@short
@dataclass(frozen=True, eq=False)
class NeuronExplanation:
    """What every neuron reads and writes, in waves.

    Attributes:
        spectra: Amplitude-phase form of both paths, of the input and of W_L.
        attended: The OV part of both paths alone; None for a model without attention.
        roles: Primary frequencies and role of every neuron.
        clusters: One for every frequency that is both read and written.
        key_frequencies: The clusters that matter (`key_frequencies` of the package spectrum).
        phases: Phase statistics, one per cluster.
        harmonics: Primary to quaternary frequency of every neuron's input.
        harmonic_fits: Phase relations of the higher ranks.
        doubling: Secondary frequencies over all living neurons.
        cluster_doubling: The same, one per cluster.
    """

    spectra: NeuronSpectra
    attended: AttendedSpectra | None
    roles: NeuronRoles
    clusters: tuple[Cluster, ...]
    key_frequencies: tuple[int, ...]
    phases: tuple[ClusterPhases, ...]
    harmonics: Harmonics
    harmonic_fits: tuple[HarmonicFit, ...]
    doubling: SecondaryDoubling
    cluster_doubling: tuple[SecondaryDoubling, ...]

    @property
    def good_model(self) -> bool:
        """Whether every neuron that is not constant reads the frequency it writes (the paper)."""
        return self.roles.good_model

    @property
    def clear_clusters(self) -> bool:
        """Whether speaking of clusters makes sense at all."""
        matching, mismatching = self.roles.matching, self.roles.mismatching
        if not matching.any() or matching.sum() < CLEAR_MATCHING * (
            matching.sum() + mismatching.sum()
        ):
            return False
        return float(np.median(self.roles.variance_input[matching])) >= CLEAR_VARIANCE

    @property
    def doubled_keys(self) -> tuple[tuple[int, int], ...]:
        """Key frequencies (k, 2k) where one is the other's double: they share a harmonic."""
        folded = {k: doubled(k, self.harmonics.p) for k in self.key_frequencies}
        return tuple(
            (k, double) for k, double in folded.items() if double in folded and double != k
        )

    @property
    def key_neurons(self) -> tuple[int, ...]:
        """Number of neurons in the cluster of each key frequency."""
        return tuple(
            len(cluster.neurons) for cluster in self.clusters if cluster.k in self.key_frequencies
        )

    @property
    def rows(self) -> list[ClusterRow]:
        """All that is said of each cluster."""
        rows = []
        for each in zip(self.clusters, self.phases, self.cluster_doubling, strict=True):
            k, neurons = each[0].k, each[0].neurons
            medians = (
                _median(shares[neurons])
                for shares in (self.roles.variance_input, self.roles.variance_output)
            )
            rows.append(ClusterRow(*each, k in self.key_frequencies, *medians))
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return the neurons' part of `quadlens explain --json`."""
        roles = self.roles
        mismatched = np.flatnonzero(roles.mismatching)[:MAX_LISTED]
        return {
            "key_frequencies": list(self.key_frequencies),
            "clusters": [as_dict(CLUSTERS, row) for row in self.rows],
            "neurons_matching": int(roles.matching.sum()),
            "neurons_mismatching": int(roles.mismatching.sum()),
            "neurons_constant": int(roles.constant.sum()),
            "neurons_dead": int(roles.dead.sum()),
            "mismatched": [[int(i), int(roles.k_in[i]), int(roles.k_out[i])] for i in mismatched],
            "clear_clusters": self.clear_clusters,
            "doubled_keys": [list(pair) for pair in self.doubled_keys],
            "variance_input_median": _median(roles.variance_input[~roles.dead]),
            "variance_output_median": _median(roles.variance_output[~roles.dead]),
            "secondary_is_double": self.doubling.share,
            "secondary_phase_r2": self.doubling.phase_r2,
            "harmonics": [as_dict(HARMONICS, row) for row in self.harmonic_fits],
            "good_model": self.good_model,
        }

    def tables(self) -> Iterator[Table]:
        """Clusters, and higher frequencies with a clear phase relation."""
        rows = self.rows
        caption = f"{len(rows) - MAX_ROWS} more, not shown here" if len(rows) > MAX_ROWS else ""
        title = "Clusters: neurons that read and write frequency k"
        yield as_table(title, CLUSTERS, rows[:MAX_ROWS], CLUSTER_ORDER, caption=caption)
        clear = [
            row for row in self.harmonic_fits if max(row.r2 or 0.0, row.r2_offset or 0.0) > DRAWN_R2
        ][:MAX_ROWS]
        hidden = len(self.harmonic_fits) - len(clear)
        caption = f"{hidden} more without a clear relation, not shown here" if hidden else ""
        if clear:
            title = "Higher frequencies: phase θ = mφ + π where ten neurons or more share them"
            yield as_table(title, HARMONICS, clear, labels=3, caption=caption)


def explain_neurons(anatomy: Anatomy) -> NeuronExplanation:
    """Explain each neuron from the weights, without any input."""
    roles, clusters, harmonics = anatomy.roles, anatomy.clusters, anatomy.harmonics
    every = np.arange(anatomy.config.d_mlp)
    return NeuronExplanation(
        spectra=anatomy.spectra,
        attended=attended_spectra(anatomy.model),
        roles=roles,
        clusters=clusters,
        key_frequencies=anatomy.key_frequencies,
        phases=tuple(map(cluster_phases, clusters)),
        harmonics=harmonics,
        harmonic_fits=harmonic_fits(harmonics, ~roles.dead),
        doubling=secondary_doubling(harmonics, ~roles.dead),
        cluster_doubling=tuple(
            secondary_doubling(harmonics, np.isin(every, cluster.neurons)) for cluster in clusters
        ),
    )


def _median(values: np.ndarray) -> float | None:
    return float(np.median(values)) if len(values) else None
