"""Exact arithmetic against Python's fractions, and float64 against exact arithmetic."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from quadlens.base.errors import BadWeights
from quadlens.network import Config, Recipe, build_transformer, evaluate
from quadlens.network.dyadic import Dyadic
from quadlens.network.evaluate import MAX_WITNESSES, all_pairs
from quadlens.network.exact import agreement, collapse_exactly, exact_logits
from quadlens.network.tables import FloatTables, Tables
from quadlens.network.task import task_by_name
from quadlens.network.weights import Weights
from strategies import mlps, transformers

matrices = arrays.arrays(
    st.sampled_from([np.float32, np.float64]),
    arrays.array_shapes(min_dims=2, max_dims=2, max_side=4),
    elements={"allow_nan": False, "allow_infinity": False},
)


def fractions(matrix: Dyadic) -> list[list[Fraction]]:
    rows, columns = matrix.shape
    return [
        [Fraction(int(matrix.numerators[i, j]), 1 << matrix.shift) for j in range(columns)]
        for i in range(rows)
    ]


def as_fractions(array: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(float(x)) for x in row] for row in array]


@given(matrices)
def test_every_float_is_kept_exactly(array: np.ndarray) -> None:
    assert fractions(Dyadic.from_floats(array)) == as_fractions(array)


@given(st.data(), st.floats(-4, 4))
def test_sums_products_and_multiples_are_exact(data: st.DataObject, factor: float) -> None:
    values = st.floats(-(2.0**100), 2.0**100, width=32)
    x, y = (data.draw(arrays.arrays(np.float32, (3, 3), elements=values)) for _ in range(2))
    X, Y = Dyadic.from_floats(x), Dyadic.from_floats(y)
    fx, fy = as_fractions(x), as_fractions(y)
    n = range(3)
    assert fractions(X + Y) == [[fx[i][j] + fy[i][j] for j in n] for i in n]
    assert fractions(X @ Y) == [
        [sum((fx[i][k] * fy[k][j] for k in n), Fraction(0)) for j in n] for i in n
    ]
    assert fractions(X.scaled(factor)) == [[fx[i][j] * Fraction(factor) for j in n] for i in n]
    assert fractions(X.transposed()) == [list(row) for row in zip(*fx, strict=True)]


def test_shifts_only_grow() -> None:
    half = Dyadic.from_floats(np.array([[0.5]]))
    with pytest.raises(ValueError, match="cannot lower the shift from 1 to 0 without rounding"):
        half.at_shift(0)
    with pytest.raises(ValueError, match="expected one row, got 2"):
        Dyadic.from_floats(np.zeros((2, 1))).repeated(3)


def slow_logit(model: Weights, a: int, b: int, c: int) -> Fraction:
    """One logit of the *collapsed* exact model by the definition, in fractions."""
    e = collapse_exactly(model)
    U_a, U_b, W_L, S_a, S_b = (fractions(x) for x in (e.U_a, e.U_b, e.W_L, e.S_a, e.S_b))
    sigma: dict[str, Callable[[Fraction], Fraction]] = {
        "relu": lambda x: max(x, Fraction(0)),
        "abs": abs,
        "square": lambda x: x * x,
    }
    hidden = [sigma[e.activation](x + y) for x, y in zip(U_a[a], U_b[b], strict=True)]
    return (
        sum((w * h for w, h in zip(W_L[c], hidden, strict=True)), Fraction(0))
        + S_a[a][c]
        + S_b[b][c]
    )


@given(st.one_of(transformers(), mlps()), st.data())
def test_exact_logits_are_the_definition(model: Weights, data: st.DataObject) -> None:
    p = model.config.p
    a, b, c = (data.draw(st.integers(0, p - 1)) for _ in range(3))
    exact = exact_logits(model)
    assert exact.logit(a, b, c) == slow_logit(model, a, b, c)
    others = [exact.logit(a, b, x) for x in range(p) if x != (a + b) % p]
    assert exact.margin(a, b) == exact.logit(a, b, (a + b) % p) - max(others)


@given(st.one_of(transformers(), mlps()))
def test_evaluation_agrees_with_exact_arithmetic(model: Weights) -> None:
    p, exact, result = model.config.p, exact_logits(model), evaluate(model.collapse())
    margins = {(a, b): exact.margin(a, b) for a in range(p) for b in range(p)}
    scale = max(abs(float(x)) for x in exact.to_floats().ravel())
    assert result.min_margin == pytest.approx(float(min(margins.values())), abs=1e-9 * scale)
    clear = {pair for pair, margin in margins.items() if abs(margin) > 1e-9 * scale}
    wrong = {(a, b) for a, b, _ in result.wrong}
    if len(result.wrong) < MAX_WITNESSES:
        assert {pair for pair in clear if margins[pair] <= 0} == wrong & clear
    for a, b, answered in result.wrong:
        assert answered != (a + b) % p


@pytest.mark.slow
def test_agreement_at_the_papers_size() -> None:
    """p = 59, d_mlp = 512: every one of the 205,379 logits, exactly.

    benchmarks/exact_logits.py has the time.
    """
    config = Config.paper()
    rng = np.random.default_rng(0)
    shapes = config.shapes
    model = Weights(
        config=config,
        **{n: (0.07 * rng.standard_normal(s)).astype(np.float32) for n, s in shapes.items()},
    )
    result = agreement(model)
    assert 0 < result.max_error <= 1e-14 * result.largest_logit
    float_result = evaluate(model.collapse())
    assert float_result.correct == result.correct
    assert float_result.min_margin == pytest.approx(result.min_margin, abs=1e-12)


def test_agreement_of_a_good_model() -> None:
    result = agreement(build_transformer(Recipe(13, (2, 5), 60)))
    assert result.correct == 169
    assert result.min_margin > 1


def test_weights_too_large_for_float64_say_so() -> None:
    config = Config.paper(p=5, d_model=2, d_mlp=2, n_heads=1)
    weights = {n: np.full(s, 1e200) for n, s in config.shapes.items()}
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(BadWeights, match="too large for float64"),
    ):
        agreement(Weights(config=config, **weights))


def one_hot_model(p: int, logits: np.ndarray) -> FloatTables:
    """A collapsed model whose logits are S_a alone."""
    zeros = np.zeros((p, 1))
    return Tables(
        task_by_name("add", p), "relu", zeros, zeros.copy(), zeros.copy(), logits, np.zeros((p, p))
    )


def test_a_tie_is_not_right() -> None:
    p = 3
    tied = evaluate(one_hot_model(p, np.zeros((p, p))))
    assert tied.correct == 0
    assert tied.accuracy == 0.0
    assert tied.min_margin == 0.0
    assert len(tied.wrong) == 9
    assert all(answered != (a + b) % p for a, b, answered in tied.wrong)
    assert tied.loss == pytest.approx(np.log(3))


def test_evaluation_by_hand() -> None:
    """Logits that do not depend on b: right exactly where b = 0, by a margin of 2."""
    result = evaluate(one_hot_model(3, 2 * np.eye(3)))
    assert (result.p, result.pairs, result.correct) == (3, 9, 3)
    assert result.min_margin == -2.0
    assert result.median_margin == -2.0
    assert result.wrong == tuple((a, b, a) for a in range(3) for b in (1, 2))
    assert result.min_margin_pair == (0, 1)


def test_at_most_a_hundred_witnesses_and_samples() -> None:
    model = one_hot_model(15, np.zeros((15, 15)))
    assert len(evaluate(model).wrong) == MAX_WITNESSES
    done: list[int] = []
    sample = evaluate(model, all_pairs(15)[:7], done.append)
    assert (sample.pairs, done) == (7, [7])


def test_collapsed_models_check_themselves() -> None:
    good = one_hot_model(3, np.zeros((3, 3)))
    infinite = good.S_a.copy()
    infinite[0, 0] = np.inf
    with pytest.raises(BadWeights, match="S_a of the collapsed model overflows"):
        Tables(task_by_name("add", 3), "relu", good.U_a, good.U_b, good.W_L, infinite, good.S_b)
    with pytest.raises(
        BadWeights, match=r"U_a of the collapsed model has shape \(3, 1\), expected \(5, 1\)"
    ):
        Tables(task_by_name("add", 5), "relu", good.U_a, good.U_b, good.W_L, good.S_a, good.S_b)
