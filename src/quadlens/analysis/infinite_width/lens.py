"""`Lens`: the infinite-width reading of a hidden layer, with everything it leaves out by name."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from quadlens.analysis.columns import Column, as_dict, as_table
from quadlens.analysis.infinite_width.chains import chains_of, read_jointly
from quadlens.analysis.infinite_width.controls import Controls, Fits, control_table, controls
from quadlens.analysis.infinite_width.inputs import inputs_of
from quadlens.analysis.infinite_width.parts import (
    ClusterReading,
    LensParts,
    lens_parts,
    share_right,
)
from quadlens.analysis.integration import Integration
from quadlens.analysis.spectrum.circular import circular_r2
from quadlens.base.display import Displayed, short
from quadlens.base.numbers import decimals, listed, percent, short_of_one
from quadlens.base.table import Table
from quadlens.network.activation import NONLINEARITIES
from quadlens.network.tables import FloatTables

if TYPE_CHECKING:
    from rich.console import Console

# From here on all neurons of a cluster count as having one δ; below the second number, as having δ
# spread evenly.
ONE_DELTA, SPREAD_DELTA = 0.95, 0.25
# A δ smaller than this, in radians, is no shift.
NO_SHIFT = 0.1
# A strength that stays above this share of its largest is nearer to a clock than to a pizza.
FILLED = 0.5
HOW_TO_READ = (
    "δ alone: how the strength would depend on a - b if neurons read sum waves only (pizza: it "
    "falls to 0; flat: it "
    "does not). dip: smallest over largest strength with all waves, 0 for a pizza, 1 for a clock. "
    "A neuron is at k if "
    "k is strongest in what it reads of the pair, products included, and in what it writes; "
    "`quadlens explain` looks "
    "at what a and b add one by one, so that its counts can differ."
)
# A kind of wave is named where it has at least this share of the pre-activations' energy.
NAMED = 0.005
KINDS = {
    "sum_waves": "sum waves",
    "constant": "a constant",
    "double_waves": "double waves",
    "product_waves": "product waves",
}

near_one = partial(short_of_one, digits=4)
CLUSTERS = (
    Column("k", "", "k"),
    Column("neurons", "", "neurons"),
    Column("degree", "reading.cluster.degree", "degree"),
    Column("degree_share", "reading.cluster.share"),
    Column("shared_function_fit", "reading.shared.fit", "shared fit", near_one),
    Column("r2_angles"),
    Column("phase_cosine", "", "cos ψ-2φ", near_one),
    Column("lambda_2", "", "λ₂", partial(decimals, digits=4)),
    Column("delta", "reading.cluster.mean_delta"),
    Column("delta_coherence", "reading.cluster.delta_coherence"),
    Column("kind", "", "δ alone"),
    Column("dip", "", "dip", partial(decimals, digits=2)),
    Column("", "words", "reads"),
)


@short
@dataclass(frozen=True, eq=False)
class LensCluster:
    """One cluster as an integral.

    Attributes:
        reading: Neurons, shared function, integrals and sums.
        lambda_2: λ_2 of the activation at the root mean square of |ρ F_1|: what a wave of that size
            leaves of charge 2.
        r2_angles: Circular R² of ψ against 2φ; None where it has no meaning.
        fits: What is predicted of its single neurons; None where there is no circle to integrate
            over.
    """

    reading: ClusterReading
    lambda_2: float
    r2_angles: float | None
    fits: Fits | None

    @property
    def k(self) -> int:
        """The cluster's frequency."""
        return self.reading.cluster.k

    @property
    def neurons(self) -> int:
        """Number of neurons in the cluster."""
        return len(self.reading.cluster.neurons)

    @property
    def phase_cosine(self) -> float:
        """Mean of cos(ψ - 2φ), weighted by ρω.

        It is 1 where all neurons write at twice the phase at which they read.
        """
        cluster = self.reading.cluster
        weights = cluster.rho * cluster.omega
        return float((weights * np.cos(cluster.psi - 2 * cluster.phi)).sum() / weights.sum())

    @property
    def kind(self) -> str:
        """How the strength depends on a - b by δ alone, before looking at it."""
        cluster = self.reading.cluster
        if cluster.delta_coherence >= ONE_DELTA:
            return "pizza" if abs(cluster.mean_delta) < NO_SHIFT else "shifted pizza"
        return "flat" if cluster.delta_coherence <= SPREAD_DELTA else "between"

    @property
    def dip(self) -> float:
        """Smallest over largest |Γ(d)|: near 0 for a pizza.

        It is near 1 where the strength does not depend on a - b.
        """
        strength = np.abs(self.reading.strength)
        return float(strength.min() / strength.max()) if strength.max() > 0 else 0.0

    @property
    def words(self) -> str:
        """Kinds of waves that the neurons read, in words, strongest first."""
        fourier = self.reading.cluster.fourier
        named = sorted(
            (kind for kind in KINDS if fourier[kind] >= NAMED), key=lambda kind: -fourier[kind]
        )
        return (
            ", ".join(f"{KINDS[kind]} {percent(fourier[kind])}" for kind in named)
            or "no simple wave"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the cluster's part of `quadlens lens --json`."""
        return {
            **as_dict(CLUSTERS, self),
            "fourier": dict(self.reading.cluster.fourier),
            **({} if self.fits is None else vars(self.fits)),
            "strength": [abs(complex(x)) for x in self.reading.strength],
        }


@short
@dataclass(frozen=True)
class R2:
    """R² of all logits, the mean over c left out; nothing is fitted to logits.

    Attributes:
        shared: The claim: one shared function per frequency, read at φ and written at 2φ,
            integrated.
        joint: The same with chains of doubled keys read together; equal to `shared` where there are
            none.
        symmetric_part: Every neuron spread over its own rotations: what depends on a - b and c - a
            - b, whatever the neurons are. It has no control, and is no evidence of integration.
        ceiling: The most that any function of a - b and c - a - b at these frequencies could reach.
        finite_sum: The clusters' finite sums, each at its own frequency.
        finite_sum_all_keys: The same with what they write at each other's frequencies.
    """

    shared: float
    joint: float
    symmetric_part: float
    ceiling: float
    finite_sum: float
    finite_sum_all_keys: float


@dataclass(frozen=True, eq=False, repr=False)
class Lens(Displayed):
    """A hidden layer read as integrals, one per frequency.

    Attributes:
        n: Number of elements.
        task: The task's name.
        renaming: What a, b and c stand for, where the task is not addition itself; else empty.
        activation: σ.
        clusters: One per key frequency, in order.
        r2: How much of the logits the integrals are.
        answers_right: Share of inputs that the shared functions' integrals alone answer right: weak
            evidence, because random numbers of trained size do so too.
        controls: What is measured beside the claim, to see it fail.
        chains: Keys that are doubles of each other.
        weights: How many weights the network has, where known.
        explained: ⟨symmetric part, logits⟩ / ‖logits‖²; with `residual` it adds up to 1.
        explained_by: That share in three: shared function, departure of neurons from it, phase
            error ψ - 2φ.
        residual: What is left, by name, as covariance shares.
        parts: The logits taken apart.
    """

    n: int
    task: str
    renaming: str
    activation: str
    clusters: tuple[LensCluster, ...]
    r2: R2
    answers_right: float
    controls: Controls
    chains: tuple[tuple[int, ...], ...]
    weights: int | None
    explained: float
    explained_by: dict[str, float]
    residual: dict[str, float]
    parts: LensParts

    @property
    def integration(self) -> Integration:
        """Whether the layer integrates, and what fails where it does not."""
        measured = self.controls
        shared = self.r2.shared if self.clusters else None
        return Integration(
            shared,
            measured.shared_permuted,
            measured.resampled_even,
            measured.resampled_half,
            self.answers_right,
        )

    @property
    def integrates(self) -> bool | None:
        """Whether it does; None where there is nothing to read."""
        return self.integration.holds

    @property
    def numbers(self) -> int:
        """Number of numbers that the claim has, over all frequencies."""
        return sum(cluster.reading.rule.numbers for cluster in self.clusters)

    def _facts(self) -> dict[str, object]:
        return {
            "n": self.n,
            "": self.activation,
            "keys": [cluster.k for cluster in self.clusters],
            "shared": decimals(self.r2.shared, 4),
            "integrates": self.integrates,
            "answers_right": percent(self.answers_right),
        }

    def _repr_html_(self) -> str:
        """The clusters and the parts, for a notebook."""
        return "".join(table._repr_html_() for table in self.tables())

    @property
    def fourier(self) -> dict[str, float]:
        """What neurons read, by kind of wave: means over the neurons in clusters.

        It is empty where there are no clusters.
        """
        total = sum(cluster.neurons for cluster in self.clusters)
        shares = [
            (cluster.neurons / total, cluster.reading.cluster.fourier) for cluster in self.clusters
        ]
        return {
            kind: sum(weight * fourier[kind] for weight, fourier in shares)
            for kind in (KINDS if shares else ())
        }

    def to_dict(self) -> dict[str, Any]:
        """Return what `quadlens lens --json` prints."""
        return {
            "n": self.n,
            "task": self.task,
            "activation": self.activation,
            "r2": {**vars(self.r2), "unfitted": self.r2.symmetric_part},
            "numbers": self.numbers,
            "weights": self.weights,
            "answers_right": self.answers_right,
            "controls": self.controls.to_dict(),
            "integrates": self.integrates,
            "chains": [list(chain) for chain in self.chains],
            "clusters": [cluster.to_dict() for cluster in self.clusters],
            "fourier": self.fourier,
            "explained": self.explained,
            "explained_by": self.explained_by,
            "residual": self.residual,
        }

    def tables(self) -> tuple[Table, ...]:
        """The claims with their controls; the clusters; the logits' parts, which add up to 1."""
        shares = {
            f"integral: {name}": share for name, share in self.explained_by.items()
        } | self.residual
        return (
            *((self.claims,) if self.clusters else ()),
            as_table(
                "Each cluster as an integral",
                CLUSTERS,
                self.clusters,
                left=(6, 8),
                caption=HOW_TO_READ,
            ),
            Table(
                "What the logits are made of",
                ("part", "share"),
                [[name.replace("_", " "), decimals(share, 4)] for name, share in shares.items()],
                caption="Covariance with the logits; the shares add up to 1.",
            ),
        )

    @property
    def claims(self) -> Table:
        """Every claim beside its control."""
        return control_table(
            self.r2.shared, self.answers_right, self.controls, self.numbers, self.weights
        )

    def sentences(self) -> tuple[str, ...]:
        """The result in words."""
        r2, sentences = self.r2, [self.headline]
        if self.chains:
            runs = "; ".join(" → ".join(map(str, chain)) for chain in self.chains)
            sentences.append(
                f"Keys that are doubles of each other: {runs}. Read together, with the moments of "
                "their nodes, they "
                f"bring the shared functions from {percent(r2.shared)} to {percent(r2.joint)} of "
                "the logits' variance."
            )
        sentences.append(
            f"Every neuron spread over its own rotations is {percent(r2.symmetric_part)} of the "
            "logits, of at most "
            f"{percent(r2.ceiling)} for a function of a - b and c - a - b: that measures symmetry, "
            "and has no control."
        )
        filled = [
            cluster
            for cluster in self.clusters
            if "pizza" in cluster.kind and cluster.dip >= FILLED
        ]
        if filled:
            sentences.append(
                f"By δ alone {'frequency' if len(filled) == 1 else 'frequencies'} "
                f"{listed(tuple(cluster.k for cluster in filled))} would be a pizza, whose "
                "strength falls to 0 with "
                "a - b; what else the neurons read fills the dip to half or more: the strength is "
                "nearer to a clock's."
            )
        if self.renaming:
            sentences.append(self.renaming)
        return tuple(sentences if self.clusters else sentences[:1])

    @property
    def headline(self) -> str:
        """Whether the layer integrates, in one sentence.

        Mechanism and task stand side by side.
        """
        if not self.clusters:
            return (
                "No neuron reads and writes the same frequency: there is nothing to integrate over."
            )
        return f"{self.integration.sentence} That is {self.numbers:,} numbers in all."

    def render(self, console: "Console") -> None:
        """Tables and sentences in a terminal."""
        for table in self.tables():
            table.print(console)
            console.print()
        for sentence in self.sentences():
            console.print(sentence, markup=False)


def lens(layer: FloatTables, weights: int | None = None) -> Lens:
    """Read a hidden layer as integrals.

    Args:
        layer: What the model computes from its inputs on.
        weights: How many weights it has, to stand beside the numbers of the claim.

    Raises:
        BadConfig: when the task has no cyclic relabelling, or the model has too many inputs.
    """
    inputs = inputs_of(layer)
    parts = lens_parts(inputs)
    measured = controls(parts, inputs)
    clusters = tuple(_lens_cluster(reading, layer, measured) for reading in parts.readings)
    chains = chains_of(tuple(parts.keys), parts.n)
    shared = parts.shared
    departure = parts.at_keys(reading.departure for reading in parts.readings)
    phase = parts.at_keys(reading.phase_error for reading in parts.readings)
    finite = parts.integral + parts.quadrature_error + parts.higher_waves
    return Lens(
        n=inputs.n,
        task=inputs.task,
        renaming=inputs.renaming,
        activation=inputs.sigma.name,
        clusters=clusters,
        r2=R2(
            shared=parts.r2(shared),
            joint=parts.r2(read_jointly(parts, chains) if chains else shared),
            symmetric_part=parts.r2(parts.integral),
            ceiling=parts.r2(parts.symmetric),
            finite_sum=parts.r2(finite),
            finite_sum_all_keys=parts.r2(finite + parts.cross_writing),
        ),
        answers_right=share_right(parts.values(shared)),
        controls=measured,
        chains=chains,
        weights=weights,
        explained=parts.share(parts.integral),
        explained_by={
            "shared_function": parts.share(shared),
            "departure": parts.share(departure),
            "phase_error": parts.share(phase),
        },
        residual={name: parts.share(part) for name, part in parts.residual.items()},
        parts=parts,
    )


def _lens_cluster(reading: ClusterReading, layer: FloatTables, measured: Controls) -> LensCluster:
    cluster = reading.cluster
    r = np.array([reading.shared.first_order])
    return LensCluster(
        reading=reading,
        lambda_2=float(NONLINEARITIES[layer.activation].lambda_2(r)[0]),
        r2_angles=circular_r2(cluster.psi, 2 * cluster.phi),
        fits=measured.per_key.get(cluster.k),
    )
