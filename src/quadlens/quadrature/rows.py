"""The rows of the paper's tables for one scheme, each as the kind of claim it is."""

from dataclasses import dataclass

from quadlens.quadrature.angle import bound_angle
from quadlens.quadrature.claims import Exact, UpperBound
from quadlens.quadrature.exact import ExactErrors
from quadlens.quadrature.integrals import cos_baseline, half_of, sin_baseline
from quadlens.quadrature.lipschitz import bound_abs_full, bound_abs_half
from quadlens.quadrature.relu_window import bound_relu_full, bound_relu_half
from quadlens.quadrature.scheme import Scheme

ABS_ROWS = (
    "normalised_abs_cos_error",
    "normalised_abs_sin_error",
    "normalised_id_cos_error",
    "normalised_id_sin_error",
    "angle_approximation_error",
    "numerical_abs_bound_full",
    "numerical_abs_bound_half",
    "total_abs_bound_full",
    "total_abs_bound_half",
    "naive_abs_cos_baseline",
    "naive_abs_sin_baseline",
)
RELU_ROWS = (
    "normalised_relu_cos_error",
    "normalised_relu_sin_error",
    "angle_approximation_error",
    "numerical_relu_bound_full",
    "numerical_relu_bound_half",
    "total_relu_bound_full",
    "total_relu_bound_half",
    "naive_relu_cos_baseline",
    "naive_relu_sin_baseline",
)


@dataclass(frozen=True)
class PaperRows:
    """Rows of the paper's tables `error:more` (absolute value, identity) and `error:relu`, named as in published.json.

    "normalised": with weights that sum to 2π. Totals add the angle error; the half-period bounds enter them twice.
    """

    normalised_abs_cos_error: Exact
    normalised_abs_sin_error: Exact
    normalised_id_cos_error: Exact
    normalised_id_sin_error: Exact
    angle_approximation_error: UpperBound
    numerical_abs_bound_full: UpperBound
    numerical_abs_bound_half: UpperBound
    total_abs_bound_full: UpperBound
    total_abs_bound_half: UpperBound
    naive_abs_cos_baseline: Exact
    naive_abs_sin_baseline: Exact
    normalised_relu_cos_error: Exact
    normalised_relu_sin_error: Exact
    numerical_relu_bound_full: UpperBound
    numerical_relu_bound_half: UpperBound
    total_relu_bound_full: UpperBound
    total_relu_bound_half: UpperBound
    naive_relu_cos_baseline: Exact
    naive_relu_sin_baseline: Exact


def paper_rows(scheme: Scheme, exact: ExactErrors) -> PaperRows:
    """Every row; `exact` are the exact errors of the same scheme with 2φ."""
    angle = bound_angle(scheme)
    abs_full, abs_half = bound_abs_full(scheme), bound_abs_half(scheme)
    relu_full, relu_half = bound_relu_full(scheme), bound_relu_half(scheme)
    cos_mean, sin_mean = cos_baseline(scheme), sin_baseline(scheme)
    return PaperRows(
        normalised_abs_cos_error=exact.absolute_cos,
        normalised_abs_sin_error=exact.absolute_sin,
        normalised_id_cos_error=exact.identity_cos,
        normalised_id_sin_error=exact.identity_sin,
        angle_approximation_error=angle,
        numerical_abs_bound_full=abs_full,
        numerical_abs_bound_half=abs_half,
        total_abs_bound_full=_total(abs_full, angle, "abs"),
        total_abs_bound_half=_total(abs_half.times(2.0), angle, "abs"),
        naive_abs_cos_baseline=cos_mean,
        naive_abs_sin_baseline=sin_mean,
        normalised_relu_cos_error=exact.relu_cos,
        normalised_relu_sin_error=exact.relu_sin,
        numerical_relu_bound_full=relu_full,
        numerical_relu_bound_half=relu_half,
        total_relu_bound_full=_total(relu_full, angle, "ReLU"),
        total_relu_bound_half=_total(relu_half.times(2.0), angle, "ReLU"),
        naive_relu_cos_baseline=half_of(cos_mean),
        naive_relu_sin_baseline=half_of(sin_mean),
    )


def _total(quadrature: UpperBound, angle: UpperBound, part: str) -> UpperBound:
    """Quadrature error plus angle error bounds the error with ψ, by the triangle inequality."""
    total = quadrature + angle
    return total.named(f"{part} error with ψ, all a, b, c", total.equation)
