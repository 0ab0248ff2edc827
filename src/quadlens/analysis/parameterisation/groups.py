"""A few numbers for each frequency: what its neurons share, fitted to a network's tables.

    U_a[a,i] = ρ_i (α_a cos x + η_a cos 2x),             x = k w a + φ_i + δ
    U_b[b,i] = ρ_i (α_b cos y + η_b cos 2y + γ),         y = k w b + φ_i - δ
    W_L[c,i] = ω_i cos(k w c + 2 φ_i)

φ_i and ρ_i are phase and amplitude of what neuron i reads at its primary frequency k, δ the shift
that a frequency's neurons have in common (0 with one vocabulary); ω_i, the α, the η and γ are then
least squares on U_a, U_b and W_L.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.analysis.spectrum.cluster import Cluster
from quadlens.base.display import short
from quadlens.network.tables import FloatTables


@short
@dataclass(frozen=True)
class SharedNumbers:
    """The function that a frequency's neurons share (the module's formulas).

    Attributes:
        a: α_a and η_a, of the wave and of the double wave.
        b: α_b and η_b.
        constant: γ.
        shift: δ.
    """

    a: tuple[float, float] = (1.0, 0.0)
    b: tuple[float, float] = (1.0, 0.0)
    constant: float = 0.0
    shift: float = 0.0


@short
@dataclass(frozen=True, eq=False)
class FrequencyGroup:
    """The neurons of one frequency.

    Attributes:
        cluster: Which they are, φ_i and ρ_i.
        omega: ω_i.
        shared: What they have in common.
    """

    cluster: Cluster
    omega: Float[np.ndarray, " n"]
    shared: SharedNumbers

    @property
    def waves(self) -> tuple[tuple[int, float, float], ...]:
        """(m, size in a, size in b) of each wave m k that the neurons read."""
        sizes = enumerate(zip(self.shared.a, self.shared.b, strict=True), 1)
        return tuple((m, *size) for m, size in sizes if m == 1 or any(size))

    def evenly(self, nodes: int) -> "FrequencyGroup":
        """Return evenly spread neurons with the same Σ ω_i and Σ ρ_i ω_i.

        They are the integral by the trapezoidal rule.
        """
        phi, ones = 2 * np.pi * np.arange(nodes) / nodes, np.ones(nodes)
        total = float(self.omega.sum())
        rho = float((self.cluster.rho * self.omega).sum()) / (total or 1.0)
        cluster = replace(
            self.cluster, neurons=np.arange(nodes), phi=phi, psi=2 * phi, rho=rho * ones, omega=ones
        )
        return replace(self, cluster=cluster, omega=total / nodes * ones)


def fit_groups(
    anatomy: Anatomy, constant: bool = True, double: bool = True, embedding: bool = True
) -> tuple[FrequencyGroup, ...]:
    """One group for every key frequency; see `parameterise` for the options."""
    tables, keys = anatomy.collapsed, anatomy.key_frequencies
    fitted = (
        _fitted(cluster, tables, constant, double, embedding)
        for cluster in anatomy.clusters
        if cluster.k in keys
    )
    return tuple(fitted)


def _fitted(
    cluster: Cluster, tables: FloatTables, constant: bool, double: bool, embedding: bool
) -> FrequencyGroup:
    shift, double = cluster.common_shift, double and not cluster.is_sign_wave
    a, b = (
        _coefficients(cluster, U, turn) for U, turn in ((tables.U_a, shift), (tables.U_b, -shift))
    )
    eta = (a[1], b[1]) if embedding else ((a[1] + b[1]) / 2,) * 2
    alpha = (a[0], b[0]) if embedding else (1.0, 1.0)
    sides = tuple((x, y if double else 0.0) for x, y in zip(alpha, eta, strict=True))
    shared = SharedNumbers(sides[0], sides[1], a[2] + b[2] if constant else 0.0, shift)
    # The part of what a neuron writes that has the phase 2φ.
    return FrequencyGroup(cluster, cluster.omega * np.cos(cluster.psi - 2 * cluster.phi), shared)


def _coefficients(
    cluster: Cluster, U: Float[np.ndarray, "p d_mlp"], turn: float
) -> tuple[float, float, float]:
    """Least squares for wave, double wave and constant of all the group's neurons at once."""
    # A sign wave's double is constant.
    columns = [
        cluster.rho * np.cos(m * (angle_column(cluster) + cluster.phi + turn)) for m in (1, 0, 2)
    ]
    basis = np.stack([column.ravel() for column in columns], axis=1)[
        :, : 2 if cluster.is_sign_wave else 3
    ]
    alpha, gamma, *eta = np.linalg.lstsq(basis, U[:, cluster.neurons].ravel())[0].tolist()
    return alpha, eta[0] if eta else 0.0, gamma


def angle_column(cluster: Cluster) -> Float[np.ndarray, "p 1"]:
    """The angle k w a of every a, as a column."""
    return (2 * np.pi / cluster.p * (cluster.k * np.arange(cluster.p) % cluster.p))[:, None]


def logit_r2(simple: FloatTables, network: FloatTables) -> float:
    """Return 1 - ‖difference of logits‖² / ‖network's logits‖², nothing fitted.

    Each input's mean over c is left out.
    """
    left = total = 0.0
    # Relative to the largest, so that squares of logits of any size are finite.
    largest = max(float(np.abs(network.logits(a)).max()) for a in range(network.p)) or 1.0
    for a in range(network.p):
        both = (network.logits(a) / largest, simple.logits(a) / largest)
        theirs, ours = (x - x.mean(axis=1, keepdims=True) for x in both)
        left, total = (
            left + float(np.square(theirs - ours).sum()),
            total + float(np.square(theirs).sum()),
        )
    return 1 - left / total if total > 0 else 0.0
