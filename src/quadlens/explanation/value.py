"""`explain(model)`: everything the paper observes about a model, as one frozen value with several views."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quadlens.display import Displayed, paragraph_html, rows_html
from quadlens.errors import BadConfig, within_float64
from quadlens.logits import (
    AlgorithmMeasures,
    ClockPizzaTable,
    ClosedForms,
    IdentityComponent,
    LogitParts,
    WeakSpot,
    algorithm_measures,
    clock_pizza,
    closed_forms,
    identity_component,
    take_apart,
    weak_spots,
)
from quadlens.model.activation import NONLINEARITIES, Activation
from quadlens.model.evaluate import MAX_OPERATIONS
from quadlens.model.task import Task
from quadlens.model.weights import Weights
from quadlens.numbers import fit
from quadlens.spectrum import (
    Anatomy,
    AttendedSpectra,
    Cluster,
    ClusterPhases,
    HarmonicFit,
    Harmonics,
    NeuronRoles,
    NeuronSpectra,
    SecondaryDoubling,
    anatomy_of,
    attended_spectra,
    cluster_phases,
    harmonic_fits,
    secondary_doubling,
)
from quadlens.spectrum.harmonics import doubled

if TYPE_CHECKING:
    import polars
    from rich.console import Console

# Clusters are called clear when this share of the neurons that are not constant match, and when the largest frequency
# explains at least half of a typical pre-activation; eight trained models (seeds 0 to 7) have 0.96 and more of both.
CLEAR_MATCHING = 0.9
CLEAR_VARIANCE = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class LogitExplanation(Displayed):
    """What the logits are made of.

    Attributes:
        parts: Variance and profile over a - b of each part of the logits.
        r2: Regressions on clock and pizza factors.
        forms: The two-term form, with coefficients found in three ways.
        identity: The identity component as p × p matrices.
        weak_spots: For each key, where |cos u| is smallest.
        algorithm: The measures of Zhong et al.
    """

    parts: LogitParts
    r2: ClockPizzaTable
    forms: ClosedForms
    identity: IdentityComponent
    weak_spots: tuple[WeakSpot, ...]
    algorithm: AlgorithmMeasures

    def _facts(self) -> dict[str, object]:
        both = {"all logits": self.r2.all_logits, "absolute part": self.r2.abs_component}
        words = {name: {"pizza": one.pizza, "clock": one.clock} for name, one in both.items()}
        return {
            f"R² of {name}": ", ".join(f"{form} {'none' if r2 is None else f'{r2:.4f}'}" for form, r2 in forms.items())
            for name, forms in words.items()
        }

    @property
    def skip_share(self) -> float | None:
        """Variance of the skip connection's logits over the variance of all logits (figure `residual`)."""
        total = self.parts.all_logits.variance
        return self.parts.skip.variance / total if total > 0 else None


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Displayed):
    """What every neuron does and what the logits are; the table, the JSON, the words and the frame are its views.

    Attributes:
        p: Number of elements.
        task: What the model is asked; frequencies are those after the renaming that makes it addition.
        d_mlp: Number of neurons.
        activation: The nonlinearity.
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
        logits: The logit side; None when it was left out, or where the odd part of the activation is not linear.
    """

    p: int
    task: Task
    d_mlp: int
    activation: Activation
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
    logits: LogitExplanation | None

    @property
    def good_model(self) -> bool:
        """The paper's sense: every neuron that is not constant reads and writes the same frequency."""
        return self.roles.good_model

    @property
    def clear_clusters(self) -> bool:
        """Whether speaking of clusters makes sense at all."""
        matching, mismatching = self.roles.matching, self.roles.mismatching
        if not matching.any() or matching.sum() < CLEAR_MATCHING * (matching.sum() + mismatching.sum()):
            return False
        return float(np.median(self.roles.variance_input[matching])) >= CLEAR_VARIANCE

    @property
    def doubled_keys(self) -> tuple[tuple[int, int], ...]:
        """Key frequencies (k, 2k) where one is the other's double: they share a harmonic."""
        folded = {k: doubled(k, self.p) for k in self.key_frequencies}
        return tuple((k, double) for k, double in folded.items() if double in folded and double != k)

    def _facts(self) -> dict[str, object]:
        counts = {one.k: len(one.neurons) for one in self.clusters}
        return {
            "p": self.p,
            "d_mlp": self.d_mlp,
            "activation": self.activation,
            "key_frequencies": self.key_frequencies,
            "neurons": tuple(counts[k] for k in self.key_frequencies),
            "good_model": self.good_model,
        }

    def _repr_html_(self) -> str:
        """The summary and one row per key frequency, for a notebook."""
        rows = [
            [str(one.k), str(len(one.neurons)), "" if phases.r2 is None else fit(phases.r2)]
            for one, phases in zip(self.clusters, self.phases, strict=True)
            if one.k in self.key_frequencies
        ]
        return paragraph_html(self.summary()) + rows_html("Clusters", ["k", "neurons", "R² of ψ = 2φ"], rows)

    def to_dict(self) -> dict[str, Any]:
        """The JSON view, as `quadlens explain --json` prints it."""
        from quadlens.explanation.json_view import explanation_to_dict

        return explanation_to_dict(self)

    def summary(self) -> str:
        """One paragraph in plain language."""
        from quadlens.explanation.words import summarise

        return summarise(self)

    def neuron_frame(self) -> "polars.DataFrame":
        """One row per neuron."""
        from quadlens.explanation.frame import neuron_frame

        return neuron_frame(self)

    def render(self, console: "Console") -> None:
        """Tables for the terminal."""
        from quadlens.explanation.tables import render

        render(self, console)


def explain(model: Weights | Anatomy, logits: bool = True, rng: np.random.Generator | None = None) -> Explanation:
    """Explain a model: neurons first, then the logits.

    Args:
        model: Any model, or its anatomy; nothing is assumed of the weights.
        logits: Also look at all p³ logits (p³ d_mlp multiplications, a block at a time).
        rng: Draws the triples of the gradient symmetricity; when None they are the 100 that Zhong et al. take.

    Raises:
        BadConfig: when the logits are asked for and p³ d_mlp is past 1e13.
        BadWeights: when squares of its numbers are too large for float64.
    """
    p, d_mlp = model.config.p, model.config.d_mlp
    if logits and float(p) ** 3 * d_mlp > MAX_OPERATIONS:
        raise BadConfig(
            f"all {p}³ logits of this model take {float(p) ** 3 * d_mlp:.1e} multiplications; "
            "explain its neurons alone with logits=False",
            settings=("logits",),
        )
    with within_float64("an explanation"):
        return _explain(anatomy_of(model), logits, rng)


def _explain(anatomy: Anatomy, logits: bool, rng: np.random.Generator | None) -> Explanation:
    p, d_mlp = anatomy.config.p, anatomy.config.d_mlp
    # Logits are an even part and an identity part only where the odd part of the activation is linear: not for tanh.
    apart = NONLINEARITIES[anatomy.config.activation].odd_slope is not None
    roles, clusters, harmonics = anatomy.roles, anatomy.clusters, anatomy.harmonics
    return Explanation(
        p=p,
        task=anatomy.config.task,
        d_mlp=d_mlp,
        activation=anatomy.collapsed.activation,
        spectra=anatomy.spectra,
        attended=attended_spectra(anatomy.model),
        roles=roles,
        clusters=clusters,
        key_frequencies=anatomy.key_frequencies,
        phases=tuple(cluster_phases(cluster) for cluster in clusters),
        harmonics=harmonics,
        harmonic_fits=harmonic_fits(harmonics, ~roles.dead),
        doubling=secondary_doubling(harmonics, ~roles.dead),
        cluster_doubling=tuple(
            secondary_doubling(harmonics, np.isin(np.arange(d_mlp), cluster.neurons)) for cluster in clusters
        ),
        logits=_explain_logits(anatomy, rng) if logits and apart else None,
    )


def _explain_logits(anatomy: Anatomy, rng: np.random.Generator | None) -> LogitExplanation:
    """The logit side: one pass over the logits, then tables of |K| × p numbers."""
    collapsed, keys = anatomy.collapsed, anatomy.key_frequencies
    shifts = {cluster.k: cluster.common_shift for cluster in anatomy.clusters}
    parts = take_apart(collapsed, keys, tuple(shifts[k] for k in keys))
    forms = closed_forms(parts)
    return LogitExplanation(
        parts=parts,
        r2=clock_pizza(parts),
        forms=forms,
        identity=identity_component(collapsed, keys),
        weak_spots=weak_spots(parts, forms.by_parts),
        algorithm=algorithm_measures(anatomy.model, collapsed, parts.correct_logit, rng),
    )
