"""Check a quadlens certificate against a model file, from scratch.

Standard library only; shares no code with the program that wrote the certificate. Every number is an integer or a
rational; nothing is rounded except a bound to its safe side. The certificate's hints (an order of the neurons, arcs, a
basis, directions) are tried, never trusted: what is verified is true whatever they say. The claim is that for all a, b
but those listed, logit(a, b, a+b mod p) exceeds logit(a, b, c) for every other c in 0 … p-1 by at least the margin.

Read `limits` (what is refused), `reading` and `model_file` (what comes from outside), `matrices` and `collapse` (the
exact model), `arcs`, `moments` and `thin` (one theorem each), `verdict`, and `guard` (time and memory). Longer proofs
are in docs/certificates.md, short ones in the docstrings.
"""

from quadlens_checker.guard import check
from quadlens_checker.verdict import CheckReport

__all__ = ["CheckReport", "check"]
