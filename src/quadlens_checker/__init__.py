"""The checker: standard library only, no code of the producer. Read `checker.py`; `thin_checker.py` adds `thin`."""

from quadlens_checker.checker import Report
from quadlens_checker.thin_checker import check

__all__ = ["Report", "check"]
