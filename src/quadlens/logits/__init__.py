"""From the collapsed model and its key frequencies to what the logits are."""

from quadlens.logits.algorithm import AlgorithmMeasures, algorithm_measures
from quadlens.logits.closed_form import ClosedForm, ClosedForms, WeakSpot, closed_forms, weak_spots
from quadlens.logits.identity import IdentityComponent, IdentityMatrix, identity_component
from quadlens.logits.parts import LogitParts, take_apart
from quadlens.logits.regression import ClockPizzaTable, clock_pizza, cos_u

__all__ = [
    "AlgorithmMeasures",
    "ClockPizzaTable",
    "ClosedForm",
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
    "take_apart",
    "weak_spots",
]
