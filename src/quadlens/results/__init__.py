"""The results room: every room run once on one model, as one value that figures, tables and pages are views of."""

from quadlens.results.gathering import gather, gather_results
from quadlens.results.value import Results

__all__ = ["Results", "gather", "gather_results"]
