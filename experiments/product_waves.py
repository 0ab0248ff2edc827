"""Product waves taken away from a hidden layer, or put into it (registered/4_product_waves.md)."""

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from quadlens.analysis.infinite_width import lens
from quadlens.analysis.infinite_width.inputs import Inputs, inputs_of
from quadlens.analysis.infinite_width.parts import LensParts
from quadlens.analysis.logits.algorithm import distance_irrelevance, published_triples
from quadlens.network.activation import Activation, apply_activation
from quadlens.network.tables import FloatTables
from quadlens.network.task import Task, task_by_name

SIDES = ((1, 1), (1, -1), (-1, 1), (-1, -1))


@dataclass(frozen=True, eq=False)
class Plane:
    """A hidden layer as tables over all inputs, with pre-activations that were changed."""

    p: int
    activation: Activation
    all_pre: np.ndarray
    W_L: np.ndarray
    all_skip: np.ndarray

    @property
    def task(self) -> Task:
        """Addition."""
        return task_by_name("add", self.p)

    @property
    def d_mlp(self) -> int:
        """Number of neurons."""
        return self.W_L.shape[1]

    # No norm divides what is read or written by a size.
    sizes: ClassVar[None] = None

    @property
    def size_table(self) -> np.ndarray:
        """Factors of norms: 1."""
        return np.ones((2, self.p, self.p))

    def pre(self, a: int) -> np.ndarray:
        """Pre-activations for one a, [b, neuron]."""
        return self.all_pre[a]

    def logits(self, a: int) -> np.ndarray:
        """Logits for one a, [b, c]."""
        return apply_activation(self.activation, self.all_pre[a]) @ self.W_L.T + self.all_skip[a]

    def skip(self, a: int) -> np.ndarray:
        """What bypasses the neurons, for one a."""
        return self.all_skip[a]


def layer_of(plane: Plane) -> FloatTables:
    """Take the plane for a layer: the lens asks it for nothing else than the members above."""
    return cast("FloatTables", plane)


def plane_of(inputs: Inputs) -> Plane:
    """The layer of some inputs as tables."""
    skip = inputs.logits - inputs.sigma.apply(inputs.pre) @ inputs.W_L.T
    return Plane(inputs.n, inputs.sigma.name, inputs.pre, inputs.W_L, skip)


def product_part(plane: Plane, parts: LensParts) -> np.ndarray:
    """Compute the waves e^{iw(±ka ± kb)} of every neuron in a cluster of frequency k.

    The array is [a, b, neuron], 0 for neurons in no cluster.
    """
    n = plane.p
    found = np.zeros_like(plane.all_pre)
    turn = np.exp(2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
    for one in parts.readings:
        k, neurons = one.cluster.k, one.cluster.neurons
        pre = plane.all_pre[:, :, neurons]
        for j, h in SIDES:
            wave_a, wave_b = turn[:, j * k % n], turn[:, h * k % n]
            weight = 0.5 if 2 * k == n else 1.0
            coefficient = np.einsum("abi,a,b->i", pre, wave_a.conj(), wave_b.conj()) / n**2 * weight
            found[:, :, neurons] += (
                wave_a[:, None, None] * wave_b[None, :, None] * coefficient
            ).real
    return found


def shared_products(parts: LensParts) -> tuple[complex, complex]:
    """Average over clusters the coefficients of product waves in g over that of the sum waves.

    They are those of e^{i(x_a + x_b)} and of e^{i(x_a - x_b)}.
    """
    found = []
    for one in parts.readings:
        F, n, k = one.shared.F, parts.n, one.cluster.k
        # F_1(d) = f_10 e^{ikwd} + f_01, F_2(d) ∋ f_11 e^{ikwd}, F_0(d) ∋ Re(2 f_{1,-1} e^{ikwd}).
        waves = np.fft.fft(F, axis=1) / n
        size = (abs(waves[1, k]) + abs(waves[1, 0])) / 2
        found.append((waves[2, k] / size if len(F) > 2 else 0j, 2 * waves[0, k] / size))
    both = np.mean(found, axis=0)
    return complex(both[0]), complex(both[1])


def added_products(plane: Plane, parts: LensParts, both: tuple[complex, complex]) -> np.ndarray:
    """Compute ρ_i Re(f e^{i(x_a + x_b + 2φ_i)} + f' e^{i(x_a - x_b)}) of neurons in clusters.

    Here x_a = kwa.
    """
    n = plane.p
    found = np.zeros_like(plane.all_pre)
    for one in parts.readings:
        cluster = one.cluster
        x = 2 * np.pi * cluster.k * np.arange(n) / n
        plus, minus = np.exp(1j * np.add.outer(x, x)), np.exp(1j * np.subtract.outer(x, x))
        turned = both[0] * np.exp(2j * cluster.phi)
        wave = plus[:, :, None] * turned + (minus * both[1])[:, :, None]
        found[:, :, cluster.neurons] += cluster.rho * wave.real
    return found


def wave_symmetricity(plane: Plane, parts: LensParts) -> float:
    """Average the cosine between the gradients of logit(a,b,c) by a's and by b's key waves.

    The mean is over Zhong et al.'s triples.

    Pre-activations are taken as polynomials in the coordinates (cos jwa, sin jwa), (cos jwb, sin
    jwb) for the key frequencies and their doubles: sum waves are linear in them, product waves of
    one key bilinear.
    """
    n = plane.p
    triples = published_triples(n)
    a, b, c = triples.T
    sigma = inputs_of(layer_of(plane)).sigma
    through = sigma.derivative(plane.all_pre[a, b]) * plane.W_L[c]
    keys = parts.keys
    linear = sorted(set(keys) | {min(2 * k % n, -2 * k % n) for k in keys} - {0})
    x = 2 * np.pi * np.arange(n) / n
    of_a, of_b = [], []
    for k in linear:
        basis = np.stack([np.cos(k * x), np.sin(k * x)])  # [2, n]
        scale = 1.0 if 2 * k == n else 2.0
        u = np.einsum("ra,abi->ri", basis, plane.all_pre) * scale / n**2
        v = np.einsum("rb,abi->ri", basis, plane.all_pre) * scale / n**2
        slope_a, slope_b = (
            np.broadcast_to(u, (len(a), *u.shape)),
            np.broadcast_to(v, (len(a), *v.shape)),
        )
        if k in keys:
            M = np.einsum("ra,sb,abi->rsi", basis, basis, plane.all_pre) * scale**2 / n**2
            slope_a = slope_a + np.einsum("st,rsi->tri", basis[:, b], M)
            slope_b = slope_b + np.einsum("rt,rsi->tsi", basis[:, a], M)
        of_a.append(np.einsum("ti,tri->tr", through, slope_a))
        of_b.append(np.einsum("ti,tri->tr", through, slope_b))
    x_a, x_b = np.concatenate(of_a, axis=1), np.concatenate(of_b, axis=1)
    return float(
        ((x_a * x_b).sum(1) / (np.linalg.norm(x_a, axis=1) * np.linalg.norm(x_b, axis=1))).mean()
    )


def measured(plane: Plane) -> dict[str, float | None]:
    """What is kept of a layer before and after."""
    n = plane.p
    found, x = lens(layer_of(plane)), np.arange(n)
    logits = np.stack([plane.logits(a) for a in range(n)])
    right = np.add.outer(x, x) % n
    return {
        "accuracy": float((logits.argmax(axis=2) == right).mean()),
        "symmetricity": wave_symmetricity(plane, found.parts) if found.clusters else None,
        "irrelevance": distance_irrelevance(logits[x[:, None], x, right]),
        "shared": found.r2.shared,
        "shared_permuted": found.controls.shared_permuted,
        "integral_accuracy": found.answers_right,
        "product_share": found.fourier.get("product_waves"),
    }
