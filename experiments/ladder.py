"""How good a network of few numbers is, from a dozen numbers to all weights."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from noise_terms import MATRICES, all_logits
from quadlens.analysis.parameterisation.groups import FrequencyGroup, angle_column, logit_r2
from quadlens.analysis.parameterisation.network import Parameterised, parameterise
from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.base.numbers import at_least, fit
from quadlens.network.margins import leads
from quadlens.network.tables import FloatTables, Tables
from quadlens.network.weights import Weights

# Evenly spread neurons that stand for an integral.
NODES = 1024
# A margin below this share of the largest logit.
ROUNDING = 1e-9
# Ingredients of the shared function, each with those before it, as `parameterise` takes them.
SHARED = {
    "wave": (0, 0, 0),
    "+ constant": (1, 0, 0),
    "+ double wave": (1, 1, 0),
    "+ a and b apart": (1, 1, 1),
}
# Matrices that take the place of parameterised ones, each with those before it.
EXACT = {
    "+ W_E, W_pos": ("E",),
    "+ W_V, W_O": ("V", "O"),
    "+ W_in": ("in",),
    "+ W_out": ("out",),
    "+ W_U: all weights": ("U",),
}


@dataclass(frozen=True)
class Rung:
    """One step of the ladder, from a dozen numbers to all weights."""

    name: str
    numbers: int
    right: int
    inputs: int
    margin: float
    r2: float

    @property
    def cell(self) -> str:
        """Answers right, smallest margin, R²."""
        right = "all" if self.right == self.inputs else f"{self.right:,}"
        return f"{right}, {at_least(self.margin, 2)}, {fit(self.r2)}"


def ladder(anatomy: Anatomy, small: Parameterised) -> Iterable[Rung]:
    """List the rungs: integral, neurons, the network with planes, its own matrices one by one."""
    cyclic = anatomy.collapsed
    fits = {name: parameterise(anatomy, *map(bool, options)) for name, options in SHARED.items()}
    # Homogeneous activations need Σ ρω alone, others Σ ω as well.
    sizes = 1 if anatomy.config.activation in ("relu", "abs") else 2
    for name, one in fits.items():
        even = formula(cyclic, [group.evenly(NODES) for group in one.groups])
        count = one.numbers.frequencies * (1 + sizes) + one.numbers.shared
        yield rung(f"integral: {name}" if name == "wave" else name, count, even, cyclic)
    for name, one in fits.items():
        count = one.numbers.total - one.numbers.planes
        yield rung(
            f"neurons: {name}" if name == "wave" else name,
            count,
            formula(cyclic, one.groups),
            cyclic,
        )
    yield rung(
        "as a network, with planes", small.numbers.total, small.model.collapse(), anatomy.layer
    )
    mixed, exact = small.model, set[str]()
    for name, matrices in EXACT.items():
        exact |= set(matrices)
        tensors = [tensor for matrix in matrices for tensor in MATRICES[matrix]]
        mixed = mixed.replace(None, **{tensor: anatomy.model.tensors[tensor] for tensor in tensors})
        yield rung(name, counted(anatomy.model, small, exact), mixed.collapse(), anatomy.layer)


def formula(tables: FloatTables, groups: Sequence[FrequencyGroup]) -> FloatTables:
    """Make tables of the formulas of `parameterisation.groups`, without planes and skip.

    The task is addition.
    """
    width = sum(len(group.omega) for group in groups)
    U_a, U_b, W_L = (np.zeros((tables.p, width)) for _ in range(3))
    start = 0
    for group in groups:
        mine, one, shared = (
            slice(start, start := start + len(group.omega)),
            group.cluster,
            group.shared,
        )
        for U, (alpha, eta), turn in (
            (U_a, shared.a, shared.shift),
            (U_b, shared.b, -shared.shift),
        ):
            x = angle_column(one) + one.phi + turn
            U[:, mine] = one.rho * (alpha * np.cos(x) + eta * np.cos(2 * x))
        U_b[:, mine] += one.rho * shared.constant
        W_L[:, mine] = group.omega * np.cos(angle_column(one) + 2 * one.phi)
    nothing = np.zeros((tables.p, tables.p))
    return Tables(tables.task, tables.activation, U_a, U_b, W_L, nothing, nothing.copy())


def counted(network: Weights, small: Parameterised, exact: set[str]) -> int:
    """Count the numbers that a network depends on, with some matrices exact."""
    weights = sum(network.tensors[name].size for matrix in exact for name in MATRICES[matrix])
    if "U" in exact:
        return weights
    numbers, config = small.numbers, network.config
    Q = 2 * numbers.frequencies * config.d_model
    values = config.n_heads * config.d_head
    rows = (numbers.planes - Q) // (2 * config.d_model + values)
    # Frames of what is exact follow from it; W_out alone still needs φ, ω, the groups and the
    # frequencies.
    frames = Q + (0 if "V" in exact else rows * (config.d_model + values))
    if "out" in exact:
        return weights + frames + numbers.frequencies
    neurons = numbers.groups + numbers.frequencies
    return (
        weights
        + frames
        + neurons
        + (2 * numbers.neurons // 3 if "in" in exact else numbers.neurons + numbers.shared)
    )


def rung(name: str, numbers: int, tables: FloatTables, network: FloatTables) -> Rung:
    """Measure one step on all inputs; a lead that is rounding is a tie, and no tie is right."""
    logits = all_logits(tables)
    margins, _ = leads(logits, tables.task.answers)
    margins[np.abs(margins) <= ROUNDING * np.abs(logits).max()] = 0.0
    return Rung(
        name,
        numbers,
        int((margins > 0).sum()),
        margins.size,
        float(margins.min()),
        logit_r2(tables, network),
    )
