"""From the collapsed model to a theorem about the model, with a certificate to check."""

from quadlens.proofs.pairs.certificate import Certificate
from quadlens.proofs.pairs.produce import STRATEGIES, Prover, best_certificate, certify
from quadlens.proofs.pairs.proof import Proof, Strategy, Term

__all__ = [
    "STRATEGIES",
    "Certificate",
    "Proof",
    "Prover",
    "Strategy",
    "Term",
    "best_certificate",
    "certify",
]
