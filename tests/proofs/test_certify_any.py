"""Proofs of every kind of network, against logits enclosed to 200 bits, without tolerance."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given

from any_model import networks
from enclosed_truth import check_enclosed, enclosed_margins
from examples import examples
from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.base.errors import BadWeights
from quadlens.network import load
from quadlens.network.activation import ACTIVATIONS, NONLINEARITIES, Activation
from quadlens.network.collapse import collapse
from quadlens.network.config import Config, Softmax
from quadlens.network.dyadic import DYADICS, Dyadic
from quadlens.network.tables import Tables
from quadlens.network.task import task_from_table
from quadlens.network.weights import Weights
from quadlens.proofs.pairs import STRATEGIES, certify, direct
from quadlens.proofs.pairs import float_layer as float_layer_module
from quadlens.proofs.pairs.brute import is_exact
from quadlens.proofs.pairs.direct import direct_operations, prove_brute
from quadlens.proofs.pairs.float_layer import FloatLayer, activation_price, float_layer
from quadlens.proofs.pairs.low_rank import low_rank, output_spectrum, turned, without_least
from quadlens.proofs.pairs.proof import attempt


@examples(80)
@given(networks)
def test_no_strategy_claims_more_than_is_true_of_any_model(model: Weights) -> None:
    """Task × attention × activation × strategy."""
    truth = enclosed_margins(model)
    for strategy in STRATEGIES.values():
        check_enclosed(attempt(strategy, model), truth, model.config.task.answers)


@examples(80)
@given(networks)
def test_brute_force_proves_all_that_is_clearly_right(model: Weights) -> None:
    """What leads by more than the claim's room is certified; what trails by more is a witness."""
    proof = attempt(STRATEGIES["brute"], model)
    loss = float(proof.terms["rounding"].bound) if proof.terms else 0.0
    room = 2 * max(2.0**-20, 5 * loss)
    for a, row in enumerate(enclosed_margins(model)):
        for b, (low, high) in enumerate(row):
            if float(low) > room:
                assert proof.certified[a, b]
            if float(high) < 0:
                assert not proof.certified[a, b]


class Counting(np.ndarray):
    """Floats that count every sum, difference and product they take part in."""

    counted = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        plain = [np.asarray(x) for x in inputs]
        result = getattr(ufunc, method)(*plain, **settings)
        if method == "__call__" and ufunc in (np.add, np.subtract, np.multiply):
            Counting.counted += result.size
        if ufunc is np.matmul:
            Counting.counted += 2 * result.size * plain[0].shape[-1]
        return np.asarray(result).view(Counting)


def gate_operations(exact: Tables[Dyadic], layer: FloatLayer) -> int:
    """What gates and the tables for them take, from the tables themselves."""
    if not exact.gated:
        return 0
    p, columns, heads, seen = (
        exact.p,
        layer.d_mlp + exact.p,
        len(exact.gated[0].scores),
        len(exact.gated),
    )
    exponentials = 20 * heads * sum(int(np.prod(one.scores[0].shape)) for one in exact.gated)
    moved = {
        1: 0,
        2: (heads + 1) * p * columns,
        3: 2 * heads * p * columns + (heads + p) * columns,
    }[seen]
    if layer.shared:
        return exponentials + moved + seen * heads * p * p + 2 * heads * p * columns
    return exponentials + moved + (seen + (1 if seen == 2 else len(layer.gated))) * heads * p * p


@examples(80)
@given(networks)
def test_the_formula_for_operations_is_what_arrays_count(model: Weights) -> None:
    """Brute force by enclosure, with counting arrays; gates, σ and comparisons as tabulated."""
    config = model.config
    assume(not is_exact(config))
    exact = Anatomy(model).tables
    layer, n, d = float_layer(exact), config.p, config.d_mlp

    def counting(x: Any) -> Any:
        return None if x is None else x.view(Counting)

    gated = tuple(
        replace(
            one,
            U=(counting(one.U[0]), counting(one.U[1])),
            S=(counting(one.S[0]), counting(one.S[1])),
        )
        for one in layer.gated
    )
    tables = {name: counting(getattr(layer, name)) for name in ("U_a", "U_b", "S_a", "S_b", "W_L")}
    counted = replace(layer, gated=gated, sigma=lambda x: layer.sigma(np.asarray(x)), **tables)
    Counting.counted = 0
    for a in range(n):
        counted.hidden(a) @ counted.W_L.T + counted.skip(a)
    rest = gate_operations(exact, layer) + activation_price(config.activation) * n * n * d + n**3
    assert direct_operations(config, None, shared=layer.shared) == Counting.counted + rest
    assert prove_brute("brute", Anatomy(model)).operations == Counting.counted + rest
    R, M, Counting.counted = counting(np.ones((n, 2))), counting(np.ones((2, d))), 0
    spread = np.ptp(np.asarray(counted.W_L - R @ M), axis=0).view(Counting)
    for a in range(n):
        hidden = counted.hidden(a)
        (hidden @ M.T @ R.T + counted.skip(a))[:, 0] - np.abs(hidden) @ spread
    # The largest and the smallest of the remainder are comparisons, and so are the margins; a
    # spread is one difference.
    assert direct_operations(config, 2, shared=layer.shared) == Counting.counted + rest + 2 * n * d


def test_the_underflow_term_needs_its_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of 2^-1076 is 0 as a double.

    The scale that the guard allows makes that vanish, a larger one does not.
    """

    def tiny_tables(scale: float) -> Tables[Dyadic]:
        """Half of `scale` on each of two positions.

        Token 0 adds 2^-1076 to every logit and token 1 nothing.
        """
        config = Config(2, 1, 1, 1, 1, 2, 2, 2, (0.0, 0.0), 1, softmax=Softmax(scale, 1.0, True))
        tensors = {name: np.zeros(shape) for name, shape in config.shapes.items()}
        sizes = {"W_E": 1.0, "W_V": 2.0**-500, "W_O": 2.0**-500, "W_U": 2.0**-76}
        tensors |= {name: np.full(tensors[name].shape, size) for name, size in sizes.items()}
        tensors["W_E"][1] = 0.0
        exact = collapse(Weights(config, **tensors), DYADICS)
        # The residual stream of the position read would add far more.
        return replace(exact, S_a=exact.S_a.scaled(0.0), S_b=exact.S_b.scaled(0.0))

    def lost(scale: float) -> tuple[Fraction, Fraction]:
        """The error of a skip term at a = 0, b = 1, and the bound on it.

        The term is scale/2 · 2^-1076.
        """
        layer, truth = float_layer(tiny_tables(scale)), Fraction(scale) / 2**1077
        computed = Fraction(float(layer.skip(0)[1, 0]))
        return abs(computed - truth), Fraction(layer.skip_error)

    allowed = 2.0**22 * (1 - 2.0**-10)
    assert 0 < lost(allowed)[0] <= lost(allowed)[1]
    with pytest.raises(BadWeights, match="too large"):
        float_layer(tiny_tables(2.0**22))
    monkeypatch.setattr(float_layer_module, "LARGEST_EPSILON", np.inf)
    error, bound = lost(2.0**60)
    assert error > bound


def test_a_turned_basis_spans_the_same_and_the_least_coefficients_go_first() -> None:
    """Neurons that each write one of three functions: turned, each has one coefficient."""
    rng = np.random.default_rng(0)
    waves, owner, size = (
        np.linalg.qr(rng.standard_normal((11, 3)))[0],
        np.arange(30) % 3,
        rng.uniform(1, 2, 30),
    )
    waves -= waves.mean(axis=0)
    spectrum = output_spectrum(waves[:, owner] * rng.uniform(1, 3, 30), size)
    dense, sparse = low_rank(spectrum, 3), low_rank(turned(spectrum, 3, size), 3)
    whole, same = (form.basis.T @ form.coefficients * 0.5**form.shift for form in (dense, sparse))
    np.testing.assert_allclose(same, whole, atol=1e-5)  # basis and coefficients are rounded
    kept = without_least(sparse, size, 60)
    assert (kept.rank, kept.terms, sparse.terms) == (3, 30, 90)
    assert (np.count_nonzero(kept.coefficients, axis=0) == 1).all()
    np.testing.assert_allclose(
        kept.basis.T @ kept.coefficients * 0.5**kept.shift, spectrum.W_L, atol=0.3
    )


@pytest.mark.parametrize(
    "activation", [name for name in ACTIVATIONS if NONLINEARITIES[name].far is not None]
)
def test_tabulated_activations_are_within_their_error(activation: Activation) -> None:
    """At random arguments, close to nodes and far out; slope and curvature are in the bound."""
    from flint import arb

    from quadlens.proofs.pairs.float_layer import CURVATURE, FAR, STEEPEST, enclosed_activation

    one, rng = NONLINEARITIES[activation], np.random.default_rng(0)
    reach = np.array([2.0 * FAR])
    sigma, error, _ = enclosed_activation(activation, reach, np.zeros(1))
    x = np.concatenate(
        [
            rng.uniform(-3, 3, 3000),
            rng.uniform(-50, 50, 2000),
            np.arange(-8, 8) / 2048,
            [40.0, -40.0],
        ]
    )
    for at, found in zip(x.tolist(), sigma(x).tolist(), strict=True):
        assert abs(one.enclose(arb(at)) - arb(found)) <= arb(float(error[0]))
    h = 2.0**-10
    grid = np.arange(-45, 45, h)
    assert np.abs(one.derivative(grid)).max() < STEEPEST
    assert np.abs(np.diff(one.derivative(grid))).max() / h < CURVATURE


def test_a_weight_below_the_smallest_double_times_a_huge_neuron_is_in_the_rounding_term() -> None:
    """W_out · W_U is too small for a double and the neuron is 1e307: the loss is counted."""
    config = Config(
        p=2,
        d_model=1,
        d_mlp=1,
        n_heads=1,
        d_head=1,
        d_vocab=3,
        d_vocab_out=2,
        n_ctx=3,
        attention=(0.0, 0.0, 0.0),
        read_position=2,
        softmax=Softmax(1.0, 1.0),
        task=task_from_table(np.zeros((2, 2), dtype=int)),
    )
    weights = {name: np.zeros(shape) for name, shape in config.shapes.items()}
    weights["b_in"][:], weights["W_out"][:] = 1e307, 1e-162
    weights["W_U"][:], weights["b_U"][:] = [[0.9e-162, -0.9e-162]], [2.0**-19, 0.0]
    change = 2 * Fraction(1e307) * Fraction(1e-162) * Fraction(0.9e-162)
    assert change <= certify(Weights(config, **weights), "brute").proof.terms["rounding"].bound
    low_rank = certify(
        Weights(config, **weights), "moments"
    ).proof  # may be out of reach, never wrong
    assert low_rank.margin is None or change <= low_rank.terms["rounding"].bound


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drawn", "cushion", "cost"), [(16, 1.25, 0.337), (1, 1.25, 0.371), (16, 0.0, 0.371)]
)
def test_where_a_sparser_form_proves_less_or_costs_more_every_coefficient_is_kept(
    monkeypatch: pytest.MonkeyPatch, drawn: int, cushion: float, cost: float
) -> None:
    """On `clock`; a poor sample allows zeros that leave other inputs unproved."""
    monkeypatch.setattr(direct, "DRAWN", drawn)
    monkeypatch.setattr(direct, "CUSHION", cushion)
    certificate = certify(load("clock"), "moments")
    assert certificate.verdict == "CERTIFIED"
    assert round(certificate.cost_share, 3) == cost
