"""The trigonometry the paper rests on, symbolically (sympy) and in ball arithmetic (Arb); no floats
are sampled."""

from collections.abc import Callable

import flint
import pytest
import sympy as sp
from sympy.simplify.fu import TR8

s, t, u, phi, theta = sp.symbols("s t u phi theta", real=True)
alpha, beta = sp.symbols("alpha beta", real=True)
a, b, c, k = sp.symbols("a b c k", real=True)


def is_zero(expression: sp.Expr) -> bool:
    return bool(sp.simplify(sp.expand_trig(sp.expand(expression))) == 0)


def over(integrand: sp.Expr, variable: sp.Symbol, low: sp.Expr, high: sp.Expr) -> sp.Expr:
    """∫ of a product of cosines, turned into a sum of cosines first so that sympy integrates it
    term by term."""
    return sp.integrate(sp.expand(TR8(sp.expand(integrand))), (variable, low, high))


def test_identities_of_the_appendix() -> None:
    """`sec:trig-identities`, all six."""
    assert is_zero(
        sp.sin(alpha) + sp.sin(beta) - 2 * sp.sin((alpha + beta) / 2) * sp.cos((alpha - beta) / 2)
    )
    assert is_zero(
        sp.cos(alpha) + sp.cos(beta) - 2 * sp.cos((alpha + beta) / 2) * sp.cos((alpha - beta) / 2)
    )
    assert is_zero(sp.cos(alpha) * sp.cos(beta) - (sp.cos(alpha + beta) + sp.cos(alpha - beta)) / 2)
    assert is_zero(
        sp.cos(alpha + beta) - sp.cos(alpha) * sp.cos(beta) + sp.sin(alpha) * sp.sin(beta)
    )
    assert is_zero(
        sp.cos(alpha - beta) - sp.cos(alpha) * sp.cos(beta) - sp.sin(alpha) * sp.sin(beta)
    )
    assert is_zero(sp.cos(alpha + sp.pi) + sp.cos(alpha))


def test_averaging_two_tokens_gives_the_pizza_factor() -> None:
    """cos(ka+φ) + cos(kb+φ) = 2 cos u cos(s+φ), u = k(a-b)/2, s = k(a+b)/2 (steps 1 and 2 of the
    algorithm)."""
    left = sp.cos(k * a + phi) + sp.cos(k * b + phi)
    assert is_zero(left - 2 * sp.cos(k * (a - b) / 2) * sp.cos(k * (a + b) / 2 + phi))


@pytest.mark.parametrize("sign", [1, -1])
def test_relu_integral(sign: int) -> None:
    """∫ ReLU(±cos(s+φ)) cos(t+2φ) dφ = 2/3 cos(2s-t) (`sec:trig-integral`): the half circle where
    ±cos is positive."""
    start = -sp.pi / 2 - s if sign == 1 else sp.pi / 2 - s
    integral = over(sign * sp.cos(s + phi) * sp.cos(t + 2 * phi), phi, start, start + sp.pi)
    assert is_zero(integral - sp.Rational(2, 3) * sp.cos(2 * s - t))


def test_absolute_value_integrals() -> None:
    """∫ |cos(s+φ)| cos 2φ = 4/3 cos 2s and ∫ |cos(s+φ)| sin 2φ = -4/3 sin 2s (`math.md` §3)."""
    for factor, result in (
        (sp.cos, sp.Rational(4, 3) * sp.cos(2 * s)),
        (sp.sin, -sp.Rational(4, 3) * sp.sin(2 * s)),
    ):
        up = over(sp.cos(s + phi) * factor(2 * phi), phi, -sp.pi / 2 - s, sp.pi / 2 - s)
        down = over(-sp.cos(s + phi) * factor(2 * phi), phi, sp.pi / 2 - s, 3 * sp.pi / 2 - s)
        assert is_zero(up + down - result)


def test_the_identity_part_vanishes() -> None:
    """∫ cos(s+φ) cos(t+2φ) dφ = 0 over a full period (erratum 5 of `math.md`)."""
    assert is_zero(over(sp.cos(s + phi) * sp.cos(t + 2 * phi), phi, -sp.pi, sp.pi))


@pytest.mark.parametrize("sign", [1, -1])
def test_secondary_integral(sign: int) -> None:
    """∫ cos(t+2φ) ReLU(-x cos(2s+2φ)) dφ = -π/2 x cos(2s-t), x = cos 2u of either sign
    (`sec:secondary-freqs`).

    With θ = s + φ the ReLU is -x cos 2θ on the two arcs where that is positive: around ±π/2 for x >
    0, 0 and π else.
    """
    x = sp.symbols("x", positive=True) * sign
    centres = (sp.pi / 2, -sp.pi / 2) if sign == 1 else (sp.Integer(0), sp.pi)
    integrand = -x * sp.cos(2 * theta) * sp.cos(t - 2 * s + 2 * theta)
    arcs = [over(integrand, theta, centre - sp.pi / 4, centre + sp.pi / 4) for centre in centres]
    assert is_zero(sum(arcs) + sp.pi / 2 * x * sp.cos(2 * s - t))


def test_secondary_integral_with_any_even_function() -> None:
    """`sec:trig-integral-secondary`: what the ReLU sees is even in θ = φ + s, so only cos(2s-t) is
    left."""
    v, beta_k, gamma_k = sp.symbols("v beta_k gamma_k", real=True)
    inside = v * sp.cos(s + phi) + beta_k * (2 * v**2 - 1) * sp.cos(2 * s + 2 * phi) + gamma_k
    shifted = inside.subs(phi, theta - s)
    assert is_zero(shifted - shifted.subs(theta, -theta))
    kernel = sp.cos(t + 2 * phi).subs(phi, theta - s)
    even, odd = sp.cos(t - 2 * s) * sp.cos(2 * theta), -sp.sin(t - 2 * s) * sp.sin(2 * theta)
    assert is_zero(kernel - even - odd)
    assert is_zero(odd + odd.subs(theta, -theta))


def test_double_angle_of_the_secondary_frequency() -> None:
    """cos u cos s → the pre-activation at 2k: cos 2ka + cos 2kb = 2 cos 2u cos 2s, and cos 2u = 2
    cos² u - 1."""
    left = sp.cos(2 * k * a) + sp.cos(2 * k * b)
    assert is_zero(left - 2 * sp.cos(k * (a - b)) * sp.cos(k * (a + b)))
    assert is_zero(sp.cos(2 * u) - 2 * sp.cos(u) ** 2 + 1)


def test_identity_component_is_the_secondary_factor() -> None:
    """cos(k(c-2a)) + cos(k(c-2b)) = 2 cos 2u cos(k(a+b-c)): two halves D_a = D_b make D_k = 2 D_a
    (erratum 11)."""
    left = sp.cos(k * (c - 2 * a)) + sp.cos(k * (c - 2 * b))
    assert is_zero(left - 2 * sp.cos(k * (a - b)) * sp.cos(k * (a + b - c)))


def test_a_function_that_is_not_negative_can_make_the_right_answer_last() -> None:
    """Erratum 13: f(x,y) = 1 - cos x cos y is symmetric, even and not negative, and ∫ g cos 2θ =
    -π/2 for every u."""
    f = 1 - sp.cos(alpha) * sp.cos(beta)
    for other in ({alpha: beta, beta: alpha}, {alpha: -alpha}, {beta: -beta}):
        assert is_zero(f - f.subs(other, simultaneous=True))
    g = f.subs({alpha: u + theta, beta: theta - u}, simultaneous=True)
    assert is_zero(g - (1 - sp.cos(2 * u) / 2 - sp.cos(2 * theta) / 2))
    assert is_zero(over(g * sp.cos(2 * theta), theta, -sp.pi, sp.pi) + sp.pi / 2)


def test_the_term_with_two_d_is_negative_and_the_cushion_is_not() -> None:
    """Erratum 5: D cos 2u = 2 D cos² u - D, so with D < 0 the first term takes away and only -D is
    a cushion."""
    D, v = sp.symbols("D", negative=True), sp.cos(u)
    assert is_zero(D * sp.cos(2 * u) - (2 * D * v**2 - D))
    assert (2 * D * sp.symbols("v", positive=True) ** 2).is_negative
    assert (-D).is_positive


@pytest.mark.parametrize(("s_value", "t_value"), [("0.3", "1.1"), ("-2.7", "0.4"), ("1.5", "-3.0")])
def test_integrals_in_ball_arithmetic(s_value: str, t_value: str) -> None:
    """Arb's rigorous integration encloses the difference to the closed forms in a ball around 0
    below 1e-25."""
    flint.ctx.prec = 128
    try:
        S, T, pi = flint.acb(s_value), flint.acb(t_value), flint.acb.pi()

        def integrate(f: Callable[..., flint.acb], low: flint.acb, high: flint.acb) -> flint.acb:
            return flint.acb.integral(lambda x, _: f(x), low, high)

        def vanishes(difference: flint.acb) -> bool:
            return difference.contains(0) and difference.abs_upper() < flint.arb("1e-25")

        wave = lambda x: (S + x).cos() * (T + 2 * x).cos()  # noqa: E731
        up, down = (
            integrate(wave, -pi / 2 - S, pi / 2 - S),
            integrate(wave, pi / 2 - S, 3 * pi / 2 - S),
        )
        result = (2 * S - T).cos()
        assert vanishes(up - result * 2 / 3)
        assert vanishes(-down - result * 2 / 3)
        assert vanishes(up - down - result * 4 / 3)
        assert vanishes(up + down)
        second = lambda x: -(2 * S + 2 * x).cos() * (T + 2 * x).cos()  # noqa: E731
        arcs = [
            integrate(second, centre - pi / 4 - S, centre + pi / 4 - S)
            for centre in (pi / 2, -pi / 2)
        ]
        assert vanishes(arcs[0] + arcs[1] + pi / 2 * result)
    finally:
        flint.ctx.prec = 53
