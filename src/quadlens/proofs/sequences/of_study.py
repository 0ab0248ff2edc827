"""Answers, explanation and proof of any study, whether of pairs or of sequences."""

from typing import TYPE_CHECKING, Any, overload

from quadlens.base.arguments import checked
from quadlens.network.study import Study, by_kind, study_of
from quadlens.network.tables import Tables
from quadlens.proofs.long_work import watched
from quadlens.proofs.sequences.certificate import (
    SequenceCertificate,
    certify_sequence,
    check_strategy,
)
from quadlens.proofs.sequences.evaluate import SequenceEvaluation, evaluate_sequence
from quadlens.proofs.sequences.explain import SequenceExplanation
from quadlens.proofs.sequences.steps import steps_of

if TYPE_CHECKING:
    import numpy as np

    from quadlens.analysis.explanation import Explanation
    from quadlens.network.evaluate import Evaluation
    from quadlens.network.named import ModelLike
    from quadlens.proofs.long_work import Progress
    from quadlens.proofs.pairs import Certificate


@overload
def evaluate(model: Tables[Any]) -> "Evaluation": ...
@overload
def evaluate(model: "ModelLike" = "pizza") -> "Evaluation | SequenceEvaluation": ...
def evaluate(model: "ModelLike | Tables[Any]" = "pizza") -> "Evaluation | SequenceEvaluation":
    """Accuracy, margins and loss over all inputs, in float64: an `Evaluation`.

    A network on sequences is tried on a sample, for a `SequenceEvaluation`.

    >>> import quadlens
    >>> quadlens.evaluate("pizza").correct
    3481
    """
    from quadlens.analysis.spectrum.of_study import evaluation_of
    from quadlens.network.evaluate import evaluate as evaluate_tables

    if isinstance(model, Tables):
        return evaluate_tables(model)
    study = study_of(model)
    return by_kind(
        study,
        pairs=lambda: study.once(evaluation_of),
        sequences=lambda: evaluate_sequence(study.model),
    )()


@checked
def explain(
    model: "ModelLike" = "pizza", *, logits: bool = True, rng: "np.random.Generator | None" = None
) -> "Explanation | SequenceExplanation":
    """What every neuron does and what the logits are made of.

    A model whose attention depends on the tokens, or whose task has no frequencies, has an
    `overview` in place of `neurons` and `logits`: answers, attention, key frequencies or key
    irreps, rank of W_L. A network on sequences gets what each step reads, with which weight, and
    what the number that it reads means.

    Args:
        model: A model, a study, a path or the name of a bundled model.
        logits: Also look at all p³ logits.
        rng: Draws the triples of the gradient symmetricity; when None they are the 100 that Zhong
            et al. take.

    >>> import quadlens
    >>> quadlens.explain("pizza").key_frequencies
    (5, 9, 11)
    """
    from quadlens.analysis.explanation import explain as explain_pairs
    from quadlens.analysis.explanation.of_study import explanation_of
    from quadlens.analysis.spectrum.of_study import study_anatomy

    study = study_of(model)

    def explain_them() -> "Explanation":
        return (
            study.once(explanation_of)
            if logits and rng is None
            else explain_pairs(study.once(study_anatomy), logits, rng)
        )

    explained: Explanation | SequenceExplanation = by_kind(
        study, pairs=explain_them, sequences=lambda: study.once(steps_of)
    )()
    return explained


@checked
def certify(
    model: "ModelLike" = "pizza",
    strategy: str = "auto",
    *,
    checkable: bool = False,
    time_limit: float | None = None,
    progress: "Progress | None" = None,
) -> "Certificate | SequenceCertificate":
    """Prove what can be proved about a model's answers, for every input at once: a `Certificate`.

    A network on sequences is decided over all words of its task, for a `SequenceCertificate`.

    Args:
        model: A model, a study, a path or the name of a bundled model.
        strategy: As in `quadlens certify --strategy`; auto is the cheapest that proves all it can.
        checkable: Only strategies whose proofs the checker can follow, for a certificate that is to
            be saved.
        time_limit: Seconds after which the certificate has what is proved so far, with the reason
            "time limit".
        progress: Called with a few words before each part of the work, as `print`.

    >>> import quadlens
    >>> quadlens.certify("pizza").verdict
    'CERTIFIED'
    """
    study = study_of(model)
    with watched(None if time_limit is None else float(time_limit), progress):
        return certified(study, strategy, checkable)


def certified(
    study: Study, strategy: str = "auto", checkable: bool = False
) -> "Certificate | SequenceCertificate":
    """The proof by one strategy; parameters and errors as for `quadlens.certify`."""
    from quadlens.proofs.pairs.of_study import made_proofs

    def decide() -> SequenceCertificate:
        check_strategy(strategy)
        return certify_sequence(study.model, study.sha256)

    certificate: Certificate | SequenceCertificate = by_kind(
        study, pairs=lambda: study.once(made_proofs).certify(strategy, checkable), sequences=decide
    )()
    return certificate
