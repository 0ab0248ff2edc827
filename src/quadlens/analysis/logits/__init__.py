"""From the collapsed model and its key frequencies to what the logits are."""

from quadlens.analysis.logits.algorithm import AlgorithmMeasures, algorithm_measures
from quadlens.analysis.logits.closed_form import (
    ClockPizzaTable,
    ClosedForms,
    WeakSpot,
    clock_pizza,
    closed_forms,
    cos_u,
    weak_spots,
)
from quadlens.analysis.logits.parts import (
    IdentityComponent,
    IdentityMatrix,
    LogitParts,
    identity_component,
    logit_parts,
)

__all__ = [
    "AlgorithmMeasures",
    "ClockPizzaTable",
    "ClosedForms",
    "IdentityComponent",
    "IdentityMatrix",
    "LogitParts",
    "WeakSpot",
    "algorithm_measures",
    "clock_pizza",
    "closed_forms",
    "cos_u",
    "identity_component",
    "logit_parts",
    "weak_spots",
]
