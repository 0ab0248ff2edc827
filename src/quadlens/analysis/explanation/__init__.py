"""Explain a model: its spectrum and its logits as one value, with its views."""

from quadlens.analysis.explanation.value import Explanation, explain, needs_outline, outline

__all__ = ["Explanation", "explain", "needs_outline", "outline"]
