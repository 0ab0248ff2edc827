"""The certificate as the flat value that `quadlens certify --json` prints."""

import math
import sys
from fractions import Fraction
from typing import Any

from quadlens.proofs.certificate import Certificate


def summary(certificate: Certificate) -> dict[str, Any]:
    """The JSON of `quadlens certify`, each a plain number; lower bounds are rounded down and upper bounds up."""
    proof = certificate.proof
    return {
        "verdict": certificate.verdict,
        "statement": certificate.statement,
        "strategy": proof.strategy,
        "p": certificate.p,
        "d_mlp": certificate.d_mlp,
        "inputs": certificate.p**2,
        "certified_inputs": certificate.certified_inputs,
        "accuracy_lower_bound": rounded_down(Fraction(certificate.certified_inputs, certificate.p**2)),
        "margin_lower_bound": rounded_down(proof.margin),
        "margin_is_exact": proof.exact,
        "logit_error_bound": rounded_up(proof.logit_error),
        "terms": {name: rounded_up(term.bound) for name, term in proof.terms.items()},
        "worst_inputs": {name: list(term.worst) for name, term in proof.terms.items() if term.worst is not None},
        "reason": proof.reason,
        "witnesses": [list(witness) for witness in proof.witnesses],
        "float32_error": rounded_up(certificate.float32.error),
        "float32_certified": certificate.float32_certified,
        "flops": proof.operations.total,
        "collapse_flops": certificate.collapse_flops,
        "brute_force_flops": certificate.brute_force_flops,
        "model_sha256": certificate.model_sha256,
    }


def rounded_down(x: Fraction | None) -> float | None:
    """The largest double that is not above x; beyond the doubles, the largest of them or minus infinity."""
    if x is None:
        return None
    try:
        nearest = float(x)
    except OverflowError:
        return sys.float_info.max if x > 0 else -math.inf
    return nearest if Fraction(nearest) <= x else math.nextafter(nearest, -math.inf)


def rounded_up(x: Fraction | None) -> float | None:
    """The smallest double that is not below x."""
    down = rounded_down(None if x is None else -x)
    return None if down is None else -down + 0.0  # no minus zero
