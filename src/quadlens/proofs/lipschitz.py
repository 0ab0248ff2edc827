"""`lipschitz`: the paper's ingredients, and the triangle inequality for everything the paper neglects.

T2. Let the pizza form be Σ_k C_k |cos u| cos(k w (a+b-c)) over the clusters, C_k = (4/3) Σ_i ρ_i ω_i / 2π, and let
logits be taken relative to their mean over c, which no answer depends on. Then |logit - pizza form| is at
most ε(a,b), the sum of

- output residual: Σ_i max_c |W_L[c,i] - ω_i cos(k w c + ψ_i)| (ReLU(U_a[a,i]) + ReLU(U_b[b,i])); outside clusters, all
  of W_L is residual;
- kink: Σ_i ω_i |constant term of pre_i|, which moves the kink of the ReLU;
- harmonics: Σ_i ω_i (|U_a at 2k| + |U_b at 2k|);
- cross-frequency: Σ_i ω_i (|what else U_a has| + |what else U_b has|);
- phase: Σ_i 2 ρ_i ω_i |cos u| |ψ_i - 2φ_i|, the distance around the circle;
- quadrature: 2 |cos u| Σ_i ρ_i ω_i / 2π times 2 Σ_i ∫_{rectangle i} |x - φ_i| dx  (the paper's linear-time bound);
- skip: max_c |S_a[a,c]| + max_c |S_b[b,c]|;
- rounding: of adding these up.

Proof. Replace one thing at a time. W_L by its wave: the difference meets ReLU(pre) ≤ ReLU(U_a) + ReLU(U_b). pre by
2ρ cos u cos(s+φ): the ReLU is 1-Lipschitz. ψ by 2φ: cos is 1-Lipschitz and the ReLU at most 2ρ|cos u|. The sum over
neurons by the integral: ReLU(±cos(s+φ)) cos(θ+2φ) has slope at most 2 in φ, rectangles of width w_i tile the circle,
and the integral of the ReLU's wave is (2/3) cos(θ-2s), which 2|cos u| Σρω/2π makes the pizza form. ∎

The proof holds for any ρ_i ≥ 0 and ω_i ≥ 0 (which rectangles need, and the ReLU to let 2ρ|cos u| out; `error_budget`
looks), any φ_i and ψ_i, and constant terms and second waves whatever: what they miss is in a residual. So those of the
float64 spectrum are taken as they are, as hints, and nothing is known or assumed about the rounding of the FFT that
made them. From there on every number is enclosed (`enclosed.py`): the exact collapse rounded once, cos and sin by Arb,
and each term an upper bound with its own rounding in it.

T3 follows: the margin is at least that of the pizza form less 2 ε(a,b). It is vacuous on trained models, and says by
how much and why. Cost: `lipschitz_operations`, O(p d_mlp + p² |K|); one operation on an enclosed number counts as one.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from quadlens.model.tables import Tables
from quadlens.model.weights import Weights
from quadlens.numbers import bound, significant
from quadlens.proofs.brute import is_exact
from quadlens.proofs.enclosed import (
    RELATIVE,
    Enclosed,
    bound_weighted_sum,
    enclosed_circle,
    enclosed_collapse,
    enclosed_waves,
    upward,
    upward_sum,
)
from quadlens.proofs.proof import Mark, Proof, StrategyFacts, Term, nothing_proved
from quadlens.spectrum.amplitude_phase import AmplitudePhase
from quadlens.spectrum.anatomy import Anatomy, anatomy_of
from quadlens.spectrum.cluster import Cluster, NeuronSpectra
from quadlens.spectrum.harmonics import doubled

TERMS = ("quadrature", "phase", "harmonics", "cross-frequency", "output residual", "kink", "skip")
TWO_PI = Enclosed(np.array([2 * np.pi]), np.array([2.0**-51]))


def lipschitz_operations(p: int, d_mlp: int, clustered: int, clusters: int) -> int:
    """30 p n + 24 n + 8 p d_mlp + 3 p² |K| + 20 p²: n the neurons in clusters, trigonometry and O(p |K|) aside.

    A neuron in a cluster: on each path two waves (6), what is left (3) and two weighted sums (4), and its wave in W_L
    taken off (4), for every token; its rectangle, its phase and its constant term 24. Any neuron and token: W_L less
    its mean and the largest of it (4), two ReLUs with weighted sums (4). The lead of a cluster 3 for each (a - b, δ),
    and for each input: skip terms less their mean and the largest of them (8), the smallest lead, the sum of the
    terms, the margin and its sign (12).
    """
    return 30 * p * clustered + 24 * clustered + 8 * p * d_mlp + 3 * p**2 * clusters + 20 * p**2


@dataclass(frozen=True, eq=False)
class Budget:
    """Every term as a function of the input: term(a,b) = of_a[a] + of_b[b] + of_difference[(a-b) mod p].

    Attributes:
        of_a: By name, over a; upper bounds.
        of_b: By name, over b.
        of_difference: By name, over a - b.
        lead: A lower bound of the pizza form's smallest lead over another answer, for each a - b.
    """

    of_a: dict[str, Float[np.ndarray, " p"]]
    of_b: dict[str, Float[np.ndarray, " p"]]
    of_difference: dict[str, Float[np.ndarray, " p"]]
    lead: Float[np.ndarray, " p"]

    def table(self, name: str) -> Float[np.ndarray, "p p"]:
        """One term, for every input."""
        p = len(self.lead)
        difference = np.subtract.outer(np.arange(p), np.arange(p)) % p
        zero = np.zeros(p)
        spread = np.add.outer(self.of_a.get(name, zero), self.of_b.get(name, zero))
        return upward_sum(spread + self.of_difference.get(name, zero)[difference])


@dataclass(frozen=True)
class Lipschitz:
    """Sound, and expected to prove nothing: the terms say where the margin goes."""

    facts: ClassVar = StrategyFacts(
        name="lipschitz",
        description="Bounds each thing the pizza form neglects by itself: proves little, says where the margin goes.",
        activations=("relu",),
        mark=Mark("o", "bound"),
        has_certificate=False,
    )

    def prove(self, subject: Weights | Anatomy) -> Proof:
        """T2 with its terms, and T3 wherever the pizza form leads by more than 2 ε(a,b)."""
        anatomy = anatomy_of(subject)
        p = anatomy.config.p
        if anatomy.config.activation not in self.facts.activations:
            return nothing_proved(
                self.facts.name,
                p,
                f"lipschitz knows the pizza form of relu models; this one has {anatomy.config.activation}: "
                "use the strategy arcs (abs) or brute",
            )
        if not anatomy.config.task.is_addition or p % 2 == 0 or not is_exact(anatomy.config):
            words = "lipschitz knows the pizza form of constant attention and a + b modulo an odd number"
            return nothing_proved(self.facts.name, p, f"{words}; this model is asked {anatomy.config.task.words}")
        too_large = "numbers of this model or their products are beyond float64: use brute, arcs or moments"
        spectra, clusters = anatomy.spectra, anatomy.clusters
        try:
            collapsed = enclosed_collapse(anatomy)
        except OverflowError:
            return nothing_proved(self.facts.name, p, too_large)
        with np.errstate(over="ignore", invalid="ignore"):
            budget = error_budget(p, collapsed, spectra, clusters)
            tables = {name: budget.table(name) for name in TERMS}
            total = np.sum(list(tables.values()), axis=0)
            # Seven additions and one more lose less than 16 u of what is added up; this is 32 u.
            rounding = RELATIVE * float(total.max())
            error = total + rounding
            lead = budget.lead[np.subtract.outer(np.arange(p), np.arange(p)) % p]
            margins = (Enclosed.exactly(lead) - Enclosed.exactly(2 * error)).lower()
        if not (np.isfinite(error).all() and np.isfinite(margins).all()):
            return nothing_proved(self.facts.name, p, too_large)
        certified = margins > 0
        terms = {name: Term(Fraction(float(table.max())), _where(table)) for name, table in tables.items()}
        worst = max(tables, key=lambda name: float(tables[name].max()))
        return Proof(
            strategy=self.facts.name,
            certified=certified,
            margin=Fraction(float(margins[certified].min())) if certified.any() else None,
            exact=False,
            witnesses=(),
            hints=None,
            operations=lipschitz_operations(
                p, anatomy.config.d_mlp, sum(len(one.neurons) for one in clusters), len(clusters)
            ),
            terms={**terms, "rounding": Term(Fraction(rounding))},
            logit_error=Fraction(float(error.max())),
            reason=None
            if certified.all()
            else (
                f"the bound on |logit - pizza form| is up to {bound(float(error.max()))} while the pizza form leads by "
                f"as little as {significant(float(lead.min()), 'down', 4)}; the largest term is '{worst}', "
                f"{bound(terms[worst].bound)} at input {_where(tables[worst])}"
            ),
        )


def _where(table: Float[np.ndarray, "p p"]) -> tuple[int, int]:
    a, b = np.unravel_index(int(np.argmax(table)), table.shape)
    return int(a), int(b)


def error_budget(p: int, collapsed: Tables[Enclosed], spectra: NeuronSpectra, clusters: tuple[Cluster, ...]) -> Budget:
    """All terms but rounding.

    Raises:
        ValueError: for a negative amplitude; the wave is the same with its sign in the phase, the pizza form is not.
    """
    if any((cluster.rho < 0).any() or (cluster.omega < 0).any() for cluster in clusters):
        raise ValueError("a neuron has a negative amplitude")
    of_a = {name: np.zeros(p) for name in TERMS}
    of_b = {name: np.zeros(p) for name in TERMS}
    of_difference = {name: np.zeros(p) for name in ("quadrature", "phase")}
    half = enclosed_circle(2 * p)
    residual = collapsed.W_L - _mean(collapsed.W_L, 0)
    reach = np.ascontiguousarray(residual.magnitude().max(axis=0))
    lead = Enclosed.exactly(np.zeros((p, p)))
    for cluster in clusters:
        mine, omega = cluster.neurons, np.abs(cluster.omega)
        cos_phi, sin_phi = enclosed_waves(cluster.phi)
        main = _wave(half, cluster.k, _times(cluster.rho, cos_phi), _times(cluster.rho, sin_phi))
        for terms, U, path in ((of_a, collapsed.U_a, spectra.path_a), (of_b, collapsed.U_b, spectra.path_b)):
            second = _second_wave(half, path, cluster)
            other = U[:, mine] - Enclosed.exactly(path.mean[mine]) - main - second
            terms["harmonics"] = upward_sum(terms["harmonics"] + bound_weighted_sum(second.magnitude(), omega))
            terms["cross-frequency"] = upward_sum(
                terms["cross-frequency"] + bound_weighted_sum(other.magnitude(), omega)
            )
        constant = Enclosed.exactly(spectra.path_a.mean[mine]) + Enclosed.exactly(spectra.path_b.mean[mine])
        of_b["kink"] = upward_sum(of_b["kink"] + bound_weighted_sum(constant.magnitude(), omega))
        cos_psi, sin_psi = enclosed_waves(cluster.psi)
        wave = _wave(half, cluster.k, _times(cluster.omega, cos_psi), _times(cluster.omega, sin_psi))
        reach[mine] = (residual[:, mine] - wave).magnitude().max(axis=0)
        _add_rule(cluster, half, of_difference)
        lead = lead + _lead(cluster, half)
    of_a["output residual"] = bound_weighted_sum(np.maximum(collapsed.U_a.upper(), 0), reach)
    of_b["output residual"] = bound_weighted_sum(np.maximum(collapsed.U_b.upper(), 0), reach)
    for terms, S in ((of_a, collapsed.S_a), (of_b, collapsed.S_b)):
        if S.middle.any() or S.radius.any():
            terms["skip"] = (S - _mean(S, 1)).magnitude().max(axis=1)
    return Budget(of_a, of_b, of_difference, np.ascontiguousarray(lead.lower()[:, 1:].min(axis=1)))


def _mean(x: Enclosed, axis: int) -> Enclosed:
    """The mean over the answers c, kept as an axis."""
    return x.sum(axis) / _number(float(x.middle.shape[axis]))


def _number(x: float) -> Enclosed:
    return Enclosed.exactly(np.array([x]))


def _times(amplitude: Float[np.ndarray, " n"], wave: Enclosed) -> Enclosed:
    return Enclosed.exactly(amplitude) * wave


def _wave(half: tuple[Enclosed, Enclosed], k: int, cosine: Enclosed, sine: Enclosed) -> Enclosed:
    """The wave r cos(k w n + phase) = r cos(phase) cos(k w n) - r sin(phase) sin(k w n), [n, neuron]."""
    p = half[0].size // 2
    at = (2 * (np.arange(p) * k % p))[:, None]
    return half[0][at] * cosine[None] - half[1][at] * sine[None]


def _second_wave(half: tuple[Enclosed, Enclosed], path: AmplitudePhase, cluster: Cluster) -> Enclosed:
    """What a path has at 2k, [token, neuron]; its two coefficients are hints."""
    double = doubled(cluster.k, cluster.p)
    amplitude, phase = path.amplitude[double - 1, cluster.neurons], path.phase[double - 1, cluster.neurons]
    cosine, sine = amplitude * np.cos(phase), amplitude * np.sin(phase)
    return _wave(half, double, Enclosed.exactly(cosine), Enclosed.exactly(sine))


def _half_turns(cluster: Cluster, half: tuple[Enclosed, Enclosed]) -> Enclosed:
    """|cos u| for each a - b; adding p to a - b turns u = k w (a-b)/2 by k π and changes nothing."""
    return abs(half[0][np.arange(cluster.p) * cluster.k % (2 * cluster.p)])


def _density(cluster: Cluster) -> tuple[Enclosed, Enclosed]:
    """ρ_i ω_i, and Σ_i ρ_i ω_i / 2π."""
    weight = Enclosed.exactly(cluster.rho) * Enclosed.exactly(cluster.omega)
    return weight, weight.sum(0) / TWO_PI


def _lead(cluster: Cluster, half: tuple[Enclosed, Enclosed]) -> Enclosed:
    """C_k |cos u| (1 - cos k w δ), [a - b, δ]."""
    C = _density(cluster)[1] * (_number(4.0) / _number(3.0))
    turn = half[0][2 * (np.arange(cluster.p) * cluster.k % cluster.p)]
    return (_half_turns(cluster, half) * C)[:, None] * (Enclosed.exactly(np.ones(cluster.p)) - turn)[None]


def _add_rule(
    cluster: Cluster, half: tuple[Enclosed, Enclosed], of_difference: dict[str, Float[np.ndarray, " p"]]
) -> None:
    """The cluster as a quadrature rule: what its phases and its rectangles miss."""
    weight, density = _density(cluster)
    twice_cos_u = 2 * _half_turns(cluster, half).magnitude()
    distance = circular_distance(cluster.psi, 2 * cluster.phi).magnitude()
    phase = bound_weighted_sum(distance, weight.magnitude())
    quadrature = upward(density.magnitude() * bound_rectangles(cluster.phi, weight))
    of_difference["phase"] = upward(of_difference["phase"] + twice_cos_u * phase)
    of_difference["quadrature"] = upward(of_difference["quadrature"] + twice_cos_u * quadrature)


def circular_distance(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> Enclosed:
    """The angle x - y less the nearest number of full turns (erratum 8)."""
    turns = np.rint((x - y) / (2 * np.pi))
    return Enclosed.exactly(x) - Enclosed.exactly(y) - Enclosed.exactly(turns) * TWO_PI


def bound_rectangles(phi: Float[np.ndarray, " n"], weight: Enclosed) -> float:
    """2 Σ_i ∫_{rectangle i} |x - φ_i| dx with widths in proportion to `weight` (the paper's bound, erratum 3).

    Any place for the first edge is sound; the median distance from node to middle is a good one. The integral from
    `left` to `right` is F(right) - F(left) with F(x) = x|x|/2, which grows with x.
    """
    order = np.argsort(phi)
    node, mine = Enclosed.exactly(phi[order]), weight[order]
    width = mine * (TWO_PI / mine.sum(0))
    stop = width.running_sum(0)
    first = float(np.median(node.middle - (stop.middle - width.middle / 2)))
    right = stop + _number(first) - node
    left = right - width
    top, bottom = Enclosed.exactly(right.upper()), Enclosed.exactly(left.lower())
    twice_area = top * abs(top) - bottom * abs(bottom)
    return float(twice_area.sum(0).magnitude()[0])
