"""Parts of a study from its tables and waves: answers, logits, frequencies, irreps."""

from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.base.arguments import check_argument
from quadlens.base.errors import BadConfig
from quadlens.network.evaluate import MAX_OPERATIONS, Evaluation, evaluate, margins, model_facts
from quadlens.network.study import Study, by_kind
from quadlens.network.tables import FloatTables

# Frequencies that get pictures of their own; a model without structure has dozens of faint
# clusters.
MAX_FREQUENCIES = 8


def study_anatomy(study: Study) -> Anatomy:
    """The weights taken apart."""
    return Anatomy(study.model)


def layer_of(study: Study) -> FloatTables:
    """The last hidden layer in float64, for the elements as they are numbered."""
    return study.once(study_anatomy).layer


def collapsed_of(study: Study) -> FloatTables:
    """U_a, U_b, W_L, S_a, S_b in float64, the elements renamed so that the task is addition."""
    return study.once(study_anatomy).collapsed


def evaluation_of(study: Study) -> Evaluation:
    """Answers over all inputs."""
    check_size(study, "looks at all inputs")
    return evaluate(layer_of(study))


def margins_of(study: Study) -> Float[np.ndarray, "p p"]:
    """Right logit minus the largest other, for every (a, b)."""
    check_size(study, "looks at all inputs")
    return margins(layer_of(study))


def logits_of(study: Study, a: int) -> Float[np.ndarray, "p p"]:
    """Logits in float64 of one a and all b, [b, c]; for every model on pairs.

    >>> import quadlens
    >>> study = quadlens.study("pizza")
    >>> study.logits(12)[30].argmax()  # 12 + 30
    np.int64(42)
    """
    return layer_of(study).logits(_element(study, a))


def preactivations_of(study: Study, a: int) -> Float[np.ndarray, "p d_mlp"]:
    """Return each last-layer neuron's input before σ for one a and all b, [b, neuron].

    Numbers are float64.
    """
    return layer_of(study).pre(_element(study, a))


def _element(study: Study, a: int) -> int:
    check_argument("a", a, int)
    if not 0 <= a < study.p:
        raise BadConfig(f"a = {a}; expected an element, 0 … {study.p - 1}")
    return int(a)


def no_waves(study: Study) -> str | None:
    """Return why a network has no frequencies, as the end of a sentence; None where it has."""
    config = study.once(study_anatomy).config
    if config.task.cyclic is None:
        return (
            f"no renaming of its elements turns {config.task.words} into addition, so it has no "
            "frequencies"
        )
    if config.no_collapse is not None:
        return (
            f"{config.no_collapse}, so that what reaches a neuron is not a part of a plus a part "
            "of b"
        )
    return None


def keys_of(study: Study) -> tuple[int, ...]:
    """Key frequencies, in order; none for a model without frequencies."""
    return study.once(study_anatomy).key_frequencies if study.once(no_waves) is None else ()


def facts_of(study: Study) -> dict[str, Any]:
    """Return the facts about a network that several commands print beside its config."""
    return by_kind(study, pairs=lambda: model_facts(study.model, layer_of(study)), sequences=dict)()


def check_size(study: Study, what: str) -> None:
    """Refuse a network with too many logits to look at all of them."""
    config = study.once(study_anatomy).config
    if float(config.p) ** 3 * config.d_mlp > MAX_OPERATIONS:
        raise BadConfig(
            f"{what}, and p = {config.p} with {config.d_mlp} neurons has too many; "
            "use explain without logits, and bounds"
        )
