"""`lipschitz`: the paper's ingredients, and the triangle inequality for everything the paper neglects.

T2. Let the closed form be Σ_k C_k |cos u| cos(k w (a+b-c)) over the clusters, C_k = (4/3) Σ_i ρ_i ω_i / 2π, and let
logits be taken relative to their mean over c, which no answer depends on. Then |logit - closed form| is at
most ε(a,b), the sum of

- output residual: Σ_i max_c |W_L[c,i] - ω_i cos(k w c + ψ_i)| (ReLU(U_a[a,i]) + ReLU(U_b[b,i])); outside clusters, all
  of W_L is residual;
- kink: Σ_i ω_i |constant term of pre_i|, which moves the kink of the ReLU;
- harmonics: Σ_i ω_i (|U_a at 2k| + |U_b at 2k|);
- cross-frequency: Σ_i ω_i (|what else U_a has| + |what else U_b has|);
- phase: Σ_i 2 ρ_i ω_i |cos u| |ψ_i - 2φ_i|, the distance around the circle;
- quadrature: 2 |cos u| Σ_i ρ_i ω_i / 2π times 2 Σ_i ∫_{rectangle i} |x - φ_i| dx  (the paper's linear-time bound);
- skip: max_c |S_a[a,c]| + max_c |S_b[b,c]|;
- rounding: of the float64 arithmetic behind these numbers.

Proof. Replace one thing at a time. W_L by its wave: the difference meets ReLU(pre) ≤ ReLU(U_a) + ReLU(U_b). pre by
2ρ cos u cos(s+φ): the ReLU is 1-Lipschitz. ψ by 2φ: cos is 1-Lipschitz and the ReLU at most 2ρ|cos u|. The sum over
neurons by the integral: ReLU(±cos(s+φ)) cos(θ+2φ) has slope at most 2 in φ, rectangles of width w_i tile the circle,
and the integral of the ReLU's wave is (2/3) cos(θ-2s), which 2|cos u| Σρω/2π makes the closed form. ∎

T3 follows: the margin is at least that of the closed form less 2 ε(a,b). It is vacuous on trained models, and says by
how much and why. Cost: `lipschitz_operations`, O(p d_mlp + p² |K|).
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from quadlens.certify.float32 import gain, magnitude, roundings
from quadlens.certify.operations import Operations
from quadlens.certify.proof import NoHints, Proof, Term, nothing_proved
from quadlens.model.collapsed import Collapsed
from quadlens.model.params import Model
from quadlens.spectrum.cluster import Cluster, NeuronSpectra, find_clusters, neuron_spectra

# Relative slack for the float64 arithmetic on the terms themselves: sums of at most 10^5 numbers of one sign.
SLACK = 1e-10
TERMS = ("quadrature", "phase", "harmonics", "cross-frequency", "output residual", "kink", "skip")


def lipschitz_operations(p: int, d_mlp: int, clustered: int, clusters: int) -> int:
    """20 p n + 8 p d_mlp + 2 p² |K| + 13 p², n the neurons in clusters: what is counted (trigonometry aside)."""
    return 20 * p * clustered + 8 * p * d_mlp + 2 * p**2 * clusters + 13 * p**2


@dataclass(frozen=True, eq=False)
class Budget:
    """Every term as a function of the input: term(a,b) = of_a[a] + of_b[b] + of_difference[(a-b) mod p].

    Attributes:
        of_a: By name, over a.
        of_b: By name, over b.
        of_difference: By name, over a - b.
        lead: The closed form's smallest lead over another answer, for each a - b.
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
        return np.asarray(spread + self.of_difference.get(name, zero)[difference])


@dataclass(frozen=True)
class Lipschitz:
    """Sound, and expected to prove nothing: the terms say where the margin goes."""

    name: str = "lipschitz"

    def prove(self, model: Model) -> Proof:
        """T2 with its terms, and T3 wherever the closed form leads by more than 2 ε."""
        p = model.config.p
        if model.config.activation != "relu":
            return nothing_proved(
                self.name,
                p,
                f"lipschitz knows the closed form of relu models; this one has {model.config.activation}: "
                "use --strategy arcs (abs) or brute",
            )
        collapsed = model.collapse()
        spectra = neuron_spectra(collapsed)
        clusters = find_clusters(spectra)
        ops = Operations()
        budget = error_budget(collapsed, spectra, clusters, ops)
        rounding = bound_float64(model)
        tables = {name: budget.table(name) * (1 + SLACK) for name in TERMS}
        error = sum(tables.values(), start=np.full((p, p), rounding))
        lead = budget.lead[np.subtract.outer(np.arange(p), np.arange(p)) % p]
        margins = lead * (1 - SLACK) - 2 * error
        certified = margins > 0
        # Eight tables added up, one doubled and taken from the lead, one comparison.
        ops.additions += 9 * p * p
        ops.comparisons += p * p
        terms = {name: Term(Fraction(float(table.max())), _where(table)) for name, table in tables.items()}
        worst = max(tables, key=lambda name: float(tables[name].max()))
        return Proof(
            strategy=self.name,
            certified=certified,
            margin=Fraction(float(margins[certified].min())) if certified.any() else None,
            exact=False,
            witnesses=(),
            hints=NoHints(),
            operations=ops,
            terms={**terms, "rounding": Term(Fraction(rounding))},
            logit_error=Fraction(float(error.max())),
            reason=None
            if certified.all()
            else (
                f"the bound on |logit - closed form| is up to {error.max():.3g} while the closed form leads by as "
                f"little as {lead.min():.3g}; the largest term is '{worst}', {tables[worst].max():.3g} at input "
                f"{_where(tables[worst])}"
            ),
        )


def _where(table: Float[np.ndarray, "p p"]) -> tuple[int, int]:
    a, b = np.unravel_index(int(np.argmax(table)), table.shape)
    return int(a), int(b)


def error_budget(
    collapsed: Collapsed, spectra: NeuronSpectra, clusters: tuple[Cluster, ...], ops: Operations
) -> Budget:
    """All terms but rounding."""
    p, tokens = collapsed.p, np.arange(collapsed.p)
    w = 2 * np.pi / p
    of_a = {name: np.zeros(p) for name in TERMS}
    of_b = {name: np.zeros(p) for name in TERMS}
    of_difference = {name: np.zeros(p) for name in ("quadrature", "phase")}
    lead = np.zeros((p, p))
    residual = collapsed.W_L - collapsed.W_L.mean(axis=0)
    for cluster in clusters:
        mine, k = cluster.neurons, cluster.k
        double = min(2 * k % p, p - 2 * k % p)
        residual[:, mine] -= cluster.omega * np.cos(np.outer(tokens * k % p, np.ones(len(mine))) * w + cluster.psi)
        paths = ((of_a, collapsed.U_a, spectra.path_a), (of_b, collapsed.U_b, spectra.path_b))
        for terms, U, path in paths:
            main = cluster.rho * np.cos((tokens * k % p)[:, None] * w + cluster.phi)
            second = path.amplitude[double - 1, mine] * np.cos(
                (tokens * double % p)[:, None] * w + path.phase[double - 1, mine]
            )
            other = U[:, mine] - path.mean[mine] - main - second
            terms["harmonics"] += np.abs(second) @ cluster.omega
            terms["cross-frequency"] += np.abs(other) @ cluster.omega
            # main and second, three differences, two weighted sums
            ops.multiplications += 4 * other.size
            ops.additions += 5 * other.size
        of_b["kink"] += np.abs(spectra.path_a.mean[mine] + spectra.path_b.mean[mine]) @ cluster.omega
        ops.multiplications += p * len(mine)
        ops.additions += p * len(mine)
        weight = cluster.rho * cluster.omega
        cos_u = np.abs(np.cos(tokens * k % (2 * p) * w / 2))
        # a - b modulo p fixes |cos u|: adding p to a - b turns k w (a-b)/2 by k π.
        of_difference["phase"] += 2 * cos_u * (weight @ circular_distance(cluster.psi, 2 * cluster.phi))
        of_difference["quadrature"] += 2 * cos_u * (weight.sum() / (2 * np.pi)) * bound_rectangles(cluster.phi, weight)
        lead += np.outer(cos_u * weight.sum() / (2 * np.pi) * 4 / 3, 1 - np.cos(tokens * k % p * w))
        ops.multiplications += lead.size
        ops.additions += lead.size
    reach = np.abs(residual).max(axis=0)
    # mean taken off and largest found; then two ReLUs and two weighted sums; then skip terms and the smallest lead
    ops.comparisons += 3 * residual.size + 3 * lead.size
    ops.additions += 3 * residual.size
    ops.multiplications += 2 * residual.size
    of_a["output residual"] = np.maximum(collapsed.U_a, 0) @ reach
    of_b["output residual"] = np.maximum(collapsed.U_b, 0) @ reach
    of_a["skip"] = np.abs(collapsed.S_a - collapsed.S_a.mean(axis=1, keepdims=True)).max(axis=1)
    of_b["skip"] = np.abs(collapsed.S_b - collapsed.S_b.mean(axis=1, keepdims=True)).max(axis=1)
    return Budget(of_a, of_b, of_difference, np.ascontiguousarray(lead[:, 1:].min(axis=1)))


def circular_distance(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """|x - y| around the circle, at most π (erratum 8)."""
    return np.abs((x - y + np.pi) % (2 * np.pi) - np.pi)


def bound_rectangles(phi: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"]) -> float:
    """2 Σ_i ∫_{rectangle i} |x - φ_i| dx with widths in proportion to `weight` (the paper's bound, erratum 3).

    Any place for the first edge is sound; the median distance from node to middle is a good one.
    """
    order = np.argsort(phi)
    node, width = phi[order], weight[order] * (2 * np.pi / weight.sum())
    stop = np.cumsum(width)
    first = np.median(node - (stop - width / 2))
    right = stop + first - node
    left = right - width
    inside = (left <= 0) & (right >= 0)
    area = np.where(inside, (right**2 + left**2) / 2, np.abs(right**2 - left**2) / 2)
    return float(2 * area.sum())


def bound_float64(model: Model) -> float:
    """Rounding of the float64 collapse and of the logits it stands for: the theorem of `float32.py` with u = 2^-53.

    The collapse associates products differently, which lengthens no path more than twice; means over c and the FFT add
    at most 2p additions to a path, and a cosine of a rounded angle is off by less than 32 units, in amplitudes that are
    at most twice the largest entry they belong to. Four times N, 2p and 128 are an allowance for all of it: argued,
    not derived operation by operation, and tested against a closed form in float64, not against an enclosure.
    """
    N = 4 * roundings(model.config) + 2 * model.config.p + 128
    gamma = Fraction(N, (1 << 53) - N)
    return float(gamma * (magnitude(model) + N * gain(model) * Fraction(1, 1 << 900))) * 1.01
