"""Enclosures hold the truth: every operation against rationals, without tolerance."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from quadlens.proofs import enclosed as enclosed_module
from quadlens.proofs.enclosed import Enclosed, bound_weighted_sum, circle, enclosed_waves
from quadlens.proofs.lipschitz import TWO_PI, bound_rectangles

# Subnormal, huge and ordinary: half of all floats by exponent, so that products stay finite.
numbers = st.floats(-1e140, 1e140) | st.floats(-4, 4) | st.floats(-1e-300, 1e-300)
shares = st.floats(-1, 1)


@st.composite
def enclosures(draw: st.DrawFn, n: int = 1) -> tuple[Enclosed, list[Fraction]]:
    """Balls with a number in each, often on the edge."""
    middle = np.array([draw(numbers) for _ in range(n)])
    radius = np.abs(middle) * draw(st.sampled_from([0.0, 2.0**-53, 1e-10, 0.3]))
    truth = [
        Fraction(float(m)) + Fraction(float(r)) * Fraction(draw(shares)) for m, r in zip(middle, radius, strict=True)
    ]
    return Enclosed(middle, radius), truth


def holds(ball: Enclosed, truth: list[Fraction]) -> bool:
    """Whether every number is inside; an infinite radius holds all."""
    return all(
        not np.isfinite(r) or not np.isfinite(m) or abs(Fraction(float(m)) - x) <= Fraction(float(r))
        for m, r, x in zip(ball.middle.ravel(), ball.radius.ravel(), truth, strict=True)
    )


OPERATIONS: dict[str, tuple[Callable[[Enclosed, Enclosed], Enclosed], Callable[[Fraction, Fraction], Fraction]]] = {
    "+": (lambda x, y: x + y, lambda x, y: x + y),
    "-": (lambda x, y: x - y, lambda x, y: x - y),
    "*": (lambda x, y: x * y, lambda x, y: x * y),
}


@pytest.mark.parametrize("name", OPERATIONS)
@settings(max_examples=300)
@given(enclosures(), enclosures())
def test_sums_and_products_hold_the_truth(
    name: str, x: tuple[Enclosed, list[Fraction]], y: tuple[Enclosed, list[Fraction]]
) -> None:
    on_balls, on_numbers = OPERATIONS[name]
    assert holds(on_balls(x[0], y[0]), [on_numbers(x[1][0], y[1][0])])
    assert holds(abs(x[0]), [abs(x[1][0])])


@pytest.mark.parametrize("power", [-1074, -1030, -1000, -3])
def test_products_of_matrices_hold_the_truth_where_a_bound_underflows(power: int) -> None:
    """u |x| of a denormal x is 0, but times a large |y| it is no longer small."""
    rng = np.random.default_rng(power % 100)
    x, y = np.ldexp(rng.standard_normal((3, 4)), power), np.ldexp(rng.standard_normal((4, 5)), min(1000, -power))
    truth = [
        sum((Fraction(float(p)) * Fraction(float(q)) for p, q in zip(row, column, strict=True)), Fraction(0))
        for row in x
        for column in y.T
    ]
    product = Enclosed.exactly(x) @ Enclosed.exactly(y)
    assert product.finite
    assert holds(product, truth)


@settings(max_examples=300)
@given(enclosures(), enclosures())
def test_quotients_hold_the_truth_or_say_nothing(
    x: tuple[Enclosed, list[Fraction]], y: tuple[Enclosed, list[Fraction]]
) -> None:
    divisor = abs(y[0])
    assume(y[1][0] != 0)
    with np.errstate(all="ignore"):
        quotient = x[0] / divisor
    assert holds(quotient, [x[1][0] / abs(y[1][0])])
    zero = Enclosed(np.array([1.0]), np.array([1.0]))
    assert np.isinf((x[0] / zero).radius).all()


@settings(max_examples=200)
@given(enclosures(7))
def test_sums_of_many_and_edges_hold_the_truth(x: tuple[Enclosed, list[Fraction]]) -> None:
    ball, truth = x
    assert holds(ball.sum(0), [sum(truth, Fraction(0))])
    assert holds(ball.running_sum(0), [sum(truth[: n + 1], Fraction(0)) for n in range(7)])
    for low, high, size, number in zip(ball.lower(), ball.upper(), ball.magnitude(), truth, strict=True):
        assert Fraction(float(low)) <= number <= Fraction(float(high))
        assert abs(number) <= Fraction(float(size))
    weights = np.abs(ball.middle)
    bound = bound_weighted_sum(ball.magnitude(), weights)
    if np.isfinite(bound):
        exact = sum((abs(t) * Fraction(float(w)) for t, w in zip(truth, weights, strict=True)), Fraction(0))
        assert exact <= Fraction(float(bound))


def test_without_rounding_upward_the_truth_falls_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above can fail: without radii, 1/3 is not what float64 says it is."""
    monkeypatch.setattr(enclosed_module, "upward", lambda x: x * 0)
    third = Enclosed.exactly(np.array([1.0])) / Enclosed.exactly(np.array([3.0]))
    assert not holds(third, [Fraction(1, 3)])


@settings(max_examples=100)
@given(st.lists(st.floats(-7, 7), min_size=1, max_size=20))
def test_waves_are_where_arb_with_more_bits_says(phases: list[float]) -> None:
    cos, sin = enclosed_waves(np.array(phases))
    with ctx.workprec(200):
        for n, phase in enumerate(phases):
            for ball, truth in ((cos, arb(phase).cos()), (sin, arb(phase).sin())):
                assert abs(truth - arb(float(ball.middle[n]))) <= arb(float(ball.radius[n]))
        assert abs(2 * arb.pi() - arb(float(TWO_PI.middle[0]))) <= arb(float(TWO_PI.radius[0]))


def test_the_circle_is_within_its_error() -> None:
    with ctx.workprec(200):
        for n in (2, 6, 59, 118, 1994):
            cos, sin = circle(n)
            for m in range(0, n, max(1, n // 50)):
                assert abs(arb.cos_pi_fmpq(fmpq(2 * m, n)) - arb(float(cos[m]))) <= arb(2) ** -50
                assert abs(arb.sin_pi_fmpq(fmpq(2 * m, n)) - arb(float(sin[m]))) <= arb(2) ** -50


@settings(max_examples=100)
@given(st.lists(st.tuples(st.floats(-3.2, 3.2), st.floats(1e-3, 10)), min_size=1, max_size=12))
def test_rectangles_are_bounded_from_above(rule: list[tuple[float, float]]) -> None:
    """Against the same integral in Arb, with the first edge that float64 chose."""
    phi, weights = (np.array(column) for column in zip(*sorted(rule), strict=True))
    bound = bound_rectangles(phi, Enclosed.exactly(weights))
    width = weights * (2 * np.pi / weights.sum())
    first = float(np.median(phi - (np.cumsum(width) - width / 2)))
    with ctx.workprec(200):
        scale = 2 * arb.pi() / sum((arb(x) for x in weights.tolist()), arb(0))
        edge, area = arb(first), arb(0)
        for node, weight in zip(phi.tolist(), weights.tolist(), strict=True):
            left, right = edge - arb(node), edge + arb(weight) * scale - arb(node)
            area += right * abs(right) - left * abs(left)
            edge = edge + arb(weight) * scale
        # A first edge that differs in its last bits moves the integral by at most 2π times that.
        assert area <= arb(bound) + arb(2) ** -44
