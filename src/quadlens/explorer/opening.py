"""What the page shows before anything is touched, computed by the Python rooms: the source of its static pictures."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from quadlens.model.activation import NONLINEARITIES, apply_activation
from quadlens.model.collapsed import Collapsed
from quadlens.model.evaluate import all_pairs, pair_logits
from quadlens.quadrature import (
    NoBound,
    Rectangles,
    Scheme,
    bound_angle,
    bound_relu_full,
    cos_baseline,
    exact_errors,
    rectangles,
    scheme_of,
)
from quadlens.spectrum.cluster import (
    Cluster,
    NeuronRoles,
    NeuronSpectra,
    find_clusters,
    find_roles,
    key_frequencies,
    neuron_spectra,
)

BLOCK_ROWS = 4096


@dataclass(frozen=True)
class RuleNumbers:
    """What the status line says about the chosen frequency.

    Attributes:
        sum: Σ w_i ReLU(±cos(s+φ_i)) cos(k w c + ψ_i).
        integral: ⅔ cos(k w (a+b-c)).
        exact: Exact worst error of ReLU over all a, b, any c, with ψ.
        bound: The paper's total for ReLU, full period.
        baseline: Mean size of the integral.
    """

    sum: float
    integral: float
    exact: float
    bound: float
    baseline: float


@dataclass(frozen=True, eq=False)
class Opening:
    """The first frame of the page: inputs, frequency and neuron as `state.js` chooses them.

    Attributes:
        collapsed: The model.
        a: First input.
        b: Second input.
    """

    collapsed: Collapsed
    a: int
    b: int

    @property
    def p(self) -> int:
        """Modulus."""
        return self.collapsed.p

    @property
    def c(self) -> int:
        """The right answer."""
        return (self.a + self.b) % self.p

    @cached_property
    def spectra(self) -> NeuronSpectra:
        """Spectra of every neuron."""
        return neuron_spectra(self.collapsed)

    @cached_property
    def roles(self) -> NeuronRoles:
        """Frequencies and phases of every neuron."""
        return find_roles(self.spectra)

    @cached_property
    def clusters(self) -> tuple[Cluster, ...]:
        """Clusters in order of k."""
        return find_clusters(self.spectra)

    @cached_property
    def keys(self) -> tuple[int, ...]:
        """Key frequencies."""
        return key_frequencies(self.clusters)

    @cached_property
    def cluster(self) -> Cluster | None:
        """The cluster with the largest Σ ρω; None where no neuron reads and writes the same frequency."""
        if not self.clusters:
            return None
        return self.clusters[_first_largest(np.array([float((one.rho * one.omega).sum()) for one in self.clusters]))]

    @cached_property
    def neuron(self) -> int:
        """Its heaviest neuron (neuron 0 where there is no cluster)."""
        if self.cluster is None:
            return 0
        return int(self.cluster.neurons[_first_largest(self.cluster.rho * self.cluster.omega)])

    @cached_property
    def scheme(self) -> Scheme | None:
        """The cluster as a quadrature rule."""
        found = None if self.cluster is None else scheme_of(self.cluster)
        return None if isinstance(found, NoBound) else found

    @cached_property
    def rects(self) -> Rectangles | None:
        """The rule's rectangles."""
        return None if self.scheme is None else rectangles(self.scheme)

    @cached_property
    def logits(self) -> Float[np.ndarray, " p"]:
        """Logits of (a, b)."""
        return pair_logits(self.collapsed, np.array([[self.a, self.b]]))[0]

    @cached_property
    def parts(self) -> tuple[tuple[int | str, Float[np.ndarray, " p"]], ...]:
        """The logits of (a, b) taken apart: even part by key frequency, "other", "identity", "skip"."""
        m, pre = self.collapsed, self.collapsed.U_a[self.a] + self.collapsed.U_b[self.b]
        sigma = NONLINEARITIES[m.activation]
        odd, even = sigma.odd(pre), sigma.even(pre)
        rest, found = np.ones(m.d_mlp, dtype=bool), []
        for one in self.clusters:
            if one.k in self.keys:
                found.append((one.k, m.W_L[:, one.neurons] @ even[one.neurons]))
                rest[one.neurons] = False
        return (
            *found,
            ("other", m.W_L[:, rest] @ even[rest]),
            ("identity", m.W_L @ odd),
            ("skip", m.S_a[self.a] + m.S_b[self.b]),
        )

    @cached_property
    def margins(self) -> Float[np.ndarray, "p p"]:
        """Right logit minus the best other for every (a, b)."""
        pairs, found = all_pairs(self.p), []
        for start in range(0, len(pairs), BLOCK_ROWS):
            block = pairs[start : start + BLOCK_ROWS]
            logits, rows = pair_logits(self.collapsed, block), np.arange(len(block))
            right: Int[np.ndarray, " n"] = block.sum(axis=1) % self.p
            best = logits[rows, right]
            logits[rows, right] = -np.inf
            found.append(best - logits.max(axis=1))
        return np.concatenate(found).reshape(self.p, self.p)

    @cached_property
    def pre(self) -> Float[np.ndarray, "p p"]:
        """Pre-activation of the chosen neuron, [a, b]."""
        return self.collapsed.U_a[:, self.neuron, None] + self.collapsed.U_b[None, :, self.neuron]

    def heights(self, phi: Float[np.ndarray, " n"], out: Float[np.ndarray, " n"], k: int) -> Float[np.ndarray, " n"]:
        """σ(±cos(s+φ)) cos(k w c + out), ± the sign of cos u: heights of rectangles, or the curve h with out = 2φ."""
        s, u = np.pi * k * (self.a + self.b) / self.p, np.pi * k * (self.a - self.b) / self.p
        side = -1.0 if np.cos(u) < 0 else 1.0
        return apply_activation(self.collapsed.activation, side * np.cos(s + phi)) * np.cos(
            2 * np.pi * k * self.c / self.p + out
        )

    @cached_property
    def numbers(self) -> RuleNumbers | None:
        """Figures of the rule for ReLU models; None where there is no rule or another activation."""
        rule = self.scheme
        if rule is None or self.collapsed.activation != "relu":
            return None
        total = float((rule.w * self.heights(rule.phi, rule.psi, rule.k)).sum())
        return RuleNumbers(
            sum=total,
            integral=2 / 3,
            exact=exact_errors(rule, with_psi=True).relu.middle,
            bound=bound_relu_full(rule).value + bound_angle(rule).value,
            baseline=cos_baseline(rule).middle / 2,
        )


def _first_largest(sizes: Float[np.ndarray, " n"]) -> int:
    """Index of the largest; of entries that are equal up to rounding, the first (as in `clusters.js`)."""
    return int(np.flatnonzero(sizes >= sizes.max() * (1 - 1e-6))[0])


def opening_of(collapsed: Collapsed) -> Opening:
    """The frame at the inputs that `state.js` starts with."""
    return Opening(collapsed, min(12, collapsed.p - 1), min(30, collapsed.p - 2))
