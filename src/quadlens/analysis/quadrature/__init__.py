"""The MLP as a quadrature rule: bounds, exact error in quasi-linear time, suprema.

`bounds(model)` does everything; each function below does one thing with a `Scheme`. Proofs:
docs/quadrature.md.
"""

from quadlens.analysis.quadrature.analysis import Bounds, ClusterBounds, bounds
from quadlens.analysis.quadrature.claims import Exact, UpperBound
from quadlens.analysis.quadrature.exact import exact_errors
from quadlens.analysis.quadrature.integrals import cos_baseline
from quadlens.analysis.quadrature.moment_series import moments
from quadlens.analysis.quadrature.paper_bounds import (
    Rectangles,
    bound_abs_full,
    bound_angle,
    bound_relu_full,
    box_density,
    rectangles,
    relu_by_largest_half,
)
from quadlens.analysis.quadrature.scheme import NoBound, Scheme, scheme_of
from quadlens.analysis.quadrature.views import (
    ClaimTable,
    by_papers_relu_rule,
    papers_cells,
    papers_cells_by_relu_rule,
    tables,
    text_table,
    to_json,
)

__all__ = [
    "Bounds",
    "ClaimTable",
    "ClusterBounds",
    "Exact",
    "NoBound",
    "Rectangles",
    "Scheme",
    "UpperBound",
    "bound_abs_full",
    "bound_angle",
    "bound_relu_full",
    "bounds",
    "box_density",
    "by_papers_relu_rule",
    "cos_baseline",
    "exact_errors",
    "moments",
    "papers_cells",
    "papers_cells_by_relu_rule",
    "rectangles",
    "relu_by_largest_half",
    "scheme_of",
    "tables",
    "text_table",
    "to_json",
]
