"""The logits' parts, regressions and closed form, against explicit p³ tensors and loops."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadlens.analysis.logits import (
    LogitParts,
    clock_pizza,
    closed_forms,
    cos_u,
    identity_component,
    logit_parts,
    weak_spots,
)
from quadlens.analysis.logits.closed_form import cos_2u, judge_closed_form, regress
from quadlens.analysis.logits.parts import LogitPart
from quadlens.network import Recipe, Tables, Weights, build_mlp, build_transformer
from quadlens.network.tables import FloatTables
from quadlens.network.task import task_by_name
from strategies import mlps, transformers

any_model = st.one_of(transformers(), mlps())


def tensors(collapsed: FloatTables) -> dict[str, np.ndarray]:
    """Every part of the logits as [a, b, c], the obvious way."""
    pre = collapsed.U_a[:, None] + collapsed.U_b[None]
    whole = {"relu": np.maximum(pre, 0), "abs": np.abs(pre), "square": pre**2}[collapsed.activation]
    even = np.abs(pre) / 2 if collapsed.activation == "relu" else whole
    skip = collapsed.S_a[:, None] + collapsed.S_b[None]
    mlp, absolute = whole @ collapsed.W_L.T, even @ collapsed.W_L.T
    return {
        "all_logits": mlp + skip,
        "mlp_output": mlp,
        "abs_component": absolute,
        "identity_component": mlp - absolute,
        "skip": skip,
    }


def factor(p: int, k: int, kind: str) -> np.ndarray:
    """A clock, pizza or secondary factor as [a, b, c], straight from its formula."""
    a, b, c = np.ogrid[:p, :p, :p]
    w = 2 * np.pi / p
    amplitude = {
        "clock": 1.0,
        "pizza": np.abs(np.cos(k * w * (a - b) / 2)),
        "secondary": np.cos(k * w * (a - b)),
    }
    return amplitude[kind] * np.cos(k * w * (a + b - c))


def least_squares(Y: np.ndarray, factors: list[np.ndarray]) -> tuple[np.ndarray, float]:
    """Coefficients and R² of the regression with an intercept, on all p³ rows."""
    X = np.stack([np.ones(Y.size), *(f.ravel() for f in factors)], axis=1)
    beta, *_ = np.linalg.lstsq(X, Y.ravel(), rcond=None)
    return beta[1:], 1 - float(
        np.square(Y.ravel() - X @ beta).sum() / np.square(Y - Y.mean()).sum()
    )


@given(any_model, st.data())
def test_parts_by_explicit_tensors(model: Weights, data: st.DataObject) -> None:
    collapsed = model.collapse()
    p = collapsed.p
    keys = tuple(sorted(data.draw(st.sets(st.integers(1, (p - 1) // 2), max_size=3))))
    parts, explicit = logit_parts(collapsed, keys), tensors(collapsed)
    scale = 1e-9 * (1e-300 + max(np.abs(Y).max() for Y in explicit.values()))
    for name, Y in explicit.items():
        part: LogitPart = getattr(parts, name)
        assert part.variance == pytest.approx(Y.var(), rel=1e-8, abs=scale**2)
        for row, k in enumerate(keys):
            waves = Y * factor(p, k, "clock")
            by_distance = [
                sum(waves[a, (a - d) % p].sum() for a in range(p)) * 2 / p**2 for d in range(p)
            ]
            assert np.allclose(part.profile[row], by_distance, rtol=1e-8, atol=scale)
    a, b = np.ogrid[:p, :p]
    assert np.allclose(parts.correct_logit, explicit["all_logits"][a, b, (a + b) % p], atol=scale)
    right = explicit["all_logits"][a, b, (a + b) % p]
    others = np.where(
        np.arange(p) == ((a + b) % p)[:, :, None], -np.inf, explicit["all_logits"]
    ).max(axis=2)
    # Margins within rounding of zero may fall on either side.
    assert (right - others > scale).sum() <= parts.correct <= (right - others > -scale).sum()


@given(any_model, st.data())
def test_regressions_by_least_squares_on_all_logits(model: Weights, data: st.DataObject) -> None:
    collapsed = model.collapse()
    p = collapsed.p
    keys = tuple(sorted(data.draw(st.sets(st.integers(1, (p - 1) // 2), min_size=1, max_size=2))))
    parts, explicit = logit_parts(collapsed, keys), tensors(collapsed)
    table = clock_pizza(parts)
    for name in ("all_logits", "abs_component", "mlp_output"):
        Y, row = explicit[name], getattr(table, name)
        if Y.std() <= 1e-9 * np.abs(Y).max():
            continue
        for value, kinds in (
            (row.pizza, ["pizza"]),
            (row.clock, ["clock"]),
            (row.pizza_and_secondary, ["pizza", "secondary"]),
        ):
            _, expected = least_squares(Y, [factor(p, k, kind) for k in keys for kind in kinds])
            assert value == pytest.approx(expected, abs=1e-7)


@given(any_model)
def test_the_identity_part_is_separable_and_its_2d_fourier_form_is_right(model: Weights) -> None:
    collapsed = model.collapse()
    p = collapsed.p
    keys = (1,)
    identity, odd = identity_component(collapsed, keys), tensors(collapsed)["identity_component"]
    A, B = identity.of_a.matrix, identity.of_b.matrix
    reach = np.abs(collapsed.U_a).max(axis=0) + np.abs(collapsed.U_b).max(axis=0)
    size = 1e-9 * (1e-300 + (np.abs(collapsed.W_L) @ reach).max())
    assert np.allclose(A.T[:, None] + B.T[None], odd, atol=size)
    w = 2 * np.pi / p
    c, x = np.ogrid[:p, :p]
    for half in (identity.of_a, identity.of_b):
        for k, m in itertools.product(range(p), range(p)):
            assert half.fourier[k, m] == pytest.approx(
                (half.matrix * np.exp(-1j * w * (k * c + m * x))).mean(), abs=size
            )
        angle = w * (c - 2 * x)
        assert half.D[0] == pytest.approx(2 * (half.matrix * np.cos(angle)).mean(), abs=size)
        assert half.E[0] == pytest.approx(2 * (half.matrix * np.sin(angle)).mean(), abs=size)
        rebuilt = half.matrix.mean() + sum(
            amplitude * np.cos(w * (k * c + m * x) + phase)
            for k, m, amplitude, phase in half.largest_waves(p * p)
        )
        assert np.allclose(rebuilt, half.matrix, atol=10 * p * size)
    fitted = regress(
        logit_parts(collapsed, keys).identity_component, [cos_2u(p, keys)]
    ).coefficients[0, 0]
    assert identity.D[0] == pytest.approx(fitted, abs=10 * size)


@pytest.mark.parametrize(("p", "keys"), [(11, (1, 4)), (13, (2, 3)), (9, (3,)), (3, (1,))])
def test_closed_form_by_loops(p: int, keys: tuple[int, ...]) -> None:
    collapsed = build_mlp(Recipe(p, keys, 12, noise=0.3)).collapse()
    parts = logit_parts(collapsed, keys)
    rng = np.random.default_rng(p)
    C, D = rng.standard_normal((2, len(keys)))
    form = judge_closed_form(parts, C, D)
    explicit = sum(
        x * factor(p, k, "pizza") + y * factor(p, k, "secondary")
        for k, x, y in zip(keys, C, D, strict=True)
    )
    correct, margins = 0, []
    for a, b in itertools.product(range(p), range(p)):
        right = explicit[a, b, (a + b) % p]
        margins.append(right - np.delete(explicit[a, b], (a + b) % p).max())
        correct += margins[-1] > 1e-9
    Y = tensors(collapsed)["all_logits"]
    assert form.correct == correct
    assert form.min_margin == pytest.approx(min(margins))
    assert form.r2 == pytest.approx(1 - np.square(Y - Y.mean() - explicit).mean() / Y.var())


@pytest.mark.parametrize("build", [build_mlp, build_transformer])
def test_a_hand_built_pizza_is_a_pizza(build) -> None:  # type: ignore[no-untyped-def]
    """Its closed form is known: C_k = scale, D_k = 0, R² 1 for pizza and (2/π)²/(1/2) for clock."""
    keys = (3, 5, 7)
    collapsed = build(Recipe(59, keys, 600, scale=10.0)).collapse()
    parts = logit_parts(collapsed, keys)
    table, forms = clock_pizza(parts), closed_forms(parts)
    assert table.all_logits.pizza == pytest.approx(1, abs=1e-6)
    assert table.abs_component.pizza == pytest.approx(1, abs=1e-6)
    assert table.all_logits.clock == pytest.approx(8 / np.pi**2, abs=1e-3)
    assert np.allclose(forms.by_parts.C, 10, rtol=1e-4)
    assert np.allclose(forms.by_parts.D, 0, atol=1e-5)
    assert forms.by_parts.r2 == pytest.approx(1, abs=1e-6)
    assert parts.correct == 59**2
    assert parts.skip.variance < 1e-10 * parts.all_logits.variance
    for spot in weak_spots(parts, forms.by_parts):
        assert spot.cos_u == pytest.approx(np.sin(np.pi / 118))
        assert spot.all_logits == pytest.approx(10 * spot.cos_u, rel=1e-2)
        assert spot.relative == pytest.approx(spot.cos_u * np.pi / 2, rel=1e-2)


def test_a_secondary_frequency_fills_the_weak_spots() -> None:
    """U gets β cos(2kwa + 2φ + π) as well: D_k = -βn/2, and the logits no longer vanish where |cos
    u| does."""
    p, k, n, beta = 59, 4, 200, 0.15
    phi = 2 * np.pi * np.arange(n) / n
    x = 2 * np.pi * np.outer(np.arange(p), np.full(n, k)) / p
    U, W_L = np.cos(x + phi) + beta * np.cos(2 * x + 2 * phi + np.pi), np.cos(x + 2 * phi)
    zero = np.zeros((p, p))
    parts = logit_parts(Tables(task_by_name("add", p), "relu", U, U, W_L, zero, zero), (k,))
    forms = closed_forms(parts)
    # Identity part: ½ Σ_i cos(kwc+2φ) β cos(2kwa+2φ+π) = -β n/4 cos(kw(c-2a)), twice.
    assert forms.by_parts.D[0] == pytest.approx(-beta * n / 2)
    (spot,) = weak_spots(parts, forms.by_parts)
    assert spot.distance * k * 2 % p in (1, p - 1)
    assert spot.identity_component == pytest.approx(spot.secondary_term)
    assert spot.identity_component == pytest.approx(beta * n / 2, rel=1e-2)
    assert spot.all_logits == pytest.approx(
        spot.abs_component + spot.identity_component + spot.skip
    )
    assert spot.relative is not None
    assert spot.relative > 0.5
    assert forms.by_parts.min_margin > forms.pizza_only.min_margin > 0


def test_a_model_whose_logits_do_not_vary() -> None:
    zero, weights = np.zeros((5, 5)), np.zeros((5, 2))
    add = task_by_name("add", 5)
    parts: LogitParts = logit_parts(
        Tables(add, "relu", weights, weights, weights, zero, zero + 3.0), (1,)
    )
    assert parts.all_logits.variance == 0.0
    assert clock_pizza(parts).all_logits.pizza is None
    assert parts.correct == 0


def test_a_large_common_offset_costs_no_digits() -> None:
    model = build_mlp(Recipe(13, (2,), 20, noise=0.1)).collapse()
    moved = Tables(
        task_by_name("add", 13), "relu", model.U_a, model.U_b, model.W_L, model.S_a, model.S_b + 1e8
    )
    expected = logit_parts(model, (2,)).all_logits.variance
    assert logit_parts(moved, (2,)).all_logits.variance == pytest.approx(expected, rel=1e-6)


def test_factors_of_a_large_modulus_lose_no_digits() -> None:
    p, k = 10007, 4999
    assert cos_u(p, (k,))[0, 2] == pytest.approx(abs(np.cos(np.pi * ((2 * k) % p) / p)), abs=1e-15)
    assert cos_2u(p, (k,))[0, p - 1] == pytest.approx(np.cos(2 * np.pi * k / p), abs=1e-12)


def test_memory_stays_far_below_all_logits_at_once() -> None:
    collapsed = build_mlp(Recipe(301, (3, 50), 32)).collapse()
    tracemalloc.start()
    try:
        logit_parts(collapsed, (3, 50))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * 301**3 / 4


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    keys = (2, 3)
    collapsed = build_transformer(Recipe(13, keys, 20, noise=0.4)).collapse()
    whole = logit_parts(collapsed, keys)
    form = closed_forms(whole).by_parts
    monkeypatch.setattr("quadlens.analysis.logits.parts.BLOCK_FLOATS", rows * 13 * 20)
    monkeypatch.setattr("quadlens.analysis.logits.closed_form.BLOCK_FLOATS", rows * 13)
    blocks = logit_parts(collapsed, keys)
    for name in ("all_logits", "mlp_output", "abs_component"):
        assert getattr(blocks, name).variance == pytest.approx(
            getattr(whole, name).variance, rel=1e-12
        )
        assert np.allclose(
            getattr(blocks, name).profile, getattr(whole, name).profile, rtol=1e-10, atol=1e-12
        )
    assert np.allclose(blocks.correct_logit, whole.correct_logit)
    assert blocks.correct == whole.correct
    again = closed_forms(blocks).by_parts
    assert again.correct == form.correct
    assert again.min_margin == pytest.approx(form.min_margin)
