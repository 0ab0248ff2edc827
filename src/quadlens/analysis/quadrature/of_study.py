"""The clusters of a study as quadrature rules."""

from typing import TYPE_CHECKING, Any

from quadlens.analysis.quadrature.analysis import Bounds, ClusterBounds
from quadlens.analysis.quadrature.analysis import bounds as bounds_of
from quadlens.analysis.quadrature.rules import RuleErrors, rule_errors
from quadlens.analysis.spectrum.of_study import MAX_FREQUENCIES, keys_of, no_waves, study_anatomy
from quadlens.base.arguments import checked
from quadlens.network.activation import NONLINEARITIES
from quadlens.network.study import Study, study_of

if TYPE_CHECKING:
    from quadlens.network.named import ModelLike


@checked
def bounds(
    model: "ModelLike" = "pizza",
    moments: int | None = None,
    brute_force_limit: int | None = None,
    phases: str | None = None,
) -> Bounds:
    """Bound the error of each cluster as a quadrature rule, and compute it exactly.

    The bounds are the paper's and moment bounds.

    Args:
        model: A model, a study, a path or the name of a bundled model.
        moments: How many moments the moment bounds use; 20 when None.
        brute_force_limit: Skip brute force for clusters with more than this many p · neurons; 10⁹
            when None.
        phases: Of "all" that a neuron reads (when None), or of what "attention" alone brings, as
            the paper seems to.

    >>> import quadlens
    >>> [f"{cluster.relative_exact_psi.middle:.3f}" for cluster in quadlens.bounds("pizza").bounded]
    ['0.029', '0.041', '0.026']
    """
    study = study_of(model)
    chosen: dict[str, Any] = {
        "moments": moments,
        "brute_force_limit": brute_force_limit,
        "phases": phases,
    }
    options = {name: value for name, value in chosen.items() if value is not None}
    stored_bounds = None if options else study.once(bounds_if_any)
    return (
        bounds_of(study.once(study_anatomy), **options) if stored_bounds is None else stored_bounds
    )


def bounds_if_any(study: Study) -> Bounds | None:
    """Return the clusters as quadrature rules; None where there are none.

    The activation has none, or the model has no frequencies.
    """
    rules = (
        study.once(no_waves) is None and NONLINEARITIES[study.config.activation].is_piecewise_linear
    )
    return bounds_of(study.once(study_anatomy)) if rules else None


def key_rules(study: Study) -> tuple[ClusterBounds, ...]:
    """Key frequencies that are quadrature rules, in order of k."""
    rules, all_keys = study.once(bounds_if_any), study.once(keys_of)
    return tuple(rule for rule in rules.bounded if rule.k in all_keys) if rules else ()


def worst_errors(study: Study) -> RuleErrors | None:
    """Return the worst errors of the key rules; None where there is no rule."""
    return rule_errors(study.once(key_rules), study.config.activation)


def rule_clusters(study: Study) -> tuple[ClusterBounds, ...]:
    """Return key frequencies that are quadrature rules, in order of k, at most a few."""
    largest = sorted(
        study.once(key_rules), key=lambda rule: -float((rule.scheme.rho * rule.scheme.omega).sum())
    )
    return tuple(sorted(largest[:MAX_FREQUENCIES], key=lambda rule: rule.k))
