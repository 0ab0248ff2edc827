"""What analysis starts from: collapse, spectra and clusters, each computed at most once."""

from dataclasses import dataclass, replace
from functools import cached_property

from quadlens.analysis.spectrum.cluster import (
    Cluster,
    NeuronRoles,
    NeuronSpectra,
    find_clusters,
    find_roles,
    key_frequencies,
    neuron_spectra,
)
from quadlens.analysis.spectrum.harmonics import Harmonics, find_harmonics
from quadlens.base.display import short
from quadlens.base.errors import BadConfig, within_float64
from quadlens.network.collapse import collapse
from quadlens.network.config import Config
from quadlens.network.dyadic import DYADICS, Dyadic
from quadlens.network.exact import IntegerModel, collapse_exactly, integer_model
from quadlens.network.tables import FloatTables, Tables
from quadlens.network.weights import Weights


@short
@dataclass(frozen=True, eq=False)
class Anatomy:
    """What explanation, quadrature and proofs start from, computed when it is asked for.

    Attributes:
        model: The weights.
    """

    model: Weights

    @property
    def config(self) -> Config:
        """The config of a model that answers pairs."""
        return self.model.config.need_pairs()

    @cached_property
    def layer(self) -> FloatTables:
        """The hidden layer in float64, for the elements as they are numbered."""
        return self.model.collapse()

    @cached_property
    def collapsed(self) -> FloatTables:
        """U_a, U_b, W_L, S_a, S_b in float64, the elements renamed so that the task is addition.

        Raises:
            BadConfig: when attention depends on the tokens, or the task has no cyclic relabelling.
        """
        if self.config.no_collapse is not None:
            raise BadConfig(
                f"{self.config.no_collapse}: what reaches a neuron is not a part of a plus a part "
                "of b, which this "
                "needs; `quadlens explain`, `lens`, `certify` and `report` work"
            )
        return self.layer.as_addition()

    @cached_property
    def exact(self) -> Tables[Dyadic]:
        """The collapse without rounding, for the elements as they are numbered."""
        return collapse_exactly(self.model)

    @cached_property
    def tables(self) -> Tables[Dyadic]:
        """The collapse for any attention, exact up to softmax; elements as they are numbered."""
        return collapse(self.model, DYADICS)

    @cached_property
    def integers(self) -> IntegerModel:
        """The exact collapse as Python integers over one power of two; for `relu` and `abs`."""
        return integer_model(self.exact)

    @cached_property
    def spectra(self) -> NeuronSpectra:
        """Amplitude-phase form of what every neuron reads and writes."""
        return neuron_spectra(self.collapsed)

    @cached_property
    def roles(self) -> NeuronRoles:
        """Primary frequencies and role of every neuron."""
        with within_float64("the role of a neuron"):
            return find_roles(self.spectra)

    @cached_property
    def clusters(self) -> tuple[Cluster, ...]:
        """One for every frequency that is both read and written."""
        return find_clusters(self.spectra)

    @cached_property
    def attention_clusters(self) -> tuple[Cluster, ...]:
        """The clusters of what attention alone brings to each neuron.

        The paper's angle errors suggest that it reads neurons so (`math.md`, erratum 10). Where the
        output is read at b, that is U_a: U_b has the embedding of b in it too.

        Raises:
            BadConfig: when the network has no attention.
        """
        words = (
            "this network has no attention, whose path could be read alone; leave phases=attention "
            "out"
        )
        self.config.need_stream(words, settings=("phases",))
        spectra = self.spectra
        attended_paths = {0: spectra.path_b, 1: spectra.path_a}.get(
            self.config.read_position, spectra.input
        )
        return find_clusters(replace(spectra, input=attended_paths))

    @cached_property
    def key_frequencies(self) -> tuple[int, ...]:
        """The clusters that matter."""
        return key_frequencies(self.clusters)

    def __getstate__(self) -> dict[str, object]:
        """Return what is computed, for another process, but the exact numbers.

        They do not travel, and only proofs need them.
        """
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("exact", "tables", "integers")
        }

    @cached_property
    def harmonics(self) -> Harmonics:
        """Primary to quaternary frequency of every neuron's input."""
        return find_harmonics(self.spectra.input, shift=self.spectra.shift)


def anatomy_of(model: Weights | Anatomy) -> Anatomy:
    """The anatomy itself, or a new one of these weights."""
    return model if isinstance(model, Anatomy) else Anatomy(model)
