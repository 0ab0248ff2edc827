"""Which algorithm is it? The three measures of Zhong et al., "The Clock and the Pizza" (arXiv 2306.17844)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from quadlens.errors import BadConfig
from quadlens.model.activation import NONLINEARITIES
from quadlens.model.collapsed import Collapsed
from quadlens.model.params import MLPParams, Model, Params
from quadlens.model.token_tables import HiddenLayer, LastMLP, TokenTables

SAMPLES = 1000
PRINCIPAL_COMPONENTS = 4
# Singular values this small beside the largest are rounding of float32 weights.
RANK_SHARE = 1e-6
Algorithm = Literal["pizza", "clock"]


@dataclass(frozen=True)
class Reference:
    """What Zhong et al. report for one of their own models."""

    gradient_symmetricity: float
    distance_irrelevance: float


# Their model A (constant attention, pizza) and model B (trained attention, clock). A's values are those their published
# notebook prints and this code reproduces; B's are as quoted by others from the paper, not recomputed here.
REFERENCES: dict[Algorithm, Reference] = {"pizza": Reference(0.9937, 0.17), "clock": Reference(0.3336, 0.85)}


@dataclass(frozen=True)
class AlgorithmMeasures:
    """The measures of one model; None where a measure has no meaning (no gradient, no variance).

    Attributes:
        gradient_symmetricity: Mean cosine between ∂logit(a,b,c)/∂E_a and ∂logit(a,b,c)/∂E_b over triples (a, b, c).
        gradient_symmetricity_in_span: The same with both gradients projected on the directions in which embedding
            vectors differ: a gradient along a direction no token uses says nothing about what is computed.
        triples: How many triples they are the mean of.
        distance_irrelevance: mean_d std_a L(a, a-d) / std L, with L(a, b) = logit(a, b, a+b).
        circularity: Mean over the first four principal components of the embedding of the largest share of a
            component's square that one frequency holds.
    """

    gradient_symmetricity: float | None
    gradient_symmetricity_in_span: float | None
    triples: int
    distance_irrelevance: float | None
    circularity: float | None

    @property
    def nearer_by_gradient(self) -> Algorithm | None:
        """Which of the two published models is nearer in gradient symmetricity."""
        return _nearer(self.gradient_symmetricity, {n: r.gradient_symmetricity for n, r in REFERENCES.items()})

    @property
    def nearer_by_distance(self) -> Algorithm | None:
        """Which of the two published models is nearer in distance irrelevance."""
        return _nearer(self.distance_irrelevance, {n: r.distance_irrelevance for n, r in REFERENCES.items()})


def _nearer(value: float | None, references: dict[Algorithm, float]) -> Algorithm | None:
    if value is None:
        return None
    distance = {name: abs(reference - value) for name, reference in references.items()}
    return "pizza" if distance["pizza"] <= distance["clock"] else "clock"


def algorithm_measures(
    model: Model,
    layer: HiddenLayer,
    correct_logit: Float[np.ndarray, "p p"],
    rng: np.random.Generator,
    samples: int = SAMPLES,
) -> AlgorithmMeasures:
    """All three measures; `rng` draws the triples when p³ is more than `samples`."""
    both = gradients(model, layer, draw_triples(layer.p, rng, samples))
    cosine, inside = both.cosines(), both.in_span(token_span(model)).cosines()
    return AlgorithmMeasures(
        gradient_symmetricity=float(cosine.mean()) if len(cosine) else None,
        gradient_symmetricity_in_span=float(inside.mean()) if len(inside) else None,
        triples=len(cosine),
        distance_irrelevance=distance_irrelevance(correct_logit),
        circularity=circularity(embedding(model)),
    )


def draw_triples(p: int, rng: np.random.Generator, samples: int) -> Int[np.ndarray, "n 3"]:
    """Every (a, b, c) when there are at most `samples`, else a uniform sample."""
    if p**3 <= samples:
        return np.stack(np.unravel_index(np.arange(p**3), (p, p, p)), axis=1)
    return rng.integers(0, p, size=(samples, 3))


def distance_irrelevance(correct_logit: Float[np.ndarray, "p p"]) -> float | None:
    """How much the right logit still varies when a - b is held fixed: near 0 for a pizza, near 1 for a clock."""
    p = len(correct_logit)
    spread = float(correct_logit.std())
    if spread <= 1e-12 * float(np.abs(correct_logit).max()):
        return None
    a = np.arange(p)
    by_distance = correct_logit[a[:, None], (a[:, None] - a) % p]
    return float(by_distance.std(axis=0).mean()) / spread


def embedding(model: Model) -> Float[np.ndarray, "p d"]:
    """The vector of each token: W_E, or for an MLP, which embeds one-hot tokens with its first layer, W_a.

    In the order in which the task is addition.
    """
    rows = model.W_a if isinstance(model, MLPParams) else model.tensors()["W_E"][: model.config.p]
    cyclic = model.config.task.cyclic
    return (rows if cyclic is None else rows[np.argsort(cyclic.of_a)]).astype(np.float64)


def circularity(vectors: Float[np.ndarray, "p d"], components: int = PRINCIPAL_COMPONENTS) -> float | None:
    """Mean over principal components v of max_k (2/p)|Σ_x v_x e^{ikwx}|² / ‖v‖²: 1 when each is a single wave.

    Components that do not exist (rank below `components`) are left out. Where circles of several frequencies have the
    same size, as in a hand-built model, principal components are arbitrary mixtures of them and the value is lower.
    """
    p = len(vectors)
    U, size, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    real = size > RANK_SHARE * size[0]
    if not real.any() or size[0] == 0.0:
        return None
    # Columns of U have unit length, and a real sequence holds frequency k at k and at p - k.
    power = 2 / p * np.square(np.abs(np.fft.rfft(U[:, real][:, :components], axis=0)[1:]))
    if p % 2 == 0:
        power[-1] /= 2
    return float(power.max(axis=0).mean())


@dataclass(frozen=True, eq=False)
class Gradients:
    """∂logit(a,b,c)/∂E_a and ∂logit(a,b,c)/∂E_b, a row a triple."""

    of_a: Float[np.ndarray, "n d"]
    of_b: Float[np.ndarray, "n d"]

    def cosines(self) -> Float[np.ndarray, " m"]:
        """Cosine between the two of each triple; triples with a zero gradient are left out."""
        sizes = np.linalg.norm(self.of_a, axis=1) * np.linalg.norm(self.of_b, axis=1)
        defined = sizes > 0
        return (self.of_a * self.of_b).sum(axis=1)[defined] / sizes[defined]

    def in_span(self, basis: Float[np.ndarray, "r d"]) -> "Gradients":
        """Their components along an orthonormal basis."""
        return Gradients(self.of_a @ basis.T, self.of_b @ basis.T)


def gradients(model: Model, layer: HiddenLayer, triples: Int[np.ndarray, "n 3"]) -> Gradients:
    """Both gradients of each triple, by the chain rule.

    With m the residual stream that is read, logit_c = W_U[:,c]·(m + W_out σ(W_in m)) has the gradient
    W_U[:,c] + W_in (σ' ∘ W_L[c]), and m depends on E_a through J_a = α_a OV (+ I where a is read), on E_b through J_b;
    softmax adds its own part. An MLP's tokens are one-hot: its gradients are over all p coordinates.
    """
    if isinstance(layer, LastMLP):
        raise BadConfig("gradients by the tokens are worked out for models of one layer")
    a, b, c = triples.T
    pre = layer.U_a[a] + layer.U_b[b] if isinstance(layer, Collapsed) else layer.pair_pre(triples[:, :2])
    through = NONLINEARITIES[layer.activation].derivative(pre) * layer.W_L[c]
    if not isinstance(model, Params):
        return Gradients(through @ layer.U_a.T, through @ layer.U_b.T)
    W = {name: model.tensors()[name].astype(np.float64) for name in ("W_U", "W_in", "W_V", "W_O")}
    at_read = W["W_U"].T[c] + through @ W["W_in"].T
    attended = at_read @ np.einsum("hdk,hke->de", W["W_V"], W["W_O"]).T
    config = model.config
    of_a, of_b = (
        config.attention[position] * attended + (at_read if position == config.read_position else 0.0)
        for position in (0, 1)
    )
    if isinstance(layer, TokenTables):
        softmax_a, softmax_b = _through_softmax(model, layer, at_read, a, b)
        of_a, of_b = of_a + softmax_a, of_b + softmax_b
    return Gradients(of_a, of_b)


def _through_softmax(
    model: Params,
    layer: TokenTables,
    at_read: Float[np.ndarray, "n d"],
    a: Int[np.ndarray, " n"],
    b: Int[np.ndarray, " n"],
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]:
    """What a gradient at the position read becomes at the tokens of a and b through γ v W_O, by values and by scores.

    Of a score s_t of one head: ∂/∂s_t = γ_t (g_t - Σ_u γ_u g_u / scale), g_t being the gradient by γ_t.
    """
    config, w = model.config, {name: array.astype(np.float64) for name, array in model.tensors().items()}
    divisor = config.softmax.divisor if config.softmax is not None else 1.0
    token = (a, b, np.zeros_like(a))
    streams = [rows[token[t]] for t, rows in enumerate(model.token_streams())]
    found, gates = [np.zeros_like(x) for x in streams], layer.gates(a, b)
    for h in range(config.n_heads):
        query, back = streams[config.read_position] @ w["W_Q"][h] + w["b_Q"][h], at_read @ w["W_O"][h].T
        seen = [table.position for table in layer.gated]
        by_gate = np.stack([((streams[t] @ w["W_V"][h] + w["b_V"][h]) * back).sum(axis=1) for t in seen])
        mean = (gates[:, h] * by_gate).sum(axis=0) / layer.scale
        by_score = gates[:, h] * (by_gate - mean) / divisor
        for t, gate, score in zip(seen, gates[:, h], by_score, strict=True):
            key = streams[t] @ w["W_K"][h] + w["b_K"][h]
            found[t] += gate[:, None] * (back @ w["W_V"][h].T) + score[:, None] * (query @ w["W_K"][h].T)
            found[config.read_position] += score[:, None] * (key @ w["W_Q"][h].T)
    return found[0], found[1]


def token_span(model: Model) -> Float[np.ndarray, "r d"]:
    """Orthonormal basis of the directions in which embedding vectors differ; one-hot tokens differ in all of them."""
    p = model.config.p
    if not isinstance(model, Params):
        return np.eye(p)
    W_E = model.W_E.astype(np.float64)
    tokens = [W_E[:p]] if model.config.b_token_offset == 0 else [W_E[:p], W_E[model.config.b_token_offset :][:p]]
    _, size, basis = np.linalg.svd(np.concatenate([x - x.mean(axis=0) for x in tokens]), full_matrices=False)
    return basis[size > RANK_SHARE * size[0]]
