"""`auto`: the cheapest strategy that proves all it can."""

from dataclasses import dataclass

from quadlens.certify.arcs import ArcsStrategy
from quadlens.certify.brute import Brute
from quadlens.certify.integers import is_piecewise_linear
from quadlens.certify.proof import Proof
from quadlens.model.params import Model


@dataclass(frozen=True)
class Auto:
    """Arcs for piecewise linear activations, else brute force: both prove everything that is true."""

    name: str = "auto"

    def prove(self, model: Model) -> Proof:
        """The proof of the strategy chosen, under that strategy's own name."""
        chosen = ArcsStrategy() if is_piecewise_linear(model.config.activation) else Brute()
        return chosen.prove(model)
