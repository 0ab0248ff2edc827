"""How often integrals of random numbers answer every input: the control of `answers_right`.

    python experiments/random_integrals.py      # the table of docs/lens.md

A network of integrals has a size A and a function 2 cos u cos t + 2η cos 2u cos 2t + γ for each
key. Keys (1 to 5 of them), sizes, η and γ are drawn at random; nothing is trained.
"""

import sys
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from data import Measured, measured_models
from quadlens.base.table import Table

P = 59
NODES = 1024
# A lead below this share of the largest size is rounding, and a tie is not right.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Draw:
    """The ranges that random numbers come from.

    Attributes:
        words: What they are, for the table.
        eta: Range of the second harmonic.
        gamma: Range of the constant.
        size: Range of A.
        draws: How many networks are drawn.
    """

    words: str
    eta: tuple[float, float]
    gamma: tuple[float, float]
    size: tuple[float, float] = (0.1, 1.0)
    draws: int = 400


TRAINED = Draw("−0.2 ≤ η ≤ 0, 0 ≤ γ ≤ 0.4, as trained", (-0.2, 0), (0, 0.4))
DRAWS = (
    Draw("no second harmonic, no constant", (0, 0), (0, 0)),
    TRAINED,
    Draw("−0.2 ≤ η ≤ 0.2, −0.4 ≤ γ ≤ 0.4", (-0.2, 0.2), (-0.4, 0.4)),
    Draw("−1 ≤ η ≤ 0, 0 ≤ γ ≤ 2", (-1, 0), (0, 2), draws=200),
    Draw("as trained, sizes of both signs", (-0.2, 0), (0, 0.4), (-1.0, 1.0)),
)


def strengths(
    key: int, eta: float, gamma: float, p: int = P, nodes: int = NODES
) -> Float[np.ndarray, " p"]:
    """Return C(u) of a key for every a - b: the mean of ReLU(g(t)) cos 2t over the circle."""
    u = np.pi * key * np.arange(p)[:, None] / p
    t = 2 * np.pi * np.arange(nodes) / nodes
    g = 2 * np.cos(u) * np.cos(t) + 2 * eta * np.cos(2 * u) * np.cos(2 * t) + gamma
    return (np.maximum(g, 0) * np.cos(2 * t)).mean(axis=1)


def answered(
    keys: np.ndarray, sizes: np.ndarray, etas: np.ndarray, gammas: np.ndarray, p: int = P
) -> Bool[np.ndarray, " p"]:
    """Return for every a - b whether the right answer leads each other one."""
    wrong_by = np.arange(1, p)
    lead = np.zeros((p, p - 1))
    for key, size, eta, gamma in zip(keys, sizes, etas, gammas, strict=True):
        falls = 1 - np.cos(2 * np.pi * key * wrong_by / p)
        lead += size * np.outer(strengths(int(key), float(eta), float(gamma), p), falls)
    return lead.min(axis=1) > ROUNDING * np.abs(sizes).max()


def answering(draw: Draw, seed: int = 0) -> int:
    """Return how many random networks answer every input right."""
    rng, found = np.random.default_rng(seed), 0
    for _ in range(draw.draws):
        keys = rng.choice(np.arange(1, (P + 1) // 2), rng.integers(1, 6), replace=False)
        sizes, etas, gammas = (
            rng.uniform(*ends, len(keys)) for ends in (draw.size, draw.eta, draw.gamma)
        )
        found += bool(answered(keys, sizes, etas, gammas).all())
    return found


def trained_numbers(one: Measured, key: int) -> tuple[float, float]:
    """Return η and γ that the neurons of a key share, means over a and b, in units of the wave."""
    mine = one.neurons["k"] == key
    phi = one.neurons["phi"][mine]

    def wave(order: int) -> float:
        of_a, of_b = (
            one.neurons[f"wave_{name}_re"][mine] + 1j * one.neurons[f"wave_{name}_im"][mine]
            for name in (f"{order}_0", f"0_{order}")
        )
        return float(((of_a + of_b) * np.exp(-1j * order * phi)).sum().real) / 2

    return wave(2) / wave(1), float(one.neurons["constant"][mine].sum()) / wave(1)


def in_trained_range() -> tuple[int, int]:
    """Return how many key clusters of the 151 models have η and γ in the range, of how many."""
    found = [
        TRAINED.eta[0] <= eta <= TRAINED.eta[1] and TRAINED.gamma[0] <= gamma <= TRAINED.gamma[1]
        for one in measured_models(0)
        for cluster in one.values["lens"]["clusters"]
        for eta, gamma in [trained_numbers(one, cluster["k"])]
    ]
    return sum(found), len(found)


def table() -> Table:
    """Make the table of docs/lens.md."""
    rows = [(draw.words, f"{answering(draw)} of {draw.draws}") for draw in DRAWS]
    return Table("", ("random numbers", "networks that answer every input"), rows)


if __name__ == "__main__":
    inside, clusters = in_trained_range()
    sys.stdout.write(
        f"{table().to_markdown()}\n\nOf the {clusters} clusters of the 151 models, {inside} have "
        "η and γ in the range called *as trained*.\n"
    )
