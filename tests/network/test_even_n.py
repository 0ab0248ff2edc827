"""Even and composite numbers of elements, each computed the slow way.

The sign wave, folded multiples and regressions.
"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from analysis.test_logits import factor, least_squares, tensors
from quadlens.analysis.explanation import explain
from quadlens.analysis.logits import clock_pizza, identity_component, logit_parts
from quadlens.analysis.quadrature import NoBound, Scheme, bounds
from quadlens.analysis.quadrature.exact import exact_errors
from quadlens.analysis.quadrature.integrals import cos_baseline, sin_baseline
from quadlens.analysis.spectrum.amplitude_phase import amplitude_phase
from quadlens.analysis.spectrum.harmonics import doubled, multiples_of
from quadlens.base.errors import QuadlensError
from quadlens.network import Config, Weights, evaluate
from quadlens.network.tables import FloatTables
from quadlens.network.task import task_by_name
from strategies import seeds

any_n = st.integers(2, 14)
even_n = st.integers(1, 7).map(lambda n: 2 * n)


@given(any_n, seeds)
def test_waves_add_up_to_the_sequence(n: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((n, 3))
    spectrum = amplitude_phase(x)
    assert len(spectrum.amplitude) == n // 2
    t = np.arange(n)[:, None, None]
    k = np.arange(1, n // 2 + 1)[None, :, None]
    waves = spectrum.amplitude * np.cos(2 * np.pi * k * t / n + spectrum.phase)
    assert np.allclose(waves.sum(axis=1) + spectrum.mean, x)
    assert np.allclose(spectrum.power, waves.var(axis=0))
    assert np.allclose(spectrum.variance, x.var(axis=0))
    assert np.array_equal(spectrum.primary, waves.var(axis=0).argmax(axis=0) + 1)
    if n % 2 == 0:
        assert np.isin(spectrum.phase[-1], [0.0, np.pi]).all()


@pytest.mark.parametrize("n", range(2, 25))
def test_multiples_by_trying_each(n: int) -> None:
    for primary in range(1, n // 2 + 1):
        table, mirrored = multiples_of(primary, n)
        assert len(table) == n // 2
        for k in range(1, n // 2 + 1):
            fitting = [m for m in range(1, n // 2 + 1) if m * primary % n in (k, n - k)]
            assert table[k - 1] == (fitting[0] if fitting else 0)
            if fitting:
                assert mirrored[k - 1] == (fitting[0] * primary % n != k)
        assert doubled(primary, n) == min(2 * primary % n, -2 * primary % n)


@st.composite
def even_models(draw: st.DrawFn) -> FloatTables:
    n, rng = draw(even_n), np.random.default_rng(draw(seeds))
    config = Config.mlp(
        n, draw(st.integers(1, 8)), draw(st.sampled_from(["relu", "abs", "square"]))
    )
    return Weights(
        config, **{m: rng.standard_normal(s) for m, s in config.shapes.items()}
    ).collapse()


@given(even_models(), st.data())
def test_regressions_by_least_squares_on_all_logits(
    collapsed: FloatTables, data: st.DataObject
) -> None:
    n = collapsed.p
    keys = tuple(sorted(data.draw(st.sets(st.integers(1, n // 2), min_size=1, max_size=2))))
    parts, explicit = logit_parts(collapsed, keys), tensors(collapsed)
    table = clock_pizza(parts)
    for name in ("all_logits", "abs_component", "mlp_output"):
        Y, row = explicit[name], getattr(table, name)
        assume(Y.std() > 1e-9 * np.abs(Y).max())
        for value, kinds in (
            (row.pizza, ["pizza"]),
            (row.clock, ["clock"]),
            (row.pizza_and_secondary, ["pizza", "secondary"]),
        ):
            _, expected = least_squares(Y, [factor(n, k, kind) for k in keys for kind in kinds])
            assert value == pytest.approx(expected, abs=1e-7)


@given(even_models(), st.data())
def test_the_identity_part_wave_by_wave(collapsed: FloatTables, data: st.DataObject) -> None:
    n = collapsed.p
    k = data.draw(st.integers(1, n // 2))
    found = identity_component(collapsed, (k,)).of_a
    c, x = np.ogrid[:n, :n]
    angle = 2 * np.pi / n * k * (c - 2 * x)
    A = found.matrix
    size = 1e-9 * (1 + np.abs(A).max())
    beta, *_ = np.linalg.lstsq(
        np.stack([np.cos(angle).ravel(), np.sin(angle).ravel()], axis=1), A.ravel(), rcond=None
    )
    if 2 * k != n:
        assert found.E[0] == pytest.approx(beta[1], abs=size)
    assert found.D[0] == pytest.approx(beta[0], abs=size)
    waves = found.largest_waves(n * n)
    again = sum(
        size_ * np.cos(2 * np.pi / n * (k_ * c + l_ * x) + phase) for k_, l_, size_, phase in waves
    )
    assert np.allclose(again + A.mean(), A, atol=1e-8 * (1 + np.abs(A).max()))


def pizza(n: int, keys: tuple[int, ...], each: int, task_name: str = "add") -> Weights:
    """A hand-built pizza on n elements, even or odd, for a cyclic task.

    Phases stand evenly on the circle.
    """
    task = task_by_name(task_name, n)
    found = task.cyclic
    assert found is not None
    k = np.repeat(keys, each)
    phi = np.tile(2 * np.pi * (np.arange(each) + 0.5) / each, len(keys))
    turns = 2 * np.pi / n * np.outer(np.arange(n), k)
    U, W_L = np.cos(turns + phi), np.cos(turns + 2 * phi)
    config = Config.mlp(n, len(k), "relu", task)
    return Weights.mlp(config, U[found.of_a], U[found.of_b], W_L[found.of_c].T)


@pytest.mark.parametrize(
    ("n", "keys", "task"),
    [
        (14, (1, 3, 5), "add"),
        (15, (1, 2, 7), "add"),
        (12, (1, 5), "subtract"),
        (16, (1, 3, 7), "multiply"),
        (16, (1, 3, 7), "divide"),
        (13, (1, 2, 5), "linear:2,5"),
    ],
)
def test_a_hand_built_model_comes_out_as_it_was_built(
    n: int, keys: tuple[int, ...], task: str
) -> None:
    model = pizza(n, keys, 24, task)
    explanation = explain(model)
    assert explanation.key_frequencies == keys
    assert explanation.good_model
    assert explanation.to_dict()["task"] == task
    words = model.config.task.words if task != "add" else f"modulo {n}"
    assert words in explanation.summary()
    assert ("primitive root 3" in explanation.summary()) == (task in ("multiply", "divide"))
    assert all(one.r2 == pytest.approx(1.0) for one in explanation.phases)
    assert explanation.logits is not None
    # For even n and a - b = n/2 odd keys have no strength and even ones cannot tell c from c + n/2:
    # those may be wrong.
    correct = evaluate(model.collapse()).correct
    assert explanation.logits.parts.correct == correct
    assert correct == n * n if n % 2 else correct >= n * n - n
    assert explanation.logits.r2.abs_component.pizza == pytest.approx(1.0, abs=0.01)


STRENGTH = np.array([[0.5, -0.7, 1.0, 2.0]])


def with_sign_wave() -> Weights:
    """A pizza on ten elements with four neurons that read and write the sign wave."""
    n = 10
    sign = (-1.0) ** np.arange(n)[:, None]
    base = pizza(n, (1, 3), 16)
    return Weights.mlp(
        Config.mlp(n, base.config.d_mlp + 4),
        np.concatenate([base.W_a, sign * STRENGTH], axis=1),
        np.concatenate([base.W_b, sign * STRENGTH], axis=1),
        np.concatenate([base.W_out, (sign * np.abs(STRENGTH)).T]),
    )


def test_a_sign_wave_is_a_cluster_without_phases() -> None:
    explanation = explain(with_sign_wave())
    assert explanation.key_frequencies == (1, 3, 5)
    (cluster,) = [one for one in explanation.clusters if one.k == 5]
    assert cluster.is_sign_wave
    assert np.allclose(cluster.rho, np.abs(STRENGTH[0]))
    assert np.allclose(np.cos(cluster.phi), np.sign(STRENGTH[0]))
    (phases,) = [one for one in explanation.phases if one.k == 5]
    assert phases.r2 is None


@pytest.mark.parametrize("n", range(3, 25))
def test_both_signs_occur_at_every_angle(n: int) -> None:
    """ReLU(2 cos u cos(s + φ)) = |cos u| (|cos(s₀ + φ)| ± cos(s₀ + φ)), s₀ = s modulo π.

    All a and b are tried.
    """
    for k in range(1, (n - 1) // 2 + 1):
        found, q = set(), n // math.gcd(k, n)
        for a in range(n):
            for b in range(n):
                cosine = math.cos(math.pi * k * (a - b) / n)
                half_turns, rest = divmod(k * (a + b), n)
                if abs(cosine) > 1e-9:
                    found.add((rest, (cosine > 0) == (half_turns % 2 == 0)))
        assert len(found) == 2 * q


@st.composite
def rules(draw: st.DrawFn) -> Scheme:
    n = draw(st.integers(3, 20))
    rng = np.random.default_rng(draw(seeds))
    count = draw(st.integers(2, 9))
    phi = rng.uniform(-np.pi, np.pi, count)
    psi = 2 * phi + draw(st.sampled_from([0.0, 0.2])) * rng.standard_normal(count)
    return Scheme(
        n, draw(st.integers(1, (n - 1) // 2)), phi, psi, rng.random(count) + 0.1, np.ones(count)
    )


@given(rules())
def test_exact_errors_by_trying_all_a_b_c(scheme: Scheme) -> None:
    """Straight from the neurons' input, 2 cos u cos(s + φ), and output.

    The strength 2 |cos u| is taken out.
    """
    n, k, w = scheme.p, scheme.k, scheme.w
    worst = dict.fromkeys(("absolute", "integer", "relu", "identity"), 0.0)
    for a in range(n):
        for b in range(n):
            s, u = math.pi * k * (a + b) / n, math.pi * k * (a - b) / n
            if abs(math.cos(u)) < 1e-9:
                continue
            pre = np.cos(u) * np.cos(s + scheme.phi) / abs(math.cos(u))
            integral = 4 / 3 * np.exp(-2j * s)
            parts = {
                name: (w * f(pre) * np.exp(1j * scheme.psi)).sum() for name, f in FUNCTIONS.items()
            }
            errors = {
                "absolute": parts["absolute"] - integral,
                "relu": parts["relu"] - integral / 2,
            }
            for name, error in {**errors, "identity": parts["identity"]}.items():
                worst[name] = max(worst[name], abs(error))
            turned = errors["absolute"] * np.exp(2j * np.pi * k * np.arange(n) / n)
            worst["integer"] = max(worst["integer"], float(np.abs(turned.real).max()))
    found = exact_errors(scheme, with_psi=True)
    for name, claim in {
        "absolute": found.absolute,
        "relu": found.relu,
        "identity": found.identity,
    }.items():
        assert claim.middle == pytest.approx(worst[name], abs=1e-9)
    assert found.absolute_integer_c.middle == pytest.approx(worst["integer"], abs=1e-9)


FUNCTIONS: dict[str, Any] = {
    "absolute": np.abs,
    "relu": lambda x: np.maximum(x, 0),
    "identity": lambda x: x,
}


@pytest.mark.parametrize("n", range(3, 25))
def test_baselines_by_their_mean(n: int) -> None:
    for k in range(1, (n - 1) // 2 + 1):
        scheme = Scheme(n, k, np.zeros(2), np.zeros(2), np.ones(2), np.ones(2))
        twice = 2 * np.pi * k * np.arange(n) / n
        for claim, mean in (
            (cos_baseline(scheme), np.cos(twice)),
            (sin_baseline(scheme), np.sin(twice)),
        ):
            assert claim.middle == pytest.approx(4 / 3 * float(np.abs(mean).mean()), rel=1e-12)


def test_bounds_of_even_and_composite_numbers_of_elements() -> None:
    for n, keys in ((14, (1, 3)), (15, (1, 5)), (16, (2, 4)), (12, (1, 5))):
        found = bounds(pizza(n, keys, 24))
        assert [one.k for one in found.bounded] == list(keys)
        assert all(one.relative_exact_psi.upper < 0.05 for one in found.bounded)
        for one in found.bounded:
            assert one.exact.absolute.lower <= one.rows.numerical_abs_bound_full.value
            assert one.exact.relu.lower <= one.rows.numerical_relu_bound_full.value
            assert one.exact.absolute.lower <= one.moment_bound.value


def test_the_sign_wave_is_no_rule() -> None:
    with pytest.raises(QuadlensError, match="the sign wave"):
        Scheme(10, 5, np.zeros(2), np.zeros(2), np.ones(2), np.ones(2))
    (outcome,) = [one for one in bounds(with_sign_wave()).clusters if one.k == 5]
    assert isinstance(outcome, NoBound)
    assert "there is no circle to integrate over" in outcome.reason
