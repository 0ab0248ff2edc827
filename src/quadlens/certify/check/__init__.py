"""The checker: standard library only, no code of the producer. Read `checker.py`; `thin_checker.py` adds `thin`."""

from quadlens.certify.check.checker import Report
from quadlens.certify.check.thin_checker import check

__all__ = ["Report", "check"]
