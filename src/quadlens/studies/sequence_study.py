"""A study of a network on sequences: what each step reads, answers on a sample, and a proof over all words."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from quadlens.studies.study import Study

if TYPE_CHECKING:
    import numpy as np

    from quadlens.model.sequence import SequenceConfig
    from quadlens.sequences.certificate import SequenceCertificate
    from quadlens.sequences.evaluate import SequenceEvaluation
    from quadlens.sequences.explain import Axis, SequenceExplanation


class SequenceStudy(Study):
    """One network on sequences and what is known about it."""

    on_sequences: ClassVar[bool] = True

    @property
    def config(self) -> "SequenceConfig":  # type: ignore[override]
        """The model's config."""
        return self.model.config.need_sequences()

    @property
    def sizes(self) -> dict[str, Any]:
        """Task and width, as reports have them in their manifest."""
        return {"task": self.config.task.name, "d_mlp": self.config.d_mlp}

    @property
    def shown(self) -> dict[str, Any]:
        """Nothing beside the verdict."""
        return {}

    @property
    def about(self) -> dict[str, Any]:
        """Nothing beside the config."""
        return {}

    @cached_property
    def steps(self) -> "SequenceExplanation":
        """What each step reads."""
        from quadlens.sequences.explain import explain_sequence

        return explain_sequence(self.model)

    @property
    def axis(self) -> "Axis | None":
        """What is drawn of a step that reads one number; None where none does."""
        return self.steps.axis

    def evaluate(self) -> "SequenceEvaluation":
        """Answers on every word, or on a sample."""
        from quadlens.sequences.evaluate import evaluate_sequence

        return evaluate_sequence(self.model)

    def explain(self, logits: bool = True, rng: "np.random.Generator | None" = None) -> "SequenceExplanation":
        """What each step reads; there are no other parts to choose."""
        return self.steps

    def certify(self, strategy: str = "auto", checkable: bool = False) -> "SequenceCertificate":  # type: ignore[override]
        """Decide every word of the task; parameters and errors as for `quadlens.certify`."""
        from quadlens.sequences.certificate import certify_sequence, check_strategy

        check_strategy(strategy)
        return certify_sequence(self.model, self.sha256)

    def prepare(self, progress: Callable[[str], None] = lambda step: None, proofs: bool = True) -> "SequenceStudy":
        """Nothing is shared between the parts of its page."""
        return self

    def _facts(self) -> dict[str, object]:
        return {"name": self.name, **self.sizes}
