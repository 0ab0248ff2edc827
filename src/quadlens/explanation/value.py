"""`explain(model)`: everything the paper observes about a model, as one frozen value of parts with several views."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from quadlens.display import Displayed, paragraph_html
from quadlens.errors import BadConfig, within_float64
from quadlens.explanation.logits import LOGIT_KEYS, LogitExplanation, explain_logits
from quadlens.explanation.neurons import NeuronExplanation, explain_neurons
from quadlens.model.activation import NONLINEARITIES, Activation
from quadlens.model.evaluate import MAX_OPERATIONS
from quadlens.model.task import Task
from quadlens.model.weights import Weights
from quadlens.spectrum import Anatomy, anatomy_of
from quadlens.table import Table

if TYPE_CHECKING:
    import polars
    from rich.console import Console

T = TypeVar("T")


class _OfNeurons(Generic[T]):
    """What the neurons have, as the explanation's own: `explanation.roles` is `explanation.neurons.roles`."""

    def __init__(self, read: Callable[[NeuronExplanation], T]) -> None:
        self.read = read

    def __get__(self, explanation: "Explanation | None", owner: type) -> T:
        if explanation is None:
            raise AttributeError("only an explanation of some model has it")
        return self.read(explanation.neurons)


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Displayed):
    """What every neuron does and what the logits are; the table, the JSON, the words and the frame are its views.

    Attributes:
        task: What the model is asked; frequencies are those after the renaming that makes it addition.
        d_mlp: Number of neurons.
        activation: The nonlinearity.
        neurons: What every neuron reads and writes.
        logits: The logit side; None when it was left out, or where the odd part of the activation is not linear.
    """

    task: Task
    d_mlp: int
    activation: Activation
    neurons: NeuronExplanation
    logits: LogitExplanation | None

    spectra = _OfNeurons(lambda part: part.spectra)
    attended = _OfNeurons(lambda part: part.attended)
    roles = _OfNeurons(lambda part: part.roles)
    clusters = _OfNeurons(lambda part: part.clusters)
    key_frequencies = _OfNeurons(lambda part: part.key_frequencies)
    phases = _OfNeurons(lambda part: part.phases)
    harmonics = _OfNeurons(lambda part: part.harmonics)
    harmonic_fits = _OfNeurons(lambda part: part.harmonic_fits)
    doubling = _OfNeurons(lambda part: part.doubling)
    cluster_doubling = _OfNeurons(lambda part: part.cluster_doubling)
    good_model = _OfNeurons(lambda part: part.good_model)
    clear_clusters = _OfNeurons(lambda part: part.clear_clusters)
    doubled_keys = _OfNeurons(lambda part: part.doubled_keys)

    @property
    def p(self) -> int:
        """Number of elements."""
        return self.task.n

    def _facts(self) -> dict[str, object]:
        return {
            "p": self.p,
            "d_mlp": self.d_mlp,
            "activation": self.activation,
            "key_frequencies": self.key_frequencies,
            "neurons": self.neurons.key_neurons,
            "good_model": self.good_model,
        }

    def _repr_html_(self) -> str:
        """The summary and the first table, for a notebook."""
        table = next(self.tables())
        caption = paragraph_html(table.caption) if table.caption else ""
        return paragraph_html(self.summary()) + table._repr_html_() + caption

    def to_dict(self) -> dict[str, Any]:
        """The JSON view, as `quadlens explain --json` prints it; None where a number has no meaning or was left out."""
        return {
            "p": self.p,
            "n": self.p,
            "task": self.task.to_json(),
            "d_mlp": self.d_mlp,
            "activation": self.activation,
            **self.neurons.to_dict(),
            **(dict.fromkeys(LOGIT_KEYS) if self.logits is None else self.logits.to_dict()),
            "summary": self.summary(),
        }

    def summary(self) -> str:
        """One paragraph in plain language."""
        from quadlens.explanation.words import summarise

        return summarise(self)

    def neuron_frame(self) -> "polars.DataFrame":
        """One row per neuron."""
        from quadlens.explanation.frame import neuron_frame

        return neuron_frame(self)

    def tables(self) -> Iterator[Table]:
        """Clusters, harmonics, regressions, coefficients, the paper's where they are of the same model, measures."""
        from quadlens.explanation.tables import beside_paper

        yield from self.neurons.tables()
        if self.logits is not None:
            yield from self.logits.tables()
            yield from beside_paper(self)
            yield self.logits.measures()

    def render(self, console: "Console") -> None:
        """The summary and the tables, for the terminal."""
        console.print(self.summary(), markup=False)
        console.print()
        for table in self.tables():
            table.print(console)


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
    config = model.config
    if logits and float(config.p) ** 3 * config.d_mlp > MAX_OPERATIONS:
        raise BadConfig(
            f"all {config.p}³ logits of this model take {float(config.p) ** 3 * config.d_mlp:.1e} multiplications; "
            "explain its neurons alone with logits=False",
            settings=("logits",),
        )
    # Logits are an even part and an identity part only where the odd part of the activation is linear: not for tanh.
    apart = logits and NONLINEARITIES[config.activation].odd_slope is not None
    with within_float64("an explanation"):
        anatomy = anatomy_of(model)
        return Explanation(
            task=config.task,
            d_mlp=config.d_mlp,
            activation=config.activation,
            neurons=explain_neurons(anatomy),
            logits=explain_logits(anatomy, rng) if apart else None,
        )
