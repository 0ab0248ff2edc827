"""Check a quadlens certificate against a model file, from scratch.

It needs the standard library only and imports nothing of the program that wrote the certificate.
That program's proofs read `limits` and nothing else of this one; before it writes a file it runs
`check_before_writing`. Every number is an integer or a rational;
softmax, GELU and the like are enclosed in integers, and bounds are rounded to their safe side. The
certificate's hints (an order of the neurons, arcs, a basis, directions, boxes) are tried, never
trusted: what is verified is true whatever they say. The claim is that for all a, b but those
listed, the logit of the right answer exceeds that of every other one in 0 … p-1 by at least the
margin; of a network on sequences, that it decodes right.

Read `limits` (what is refused), `reading` and `model_file` (what comes from outside), `tasks`,
`matrices` and `collapse` (the exact model), `exponential`, `gates` and `activations` (what is not
rational), `arcs`, `moments`, `thin` and `direct` (the theorems), `verdict`, and `guard` (time and
memory). Of sequences: `automata` and `sequence_file` (what comes from outside), `sequence_tables`
and `cells` (attention), `curves` and `tail` (what follows it), `histogram` and `linear` (where
nothing does), `sequences` and `sequence_verdict`. Longer proofs are in docs/certificates.md, short
ones in the docstrings.
"""

from quadlens_checker.guard import check
from quadlens_checker.verdict import CheckReport, check_before_writing

__all__ = ["CheckReport", "check", "check_before_writing"]

__version__ = "0.2.0"
