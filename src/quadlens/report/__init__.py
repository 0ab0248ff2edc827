"""One page for one model: every figure, every table, the theorem; with figure files and data beside it.

The room can be called: `quadlens.report(model, directory)` is `quadlens.report.report(model, directory)`.
"""

import sys
from pathlib import Path
from types import ModuleType

from quadlens.report.write import Report, report, write_report

__all__ = ["Report", "report", "write_report"]


class _Room(ModuleType):
    """A package that is also the pipeline step it holds."""

    def __call__(self, model: str | Path, output: str | Path, workers: int = 1, proofs: bool = True) -> Report:
        """Write the report of `model` into the directory `output`."""
        return report(model, output, workers, proofs)


sys.modules[__name__].__class__ = _Room
