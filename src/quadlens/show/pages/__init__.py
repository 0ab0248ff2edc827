"""One page for one model: every figure, every table, the theorem.

Figure files and data lie beside it.
"""

from quadlens.show.pages.write import Report, report, write_report

__all__ = ["Report", "report", "write_report"]
