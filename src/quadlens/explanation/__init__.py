"""What a model does, as one value: the packages spectrum and logits put together, with its views."""

from quadlens.explanation.logits import LogitExplanation
from quadlens.explanation.neurons import NeuronExplanation
from quadlens.explanation.overview import Overview
from quadlens.explanation.value import Explanation, explain, needs_outline, outline

__all__ = [
    "Explanation",
    "LogitExplanation",
    "NeuronExplanation",
    "Overview",
    "explain",
    "needs_outline",
    "outline",
]
