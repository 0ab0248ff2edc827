"""No bound is ever below the truth, by any amount: truth ≤ bound with the truth enclosed by ball
arithmetic."""

import os
from typing import Any

import numpy as np
import pytest
from flint import acb, arb
from hypothesis import given, settings
from hypothesis import strategies as st

from quadlens.analysis.quadrature import Exact, Scheme, UpperBound, bound_angle, exact_errors
from quadlens.analysis.quadrature.exact import exact_abs_error
from quadlens.analysis.quadrature.expi import EXPI_ERROR, expi
from quadlens.analysis.quadrature.moment_series import bound_moments
from quadlens.analysis.quadrature.paper_bounds import (
    Rectangles,
    paper_rows,
    rectangle_errors,
    rectangles,
)
from quadlens.analysis.quadrature.supremum import abs_supremum, identity_supremum, relu_supremum
from quadrature_truth import Truth, angle_difference, schemes, with_bits, worst_integer_c

pytestmark = pytest.mark.slow

# 2,200 cases in the ordinary run.
MORE = 20 if os.environ.get("QUADLENS_HYPOTHESIS") == "long" else 1


def cases(count: int) -> settings:
    """So many cases in the ordinary run, twenty times as many in the long profile."""
    return settings(max_examples=count * MORE)


def check_upper(truth: Any, bound: UpperBound) -> None:
    assert truth <= arb(bound.value), f"{bound.quantity}: {truth} above {bound.value}"


def check_exact(lower: Any, upper: Any, claim: Exact) -> None:
    assert arb(claim.lower) <= lower, f"{claim.quantity}: {lower} below {claim.lower}"
    assert upper <= arb(claim.upper), f"{claim.quantity}: {upper} above {claim.upper}"


@cases(600)
@given(schemes())
def test_paper_bounds_and_exact_errors_hold(scheme: Scheme) -> None:
    plain, folded = exact_errors(scheme), exact_errors(scheme, with_psi=True)
    rows = paper_rows(scheme, plain)
    with with_bits(scheme):
        truth, truth_folded = Truth(scheme, psi=False).worst(), Truth(scheme, psi=True).worst()
    for part, row in (("abs", "absolute"), ("identity", "identity"), ("relu", "relu")):
        check_exact(*truth[part], getattr(plain, row))
        check_exact(*truth_folded[part], getattr(folded, row))
    check_upper(truth["abs"][1], rows.numerical_abs_bound_full)
    check_upper(truth["abs"][1], rows.numerical_abs_bound_half.times(2.0))
    check_upper(truth["relu"][1], rows.numerical_relu_bound_full)
    check_upper(truth["relu"][1], rows.numerical_relu_bound_half.times(2.0))
    check_upper(truth_folded["abs"][1], rows.total_abs_bound_full)
    check_upper(truth_folded["abs"][1], rows.total_abs_bound_half)
    check_upper(truth_folded["relu"][1], rows.total_relu_bound_full)
    check_upper(truth_folded["relu"][1], rows.total_relu_bound_half)


@cases(300)
@given(schemes(), st.data())
def test_suprema_and_moment_bounds_hold_at_every_real_angle(
    scheme: Scheme, data: st.DataObject
) -> None:
    psi = data.draw(st.booleans())
    M = data.draw(st.integers(1, 30))
    suprema = {
        "abs": abs_supremum(scheme, psi),
        "identity": identity_supremum(scheme, psi),
        "relu": relu_supremum(scheme, psi),
    }
    moment = bound_moments(scheme, M, psi)
    grid = exact_errors(scheme, psi)
    # The supremum is over more angles than the grid's.
    assert suprema["abs"].upper >= grid.absolute.lower
    assert suprema["relu"].upper >= grid.relu.lower
    angles = [arb(data.draw(st.floats(-10, 10))), *_telling_angles(scheme)]
    with with_bits(scheme):
        truth = Truth(scheme, psi)
        for s in angles:
            errors = truth.at(s)
            for part, claim in suprema.items():
                check_upper(abs(errors[part]).upper(), claim.as_upper_bound())
            check_upper(abs(errors["abs"]).upper(), moment)


def _telling_angles(scheme: Scheme) -> list[Any]:
    """Kinks of the first neurons, and a point between."""
    kinks = [float(np.pi / 2 - phi) for phi in scheme.phi[:2] if abs(phi) < 1e6]
    return [arb(x) for x in kinks] + ([arb(sum(kinks) / 2)] if kinks else [])


@cases(400)
@given(schemes(most=12, large_phases=False), st.floats(-10, 10), st.booleans())
def test_every_shift_is_sound_and_the_chosen_one_is_the_best(
    scheme: Scheme, theta: float, half: bool
) -> None:
    best = rectangles(scheme, half)
    other = Rectangles(best.order, best.phi, best.edges, theta, half)
    with with_bits(scheme):
        chosen = sum(rectangle_errors(scheme, best), arb(0))
        tried = sum(rectangle_errors(scheme, other), arb(0))
        _, truth = Truth(scheme, psi=False).worst()["abs"]
        assert truth / (2 if half else 1) <= tried.upper()
        # Only the position of the minimum is rounded, and the function is flat there.
        assert chosen.lower() <= tried.upper() + arb(1e-13)


@cases(200)
@given(schemes(most=5, largest_half=5))
def test_table_rows_and_integer_c_are_enclosed(scheme: Scheme) -> None:
    plain, folded = exact_errors(scheme), exact_errors(scheme, with_psi=True)
    with with_bits(scheme):
        grid = Truth(scheme, psi=False).on_grid()
        for part, row in (("abs", "absolute"), ("identity", "identity"), ("relu", "relu")):
            cos = max(abs(error[part].real).mid() for error in grid)
            sin = max(abs(error[part].imag).mid() for error in grid)
            check_exact(cos, cos, getattr(plain, f"{row}_cos"))
            check_exact(sin, sin, getattr(plain, f"{row}_sin"))
        for psi, errors in ((False, plain), (True, folded)):
            over_c = worst_integer_c(Truth(scheme, psi))
            check_exact(over_c, over_c, errors.absolute_integer_c)


@cases(500)
@given(schemes(), st.booleans(), st.booleans())
def test_the_angle_error_bounds_the_difference(scheme: Scheme, relu: bool, both: bool) -> None:
    part = "relu" if relu else "abs"
    s = arb(1) / 3 if both else arb.pi() / 7
    with with_bits(scheme):
        check_upper(abs(angle_difference(scheme, s, part)).upper(), bound_angle(scheme))


@cases(200)
@given(st.lists(st.floats(-4, 4), min_size=1, max_size=60), st.integers(-3, 3))
def test_turns_stay_within_their_proved_error(values: list[float], quarter: int) -> None:
    near = np.nextafter(quarter * np.pi / 2, np.array([-9.0, 9.0])).clip(-4, 4)
    x = np.concatenate([np.array(values), near])
    for angle, turn in zip(x.tolist(), expi(x).tolist(), strict=True):
        sine, cosine = arb(angle).sin_cos()
        assert abs(acb(cosine, sine) - acb(turn.real, turn.imag)) <= arb(EXPI_ERROR)


def test_turns_refuse_angles_beyond_their_proof() -> None:
    for angle in (4.1, -4.1, 1e9, float("nan")):
        with pytest.raises(ValueError, match="within ±4"):
            expi(np.array([0.0, angle]))


@pytest.mark.parametrize("kind", ["uniform", "clustered", "equal"])
def test_ten_thousand_neurons(kind: str) -> None:
    n, rng = 10_000, np.random.default_rng(5)
    phi = {
        "uniform": rng.uniform(-np.pi, np.pi, n),
        "clustered": 1 + 1e-9 * rng.standard_normal(n),
        "equal": -np.pi + 2 * np.pi * np.arange(n) / n,
    }[kind]
    scheme = Scheme(
        3, 1, phi, 2 * phi + 0.01 * rng.standard_normal(n), rng.random(n), rng.random(n)
    )
    exact = exact_errors(scheme)
    rows = paper_rows(scheme, exact)
    with with_bits(scheme):
        truth = Truth(scheme, psi=False).worst()
    (lower, upper), (_, relu) = truth["abs"], truth["relu"]
    check_exact(lower, upper, exact.absolute)
    check_exact(lower, upper, exact_abs_error(scheme))
    for bound in (
        rows.numerical_abs_bound_full,
        rows.numerical_abs_bound_half.times(2.0),
        bound_moments(scheme),
        abs_supremum(scheme).as_upper_bound(),
    ):
        check_upper(upper, bound)
    for bound in (rows.numerical_relu_bound_full, rows.numerical_relu_bound_half.times(2.0)):
        check_upper(relu, bound)


def test_one_neuron_carrying_all_the_weight() -> None:
    phi = np.array([0.3, -2.0])
    scheme = Scheme(7, 2, phi, 2 * phi, np.array([1.0, 0.0]), np.ones(2))
    exact = exact_errors(scheme)
    with with_bits(scheme):
        truth = Truth(scheme, psi=False).worst()
    check_exact(*truth["abs"], exact.absolute)
    check_upper(truth["abs"][1], paper_rows(scheme, exact).numerical_abs_bound_full)
