"""Every claim about one model: the paper's rows, exact errors, suprema, moment bounds."""

from dataclasses import dataclass

from quadlens.analysis.quadrature.claims import Estimate, Exact, UpperBound, shown
from quadlens.analysis.quadrature.exact import ExactErrors, exact_errors
from quadlens.analysis.quadrature.integrals import brute_force_error, cos_baseline
from quadlens.analysis.quadrature.moment_series import DEFAULT_MOMENTS, bound_moments
from quadlens.analysis.quadrature.paper_bounds import PaperRows, paper_rows
from quadlens.analysis.quadrature.scheme import NoBound, Scheme, scheme_of
from quadlens.analysis.quadrature.supremum import abs_supremum, identity_supremum, relu_supremum
from quadlens.analysis.spectrum.anatomy import Anatomy, anatomy_of
from quadlens.analysis.spectrum.cluster import Cluster
from quadlens.base.display import Displayed, short
from quadlens.base.errors import BadConfig
from quadlens.base.table import Table
from quadlens.network.activation import NONLINEARITIES
from quadlens.network.weights import Weights

# Brute force past this many evaluations takes tens of seconds; the exact method has the same number
# anyway.
BRUTE_FORCE_LIMIT = 10**9
# Which waves of a neuron's input make its node.
PHASES = ("all", "attention")


@short
@dataclass(frozen=True)
class Suprema:
    """Exact worst cases over all real s and any c.

    Attributes:
        absolute: Absolute-value part.
        identity: Identity part.
        relu: ReLU.
    """

    absolute: Exact
    identity: Exact
    relu: Exact


@dataclass(frozen=True, eq=False, repr=False)
class ClusterBounds(Displayed):
    """Everything claimed about one cluster.

    Attributes:
        k: Frequency.
        neurons: Number of neurons.
        scheme: The quadrature rule the claims are about.
        rows: The paper's rows.
        exact: Exact worst cases with 2φ (the paper's true error, over all a, b, c).
        exact_psi: The same with the model's ψ, angle error included.
        supremum: Worst cases over all real s, with 2φ.
        supremum_psi: The same with ψ.
        moment_bound: Moment bound with 2φ.
        moment_bound_psi: The same with ψ.
        moments: M of the moment bounds.
        brute_force: The slow true error in float64, or None where it would take too long.
        baseline: What relative figures are relative to: the mean of (4/3)|cos 2s|.
        relative_error: brute_force / baseline.
        relative_bound: The paper's best total (half period) / baseline.
        relative_exact: exact.absolute / baseline.
        relative_exact_psi: exact_psi.absolute / baseline: the whole truth, to compare with
            relative_bound.
        relative_moment_bound: moment_bound / baseline.
        relative_moment_bound_psi: moment_bound_psi / baseline, to compare with relative_bound.
    """

    k: int
    neurons: int
    scheme: Scheme
    rows: PaperRows
    exact: ExactErrors
    exact_psi: ExactErrors
    supremum: Suprema
    supremum_psi: Suprema
    moment_bound: UpperBound
    moment_bound_psi: UpperBound
    moments: int
    brute_force: Estimate | None
    baseline: Exact
    relative_error: Estimate | None
    relative_bound: UpperBound
    relative_exact: Exact
    relative_exact_psi: Exact
    relative_moment_bound: UpperBound
    relative_moment_bound_psi: UpperBound

    def _facts(self) -> dict[str, object]:
        return {"k": self.k, "neurons": self.neurons} | {
            name: shown(getattr(self, name), 4)
            for name in ("relative_bound", "relative_moment_bound_psi", "relative_exact_psi")
        }


@dataclass(frozen=True, eq=False, repr=False)
class Bounds(Displayed):
    """The model as a set of quadrature rules.

    Attributes:
        p: Modulus.
        clusters: One entry per cluster in order of k; `NoBound` says why a cluster has none.
    """

    p: int
    clusters: tuple[ClusterBounds | NoBound, ...]

    def _facts(self) -> dict[str, object]:
        worst = {cluster.k: shown(cluster.relative_exact_psi, 4) for cluster in self.bounded}
        return {
            "p": self.p,
            "relative_exact_psi": worst,
            "clusters_without_bound": len(self.unbounded),
        }

    def _repr_html_(self) -> str:
        """The relative errors, one row per cluster, for a notebook."""
        rows = [[str(value) for value in cluster._facts().values()] for cluster in self.bounded]
        header = ["k", "neurons", "paper's bound", "moment bound", "exact"]
        title = "Error of each cluster as a quadrature rule, relative to the integral's mean size"
        return Table(title, header, rows)._repr_html_()

    @property
    def bounded(self) -> tuple[ClusterBounds, ...]:
        """The clusters that are quadrature rules."""
        return tuple(cluster for cluster in self.clusters if isinstance(cluster, ClusterBounds))

    @property
    def unbounded(self) -> tuple[NoBound, ...]:
        """The clusters that are not, with the reasons."""
        return tuple(cluster for cluster in self.clusters if isinstance(cluster, NoBound))


def bounds(
    model: Weights | Anatomy,
    moments: int = DEFAULT_MOMENTS,
    brute_force_limit: int = BRUTE_FORCE_LIMIT,
    phases: str = "all",
) -> Bounds:
    """The paper's tables, the exact errors and the moment bounds of every cluster of a model.

    Args:
        model: Weights, as `quadlens.load` gives them, or their anatomy.
        moments: M of the moment bounds, at least 1.
        brute_force_limit: Skip brute force for clusters with more than this many p · neurons.
        phases: Of "all" that a neuron reads, or of what "attention" alone brings, as the paper
            seems to take them; the claims are then about that rule, which is not quite the
            network's.

    Raises:
        BadConfig: if the activation has no quadrature of this kind, or `moments` is not positive,
            or there is no attention to read alone.
    """
    if not NONLINEARITIES[model.config.activation].is_piecewise_linear:
        raise BadConfig(
            f"this model's activation is {model.config.activation!r}; "
            "the bounds are about ReLU and its absolute-value part"
        )
    if moments < 1:
        raise BadConfig(f"moments = {moments}; expected at least 1")
    if phases not in PHASES:
        raise BadConfig(f"phases = {phases!r}; expected one of {', '.join(PHASES)}")
    anatomy = anatomy_of(model)
    clusters = anatomy.clusters if phases == "all" else anatomy.attention_clusters
    return Bounds(
        model.config.p,
        tuple(cluster_bounds(cluster, moments, brute_force_limit) for cluster in clusters),
    )


def cluster_bounds(
    cluster: Cluster, moments: int = DEFAULT_MOMENTS, brute_force_limit: int = BRUTE_FORCE_LIMIT
) -> ClusterBounds | NoBound:
    """Every claim about one cluster, or why there is none."""
    scheme = scheme_of(cluster)
    if isinstance(scheme, NoBound):
        return scheme
    exact, exact_psi = exact_errors(scheme), exact_errors(scheme, with_psi=True)
    rows, baseline = paper_rows(scheme, exact), cos_baseline(scheme)
    moment_bound = bound_moments(scheme, moments)
    moment_bound_psi = bound_moments(scheme, moments, with_psi=True)
    brute_force = brute_force_error(scheme) if scheme.p * scheme.n <= brute_force_limit else None
    relative = (
        None
        if brute_force is None
        else Estimate(brute_force.value / baseline.middle, brute_force.how)
    )
    return ClusterBounds(
        k=scheme.k,
        neurons=scheme.n,
        scheme=scheme,
        rows=rows,
        exact=exact,
        exact_psi=exact_psi,
        supremum=_suprema(scheme, with_psi=False),
        supremum_psi=_suprema(scheme, with_psi=True),
        moment_bound=moment_bound,
        moment_bound_psi=moment_bound_psi,
        moments=moments,
        brute_force=brute_force,
        baseline=baseline,
        relative_error=relative,
        relative_bound=rows.total_abs_bound_half.relative_to(baseline),
        relative_exact=exact.absolute.relative_to(baseline),
        relative_exact_psi=exact_psi.absolute.relative_to(baseline),
        relative_moment_bound=moment_bound.relative_to(baseline),
        relative_moment_bound_psi=moment_bound_psi.relative_to(baseline),
    )


def _suprema(scheme: Scheme, with_psi: bool) -> Suprema:
    return Suprema(
        abs_supremum(scheme, with_psi),
        identity_supremum(scheme, with_psi),
        relu_supremum(scheme, with_psi),
    )
