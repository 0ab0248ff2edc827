"""Enclosures hold the truth: every operation against rationals, without tolerance."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from hypothesis import assume, given
from hypothesis import strategies as st

from examples import examples
from quadlens.proofs.pairs import enclosed as enclosed_module
from quadlens.proofs.pairs.enclosed import Enclosed, circle

# Subnormal, huge and ordinary: half of all floats by exponent, so that products stay finite.
numbers = st.floats(-1e140, 1e140) | st.floats(-4, 4) | st.floats(-1e-300, 1e-300)
shares = st.floats(-1, 1)


@st.composite
def enclosures(draw: st.DrawFn, n: int = 1) -> tuple[Enclosed, list[Fraction]]:
    """Balls with a number in each, often on the edge."""
    middle = np.array([draw(numbers) for _ in range(n)])
    radius = np.abs(middle) * draw(st.sampled_from([0.0, 2.0**-53, 1e-10, 0.3]))
    truth = [
        Fraction(float(m)) + Fraction(float(r)) * Fraction(draw(shares))
        for m, r in zip(middle, radius, strict=True)
    ]
    return Enclosed(middle, radius), truth


def holds(ball: Enclosed, truth: list[Fraction]) -> bool:
    """Whether every number is inside; an infinite radius holds all."""
    return all(
        not np.isfinite(r)
        or not np.isfinite(m)
        or abs(Fraction(float(m)) - x) <= Fraction(float(r))
        for m, r, x in zip(ball.middle.ravel(), ball.radius.ravel(), truth, strict=True)
    )


OPERATIONS: dict[
    str, tuple[Callable[[Enclosed, Enclosed], Enclosed], Callable[[Fraction, Fraction], Fraction]]
] = {
    "+": (lambda x, y: x + y, lambda x, y: x + y),
    "-": (lambda x, y: x - y, lambda x, y: x - y),
    "*": (lambda x, y: x * y, lambda x, y: x * y),
}


@pytest.mark.parametrize("name", OPERATIONS)
@examples(300)
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
    x, y = (
        np.ldexp(rng.standard_normal((3, 4)), power),
        np.ldexp(rng.standard_normal((4, 5)), min(1000, -power)),
    )
    truth = [
        sum(
            (Fraction(float(p)) * Fraction(float(q)) for p, q in zip(row, column, strict=True)),
            Fraction(0),
        )
        for row in x
        for column in y.T
    ]
    product = Enclosed.exactly(x) @ Enclosed.exactly(y)
    assert product.finite
    assert holds(product, truth)


@examples(300)
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


@examples(200)
@given(enclosures(7))
def test_sums_of_many_and_edges_hold_the_truth(x: tuple[Enclosed, list[Fraction]]) -> None:
    ball, truth = x
    assert holds(ball.sum(0), [sum(truth, Fraction(0))])
    for low, high, size, number in zip(
        ball.lower(), ball.upper(), ball.magnitude(), truth, strict=True
    ):
        assert Fraction(float(low)) <= number <= Fraction(float(high))
        assert abs(number) <= Fraction(float(size))


def test_without_rounding_upward_the_truth_falls_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above can fail: without radii, 1/3 is not what float64 says it is."""
    monkeypatch.setattr(enclosed_module, "upward", lambda x: x * 0)
    third = Enclosed.exactly(np.array([1.0])) / Enclosed.exactly(np.array([3.0]))
    assert not holds(third, [Fraction(1, 3)])


def test_the_circle_is_within_its_error() -> None:
    with ctx.workprec(200):
        for n in (2, 6, 59, 118, 1994):
            cos, sin = circle(n)
            for m in range(0, n, max(1, n // 50)):
                assert abs(arb.cos_pi_fmpq(fmpq(2 * m, n)) - arb(float(cos[m]))) <= arb(2) ** -50
                assert abs(arb.sin_pi_fmpq(fmpq(2 * m, n)) - arb(float(sin[m]))) <= arb(2) ** -50
