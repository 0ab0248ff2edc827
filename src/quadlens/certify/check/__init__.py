"""The checker: one file, standard library only, sharing no code with the producer. Read `checker.py`."""

from quadlens.certify.check.checker import Report, check

__all__ = ["Report", "check"]
