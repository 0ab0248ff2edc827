"""What a model does, as one value: the packages spectrum and logits put together, with its views."""

from quadlens.explanation.logits import LogitExplanation
from quadlens.explanation.outline import Outline, needs_outline, outline
from quadlens.explanation.value import Explanation, explain

__all__ = ["Explanation", "LogitExplanation", "Outline", "explain", "needs_outline", "outline"]
