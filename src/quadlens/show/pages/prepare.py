"""All that pages and figures need of a study, computed step by step."""

from collections.abc import Callable
from typing import Any

from quadlens.analysis.explanation.of_study import explanation_of
from quadlens.analysis.infinite_width.of_study import integration_of, lens_if_any
from quadlens.analysis.logits.of_study import skip_shares_of
from quadlens.analysis.quadrature.of_study import bounds_if_any, rule_clusters
from quadlens.analysis.spectrum.irreps import irreps_of
from quadlens.analysis.spectrum.of_study import (
    check_size,
    evaluation_of,
    keys_of,
    margins_of,
    no_waves,
)
from quadlens.network.study import Study, by_kind
from quadlens.proofs.pairs.of_study import no_proofs, with_proofs
from quadlens.training.of_study import history_of

Step = tuple[str, tuple[Callable[[Study], Any], ...]]


def prepare(
    study: Study, progress: Callable[[str], None] = lambda step: None, proofs: bool = True
) -> Study:
    """Compute all that pages and figures need; return the study itself.

    Each step is passed to `progress` before it is taken.

    Args:
        study: Of a network on pairs; of one on sequences the parts of its page share nothing.
        progress: Called with each step that has something left to compute.
        proofs: Also the proofs, if they are part of the study.

    Raises:
        BadConfig: for a model with too many logits to look at.
    """
    steps = by_kind(study, pairs=_steps, sequences=lambda study, proofs: ())(study, proofs)
    for step, parts in steps:
        left = [part for part in parts if part not in study]
        if left:
            progress(step)
        for part in left:
            study.once(part)
    return study


def _steps(study: Study, proofs: bool) -> tuple[Step, ...]:
    check_size(study, "a report looks at all inputs")
    waves, proved = study.once(no_waves) is None, study.once(with_proofs) and proofs
    return (
        ("answers", (evaluation_of, margins_of, skip_shares_of, history_of, irreps_of)),
        ("neurons and logits", (explanation_of,)),
        ("bounds", (bounds_if_any, rule_clusters) if waves else ()),
        ("the lens", (lens_if_any, integration_of)),
        ("proofs", (no_proofs,) if proved else ()),
    )


def sizes_of(study: Study) -> dict[str, Any]:
    """Return modulus and width, as reports have them in their manifest.

    Of a network on sequences they are the task and the width.
    """
    config: Any = study.model.config
    size = by_kind(
        study, pairs=lambda: {"p": config.p}, sequences=lambda: {"task": config.task.name}
    )()
    return {**size, "d_mlp": config.d_mlp}


def shown_of(study: Study) -> dict[str, Any]:
    """Return what the JSON of a report says of the network.

    For a network on sequences there is nothing beside the verdict.
    """
    return by_kind(study, pairs=_shown, sequences=lambda study: {})(study)


def _shown(study: Study) -> dict[str, Any]:
    return {
        "p": study.p,
        "key_frequencies": list(study.once(keys_of)) if study.once(no_waves) is None else None,
    }
