"""Training with norms: logits are the forward pass's, gradients are exact."""

from itertools import product

import numpy as np
import pytest

from quadlens.base.errors import BadConfig
from quadlens.training.config import TrainConfig
from quadlens.training.device import DeviceEngine
from quadlens.training.engine import OptimiserState
from quadlens.training.layout import Layout
from quadlens.training.machines import start_of

pytestmark = pytest.mark.slow


def settings(norm: str, **more: object) -> TrainConfig:
    small = {"p": 7, "d_model": 12, "d_mlp": 16, "n_heads": 2, "d_head": 6, "precision": "float64"}
    return TrainConfig(**(small | {"norm": norm} | more))  # type: ignore[arg-type]


def engine(config: TrainConfig, theta: np.ndarray) -> DeviceEngine:
    start = start_of(config)
    state = OptimiserState(*(x[None] for x in (theta, 0 * theta, 0 * theta)))
    return DeviceEngine(config, state, start.train[None], start.validation[None], "cpu", 1)


@pytest.mark.parametrize(
    ("norm", "rate", "equals"), list(product(("layer", "rms"), (0.0, 0.7), (False, True)))
)
def test_a_step_sees_the_logits_of_the_forward_pass(norm: str, rate: float, equals: bool) -> None:
    config = settings(norm, attention_rate=rate, equals=equals)
    layout, rng, start = Layout.of_run(config), np.random.default_rng(0), start_of(config)
    theta = layout.flatten(start.params) + 0.3 * rng.standard_normal(layout.size)
    found = engine(config, theta)
    expected = layout.params(theta).forward(start.train)
    np.testing.assert_allclose(
        found._logits(found._train)[0].detach().numpy(), expected, rtol=0, atol=1e-12
    )


def test_the_gradient_is_a_difference_quotient() -> None:
    config = settings("layer")
    layout, rng, start = Layout.of_run(config), np.random.default_rng(1), start_of(config)
    theta = layout.flatten(start.params) + 0.1 * rng.standard_normal(layout.size)
    direction = np.zeros(layout.size)
    for name, shape in layout.shapes.items():
        at = layout.offsets[name]
        direction[at : at + int(np.prod(shape))] = rng.standard_normal(int(np.prod(shape)))

    def loss(x: np.ndarray) -> float:
        return engine(config, x)._gradient()[0][0].loss

    slope = engine(config, theta)._gradient()[1][0].numpy() @ direction
    assert slope == pytest.approx(
        (loss(theta + 1e-5 * direction) - loss(theta - 1e-5 * direction)) / 2e-5, rel=1e-5
    )


def test_what_a_norm_is_not_for() -> None:
    with pytest.raises(BadConfig, match="norm = rms is not for this architecture, mlp"):
        settings("rms", architecture="mlp")
    assert settings("none").run_id() != settings("rms").run_id() != settings("layer").run_id()
    assert start_of(settings("rms")).params.ln2_w.all()
