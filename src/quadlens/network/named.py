"""The names of a study's parts, and of what stands for a model, for type checkers."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float

    from quadlens.analysis.explanation import Explanation
    from quadlens.analysis.infinite_width import Lens
    from quadlens.analysis.quadrature import Bounds
    from quadlens.analysis.spectrum import Anatomy
    from quadlens.network.evaluate import Evaluation
    from quadlens.network.study import Study
    from quadlens.network.tables import FloatTables
    from quadlens.network.weights import Weights
    from quadlens.proofs.pairs import Certificate
    from quadlens.readers.memory import TransformerLensObject
    from quadlens.training.history import History

    ModelLike: TypeAlias = (
        "Study | Weights | HoldsModel | HoldsParams | TransformerLensObject | str | Path"
    )


class Named:
    """The parts that users write as `study.NAME`, for type checkers and completion."""

    anatomy: "Anatomy"
    collapsed: "FloatTables"
    evaluation: "Evaluation"
    margins: 'Float[np.ndarray, "p p"]'
    skip_shares: 'Float[np.ndarray, "p p"] | None'
    keys: tuple[int, ...]
    explanation: "Explanation"
    bounds: "Bounds | None"
    lens: "Lens"
    certificates: "tuple[Certificate, ...]"
    certificate: "Certificate | None"
    history: "History | None"

    def logits(self, a: int) -> 'Float[np.ndarray, "p p"]':
        """Return the logits of one a and all b."""
        raise NotImplementedError

    def preactivations(self, a: int) -> 'Float[np.ndarray, "p d_mlp"]':
        """Return the pre-activations of every neuron for one a and all b."""
        raise NotImplementedError

    def certify(self, strategy: str = "auto", checkable: bool = False) -> Any:
        """Return the proof by one strategy."""
        raise NotImplementedError

    def without_proofs(self) -> "Study":
        """Return the study without proofs."""
        raise NotImplementedError


class HoldsModel(Protocol):
    """A value that holds a network as `model`.

    This is an anatomy, what `import_file` returns, or a network of few numbers.
    """

    @property
    def model(self) -> "Weights":
        """The weights."""


class HoldsParams(Protocol):
    """A value that holds a network as `params`: what training returns."""

    @property
    def params(self) -> "Weights":
        """The weights."""
