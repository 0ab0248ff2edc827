"""What the page shows before anything is touched: the source of its static pictures and sentences."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from quadlens.infinite_width.inputs import inputs_of
from quadlens.infinite_width.integral import SharedFunction, shared_function
from quadlens.infinite_width.waves import MAX_DEGREE, PlaneCluster, cluster_of, find_plane_clusters, plane_spectrum
from quadlens.model.activation import NONLINEARITIES, Nonlinearity, apply_activation
from quadlens.model.evaluate import margins
from quadlens.model.tables import FloatTables
from quadlens.model.task import Task
from quadlens.quadrature import (
    NoBound,
    Rectangles,
    Scheme,
    bound_abs_full,
    bound_angle,
    bound_relu_full,
    cos_baseline,
    exact_errors,
    rectangles,
    scheme_of,
)
from quadlens.spectrum.anatomy import Anatomy
from quadlens.spectrum.cluster import Cluster

# More elements than these have their neurons' waves over all inputs transformed too slowly in a browser (`lens.js`).
LARGEST_SHARED = 131


@dataclass(frozen=True)
class ErrorOfRule:
    """Worst error of the chosen cluster as a quadrature rule.

    Attributes:
        exact: Exact worst error over all a, b, any c, with ψ.
        bound: The paper's total, full period; rounding included.
        baseline: Mean size of the integral.
    """

    exact: float
    bound: float
    baseline: float


@dataclass(frozen=True, eq=False)
class FirstFrame:
    """The page as it opens: inputs, frequency and neuron as `state.js` chooses them.

    Attributes:
        anatomy: The model, taken apart.
        a: First input.
        b: Second input.
    """

    anatomy: Anatomy
    a: int
    b: int

    @property
    def layer(self) -> FloatTables:
        """The model, its elements numbered as in its file."""
        return self.anatomy.layer

    @property
    def p(self) -> int:
        """Number of elements."""
        return self.layer.p

    @property
    def task(self) -> Task:
        """What the model is asked."""
        return self.layer.task

    @property
    def waves(self) -> bool:
        """Whether neurons have frequencies: constant attention, and a task that some renaming makes addition."""
        return self.layer.is_additive and self.task.cyclic is not None

    @property
    def sigma(self) -> Nonlinearity:
        """The activation."""
        return NONLINEARITIES[self.layer.activation]

    @cached_property
    def shared(self) -> tuple[tuple[PlaneCluster, SharedFunction], ...] | None:
        """What the neurons of each key frequency share; None for constant attention, and without frequencies."""
        if not self.layer.gated or self.task.cyclic is None or self.p > LARGEST_SHARED:
            return None
        inputs = inputs_of(self.layer)
        spectrum = plane_spectrum(inputs.pre, inputs.W_L)
        found = [cluster_of(spectrum, one.k, one.neurons, MAX_DEGREE) for one in find_plane_clusters(spectrum)]
        return tuple((one, shared_function(one)) for one in found)

    @property
    def difference(self) -> int:
        """A - b of the elements renamed so that the task is addition."""
        new = self.task.cyclic
        return 0 if new is None else int(new.of_a[self.a] - new.of_b[self.b]) % self.p

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """Neurons that read and write the same frequency; none where neurons have no frequencies."""
        return self.anatomy.clusters if self.waves else ()

    @property
    def keys(self) -> tuple[int, ...]:
        """Key frequencies."""
        return self.anatomy.key_frequencies if self.waves else ()

    @property
    def constant_attention(self) -> tuple[float, ...]:
        """The constant part of attention on each position; empty where there is no attention."""
        return self.anatomy.config.attention

    @property
    def c(self) -> int:
        """The right answer."""
        return int(self.task.answers[self.a, self.b])

    @cached_property
    def cluster(self) -> Cluster | None:
        """The cluster with the largest Σ ρω; None where no neuron reads and writes the same frequency."""
        clusters = self.clusters
        if not clusters:
            return None
        return clusters[_first_largest(np.array([float((one.rho * one.omega).sum()) for one in clusters]))]

    @cached_property
    def neuron(self) -> int:
        """Its heaviest neuron (neuron 0 where there is no cluster)."""
        if self.cluster is None:
            return 0
        return int(self.cluster.neurons[_first_largest(self.cluster.rho * self.cluster.omega)])

    @cached_property
    def scheme(self) -> Scheme | None:
        """The cluster as a quadrature rule; only where σ(t x) = t^d σ(x) is one curve h right for all its neurons."""
        found = None if self.cluster is None or self.sigma.degree is None else scheme_of(self.cluster)
        return None if isinstance(found, NoBound) else found

    @cached_property
    def rects(self) -> Rectangles | None:
        """The rule's rectangles."""
        return None if self.scheme is None else rectangles(self.scheme)

    @cached_property
    def logits(self) -> Float[np.ndarray, " p"]:
        """Logits of (a, b)."""
        return self.layer.logits(self.a)[self.b]

    @cached_property
    def parts(self) -> tuple[tuple[int | str, Float[np.ndarray, " p"]], ...]:
        """The logits of (a, b) taken apart: even part by key frequency, "other", "identity", "skip"."""
        m, pre = self.layer, self.layer.pre(self.a)[self.b]
        odd, even = self.sigma.odd(pre), self.sigma.even(pre)
        rest, found = np.ones(m.d_mlp, dtype=bool), []
        for one in self.clusters:
            if one.k in self.keys:
                found.append((one.k, m.W_L[:, one.neurons] @ even[one.neurons]))
                rest[one.neurons] = False
        return (
            *found,
            ("other", m.W_L[:, rest] @ even[rest]),
            ("identity", m.W_L @ odd),
            ("skip", m.skip(self.a)[self.b]),
        )

    @cached_property
    def margins(self) -> Float[np.ndarray, "p p"]:
        """Right logit minus the best other for every (a, b)."""
        return margins(self.layer)

    @property
    def wrong(self) -> int:
        """How many inputs are answered wrong; a tie is not right."""
        return int((~(self.margins > 0)).sum())

    @cached_property
    def pre(self) -> Float[np.ndarray, "p p"]:
        """Pre-activation of the chosen neuron, [a, b]."""
        return np.stack([self.layer.pre(a)[:, self.neuron] for a in range(self.p)])

    def heights(self, phi: Float[np.ndarray, " n"], out: Float[np.ndarray, " n"], k: int) -> Float[np.ndarray, " n"]:
        """σ(±cos(s+φ)) cos(k w c + out), ± the sign of cos u: heights of rectangles, or the curve h with out = 2φ."""
        new = self.task.cyclic
        if new is None:
            raise ValueError("no frequency without a cyclic relabelling")
        a, b, c = int(new.of_a[self.a]), int(new.of_b[self.b]), int(new.of_c[self.c])
        s, u = np.pi * k * (a + b) / self.p, np.pi * k * (a - b) / self.p
        side = -1.0 if np.cos(u) < 0 else 1.0
        return apply_activation(self.layer.activation, side * np.cos(s + phi)) * np.cos(
            2 * np.pi * k * c / self.p + out
        )

    @property
    def integral(self) -> float:
        """∫ σ(cos x) cos 2x dx: what the rectangles' sum approximates here, where c is the right answer."""
        return float(2 * np.pi * self.sigma.lambda_2(np.ones(1))[0])

    @cached_property
    def error(self) -> ErrorOfRule | None:
        """Exact error and the paper's bound; None where there is no rule, or the activation has no such bound."""
        rule = self.scheme
        if rule is None or not self.sigma.is_piecewise_linear:
            return None
        exact, baseline = exact_errors(rule, with_psi=True), cos_baseline(rule).middle
        if self.sigma.is_even:
            return ErrorOfRule(exact.absolute.middle, (bound_abs_full(rule) + bound_angle(rule)).value, baseline)
        return ErrorOfRule(exact.relu.middle, (bound_relu_full(rule) + bound_angle(rule)).value, baseline / 2)


def _first_largest(sizes: Float[np.ndarray, " n"]) -> int:
    """Index of the largest; of entries that are equal up to rounding, the first (as in `clusters.js`)."""
    return int(np.flatnonzero(sizes >= sizes.max() * (1 - 1e-6))[0])


def first_frame(anatomy: Anatomy) -> FirstFrame:
    """The frame at the inputs that `state.js` starts with."""
    p = anatomy.config.p
    return FirstFrame(anatomy, min(12, p - 1), min(30, p - 2))
