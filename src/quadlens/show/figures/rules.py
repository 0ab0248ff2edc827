"""The clusters that are quadrature rules, for the figures that draw one of them."""

from quadlens.analysis.quadrature.analysis import ClusterBounds
from quadlens.analysis.quadrature.of_study import bounds_if_any, rule_clusters
from quadlens.base.errors import BadConfig
from quadlens.network.study import Study

# The parameter k of figures of one rule.
CLUSTER = "The cluster's frequency; the first that is a quadrature rule if None."


def cluster_of(study: Study, k: int | None) -> ClusterBounds:
    """The cluster of frequency k; without k the first that is drawn.

    Raises:
        BadConfig: if the model has no such quadrature rule.
    """
    bounds = study.once(bounds_if_any)
    bounded = bounds.bounded if bounds else ()
    clusters = study.once(rule_clusters) if k is None else bounded
    cluster = next((each for each in clusters if k in (None, each.k)), None)
    if cluster is None:
        there = ", ".join(str(each.k) for each in bounded)
        refusal = (
            "this model has no cluster"
            if k is None
            else f"frequency {k} of this model is no cluster"
        )
        raise BadConfig(
            f"{refusal} that is a quadrature rule; "
            + (f"there are: {there}" if there else "there is none")
        )
    return cluster
