"""One page for one model: every figure, every table, the theorem; with figure files and data beside it."""

from quadlens.show.pages.write import Report, report, write_report

__all__ = ["Report", "report", "write_report"]
