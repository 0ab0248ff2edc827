"""From the collapsed model and its key frequencies to what the logits are."""

from quadlens.logits.algorithm import AlgorithmMeasures, algorithm_measures
from quadlens.logits.closed_form import ClosedForm, ClosedForms, WeakSpot, closed_forms, judge_closed_form, weak_spots
from quadlens.logits.identity import IdentityComponent, IdentityMatrix, identity_component
from quadlens.logits.parts import LogitParts, Part, identity_matrices, take_apart
from quadlens.logits.regression import ClockPizza, ClockPizzaTable, Regression, clock_pizza, cos_2u, cos_u, regress

__all__ = [
    "AlgorithmMeasures",
    "ClockPizza",
    "ClockPizzaTable",
    "ClosedForm",
    "ClosedForms",
    "IdentityComponent",
    "IdentityMatrix",
    "LogitParts",
    "Part",
    "Regression",
    "WeakSpot",
    "algorithm_measures",
    "clock_pizza",
    "closed_forms",
    "cos_2u",
    "cos_u",
    "identity_component",
    "identity_matrices",
    "judge_closed_form",
    "regress",
    "take_apart",
    "weak_spots",
]
