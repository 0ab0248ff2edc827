"""The MLP as a quadrature rule: the paper's bounds, the exact error in quasi-linear time, moments and suprema.

`bounds(model)` does everything; each function below does one thing with a `Scheme`. Proofs: docs/quadrature.md.
"""

from quadlens.quadrature.analysis import Bounds, ClusterBounds, Suprema, bounds, cluster_bounds
from quadlens.quadrature.claims import MARKS, Claim, Cost, Estimate, Exact, UpperBound, printed, shown
from quadlens.quadrature.convergence import (
    BoxDensity,
    Convergence,
    ConvergencePoint,
    box_density,
    equally_spaced_error,
    handmade_study,
    thinned,
    thinning_study,
)
from quadlens.quadrature.exact import ExactErrors, exact_abs_error, exact_errors
from quadlens.quadrature.integrals import abs_integral, brute_force_error, cos_baseline, sin_baseline
from quadlens.quadrature.moment_series import Moments, bound_moments, moments
from quadlens.quadrature.paper_bounds import (
    PaperRows,
    Rectangles,
    bound_abs_full,
    bound_abs_half,
    bound_angle,
    bound_relu_full,
    bound_relu_half,
    paper_rows,
    rectangles,
)
from quadlens.quadrature.scheme import NoBound, NotAScheme, Scheme, scheme_of
from quadlens.quadrature.supremum import abs_supremum, identity_supremum, relu_supremum
from quadlens.quadrature.views import ClaimTable, Row, tables, text_table, to_json

__all__ = [
    "MARKS",
    "Bounds",
    "BoxDensity",
    "Claim",
    "ClaimTable",
    "ClusterBounds",
    "Convergence",
    "ConvergencePoint",
    "Cost",
    "Estimate",
    "Exact",
    "ExactErrors",
    "Moments",
    "NoBound",
    "NotAScheme",
    "PaperRows",
    "Rectangles",
    "Row",
    "Scheme",
    "Suprema",
    "UpperBound",
    "abs_integral",
    "abs_supremum",
    "bound_abs_full",
    "bound_abs_half",
    "bound_angle",
    "bound_moments",
    "bound_relu_full",
    "bound_relu_half",
    "bounds",
    "box_density",
    "brute_force_error",
    "cluster_bounds",
    "cos_baseline",
    "equally_spaced_error",
    "exact_abs_error",
    "exact_errors",
    "handmade_study",
    "identity_supremum",
    "moments",
    "paper_rows",
    "printed",
    "rectangles",
    "relu_supremum",
    "scheme_of",
    "shown",
    "sin_baseline",
    "tables",
    "text_table",
    "thinned",
    "thinning_study",
    "to_json",
]
