"""What a study of a network on sequences says of its steps."""

from quadlens.network.study import Study
from quadlens.proofs.sequences.explain import SequenceExplanation, explain_sequence


def steps_of(study: Study) -> SequenceExplanation:
    """Return what each step of a network on sequences reads."""
    return explain_sequence(study.model)
