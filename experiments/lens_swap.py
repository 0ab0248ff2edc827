"""Which activations keep a trained network right when they replace its own?

    python experiments/lens_swap.py MODEL           # predicted by the integral, and measured
    python experiments/lens_swap.py MODEL --json

With g, φ, ρ and ω of the trained network and another σ, each cluster's claim is A Re(e^{ikwc}
(1/2π) ∫ h(g) e^{2iφ} dφ) with h(x) = Σ_i ω_i σ(ρ_i x) / A and A = Σ_i ω_i. The share of inputs that
the sum of these answers right is the prediction: no quadrature error, nothing past the neurons. λ_2
would see the sum waves only; a constant and a double wave in g can turn the answer's sign.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.analysis.infinite_width.inputs import Inputs, inputs_of
from quadlens.analysis.infinite_width.integral import tabulated_rule
from quadlens.analysis.infinite_width.parts import LensParts, lens_parts, share_right
from quadlens.analysis.spectrum.of_study import layer_of
from quadlens.base.errors import QuadlensError
from quadlens.base.table import Table
from quadlens.network.study import study_of
from quadlens.network.tables import FloatTables

# The functions of He et al.'s table, then tanh and ReLU.
SWAPPED: dict[str, Callable[[Any], Any]] = {
    "|x|": np.abs,
    "x²": np.square,
    "x⁴": lambda x: x**4,
    "x⁸": lambda x: x**8,
    "log(1 + e^2x)": lambda x: np.logaddexp(0.0, 2 * x),
    "e^x": np.exp,
    "x": lambda x: x,
    "x³": lambda x: x**3,
    "tanh x": np.tanh,
    "max(x, 0)": lambda x: np.maximum(x, 0.0),
    "-|x|": lambda x: -np.abs(x),
}


@dataclass(frozen=True)
class Swap:
    """One activation in the place of the network's own.

    Attributes:
        function: σ, as it is written.
        predicted: Share of all inputs that the integral answers right.
        accuracy: Share that the network with it answers right, measured.
    """

    function: str
    predicted: float
    accuracy: float

    @property
    def agrees(self) -> bool:
        """Whether both are on the same side of one half."""
        return (self.predicted >= 0.5) == (self.accuracy >= 0.5)


def swap_activations(
    layer: FloatTables, functions: dict[str, Callable[[Any], Any]] | None = None
) -> tuple[Swap, ...]:
    """Predict each function's accuracy from the integral and measure it; weights stay."""
    inputs = inputs_of(layer)
    parts = lens_parts(inputs)
    skip = inputs.logits - inputs.sigma.apply(inputs.pre) @ inputs.W_L.T
    return tuple(
        Swap(name, _predicted(parts, sigma), _accuracy(inputs, skip, sigma))
        for name, sigma in (functions or SWAPPED).items()
    )


def swap_table(swaps: tuple[Swap, ...]) -> Table:
    """Make a table of predicted and measured accuracies."""
    rows = [
        [x.function, f"{x.predicted:.4f}", f"{x.accuracy:.4f}", f"{x.accuracy - x.predicted:+.4f}"]
        for x in swaps
    ]
    header = ("σ", "predicted", "accuracy", "difference")
    return Table("Another activation after training", header, rows, left=(0,))


def _predicted(parts: LensParts, sigma: Callable[[Any], Any]) -> float:
    rules = (tabulated_rule(x.cluster, x.shared, x.rule.activation, sigma) for x in parts.readings)
    return share_right(parts.values(parts.at_keys(rule.integral for rule in rules)))


def _accuracy(
    inputs: Inputs, skip: Float[np.ndarray, "n n n"], sigma: Callable[[Any], Any]
) -> float:
    logits = [sigma(pre) @ inputs.W_L.T + past for pre, past in zip(inputs.pre, skip, strict=True)]
    return share_right(np.stack(logits))


def main(arguments: list[str]) -> None:
    """Print what other activations would do in a model."""
    parser = argparse.ArgumentParser(description="Predict and measure other activations.")
    parser.add_argument("model")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args(arguments)
    try:
        swaps = swap_activations(study_of(options.model).once(layer_of))
    except QuadlensError as error:
        sys.exit(str(error))
    if options.json:
        sys.stdout.write(json.dumps({"swaps": [vars(swap) for swap in swaps]}) + "\n")
    else:
        sys.stdout.write(swap_table(swaps).to_markdown() + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
