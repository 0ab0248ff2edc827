"""`thin` bounds what it leaves out, whatever the directions, and it is cheap."""

import pickle
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from places import ROOT
from quadlens.base.numbers import at_most
from quadlens.network import load
from quadlens.network.bundled import resolve
from quadlens.network.collapse import attended_streams
from quadlens.network.dyadic import DYADICS, Dyadic
from quadlens.network.exact import collapse_exactly
from quadlens.network.handmade import Recipe, build_mlp, build_transformer
from quadlens.network.native import save
from quadlens.network.task import task_by_name
from quadlens.network.weights import Weights
from quadlens.proofs.pairs import best_certificate, certify
from quadlens.proofs.pairs.brute import brute_force_operations
from quadlens.proofs.pairs.operations import collapse_operations
from quadlens.proofs.pairs.plan import Signs
from quadlens.proofs.pairs.thin import (
    Thin,
    ThinHints,
    loss_of,
    reading,
    rho_of,
    thin_margins,
    writing,
)
from quadlens.proofs.pairs.thin_cost import (
    saved_by_words,
    sets_of_signs,
    settled_bounds,
    thin_items,
)
from quadlens.proofs.pairs.thin_streams import sides, streams_of
from quadlens_checker import check
from small_models import adders, random_transformers
from soundness import check_sound, true_margins
from strategies import seeds


def entries(x: Dyadic) -> np.ndarray:
    table = np.array([Fraction(int(n), 1 << x.shift) for n in x.numerators.entries()], dtype=object)
    return table.reshape(x.shape)


def any_directions(rng: np.random.Generator, d: int, r: int) -> Dyadic:
    """Nothing to do with the model, and far from orthonormal."""
    return Dyadic.from_floats(rng.integers(-3, 4, (d, r)) / 4)


@examples(60)
@given(random_transformers())
def test_streams_are_exact(model: Weights) -> None:
    exact, streams = collapse_exactly(model), attended_streams(model, DYADICS, thrifty=True)
    W_in, b_in = (
        Dyadic.from_floats(model.W_in),
        Dyadic.from_floats(model.b_in[None]).repeated(model.config.p),
    )
    assert (entries(streams[0] @ W_in) == entries(exact.U_a)).all()
    assert (entries(streams[1] @ W_in + b_in) == entries(exact.U_b)).all()


def square(x: np.ndarray) -> Fraction:
    return Fraction(sum(n * n for n in x.ravel()))


@examples(80)
@given(
    random_transformers(),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 9),
    seeds,
)
def test_any_directions_whatever_give_true_bounds(
    model: Weights, r: int, r_out: int, q: int, added: int, seed: int
) -> None:
    """Every bound of `thin` against the exact collapse, without tolerance."""
    config, rng = model.config, np.random.default_rng(seed)
    p, d, n = config.p, config.d_model, config.d_mlp
    exact, streams = collapse_exactly(model), streams_of(model)
    streams = replace(streams, means=(any_directions(rng, 1, d), any_directions(rng, 1, d)))
    P, P_out, Q = (any_directions(rng, d, columns) for columns in (r, r_out, q))
    turns = tuple(range(1, 1 + min(r_out // 2, p // 2)))
    write, both = writing(model, streams, P_out, turns), sides(streams, P, P_out, Q)
    read = reading(model, streams, P, both, min(r, added + 1))
    F, P_true, one = (
        entries(read.F),
        entries(P),
        np.array([[Fraction(i == j) for j in range(d)] for i in range(d)]),
    )
    H, W_U = entries(write.H), entries(Dyadic.from_floats(model.W_U[:, :p]))
    for s, (side, U) in enumerate(zip(both, (exact.U_a, exact.U_b), strict=True)):
        centred = entries(streams.X[s]) - entries(streams.means[s])
        A, unread = entries(side.A), write.unread(side, read.D)
        assert (centred @ P_true == A).all()
        table, skip = entries(U), entries(side.skip)
        rounded = (read.U_a, read.U_b)[s]
        # All that is constant is in Ũ_b.
        constant = entries(streams.means[0] @ Dyadic.from_floats(model.W_in))[0] * (
            1 if s == 0 else -1
        )
        for token in range(p):
            assert square(centred[token] @ (one - P_true @ P_true.T)) <= side.Y[token] ** 2
            left = (centred[token] @ W_U) - skip[token] @ H
            assert max(left) - min(left) <= unread[token]
            for i in range(n):
                error = side.Y[token] * read.N[i] + side.lengths[token] * read.D * read.lengths[i]
                error += sum(abs(A[token, g] * F[g, i]) for g in range(read.added, r))
                near = Fraction(int(rounded[token, i]), 1 << read.shift) + constant[i]
                assert abs(table[token, i] - near) <= error
    W_L = entries(exact.W_L)
    remainder = W_L - H.T @ entries(write.B).T
    for i in range(n):
        assert max(remainder[:, i]) - min(remainder[:, i]) <= write.residual[i]
        assert max(W_L[:, i]) - min(W_L[:, i]) <= write.spread[i]
    if config.activation == "relu":
        task = task_by_name("add", p)
        margins, g, _, _ = thin_margins(task, read, write, both, rng.permutation(n))
        rho, loss = rho_of(read, write, both), loss_of(read, write, both)
        pre = read.U_a[:, None, :] + read.U_b[None, :, :]
        for (a, b), margin in np.ndenumerate(np.array(true_margins(model), dtype=object)):
            active = sum(x * max(int(y), 0) for x, y in zip(write.residual, pre[a, b], strict=True))
            assert active / (1 << read.shift) <= rho[0][a] + rho[1][b]
            assert margins[a, b] - rho[0][a] - rho[1][b] - loss[0][a] - loss[1][b] <= margin
        # What is settled for each a - b is true of every answer.
        kappa, answers = entries(write.kappa)[0], task.answers
        bounds = settled_bounds(task, g, H.astype(float), kappa.astype(float), turns)
        for a, b, away in np.ndindex(p, p, p):
            right, other = int(answers[a, b]), (int(answers[a, b]) + away) % p
            score = [
                sum(Fraction(x) * y for x, y in zip(g[a, b], H[:, c], strict=True)) + kappa[c]
                for c in (right, other)
            ]
            assert away == 0 or bounds[a, b, away] <= score[0] - score[1]


def test_a_relabelled_task_turns_too() -> None:
    """Under the names that make it addition; the bound is of the answer c₀ + Δ by those names."""
    p, rng = 7, np.random.default_rng(5)
    task = task_by_name("subtract", p)
    assert task.cyclic is not None
    g, H, kappa = rng.normal(size=(p, p, 3)), rng.normal(size=(3, p)), rng.normal(size=p)
    bounds, named = settled_bounds(task, g, H, kappa, (2,)), np.argsort(task.cyclic.of_c)
    score = g @ H + kappa
    for a, b, away in np.ndindex(p, p, p):
        right = int(task.answers[a, b])
        other = int(named[(task.cyclic.of_c[right] + away) % p])
        assert away == 0 or bounds[a, b, away] <= score[a, b, right] - score[a, b, other]


@examples(60)
@given(st.one_of(adders(), random_transformers()))
def test_thin_never_claims_more_than_is_true(model: Weights) -> None:
    check_sound(Thin().prove(model), true_margins(model))


@pytest.mark.slow
def test_a_clean_transformer_is_proved_whole() -> None:
    model = build_transformer(Recipe(31, (3, 7, 11, 13), 300, noise=0.001))
    proof = Thin().prove(model)
    check_sound(proof, true_margins(model))
    assert proof.verdict == "CERTIFIED"
    assert set(proof.terms) == {"output residual", "input residual"}
    # Results travel to the processes that draw.
    assert pickle.loads(pickle.dumps(proof)).margin == proof.margin


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pizza", "mismatched"])
def test_the_bundled_models_cost_a_tenth_of_brute_force_collapse_and_all(
    name: str, tmp_path: Path
) -> None:
    model = load(name)
    certificate = certify(model, "thin")
    assert (certificate.verdict, certificate.collapse_flops) == ("CERTIFIED", 0)
    whole = brute_force_operations(59, 512) + collapse_operations(model.config)
    assert certificate.proof.operations <= 0.1 * whole
    assert certificate.proof.filed_operations is not None
    assert certificate.proof.filed_operations <= 0.06 * whole
    assert certificate.proof.operations < collapse_operations(model.config)
    certificate.save(tmp_path / "c.json")
    report = check(str(tmp_path / "c.json"), str(resolve(name)))
    assert (report.verdict, report.claims) == ("VERIFIED", certificate.to_json()["claims"])


@examples(60)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 12), seeds)
def test_sets_of_tokens_make_the_plan_that_single_signs_make(
    tokens: int, p: int, n: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    U_a, U_b = (rng.integers(-3, 4, (rows, n)).astype(object) for rows in (tokens, p))
    signs = Signs.of(U_a, U_b)
    by_sets, singly = signs.plan_by_sets(), signs.plan(0, tokens)
    for name in ("end_row", "end", "wrong_row", "wrong"):
        assert getattr(by_sets, name).tolist() == getattr(singly, name).tolist()


def test_insertion_takes_as_many_comparisons_as_are_counted() -> None:
    """Sorted by hand, neuron after neuron, each from the order of the one before it."""
    rng, p, n = np.random.default_rng(3), 11, 6
    slow = np.cumsum(rng.normal(size=(p, n)) * [1.0, *[0.2] * (n - 1)], axis=1)
    U_a, U_b = slow[::-1].copy(), slow
    order, made, thresholds = list(range(p)), 0, [0] * p
    half = 5  # 1 + ⌈log₂ 11⌉
    for i in range(n):
        inserted, here = list[int](), 0
        for token in order:
            at = len(inserted)
            while at > 0:
                here += 1
                if U_b[inserted[at - 1], i] < U_b[token, i]:
                    break
                at -= 1
            inserted.insert(at, token)
        made += min(here, p * (half - 1)) if i else p * (half - 1)
        order = inserted
        now = [sum(U_b[b, i] <= -U_a[a, i] for b in range(p)) for a in range(p)]
        made += sum(
            min(abs(x - y) + 2, half) if i else half for x, y in zip(now, thresholds, strict=True)
        )
        thresholds = now
    assert made <= Signs.of(U_a, U_b).comparisons()


@pytest.mark.slow
def test_pizza_costs_so_many_operations_per_weight() -> None:
    """The items of docs/appendix.md."""
    model = load("pizza")
    proof = Thin().prove(model)
    assert isinstance(proof.hints, ThinHints)
    items = thin_items(model.config, proof.hints.counted)
    assert sum(items.values()) == proof.operations
    weights = sum(x.size for x in model.tensors.values())
    assert proof.operations <= 75 * weights
    assert proof.filed_operations is not None
    assert proof.filed_operations <= 56 * weights
    page = (ROOT / "docs" / "appendix.md").read_text(encoding="utf-8")
    for name, count in items.items():
        assert f"| {name} | {at_most(count / 180_411, 1)} |" in page


def test_thin_counts_each_sign_as_arcs_does() -> None:
    """`arcs` takes 2 p² d_mlp: each sign, and its comparison with the neighbour's.

    `thin` makes a set more per token.
    """
    for p, n in ((5, 3), (59, 512), (64, 8), (65, 8), (130, 20)):
        assert p * sets_of_signs(p, n) == 2 * p * p * n + p * p
        assert saved_by_words(p, n) == (p - len(range(0, p, 64))) * sets_of_signs(p, n)


def test_the_cost_in_a_certificate_is_counted_as_it_was() -> None:
    """So that certificates keep their bytes: 64 signs are one operation there."""
    model = load(ROOT / "tests" / "data" / "certificates" / "adder.safetensors")
    certificate = certify(model, "thin")
    filed = certificate.to_json()["cost"]["flops"]
    assert filed == 103_309
    assert certificate.proof.operations == filed + saved_by_words(
        model.config.p, model.config.d_mlp
    )
    arcs = certify(model, "arcs")
    assert arcs.to_json()["cost"]["flops"] == arcs.proof.operations


def test_models_without_a_residual_stream_are_refused_with_a_reason() -> None:
    proof = Thin().prove(build_mlp(Recipe(5, (1, 2), 20)))
    assert proof.verdict == "UNPROVED"
    assert "use the strategy auto" in str(proof.reason)


def test_a_certificate_is_never_of_nothing_while_something_can_be_proved() -> None:
    """A proof without hints proves all but cannot be checked: it is not one to keep."""
    model = build_transformer(Recipe(11, (1, 2, 4), 48))
    arcs = certify(model, "arcs")
    both = [replace(arcs, proof=replace(arcs.proof, hints=None))]
    assert both[0].verdict == "CERTIFIED"
    assert best_certificate(both, checkable=True) is None
    # All costs are compared with the collapse that they need.
    more = [certify(model, "moments"), certify(model, "thin")]
    assert best_certificate([*both, *more], checkable=True) is min(
        more, key=lambda one: one.total_flops
    )


@pytest.mark.parametrize("exponent", [0, 40, 60])
def test_weights_of_any_size_give_hints_that_a_checker_accepts(
    exponent: int, tmp_path: Path
) -> None:
    model = build_mlp(Recipe(31, (3, 7, 11, 13), 200, jitter=0.01, noise=0.002))
    large = Weights.mlp(model.config, model.W_a, model.W_b, np.ldexp(model.W_out, exponent))
    save(large, tmp_path / "m.safetensors")
    certificate = certify(large, "moments", checkable=True)
    certificate.save(tmp_path / "c.json")
    assert certificate.verdict == "CERTIFIED"
    assert check(str(tmp_path / "c.json"), str(tmp_path / "m.safetensors")).verdict == "VERIFIED"
