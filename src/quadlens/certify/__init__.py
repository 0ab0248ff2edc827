"""From the collapsed model to a theorem about the whole model, with a certificate that others can check."""

from quadlens.certify.certificate import Certificate
from quadlens.certify.produce import STRATEGIES, certify
from quadlens.certify.proof import Proof, Strategy, Term

__all__ = ["STRATEGIES", "Certificate", "Proof", "Strategy", "Term", "certify"]
