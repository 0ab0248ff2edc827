"""Worst errors over a model's quadrature rules."""

from dataclasses import dataclass

from quadlens.analysis.quadrature.analysis import ClusterBounds
from quadlens.analysis.quadrature.integrals import half_of
from quadlens.base.numbers import of_mean_size
from quadlens.network.activation import Activation


@dataclass(frozen=True)
class RuleError:
    """The worst exact error of a model's quadrature rules, over all a, b, c, with its ψ.

    Attributes:
        k: The frequency whose rule has it.
        size: Upper end, over the mean size of the integral.
    """

    k: int
    size: float

    @property
    def words(self) -> str:
        """The size in per cent, rounded up."""
        return of_mean_size(self.size)


@dataclass(frozen=True)
class RuleErrors:
    """Worst errors over the key frequencies that are rules, over the integrals' mean sizes.

    Upper ends throughout, so that "at most" is true.

    Attributes:
        absolute: Exact, of the absolute part |cos|, output phases as the model has them.
        relu: Exact, of ReLU: the identity part included.
        model: That of the two which is this model's activation, and the frequency that has it.
        bound: The paper's bound on `absolute`.
        moment: The moment bound on `absolute`.
    """

    absolute: float
    relu: float
    model: RuleError
    bound: float
    moment: float


def error_of(cluster: ClusterBounds, activation: Activation) -> RuleError:
    """The exact error of one rule with the model's own activation, ReLU or |x|."""
    return RuleError(
        cluster.k, _relu(cluster) if activation == "relu" else cluster.relative_exact_psi.upper
    )


def rule_errors(clusters: tuple[ClusterBounds, ...], activation: Activation) -> RuleErrors | None:
    """The worst of all; None without quadrature rules."""
    if not clusters:
        return None
    return RuleErrors(
        absolute=max(cluster.relative_exact_psi.upper for cluster in clusters),
        relu=max(map(_relu, clusters)),
        model=max(
            (error_of(cluster, activation) for cluster in clusters), key=lambda error: error.size
        ),
        bound=max(cluster.relative_bound.value for cluster in clusters),
        moment=max(cluster.relative_moment_bound_psi.value for cluster in clusters),
    )


def _relu(cluster: ClusterBounds) -> float:
    """ReLU's integral is half of the absolute part's."""
    return cluster.exact_psi.relu.relative_to(half_of(cluster.baseline)).upper
