"""Explain a network that answers pairs: one frozen value of optional parts."""

import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

import numpy as np

from quadlens.analysis.explanation.logits import LOGIT_KEYS, LogitExplanation, explain_logits
from quadlens.analysis.explanation.neurons import NeuronExplanation, explain_neurons
from quadlens.analysis.explanation.overview import Overview, look_over
from quadlens.analysis.logits import AlgorithmMeasures
from quadlens.analysis.published import read_published
from quadlens.analysis.spectrum import Anatomy, anatomy_of
from quadlens.base.display import Displayed
from quadlens.base.errors import BadConfig, within_float64
from quadlens.base.numbers import decimals
from quadlens.base.table import Table
from quadlens.network.activation import NONLINEARITIES, Activation
from quadlens.network.evaluate import MAX_OPERATIONS
from quadlens.network.task import Task
from quadlens.network.weights import Weights

if TYPE_CHECKING:
    import polars
    from rich.console import Console


P = TypeVar("P")
T = TypeVar("T")
# The parts that every other network lacks, by their types: their names, and what a network is like
# that has them.
PARTS: dict[type, tuple[str, str]] = {
    NeuronExplanation: (
        "neurons",
        "with constant attention or none, one layer, no norms, and a task that is addition after "
        "renaming",
    ),
    Overview: ("overview", "without the part `neurons`"),
}


class MissingPart(BadConfig, AttributeError):
    """Something was asked of a network that is read from a part that it lacks."""

    @classmethod
    def read_from(cls, part: type, what: str) -> "MissingPart":
        """Says which networks have this part, which `what` is read from."""
        name, networks = PARTS[part]
        missing = (
            f"this network has no part `{name}`, which {what} is read from; only a network "
            f"{networks} has one"
        )
        return cls(f"{missing}. `summary()` says what is known of this one")


class _FromPart(Generic[P, T]):
    """An attribute of a part as the explanation's own.

    `explanation.roles` is `explanation.neurons.roles`.
    """

    def __init__(self, part: type[P], read: Callable[[P], T]) -> None:
        self.part, self.read = part, read

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.__doc__ = (
            f"`{PARTS[self.part][0]}.{name}`, where a network has this part; see "
            f"`{self.part.__name__}`."
        )

    @overload
    def __get__(self, explanation: None, owner: type) -> "_FromPart[P, T]": ...
    @overload
    def __get__(self, explanation: "Explanation", owner: type) -> T: ...
    def __get__(self, explanation: "Explanation | None", owner: type) -> "_FromPart[P, T] | T":
        if explanation is None:
            return self
        for part in (explanation.neurons, explanation.overview):
            if isinstance(part, self.part):
                return self.read(part)
        raise MissingPart.read_from(self.part, f"`{self.name}`")

    # Python's help and Sphinx take a descriptor that cannot be set for a method.
    def __set__(self, explanation: "Explanation", value: object) -> NoReturn:
        raise AttributeError(f"an explanation is frozen; `{self.name}` cannot be set")


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Displayed):
    """What is known about a network; tables, JSON, words and frame are its views.

    Parts that a network does not have are None. What a part has is the explanation's own, too:
    `explanation.clusters` is `explanation.neurons.clusters`, `explanation.key_irreps` is
    `explanation.overview.key_irreps`.

    Attributes:
        task: What the model is asked; frequencies are those after the renaming that makes it
            addition.
        d_mlp: Number of neurons.
        activation: The nonlinearity.
        neurons: What every neuron reads and writes; None where attention depends on the tokens,
            with norms, several layers, or a task that no renaming makes addition.
        logits: What the logits are made of; None without `neurons`, when it was left out, and where
            the odd part of the activation is not linear.
        overview: What can be said of such a network all the same; None where `neurons` says more.
    """

    task: Task
    d_mlp: int
    activation: Activation
    neurons: NeuronExplanation | None = None
    logits: LogitExplanation | None = None
    overview: Overview | None = None

    spectra = _FromPart(NeuronExplanation, lambda part: part.spectra)
    attended = _FromPart(NeuronExplanation, lambda part: part.attended)
    roles = _FromPart(NeuronExplanation, lambda part: part.roles)
    clusters = _FromPart(NeuronExplanation, lambda part: part.clusters)
    phases = _FromPart(NeuronExplanation, lambda part: part.phases)
    harmonics = _FromPart(NeuronExplanation, lambda part: part.harmonics)
    harmonic_fits = _FromPart(NeuronExplanation, lambda part: part.harmonic_fits)
    doubling = _FromPart(NeuronExplanation, lambda part: part.doubling)
    cluster_doubling = _FromPart(NeuronExplanation, lambda part: part.cluster_doubling)
    good_model = _FromPart(NeuronExplanation, lambda part: part.good_model)
    clear_clusters = _FromPart(NeuronExplanation, lambda part: part.clear_clusters)
    doubled_keys = _FromPart(NeuronExplanation, lambda part: part.doubled_keys)

    attention = _FromPart(Overview, lambda part: part.attention)
    attention_ranges = _FromPart(Overview, lambda part: part.attention_ranges)
    evaluation = _FromPart(Overview, lambda part: part.evaluation)
    additive_share = _FromPart(Overview, lambda part: part.additive_share)
    rank = _FromPart(Overview, lambda part: part.rank)
    irreps = _FromPart(Overview, lambda part: part.irreps)
    key_irreps = _FromPart(Overview, lambda part: part.key_irreps)
    layers = _FromPart(Overview, lambda part: part.layers)
    norms = _FromPart(Overview, lambda part: part.norms)

    @property
    def p(self) -> int:
        """Number of elements."""
        return self.task.n

    @property
    def key_frequencies(self) -> tuple[int, ...] | None:
        """The key frequencies, in order; None where the task has no frequencies."""
        part = self.neurons or self.overview
        return None if part is None else part.key_frequencies

    @property
    def key_neurons(self) -> tuple[int, ...]:
        """Number of neurons of each key frequency; see the part that counts them."""
        part = self.neurons or self.overview
        return () if part is None else part.key_neurons

    @property
    def algorithm(self) -> AlgorithmMeasures | None:
        """The measures of Zhong et al.

        None where they have no meaning, or logits were left out.
        """
        part = self.logits or self.overview
        return None if part is None else part.algorithm

    def _facts(self) -> dict[str, object]:
        if self.overview is not None:
            return {"task": self.task.words, **self.overview.facts()}
        return {
            "p": self.p,
            "d_mlp": self.d_mlp,
            "activation": self.activation,
            "key_frequencies": self.key_frequencies,
            "neurons": self.key_neurons,
            "good_model": self.good_model,
        }

    def _repr_html_(self) -> str:
        """The summary and the first table, for a notebook."""
        first = next(self.tables(), None)
        return f"<p>{html.escape(self.summary())}</p>{first._repr_html_() if first else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return what `quadlens explain --json` prints.

        A value is None where a number has no meaning or was left out.
        """
        return {
            "p": self.p,
            "n": self.p,
            "task": self.task.to_json(),
            "d_mlp": self.d_mlp,
            "activation": self.activation,
            **(
                {}
                if self.neurons is None
                else {**self.neurons.to_dict(), **dict.fromkeys(LOGIT_KEYS)}
            ),
            **({} if self.logits is None else self.logits.to_dict()),
            **({} if self.overview is None else self.overview.to_dict()),
            "summary": self.summary(),
        }

    def summary(self) -> str:
        """One paragraph in plain language."""
        from quadlens.analysis.explanation.words import summarise

        return summarise(self)

    def neuron_frame(self) -> "polars.DataFrame":
        """One row per neuron; `BadConfig` where a network has no part `neurons`."""
        from quadlens.analysis.explanation.frame import neuron_frame

        return neuron_frame(self)

    def tables(self) -> Iterator[Table]:
        """Yield clusters, harmonics, regressions, coefficients and measures.

        The paper's numbers are beside those of its own model.
        """
        if self.neurons is not None:
            yield from self.neurons.tables()
        if self.logits is not None:
            yield from self.logits.tables()
            yield from beside_paper(self)
            yield self.logits.measures()
        if self.overview is not None:
            yield from self.overview.tables()

    def render(self, console: "Console") -> None:
        """The summary and the tables, for the terminal."""
        console.print(self.summary(), markup=False)
        for number, table in enumerate(self.tables()):
            if number == 0:
                console.print()
            table.print(console)


def beside_paper(explanation: Explanation) -> tuple[Table, ...]:
    """Return neurons, coefficients and R² above the paper's.

    Only a model with the key frequencies of the paper's has these tables.
    """
    paper, logits = read_published(), explanation.logits
    if logits is None or explanation.key_frequencies != tuple(k for k, _ in paper.key_neurons):
        return ()
    form, r2 = logits.forms.by_parts, logits.r2
    sizes = {cluster.k: len(cluster.neurons) for cluster in explanation.clusters}
    rows = [
        ("neurons", *(str(sizes[k]) for k in explanation.key_frequencies)),
        ("neurons, the paper", *(str(count) for _, count in paper.key_neurons)),
    ]
    for letter, ours, theirs in (("C", form.C, paper.C), ("D", form.D, paper.D)):
        rows.append((letter, *(decimals(float(value), 2) for value in ours)))
        rows.append((f"{letter}, the paper", *(f"{value:g}" for _, value in theirs)))
    fits = (
        r2.all_logits.pizza,
        r2.all_logits.clock,
        r2.abs_component.pizza,
        r2.abs_component.clock,
    )
    return (
        Table("Beside the paper's model", ("k", *map(str, explanation.key_frequencies)), rows),
        Table(
            "R² beside the paper's",
            ("", "all logits: pizza", "clock", "absolute part: pizza", "clock"),
            [("ours", *map(decimals, fits)), ("the paper", *(f"{value:g}" for value in paper.r2))],
        ),
    )


def needs_outline(model: Weights) -> bool:
    """Whether a network has no waves: no collapse, or no renaming makes the task addition."""
    config = model.config
    return config.no_collapse is not None or config.task.cyclic is None


def explain(
    model: Weights | Anatomy,
    logits: bool = True,
    rng: np.random.Generator | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Explanation:
    """Explain a model: neurons and then the logits, or what can be said where there are no waves.

    Args:
        model: Any model, or its anatomy; nothing is assumed of the weights.
        logits: Also look at all p³ logits (p³ d_mlp multiplications, a block at a time).
        rng: Draws the triples of the gradient symmetricity; when None they are the 100 that Zhong
            et al. take.
        progress: Told each step of an overview.

    Raises:
        BadConfig: when the logits are asked for and p³ d_mlp is past 1e13.
        BadWeights: when squares of its numbers are too large for float64.
    """
    anatomy = anatomy_of(model)
    config = anatomy.config
    if needs_outline(anatomy.model):
        return outline(anatomy, progress)
    if logits and float(config.p) ** 3 * config.d_mlp > MAX_OPERATIONS:
        raise BadConfig(
            f"all {config.p}³ logits of this model take {float(config.p) ** 3 * config.d_mlp:.1e} "
            "multiplications; "
            "explain its neurons alone with logits=False",
            settings=("logits",),
        )
    # Logits are an even part and an identity part only where the odd part of the activation is
    # linear: not for tanh.
    apart = logits and NONLINEARITIES[config.activation].odd_slope is not None
    with within_float64("an explanation"):
        neurons = explain_neurons(anatomy)
        logit_part = explain_logits(anatomy, rng) if apart else None
    return Explanation(config.task, config.d_mlp, config.activation, neurons, logit_part)


def outline(
    model: Weights | Anatomy, progress: Callable[[str], None] = lambda step: None
) -> Explanation:
    """Describe any network; `progress` receives each step that passes over all inputs."""
    anatomy = anatomy_of(model)
    config, overview = anatomy.config, look_over(anatomy, progress)
    return Explanation(config.task, config.d_mlp, config.activation, overview=overview)
