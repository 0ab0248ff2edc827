"""A study's explanation, and what follows from it."""

from quadlens.analysis.explanation.value import Explanation, explain
from quadlens.analysis.spectrum.of_study import MAX_FREQUENCIES, keys_of, no_waves, study_anatomy
from quadlens.network.study import Study


def explanation_of(study: Study) -> Explanation:
    """Neurons and logits, or what can be said of the model."""
    return explain(study.once(study_anatomy))


def outline_of(study: Study) -> Explanation | None:
    """Return the explanation of a model without waves; None where it says more.

    It has an overview alone.
    """
    return None if study.once(no_waves) is None else study.once(explanation_of)


def strongest_keys_of(study: Study) -> tuple[int, ...]:
    """Return the key frequencies whose clusters weigh most (Σ ρω), in order of k.

    Pictures are drawn of them.
    """
    all_keys = study.once(keys_of)
    clusters = study.once(explanation_of).clusters if all_keys else ()
    weights = {cluster.k: float((cluster.rho * cluster.omega).sum()) for cluster in clusters}
    return tuple(sorted(sorted(all_keys, key=lambda k: -weights.get(k, 0.0))[:MAX_FREQUENCIES]))
