"""Which activations keep a trained network right when they take the place of its own? λ_2 alone, asked before looking.

A cluster that reads pure cosines adds λ_2(r) cos kw(a + b - c) to the logits, whatever σ is, with
λ_2(r) = (1/2π) ∫ σ(r cos θ) cos 2θ dθ: nothing for an odd σ, and the right answer wins where it is positive. Trained
neurons read a constant and a double wave as well, through which odd σ pass something too, of either sign (lens.md §2).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.infinite_width.inputs import Inputs, inputs_of
from quadlens.infinite_width.lens import Lens, lens
from quadlens.model.tables import FloatTables
from quadlens.numbers import decimals
from quadlens.table import Table

NODES = 4096
# λ_2 below this share of the size of σ(r cos θ) counts as none.
NONE = 1e-3
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
        charge_2: λ_2(r) over the root mean square of σ(r cos θ) less its mean, smallest over the clusters.
        predicted: Whether the network should stay right: charge_2 is positive, not merely rounding.
        accuracy: Share of all inputs answered right, measured.
    """

    function: str
    charge_2: float
    predicted: bool
    accuracy: float

    @property
    def agrees(self) -> bool:
        """Predicted and right on at least nine inputs in ten, or predicted wrong and below that."""
        return self.predicted == (self.accuracy >= 0.9)


def swap_activations(layer: FloatTables, functions: dict[str, Callable[[Any], Any]] | None = None) -> tuple[Swap, ...]:
    """Predict from λ_2 alone, then measure, for each function; the network's weights stay as they are."""
    inputs, found = inputs_of(layer), lens(layer)
    skip = inputs.logits - inputs.sigma.apply(inputs.pre) @ inputs.W_L.T
    rows = []
    for name, sigma in (functions or SWAPPED).items():
        charge_2 = min((_charge_2(sigma, size) for size in _sizes(found)), default=0.0)
        rows.append(Swap(name, charge_2, charge_2 > NONE, _accuracy(inputs, skip, sigma)))
    return tuple(rows)


def swap_table(swaps: tuple[Swap, ...]) -> Table:
    """Predicted and measured, side by side."""
    rows = [
        [x.function, decimals(x.charge_2, 3), "right" if x.predicted else "wrong", f"{x.accuracy:.4f}"] for x in swaps
    ]
    return Table("Another activation after training", ("σ", "λ₂ over size", "predicted", "accuracy"), rows, left=(0, 2))


def _sizes(found: Lens) -> list[float]:
    return [one.reading.shared.first_order for one in found.clusters]


def _charge_2(sigma: Callable[[Any], Any], r: float) -> float:
    theta = 2 * np.pi * np.arange(NODES) / NODES
    values: Float[np.ndarray, " nodes"] = sigma(r * np.cos(theta))
    size = float(values.std())
    return float((values * np.cos(2 * theta)).mean()) / size if size > 0 else 0.0


def _accuracy(inputs: Inputs, skip: Float[np.ndarray, "n n n"], sigma: Callable[[Any], Any]) -> float:
    n = inputs.n
    answers = np.add.outer(np.arange(n), np.arange(n)) % n
    right = [(sigma(pre) @ inputs.W_L.T + past).argmax(axis=1) for pre, past in zip(inputs.pre, skip, strict=True)]
    return float((np.stack(right) == answers).mean())
