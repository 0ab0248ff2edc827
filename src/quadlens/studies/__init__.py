"""The results room: every room run once on one model, as one value that figures, tables and pages are views of."""

from quadlens.studies.gathering import gather, gather_results
from quadlens.studies.value import Results

__all__ = ["Results", "gather", "gather_results"]
