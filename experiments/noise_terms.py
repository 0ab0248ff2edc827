"""What a parameterised network leaves out, term by term.

Every matrix is the parameterised one plus noise, and the product is multiplied out.

    logits = Σ_r W_L^r σ(Σ_s pre^s) + Σ_t S^t,
    s ⊆ {E, V, O, in},  r ⊆ {out, U},  t ⊆ {E, V, O, out, U}

pre^s is the part of the pre-activations in which the matrices of s are noise and the others
parameterised, likewise W_L^r and S^t; nothing is neglected. σ = ReLU is half the identity, which
splits, and half the absolute value, which is taken one noise after the other, fewest factors first,
then as data flows: |x + ε| = |x| + (|x + ε| - |x|), with everything before ε in x. A bias goes with
its matrix, W_pos with W_E. The terms with no noise at all are the parameterised network's logits.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float

from quadlens.base.display import Displayed
from quadlens.base.errors import BadConfig
from quadlens.network.activation import apply_activation
from quadlens.network.tables import FloatTables
from quadlens.network.weights import Weights

MATRICES = {
    "E": ("W_E", "W_pos"),
    "V": ("W_V", "b_V"),
    "O": ("W_O", "b_O"),
    "in": ("W_in", "b_in"),
    "out": ("W_out", "b_out"),
    "U": ("W_U", "b_U"),
}
READ, WRITTEN, PASSING = ("E", "V", "O", "in"), ("out", "U"), ("E", "V", "O", "out", "U")

Logits = Float[np.ndarray, "p p p"]
# Parts by the matrices that are noise in them.
ByNoise = list[tuple[tuple[str, ...], np.ndarray]]
Parts = tuple[ByNoise, ByNoise, ByNoise]


@dataclass(frozen=True)
class Term:
    """One product of noises.

    Attributes:
        part: identity, absolute value (activation where σ is neither ReLU nor |x|) or skip.
        noise: The matrices that are noise in it.
        worst: Largest |term(a,b,c) - term(a,b,right answer)|: what it can take of a margin, or add.
        at: The a, b, c that have it.
        share: ⟨term, difference⟩ / ‖difference‖², means over c left out: the shares of all terms
            add up to 1.
    """

    part: str
    noise: tuple[str, ...]
    worst: float
    at: tuple[int, int, int]
    share: float


@dataclass(frozen=True, repr=False)
class Expansion(Displayed):
    """All terms, largest worst case first.

    Attributes:
        terms: Every one that is not 0.
        worst: The same of the whole difference.
        at: Where.
    """

    terms: tuple[Term, ...]
    worst: float
    at: tuple[int, int, int]

    def _facts(self) -> dict[str, object]:
        return {
            "terms": len(self.terms),
            "worst": f"{self.worst:.4g}",
            "sum": f"{sum(t.worst for t in self.terms):.4g}",
        }


def expand(network: Weights, simple: Weights) -> Expansion:
    """Worst case and share of every term of `network`'s logits minus those of `simple`.

    Raises:
        BadConfig: when the two differ in more than their weights, or attention is not constant.
    """
    check_pair(network, simple)
    difference = all_logits(network.collapse()) - all_logits(simple.collapse())
    # Relative to the largest, so that squares of logits of any size are finite.
    largest = float(np.abs(difference).max()) or 1.0
    whole = _centred(difference / largest)
    size = float(np.square(whole).sum()) or 1.0
    right = network.config.task.answers
    terms = []
    for part, noise, values in terms_of(network, simple):
        worst, at = worst_case(values, right)
        if worst > 0:
            terms.append(
                Term(
                    part, noise, worst, at, float((_centred(values / largest) * whole).sum()) / size
                )
            )
    return Expansion(
        tuple(sorted(terms, key=lambda term: -term.worst)), *worst_case(difference, right)
    )


def terms_of(network: Weights, simple: Weights) -> Iterator[tuple[str, tuple[str, ...], Logits]]:
    """Compute every term as logits, [a, b, c]; they add up to the difference.

    A term has its part, the matrices that are noise, and values.

    Raises:
        BadConfig: as for `expand`.
    """
    check_pair(network, simple)
    pre, W_L, skip = parts_of(network, simple)
    activation = network.config.activation
    halves = {"relu": (0.5, "abs", 0.5), "abs": (0.0, "abs", 1.0)}
    linear, bent, factor = halves.get(activation, (0.0, activation, 1.0))
    x = np.zeros((network.config.p, network.config.p, network.config.d_mlp))
    before: Float[np.ndarray, "p p d_mlp"] | float = 0.0
    for s, (U_a, U_b) in pre:
        x += U_a[:, None] + U_b
        now = factor * apply_activation(bent, x)  # type: ignore[arg-type]
        for r, out in W_L:
            if s or r:
                yield (
                    ("absolute value" if bent == "abs" else "activation"),
                    s + r,
                    (now - before) @ out.T,
                )
                if linear:
                    yield "identity", s + r, linear * ((U_a @ out.T)[:, None] + U_b @ out.T)
        before = now
    yield from (("skip", t, S_a[:, None] + S_b) for t, (S_a, S_b) in skip if t)


def parts_of(network: Weights, simple: Weights) -> Parts:
    """U^s and S^t, of a and of b, and W_L^r between them."""

    def tables(noisy: frozenset[str]) -> FloatTables:
        names = [name for matrix in noisy for name in MATRICES[matrix]]
        return simple.replace(
            None, **{name: network.tensors[name].astype(float) for name in names}
        ).collapse()

    U = multiplied_out(READ, lambda noisy: np.stack([(t := tables(noisy)).U_a, t.U_b]))
    W_L = multiplied_out(WRITTEN, lambda noisy: tables(noisy).W_L)
    S = multiplied_out(PASSING, lambda noisy: np.stack([(t := tables(noisy)).S_a, t.S_b]))
    return U, W_L, S


def check_pair(network: Weights, simple: Weights) -> None:
    """Raise BadConfig unless one network is the other plus noise, and the collapse is exact."""
    if (
        network.config != simple.config
        or network.config.no_collapse
        or network.config.attends != "constant"
    ):
        raise BadConfig(
            "expected two networks of one layer, with one config, whose attention is constant"
        )


def multiplied_out(
    names: tuple[str, ...], values: Callable[[frozenset[str]], np.ndarray]
) -> ByNoise:
    """The parts of a product by which factors are noise, fewest first.

    `values` has the factors of a set with their noise and the others without. It is linear in each,
    so that its difference in a factor is the noise's part.
    """
    every = list(product((0, 1), repeat=len(names)))
    chosen = [
        frozenset(name for name, bit in zip(names, bits, strict=True) if bit) for bits in every
    ]
    parts = np.stack([values(noisy) for noisy in chosen])
    parts = parts.reshape((2,) * len(names) + parts.shape[1:])
    for axis in range(len(names)):
        along = np.moveaxis(parts, axis, 0)
        along[1] -= along[0]
    found = [
        (tuple(n for n in names if n in noisy), parts[bits])
        for noisy, bits in zip(chosen, every, strict=True)
    ]
    return sorted(found, key=lambda one: (len(one[0]), [names.index(name) for name in one[0]]))


def all_logits(tables: FloatTables) -> Logits:
    """Every logit, [a, b, c]."""
    return np.stack([tables.logits(a) for a in range(tables.p)])


def worst_case(values: Logits, right: np.ndarray) -> tuple[float, tuple[int, int, int]]:
    """Largest |value - value at the right answer|, and where."""
    beside = np.abs(values - np.take_along_axis(values, right[:, :, None], axis=2))
    a, b, c = (int(i) for i in np.unravel_index(beside.argmax(), beside.shape))
    return float(beside[a, b, c]), (a, b, c)


def _centred(logits: Logits) -> Logits:
    return logits - logits.mean(axis=2, keepdims=True)
