"""`Lens`: the infinite-width reading of a hidden layer, with everything it leaves out by name."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from quadlens.display import Displayed
from quadlens.infinite_width.cancelling import Cancelling, cancelling
from quadlens.infinite_width.inputs import inputs_of
from quadlens.infinite_width.integral import over_inputs
from quadlens.infinite_width.parts import Amplitudes, ClusterReading, Parts, take_apart
from quadlens.model.activation import NONLINEARITIES
from quadlens.model.tables import FloatTables
from quadlens.numbers import decimals, listed, percent, short_of_one
from quadlens.spectrum.circular import circular_r2
from quadlens.table import Table

if TYPE_CHECKING:
    from rich.console import Console

# From here on all neurons of a cluster count as having one δ; below the second number, as having δ spread evenly.
ONE_DELTA, SPREAD_DELTA = 0.95, 0.25
# A δ smaller than this, in radians, is no shift.
NO_SHIFT = 0.1
# A strength that stays above this share of its largest is nearer to a clock than to a pizza.
FILLED = 0.5
HOW_TO_READ = (
    "δ alone: how the strength would depend on a - b if neurons read sum waves only (pizza: it falls to 0; flat: it "
    "does not). dip: smallest over largest strength with all waves, 0 for a pizza, 1 for a clock. A neuron is at k if "
    "k is strongest in what it reads of the pair, products included, and in what it writes; `quadlens explain` looks "
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


@dataclass(frozen=True, eq=False)
class LensCluster:
    """One cluster as an integral.

    Attributes:
        reading: Neurons, shared function, integrals and sums.
        lambda_2: λ_2 of the activation at the root mean square of |ρ F_1|: what a wave of that size leaves of charge 2.
        r2_angles: Circular R² of ψ against 2φ; None where it has no meaning.
    """

    reading: ClusterReading
    lambda_2: float
    r2_angles: float | None

    @property
    def k(self) -> int:
        """Frequency."""
        return self.reading.cluster.k

    @property
    def neurons(self) -> int:
        """How many."""
        return len(self.reading.cluster.neurons)

    @property
    def phase_cosine(self) -> float:
        """Mean of cos(ψ - 2φ), neurons weighted by ρω: 1 where all write at twice the phase at which they read."""
        cluster = self.reading.cluster
        weights = cluster.rho * cluster.omega
        return float((weights * np.cos(cluster.psi - 2 * cluster.phi)).sum() / weights.sum())

    @property
    def kind(self) -> str:
        """What δ says about the strength's dependence on a - b, before looking at it."""
        cluster = self.reading.cluster
        if cluster.delta_coherence >= ONE_DELTA:
            return "pizza" if abs(cluster.mean_delta) < NO_SHIFT else "shifted pizza"
        return "flat" if cluster.delta_coherence <= SPREAD_DELTA else "between"

    @property
    def dip(self) -> float:
        """Smallest over largest |Γ(d)|: near 0 for a pizza, near 1 where the strength does not depend on a - b."""
        strength = np.abs(self.reading.strength)
        return float(strength.min() / strength.max()) if strength.max() > 0 else 0.0

    @property
    def words(self) -> str:
        """What the neurons read, in words, strongest first."""
        fourier = self.reading.cluster.fourier
        named = sorted((kind for kind in KINDS if fourier[kind] >= NAMED), key=lambda kind: -fourier[kind])
        return ", ".join(f"{KINDS[kind]} {percent(fourier[kind])}" for kind in named) or "no simple wave"

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        cluster, shared = self.reading.cluster, self.reading.shared
        return {
            "k": self.k,
            "neurons": self.neurons,
            "degree": cluster.degree,
            "degree_share": cluster.share,
            "shared_function_fit": shared.fit,
            "r2_angles": self.r2_angles,
            "phase_cosine": self.phase_cosine,
            "lambda_2": self.lambda_2,
            "delta": cluster.mean_delta,
            "delta_coherence": cluster.delta_coherence,
            "kind": self.kind,
            "dip": self.dip,
            "fourier": dict(cluster.fourier),
            "strength": [abs(complex(x)) for x in self.reading.strength],
        }


@dataclass(frozen=True)
class R2:
    """R² of all logits, the mean over c left out.

    Attributes:
        unfitted: The integral, every neuron spread over its rotations; nothing fitted.
        shared_function: The integral of one shared function per cluster, with 2φ in place of ψ; nothing fitted.
        fitted: The integral with one coefficient per frequency.
        finite_sum: The clusters' finite sums, each at its own frequency.
        finite_sum_all_keys: The same with what they write at each other's frequencies.
        best_possible: The most that any function of a - b and c - a - b at these frequencies could reach.
    """

    unfitted: float
    shared_function: float
    fitted: float
    finite_sum: float
    finite_sum_all_keys: float
    best_possible: float


@dataclass(frozen=True, eq=False, repr=False)
class Lens(Displayed):
    """A hidden layer read as integrals, one per frequency.

    Attributes:
        n: Number of elements.
        task: The task's name.
        renaming: What a, b and c stand for, where the task is not addition itself; else empty.
        activation: σ.
        clusters: One per key frequency, in order.
        r2: How much of the logits the integral is.
        answers_right: Share of inputs that the integral alone answers right.
        explained: ⟨integral, logits⟩ / ‖logits‖²; with `residual` it adds up to 1.
        explained_by: The integral's share in three: shared function, departure of neurons from it, phase error ψ - 2φ.
        residual: What is left, by name, as covariance shares.
        cancelling: Whether cross-writing cancels quadrature error; None with fewer than two clusters.
        parts: The logits taken apart.
    """

    n: int
    task: str
    renaming: str
    activation: str
    clusters: tuple[LensCluster, ...]
    r2: R2
    answers_right: float
    explained: float
    explained_by: dict[str, float]
    residual: dict[str, float]
    cancelling: Cancelling | None
    parts: Parts

    def _facts(self) -> dict[str, object]:
        return {
            "n": self.n,
            "": self.activation,
            "keys": [one.k for one in self.clusters],
            "r2": decimals(self.r2.unfitted, 4),
            "answers_right": percent(self.answers_right),
        }

    def _repr_html_(self) -> str:
        """The clusters and the parts, for a notebook."""
        return "".join(table._repr_html_() for table in self.tables())

    @property
    def fourier(self) -> dict[str, float]:
        """What neurons read, by kind of wave: the mean over the neurons in clusters; empty where there are none."""
        total = sum(one.neurons for one in self.clusters)
        shares = [(one.neurons / total, one.reading.cluster.fourier) for one in self.clusters]
        return {kind: sum(weight * one[kind] for weight, one in shares) for kind in (KINDS if shares else ())}

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        found = self.cancelling
        return {
            "n": self.n,
            "task": self.task,
            "activation": self.activation,
            "r2": vars(self.r2),
            "answers_right": self.answers_right,
            "clusters": [one.to_dict() for one in self.clusters],
            "fourier": self.fourier,
            "explained": self.explained,
            "explained_by": self.explained_by,
            "residual": self.residual,
            "cancelling": None if found is None else found.to_dict(),
        }

    def tables(self) -> tuple[Table, ...]:
        """The clusters; the logits' parts, which add up to 1; and, with two clusters or more, what cancels."""
        rows = [
            [
                str(one.k),
                str(one.neurons),
                str(one.reading.cluster.degree),
                short_of_one(one.reading.shared.fit, 4),
                short_of_one(one.phase_cosine, 4),
                decimals(one.lambda_2, 4),
                one.kind,
                decimals(one.dip, 2),
                one.words,
            ]
            for one in self.clusters
        ]
        header = ("k", "neurons", "degree", "shared fit", "cos ψ-2φ", "λ₂", "δ alone", "dip", "reads")
        shares = {f"integral: {name}": share for name, share in self.explained_by.items()} | self.residual
        return (
            Table("Each cluster as an integral", header, rows, left=(6, 8), caption=HOW_TO_READ),
            Table(
                "What the logits are made of",
                ("part", "share"),
                [[name.replace("_", " "), decimals(share, 4)] for name, share in shares.items()],
                caption="Covariance with the logits; the shares add up to 1.",
            ),
            *(() if self.cancelling is None else (self.cancelling.table(),)),
        )

    def sentences(self) -> tuple[str, ...]:
        """The result in words."""
        r2 = self.r2
        found = [
            f"The integral, nothing fitted, is {percent(r2.unfitted)} of the logits' variance and answers "
            f"{percent(self.answers_right)} of the inputs right. One coefficient per frequency: {percent(r2.fitted)}; "
            f"one shared function per cluster: {percent(r2.shared_function)}; finite sums: {percent(r2.finite_sum)}. "
            f"No function of a - b and c - a - b can have more than {percent(r2.best_possible)}."
        ]
        filled = [one for one in self.clusters if "pizza" in one.kind and one.dip >= FILLED]
        if filled:
            found.append(
                f"By δ alone {'frequency' if len(filled) == 1 else 'frequencies'} "
                f"{listed(tuple(one.k for one in filled))} would be a pizza, whose strength falls to 0 with a - b; "
                "what else the neurons read fills the dip to half or more: the strength is nearer to a clock's."
            )
        if self.renaming:
            found.append(self.renaming)
        if self.cancelling is not None:
            found.append(self.cancelling.sentence)
        if not self.clusters:
            found = ["No neuron reads and writes the same frequency: there is nothing to integrate over."]
        return tuple(found)

    def render(self, console: "Console") -> None:
        """Tables and sentences in a terminal."""
        for table in self.tables():
            table.print(console)
            console.print()
        for sentence in self.sentences():
            console.print(sentence, markup=False)


def lens(layer: FloatTables) -> Lens:
    """Read a hidden layer as integrals.

    Raises:
        BadConfig: when the task has no cyclic relabelling, or the model has too many inputs.
    """
    inputs = inputs_of(layer)
    parts = take_apart(inputs)
    clusters = tuple(_lens_cluster(one, layer) for one in parts.readings)
    theory, departure, phase = (_over_keys(parts, name) for name in ("theory", "departure", "phase_error"))
    finite = parts.integral + parts.quadrature_error + parts.higher_waves
    return Lens(
        n=inputs.n,
        task=inputs.task,
        renaming=inputs.renaming,
        activation=inputs.sigma.name,
        clusters=clusters,
        r2=R2(
            unfitted=parts.r2(parts.integral),
            shared_function=parts.r2(theory),
            fitted=_fitted(parts),
            finite_sum=parts.r2(finite),
            finite_sum_all_keys=parts.r2(finite + parts.cross_writing),
            best_possible=_symmetric_share(parts),
        ),
        answers_right=_answers_right(parts.values(parts.integral)),
        explained=parts.share(parts.integral),
        explained_by={
            "shared_function": parts.share(theory),
            "departure": parts.share(departure),
            "phase_error": parts.share(phase),
        },
        residual={name: parts.share(part) for name, part in parts.residual.items()},
        cancelling=cancelling(parts, inputs),
        parts=parts,
    )


def _lens_cluster(reading: ClusterReading, layer: FloatTables) -> LensCluster:
    cluster = reading.cluster
    r = np.array([reading.shared.first_order])
    return LensCluster(
        reading=reading,
        lambda_2=float(NONLINEARITIES[layer.activation].lambda_2(r)[0]),
        r2_angles=circular_r2(cluster.psi, 2 * cluster.phi),
    )


def _over_keys(parts: Parts, name: str) -> Amplitudes:
    """One of the integrals of all clusters, over all inputs."""
    total = np.zeros_like(parts.logits)
    for one in parts.readings:
        total[..., one.cluster.k] = over_inputs(one.cluster, getattr(one, name))
    return total


def _fitted(parts: Parts) -> float:
    """R² with the best real coefficient for each frequency; frequencies do not interact."""
    scaled = parts.integral.copy()
    for k in parts.keys:
        mine, true = parts.integral[..., k], parts.logits[..., k]
        square = float(np.square(np.abs(mine)).sum())
        scaled[..., k] *= float((mine * true.conj()).real.sum()) / square if square > 0 else 0.0
    return parts.r2(scaled)


def _symmetric_share(parts: Parts) -> float:
    """Share of the logits that at the key frequencies depends on a - b and c - a - b alone."""
    n = len(parts.logits)
    b, best = np.arange(n), np.zeros_like(parts.logits)
    for one in parts.readings:
        k = one.cluster.k
        turn = np.exp(2j * np.pi * (k * (b[:, None] + b) % n) / n)
        # Mean over all inputs with the same difference, of what is left when the answer's wave is turned back.
        along = (parts.logits[..., k] * turn)[(b + b[:, None]) % n, b].mean(axis=1)
        best[..., k] = along[(b[:, None] - b) % n] / turn
    return parts.r2(best)


def _answers_right(integral: Float[np.ndarray, "n n n"]) -> float:
    n = len(integral)
    answer = np.add.outer(np.arange(n), np.arange(n)) % n
    return float((integral.argmax(axis=2) == answer).mean()) if np.any(integral) else 0.0
