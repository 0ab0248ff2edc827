"""Every activation against its definition, its enclosure, its parts and its integral."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadlens.base.errors import BadConfig
from quadlens.network import Config, Weights
from quadlens.network.activation import (
    ACTIVATIONS,
    NONLINEARITIES,
    Activation,
    apply_activation,
    parse_activation,
    recognise_activation,
)
from quadlens.network.dyadic import exact_activation
from quadlens.network.exact import exact_logits

numbers = st.floats(-30, 30)


@pytest.mark.parametrize("name", ACTIVATIONS)
@given(numbers)
def test_floats_lie_in_the_enclosure(name: Activation, x: float) -> None:
    from flint import arb, ctx

    sigma = NONLINEARITIES[name]
    with ctx.workprec(200):
        truth = sigma.enclose(arb(x))
        error = abs(truth - arb(float(sigma.apply(np.array([x]))[0])))
        # Far out in a tail like e^(-x²/2), rounding x itself costs x² units in the last place.
        assert error <= abs(truth) * (8 + x * x) * arb(2) ** -52 + arb(2) ** -1000


@pytest.mark.parametrize("name", ACTIVATIONS)
@given(numbers, st.floats(0, 3), st.floats(-1, 1))
def test_a_ball_goes_into_a_ball(
    name: Activation, middle: float, radius: float, inside: float
) -> None:
    from flint import arb, ctx

    with ctx.workprec(100):
        enclosure = NONLINEARITIES[name].enclose(arb(middle, radius))
    with ctx.workprec(3000):
        # At this precision the point inside the ball is exact, and its image a ball too small to
        # matter.
        point = NONLINEARITIES[name].enclose(arb(middle) + arb(inside) * radius)
    assert enclosure.overlaps(point)


@pytest.mark.parametrize("name", ACTIVATIONS)
@given(st.floats(-8, 8).filter(lambda x: abs(x) > 1e-3))
def test_the_derivative_by_differences(name: Activation, x: float) -> None:
    sigma, step = NONLINEARITIES[name], 1e-5
    difference = (sigma.apply(np.array([x + step])) - sigma.apply(np.array([x - step]))) / (
        2 * step
    )
    assert sigma.derivative(np.array([x])) == pytest.approx(difference, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", ACTIVATIONS)
@given(numbers)
def test_even_and_odd_part(name: Activation, x: float) -> None:
    sigma, at = NONLINEARITIES[name], np.array([x])
    right, left = sigma.apply(at), sigma.apply(-at)
    scale = 1e-13 * (1 + np.abs(right) + np.abs(left))
    assert np.abs(sigma.even(at) - (right + left) / 2) <= scale
    assert np.abs(sigma.odd(at) - (right - left) / 2) <= scale
    assert sigma.is_even == (name in ("abs", "square", "quartic"))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_lambda_2_by_quadrature(name: Activation) -> None:
    from scipy.integrate import quad

    sigma = NONLINEARITIES[name]
    for r in (0.0, 0.3, 1.0, 4.0, 25.0):
        slow = (
            quad(
                lambda t, r=r: float(sigma.apply(np.array([r * np.cos(t)]))[0]) * np.cos(2 * t),
                0,
                np.pi,
                limit=500,
                points=[np.pi / 2],
            )[0]
            / np.pi
        )
        assert sigma.lambda_2(np.array([r]))[0] == pytest.approx(slow, rel=1e-7, abs=1e-9)


def test_lambda_2_says_which_activations_can_do_it() -> None:
    r = np.array([0.5, 2.0])
    assert {name for name in ACTIVATIONS if not NONLINEARITIES[name].lambda_2(r).all()} == {"tanh"}
    assert NONLINEARITIES["relu"].lambda_2(r) == pytest.approx(r / (3 * np.pi))


@given(
    st.integers(-(10**30), 10**30),
    st.integers(0, 40),
    st.sampled_from(["relu", "abs", "square", "quartic"]),
)
def test_exact_numbers(numerator: int, shift: int, name: Activation) -> None:
    sigma, degree = exact_activation(name)
    x = Fraction(numerator, 1 << shift)
    true = {"relu": max(x, Fraction(0)), "abs": abs(x), "square": x**2, "quartic": x**4}[name]
    assert Fraction(sigma(numerator), 1 << (degree * shift)) == true


@pytest.mark.parametrize("name", ["relu", "abs", "square", "quartic"])
def test_exact_logits_of_every_rational_activation(name: Activation) -> None:
    config = Config.mlp(5, 4, name)
    rng = np.random.default_rng(0)
    model = Weights(config, **{n: rng.standard_normal(s) for n, s in config.shapes.items()})
    floats = np.stack([model.collapse().logits(a) for a in range(5)])
    assert np.allclose(exact_logits(model).to_floats(), floats, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["gelu", "tanh", "silu", "softplus"])
def test_no_exact_numbers_without_rationals(name: Activation) -> None:
    with pytest.raises(
        BadConfig, match=f"'{name}', which exact arithmetic cannot express; expected one of relu"
    ):
        exact_activation(name)


def test_names() -> None:
    assert [recognise_activation(name) for name in ("ReLU", "Quad", "GeLU", "swish")] == [
        "relu",
        "square",
        "gelu",
        "silu",
    ]
    # Our own files have our own names only.
    for wrong in ("ReLU", "quad", "gelu_new", 3, None):
        with pytest.raises(
            BadConfig,
            match="expected one of relu, abs, square, quartic, gelu, tanh, silu, softplus",
        ):
            parse_activation(wrong)
    assert apply_activation("abs", np.array([-1.0])) == [1.0]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_onnx_computes_the_same(name: Activation) -> None:
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    from quadlens.readers.onnx_graph import INPUT, write_onnx

    config = Config.mlp(5, 6, name)
    rng = np.random.default_rng(1)
    model = Weights(
        config, **{n: rng.standard_normal(s).astype(np.float32) for n, s in config.shapes.items()}
    )
    pairs = np.stack(np.divmod(np.arange(25), 5), axis=1)
    session = runtime.InferenceSession(
        write_onnx(model).content, providers=["CPUExecutionProvider"]
    )
    logits = session.run(None, {INPUT: np.eye(5, dtype=np.float32)[pairs]})[0]
    assert np.allclose(logits, model.forward(pairs), rtol=1e-4, atol=1e-4)
