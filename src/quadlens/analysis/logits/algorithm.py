"""Which algorithm is it? Three measures of Zhong et al. (arXiv 2306.17844)."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from quadlens.analysis.logits.gradients import one_hot_gradients, token_gradients
from quadlens.analysis.spectrum.amplitude_phase import amplitude_phase
from quadlens.base.display import short
from quadlens.network.tables import FloatTables
from quadlens.network.weights import Weights

PUBLISHED_P, PUBLISHED_SAMPLES, PUBLISHED_SEED, MOST_SHUFFLED = 59, 100, 42, 3 * 10**6
# What the shuffle gives for p = 59, the only modulus they have: it takes a tenth of a second, every
# other number here less. A test shuffles again.
_SHUFFLED = """
101065 172717 141490 46272 200459 14143 193787 55721 16939 91860 77318 149115 84256 2007 5354
70701 124170 150107 164733 87165 117049 111934 60295 84694 195710 36103 162572 90652 194098
113263 110967 88143 194052 82491 149247 198206 134161 12958 128444 90555 47173 31109 1711 93715
4797 156396 104562 80607 162787 112756 171506 24646 197928 1881 45099 180417 130026 88105 65342
170029 88509 20927 197914 162185 198362 186723 161199 28296 46360 112669 125585 17043 125146
114263 50381 130398 179916 198357 74704 116821 141400 166035 137445 11886 57388 79260 72594
105842 203930 1559 60405 148095 69903 103374 185845 27064 92641 145404 11849 91697
"""
SHUFFLED_59 = tuple(map(int, _SHUFFLED.split()))
SAMPLES = 1000
PRINCIPAL_COMPONENTS = 4
# Singular values this small beside the largest are rounding of float32 weights.
RANK_SHARE = 1e-6
Algorithm = Literal["pizza", "clock"]


class Reference(NamedTuple):
    """What Zhong et al. report for one of their own models."""

    gradient_symmetricity: float
    distance_irrelevance: float


# Their model A (constant attention, pizza) and model B (trained attention, clock). A's values are
# those their published notebook prints and this code reproduces; B's are as quoted by others from
# the paper, not recomputed here.
REFERENCES: dict[Algorithm, Reference] = {
    "pizza": Reference(0.9937, 0.17),
    "clock": Reference(0.3336, 0.85),
}


@short
@dataclass(frozen=True)
class AlgorithmMeasures:
    """The measures of one model; None where a measure has no meaning (no gradient, no variance).

    Attributes:
        gradient_symmetricity: Mean cosine between ∂logit(a,b,c)/∂E_a and ∂logit(a,b,c)/∂E_b over
            triples (a, b, c).
        gradient_symmetricity_in_span: The same with both gradients projected on the directions in
            which embedding vectors differ: a gradient along a direction no token uses says nothing
            about what is computed.
        triples: How many triples they are the mean of.
        distance_irrelevance: mean_d std_a L(a, a-d) / std L, with L(a, b) = logit(a, b, a+b). As
            the paper and its notebook define it; the published tables of runs have the largest
            wrong logit in its place.
        circularity: Mean over the first four principal components of the embedding of the largest
            share of a component's square that one frequency holds.
    """

    gradient_symmetricity: float | None
    gradient_symmetricity_in_span: float | None
    triples: int
    distance_irrelevance: float | None
    circularity: float | None

    @property
    def nearer_by_gradient(self) -> Algorithm | None:
        """Which of the two published models is nearer in gradient symmetricity."""
        return _nearer(
            self.gradient_symmetricity, {n: r.gradient_symmetricity for n, r in REFERENCES.items()}
        )

    @property
    def nearer_by_distance(self) -> Algorithm | None:
        """Which of the two published models is nearer in distance irrelevance."""
        return _nearer(
            self.distance_irrelevance, {n: r.distance_irrelevance for n, r in REFERENCES.items()}
        )

    def to_dict(self) -> dict[str, float | str | None]:
        """Return the measures for JSON, with the nearer published models."""
        return {
            **vars(self),
            "nearer_by_gradient": self.nearer_by_gradient,
            "nearer_by_distance": self.nearer_by_distance,
        }

    def sentence(self) -> str:
        """Compare the measures with the published ones; empty where one has no meaning."""
        if self.gradient_symmetricity is None or self.distance_irrelevance is None:
            return ""
        gradient, distance = self.nearer_by_gradient, self.nearer_by_distance
        verdict = (
            f"both nearer to their {gradient} model"
            if gradient == distance
            else (
                f"the first nearer to their {gradient} model, the second to their {distance} model"
            )
        )
        span = self.gradient_symmetricity_in_span
        inside = (
            "" if span is None else f" ({span:.3f} along the directions in which tokens differ)"
        )
        return (
            "By the measures of Zhong et al., gradient symmetricity is "
            f"{self.gradient_symmetricity:.3f}{inside} "
            f"and distance irrelevance {self.distance_irrelevance:.3f}, {verdict}."
        )


def _nearer(value: float | None, references: dict[Algorithm, float]) -> Algorithm | None:
    if value is None:
        return None
    distance = {name: abs(reference - value) for name, reference in references.items()}
    return "pizza" if distance["pizza"] <= distance["clock"] else "clock"


def right_logits(layer: FloatTables) -> Float[np.ndarray, "p p"]:
    """Return the right answer's logit for every (a, b).

    The elements are in the order in which the task is addition.

    Raises:
        ValueError: when there is no such order.
    """
    new, b = layer.task.cyclic, np.arange(layer.p)
    if new is None:
        raise ValueError("no order of the elements makes the task addition")
    right = np.stack([layer.logits(a)[b, layer.task.answers[a]] for a in range(layer.p)])
    return right[np.ix_(np.argsort(new.of_a), np.argsort(new.of_b))]


def algorithm_measures(
    model: Weights,
    correct_logit: Float[np.ndarray, "p p"],
    rng: np.random.Generator | None = None,
) -> AlgorithmMeasures:
    """Measure all three as published, or with `rng` over 1,000 triples that it draws."""
    triples = (
        published_triples(model.config.p)
        if rng is None
        else draw_triples(model.config.p, rng, SAMPLES)
    )
    both = gradients(model, triples)
    cosine, inside = both.cosines(), both.in_span(both.span).cosines()
    return AlgorithmMeasures(
        gradient_symmetricity=float(cosine.mean()) if len(cosine) else None,
        gradient_symmetricity_in_span=float(inside.mean()) if len(inside) else None,
        triples=len(cosine),
        distance_irrelevance=distance_irrelevance(correct_logit),
        circularity=circularity(vocabulary(model), model.config.p),
    )


@cache
def published_triples(p: int) -> Int[np.ndarray, "n 3"]:
    """Return the 100 triples that Zhong et al. take.

    They are the first of all p³, in order, after Python's shuffle with seed 42.

    Past `MOST_SHUFFLED` triples, of which they had fewer, the shuffle takes seconds, and 100 are
    drawn with that seed.
    """
    every, rng = range(p**3), random.Random(PUBLISHED_SEED)
    numbers: Sequence[int]
    if p == PUBLISHED_P:
        numbers = SHUFFLED_59
    elif p**3 <= MOST_SHUFFLED:
        shuffled = list(every)
        rng.shuffle(shuffled)
        numbers = shuffled[:PUBLISHED_SAMPLES]
    else:
        numbers = rng.sample(every, PUBLISHED_SAMPLES)
    return np.stack(np.unravel_index(np.array(numbers), (p, p, p)), axis=1)


def draw_triples(p: int, rng: np.random.Generator, samples: int) -> Int[np.ndarray, "n 3"]:
    """Every (a, b, c) when there are at most `samples`, else a uniform sample."""
    if p**3 <= samples:
        return np.stack(np.unravel_index(np.arange(p**3), (p, p, p)), axis=1)
    return rng.integers(0, p, size=(samples, 3))


def distance_irrelevance(correct_logit: Float[np.ndarray, "p p"]) -> float | None:
    """Return how much the right logit still varies when a - b is held fixed.

    It is near 0 for a pizza, near 1 for a clock.
    """
    p = len(correct_logit)
    spread = float(correct_logit.std())
    if spread <= 1e-12 * float(np.abs(correct_logit).max()):
        return None
    a = np.arange(p)
    by_distance = correct_logit[a[:, None], (a[:, None] - a) % p]
    return float(by_distance.std(axis=0).mean()) / spread


def embedding(model: Weights) -> Float[np.ndarray, "p d"]:
    """Return the vector of each token: W_E, or W_a of an MLP, whose tokens are one-hot.

    In the order in which the task is addition.
    """
    rows, cyclic = _table(model)[: model.config.p], model.config.task.cyclic
    return (rows if cyclic is None else rows[np.argsort(cyclic.of_a)]).astype(np.float64)


def vocabulary(model: Weights) -> Float[np.ndarray, "tokens d"]:
    """Return the vectors of all tokens that are fed.

    Those of `embedding` come first, then b's own and '=' where there are any.
    """
    others = _table(model)[model.config.p : model.config.tokens_used]
    return np.concatenate([embedding(model), others.astype(np.float64)])


def _table(model: Weights) -> Float[np.ndarray, "tokens d"]:
    return model.tensors[model.config.embedding]


def circularity(vectors: Float[np.ndarray, "tokens d"], p: int | None = None) -> float | None:
    """Return the mean over principal components v of max_k (2/p)|Σ_x v_x e^{ikwx}|² / ‖v‖².

    It is 1 where each component is a single wave.

    As published: the components are of all tokens, ‖v‖² is over all of them, and the waves are over
    the first p. So with two vocabularies it is about half of what each of them has.

    Components that do not exist (of a small rank) are left out. Where circles of several
    frequencies have the same size, as in a hand-built model, principal components are arbitrary
    mixtures of them and the value is lower.
    """
    p = len(vectors) if p is None else p
    U, size, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    real = size > RANK_SHARE * size[0]
    if not real.any() or size[0] == 0.0:
        return None
    # Columns of U have unit length, so that this is the share of each wave.
    power = p * amplitude_phase(U[:p, real][:, :PRINCIPAL_COMPONENTS]).power
    return float(power.max(axis=0).mean())


@dataclass(frozen=True, eq=False)
class Gradients:
    """∂logit(a,b,c)/∂E_a and ∂logit(a,b,c)/∂E_b, one row per triple.

    Attributes:
        of_a: By the vector of a.
        of_b: By the vector of b.
        span: Orthonormal basis of the directions in which the vectors of tokens differ.
    """

    of_a: Float[np.ndarray, "n d"]
    of_b: Float[np.ndarray, "n d"]
    span: Float[np.ndarray, "r d"]

    def cosines(self) -> Float[np.ndarray, " m"]:
        """Cosine between the two of each triple; triples with a zero gradient are left out."""
        sizes = np.linalg.norm(self.of_a, axis=1) * np.linalg.norm(self.of_b, axis=1)
        defined = sizes > 0
        return (self.of_a * self.of_b).sum(axis=1)[defined] / sizes[defined]

    def in_span(self, basis: Float[np.ndarray, "r d"]) -> "Gradients":
        """Return the gradients' components along an orthonormal basis."""
        return Gradients(self.of_a @ basis.T, self.of_b @ basis.T, np.eye(len(basis)))


def gradients(model: Weights, triples: Int[np.ndarray, "n 3"]) -> Gradients:
    """Return both gradients of each triple.

    An MLP's tokens are one-hot: its gradients are over p coordinates, all of use.
    """
    pairs, c = triples[:, :2], triples[:, 2]
    if model.config.has_stream:
        return Gradients(*token_gradients(model, pairs, c), token_span(model))
    return Gradients(*one_hot_gradients(model, pairs, c), np.eye(model.config.p))


def token_span(model: Weights) -> Float[np.ndarray, "r d"]:
    """Return an orthonormal basis of the directions in which a transformer's tokens differ."""
    p = model.config.p
    W_E = model.W_E.astype(np.float64)
    tokens = (
        [W_E[:p]]
        if model.config.b_token_offset == 0
        else [W_E[:p], W_E[model.config.b_token_offset :][:p]]
    )
    _, size, basis = np.linalg.svd(
        np.concatenate([x - x.mean(axis=0) for x in tokens]), full_matrices=False
    )
    return basis[size > RANK_SHARE * size[0]]
