"""What a model does, as one value: the packages spectrum and logits put together, with its views."""

from quadlens.analysis.explanation.value import Explanation, explain, needs_outline, outline

__all__ = ["Explanation", "explain", "needs_outline", "outline"]
