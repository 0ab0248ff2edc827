"""What is proved of the terms that few numbers leave out: never below the truth, which is in
rationals here."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import quadlens
from noise_bounds import Bounded, bounds
from noise_norms import basis, bound_operator
from noise_terms import MATRICES, PASSING, READ, WRITTEN, multiplied_out
from quadlens.base.errors import BadConfig
from quadlens.network import Config, Weights
from quadlens.network.collapse import collapse
from quadlens.network.dyadic import DYADICS, Dyadic

Rationals = np.ndarray
ROWS = ("norms", "operator norms", "planes", "multiplied", "tables", "inputs", "coordinates")


def rationals(x: Dyadic) -> Rationals:
    found = [Fraction(int(n), 1 << x.shift) for n in x.numerators.entries()]
    return np.array(found, dtype=object).reshape(x.shape)


def exact_terms(network: Weights, simple: Weights) -> dict[tuple[str, tuple[str, ...]], Rationals]:
    """Every term as logits without rounding, by the formulas of `noise_terms.py` written out."""

    def tables(noisy: frozenset[str]) -> dict[str, Rationals]:
        names = [name for matrix in noisy for name in MATRICES[matrix]]
        mixed = collapse(
            simple.replace(None, **{name: network.tensors[name] for name in names}), DYADICS
        )
        return {
            name: rationals(getattr(mixed, name)) for name in ("U_a", "U_b", "W_L", "S_a", "S_b")
        }

    U = multiplied_out(
        READ, lambda noisy: np.stack([tables(noisy)[name] for name in ("U_a", "U_b")])
    )
    W_L = multiplied_out(WRITTEN, lambda noisy: tables(noisy)["W_L"])
    S = multiplied_out(
        PASSING, lambda noisy: np.stack([tables(noisy)[name] for name in ("S_a", "S_b")])
    )
    linear = Fraction(1, 2) if network.config.activation == "relu" else Fraction(0)
    found, before = {}, Fraction(0)
    x = np.full(
        (network.config.p, network.config.p, network.config.d_mlp), Fraction(0), dtype=object
    )
    for s, (U_a, U_b) in U:
        x = x + U_a[:, None] + U_b
        now = (1 - linear) * np.abs(x)
        for r, out in W_L:
            found["absolute value", s + r] = (now - before) @ out.T
            if linear:
                found["identity", s + r] = linear * ((U_a[:, None] + U_b) @ out.T)
        before = now
    found |= {("skip", t): S_a[:, None] + S_b for t, (S_a, S_b) in S}
    return found


def worst(values: Rationals, right: np.ndarray) -> Fraction:
    return max(np.abs(values - np.take_along_axis(values, right[:, :, None], axis=2)).ravel())


def random_pair(activation: str, equals: bool, seed: int, noise: float) -> tuple[Weights, Weights]:
    rng = np.random.default_rng(seed)
    attention = (-0.5, 0.75, 0.25) if equals else (0.5, 0.5)
    choice: Any = {"activation": activation, "attention": attention}
    config = replace(Config.paper(5, 6, 7, 2, 3, equals), **choice)
    simple = {
        name: rng.standard_normal(shape).astype(np.float32) for name, shape in config.shapes.items()
    }
    other = {
        name: (x + noise * rng.standard_normal(x.shape)).astype(np.float32)
        for name, x in simple.items()
    }
    return Weights(config, **other), Weights(config, **simple)


def low_rank_pair(
    activation: str, equals: bool, seed: int, noise: float
) -> tuple[Weights, Weights]:
    """Matrices of rank one or two, so that planes leave something out."""
    network, simple = random_pair(activation, equals, seed, 1.0)
    rng = np.random.default_rng(seed)

    def flat(x: np.ndarray) -> np.ndarray:
        rows = x.reshape(-1, x.shape[-1])
        left, right = rng.standard_normal((len(rows), 1)), rng.standard_normal((1, rows.shape[1]))
        return (left @ right).reshape(x.shape).astype(np.float32)

    few = {
        name: flat(x) if name.startswith("W_") else np.zeros_like(x)
        for name, x in simple.tensors.items()
    }
    near = {name: (x + noise * network.tensors[name]).astype(np.float32) for name, x in few.items()}
    return network.replace(None, **near), simple.replace(None, **few)


@pytest.mark.slow
@pytest.mark.parametrize("pair", [random_pair, low_rank_pair])
@pytest.mark.parametrize("activation", ["relu", "abs"])
@pytest.mark.parametrize(("equals", "noise"), [(False, 1.0), (True, 0.01), (False, 1e-6)])
def test_no_bound_is_below_the_worst_case(
    pair: Any, activation: str, equals: bool, noise: float
) -> None:
    """Of every term and of the whole difference, at every complexity, with biases, positions and
    '='."""
    network, simple = pair(activation, equals, 3, noise)
    right, truth = network.config.task.answers, exact_terms(network, simple)
    difference = np.sum([values for (_, noisy), values in truth.items() if noisy], axis=0)
    rows = {row.name: row for row in bounds(network, simple)}
    for name in ROWS:
        assert rows[name].terms.keys() == {term for term in truth if term[1]}
        for term, bound in rows[name].terms.items():
            assert Fraction(bound) >= worst(truth[term], right), (name, term)
        assert Fraction(rows[name].together) >= worst(difference, right), name


@pytest.mark.parametrize("noise", [0.0, 1e-4, 3e-2])
def test_what_is_proved_is_true_and_rows_get_better(noise: float) -> None:
    network = quadlens.build(p=13, keys=(2, 5), neurons=60, noise=noise)
    simple = quadlens.build(p=13, keys=(2, 5), neurons=60)
    rows = bounds(network, simple)
    right = quadlens.evaluate(network).correct
    assert all(row.proved <= right for row in rows)
    assert [row.name for row in rows] == [*ROWS, "exact"]
    if noise == 0:
        assert all(row.together < 1e-3 and row.proved == 169 for row in rows)
    else:
        assert rows[0].together >= rows[1].together >= rows[2].together


@pytest.mark.slow
def test_pizza_is_proved_where_planes_are_added_up() -> None:
    """The answer to the paper's first question on the bundled model, and the figures of
    docs/appendix.md."""
    small = quadlens.parameterise("pizza")
    rows = {row.name: row for row in bounds(quadlens.load("pizza"), small.model)}
    together = {name: row.together for name, row in rows.items()}
    assert (
        together["norms"]
        > 10 * together["operator norms"]
        > 30 * together["planes"]
        > 100 * together["multiplied"]
    )
    assert 57 < together["tables"] < 58
    assert 34 < together["inputs"] < 35
    assert [row.proved for row in rows.values()] == [0, 0, 0, 0, 0, 8, 3481, 3481]
    assert rows["exact"].added > 13.48


def test_operator_norms_are_from_above() -> None:
    rng = np.random.default_rng(0)
    for rows, columns in ((1, 1), (3, 40), (40, 3), (12, 12)):
        M = rng.standard_normal((rows, columns)) * 10.0 ** rng.integers(-150, 150)
        truth = np.linalg.norm(M, 2)
        assert truth <= bound_operator(M) <= 1.03 * truth
    assert bound_operator(np.zeros((3, 0))) == 0
    assert bound_operator(np.zeros((3, 3))) == 0


def test_a_basis_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        np.linalg, "svd", lambda x, full_matrices: (None, np.ones(2), np.ones((2, 3)))
    )
    with pytest.raises(RuntimeError, match="not orthonormal"):
        basis(np.ones((2, 3)))


def test_other_activations_are_refused() -> None:
    network, simple = random_pair("gelu", False, 0, 0.1)
    with pytest.raises(BadConfig, match="relu or abs; this is gelu"):
        Bounded(network, simple)
