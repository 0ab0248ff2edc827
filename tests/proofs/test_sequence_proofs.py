"""Proofs on sequences against every word at 200 bits; their parts at random points."""

import json
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from flint import arb

import quadlens
from cli_runner import quadlens as command
from quadlens.base.errors import BadConfig
from quadlens.base.numbers import precision
from quadlens.network import Weights
from quadlens.network.margins import leads_of_set
from quadlens.network.native import to_bytes
from quadlens.network.sequence import Automaton, Fed, SequenceConfig, Step, TaskSpec
from quadlens.network.sequence_forward import after_attention
from quadlens.proofs.sequences import decide
from quadlens.proofs.sequences.attack import FoundWord
from quadlens.proofs.sequences.certificate import certify_sequence
from quadlens.proofs.sequences.interval import Interval
from quadlens.proofs.sequences.sigma import LARGEST, series, sigma
from quadlens.proofs.sequences.tables import Network
from quadlens.proofs.sequences.tail import Tail
from quadlens_checker.verdict import verify
from sequence_oracle import any_network, check
from small_sequences import addition_task, random_config, random_network

MANY = int(os.environ.get("QUADLENS_SEQUENCES", "0"))


LARGE = {0, 1, 4, 7, 9, 11, 13, 18}  # of those, which take a second and more
SEEDS = [
    pytest.param(seed, marks=pytest.mark.slow) if seed in LARGE else seed for seed in range(21)
]


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_claimed_beyond_the_truth(seed: int) -> None:
    check(certify_sequence(any_network(seed)))


# Ten networks to a test, so that each has its own time limit and they are shared among processes.
@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("first", range(1000, 1000 + (MANY or 100), 10))
def test_nothing_is_claimed_beyond_the_truth_of_many(first: int) -> None:
    """Of 100 networks of every kind; of as many as QUADLENS_SEQUENCES says in a marathon."""
    for seed in range(first, first + 10):
        check(certify_sequence(any_network(seed)))


def one_wrong_of(letters: int, base: int) -> Weights:
    """A mean of digits that only the largest word lifts above a threshold."""
    rows = tuple((tuple([0] * base),) for _ in range(letters))
    fed = tuple(Fed(i, (tuple(range(base)),)) for i in range(letters))
    step = Step(letters, letters - 1, (tuple([0] * base),))
    spec = TaskSpec("below", automaton=Automaton(rows, (*fed, base), (step,), ((0,),)))
    config = SequenceConfig(base + 1, 2, letters + 1, 1, 1, 1, 1, 0, spec)
    digits = np.append(np.arange(base), 0.0)[:, None]
    one, zero = np.ones((1, 1, 1)), np.zeros((1, 1, 1))
    W_U, b_U = np.array([[0.0, letters + 1]]), np.array([letters * (base - 1) - 0.5, 0.0])
    return Weights(config, W_E=digits, W_Q=zero, W_K=zero, W_V=one, W_O=one, W_U=W_U, b_U=b_U)


def test_one_wrong_word_of_a_hundred_million_is_found_and_counted() -> None:
    certificate = certify_sequence(one_wrong_of(8, 10))
    assert (certificate.verdict, certificate.inputs) == ("WRONG", 10**8)
    assert certificate.worst.word == (9,) * 8
    assert certificate.wrong_inputs == (1, 1)
    example = certificate.counter_example
    assert example == {"input": [9] * 8, "answered": [1], "expected": [[0]]}
    assert "At least 1 and at most 1 inputs are answered wrongly." in certificate.statement


def in_a_triangle(letters: int, base: int) -> Weights:
    """Attention gives a mean of points on two sides of a triangle.

    The lead is the distance to the third side.

    The two coordinates are bounded each by itself, so that boxes say nothing before nearly every
    letter is fixed.
    """
    rows = tuple((tuple([0] * base),) for _ in range(letters))
    fed = tuple(Fed(i, (tuple(range(base)),)) for i in range(letters))
    step = Step(letters, letters - 1, (tuple([0] * base),))
    spec = TaskSpec("triangle", automaton=Automaton(rows, (*fed, base), (step,), ((0,),)))
    config = SequenceConfig(base + 1, 2, letters + 1, 2, 1, 1, 2, 1, spec)
    d, zero, same = np.arange(base) / (base - 1), np.zeros((1, 2, 1)), np.eye(2)[None]
    points = np.stack(
        [np.where(np.arange(base) % 2, 0, d), np.where(np.arange(base) % 2, 2 * d, 0)], axis=1
    )
    tensors = {
        "W_E": np.append(points, [[0.0, 0.0]], axis=0),
        "W_Q": zero,
        "W_K": zero,
        "W_V": same,
        "W_O": same,
    }
    tensors |= {"W_in": np.zeros((2, 1)), "W_out": np.zeros((1, 2)), "b_U": np.array([1.0, 0.0])}
    return Weights(config, **tensors, W_U=np.array([[-1.0, 0.0], [-0.5, 0.0]]))


def test_a_plane_shows_right_what_no_box_does(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = in_a_triangle(8, 10)
    certificate = certify_sequence(weights)
    assert (certificate.verdict, certificate.wrong_inputs, certificate.inputs) == (
        "CERTIFIED",
        (0, 0),
        10**8,
    )
    assert certificate.margin is not None
    assert certificate.worst_margin[1] == pytest.approx(1 / 9)
    assert 0.95 / 9 < certificate.margin <= Fraction(1, 9)
    verify(
        json.loads(json.dumps(certificate.to_json())), to_bytes(weights), lambda operations: None
    )
    check(certify_sequence(in_a_triangle(3, 5)))
    monkeypatch.setattr(decide, "TILTED", 0)
    monkeypatch.setattr(decide, "MOST_CELLS", 1000)
    kinds = {leaf.kind for step in certify_sequence(weights).steps for leaf in step.leaves}
    assert "counted" in kinds


def test_hard_cells_are_attacked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest margin lies in a cell whose centre looks well."""
    monkeypatch.setattr(
        decide.StepProof, "attacks", lambda step: iter([FoundWord(0.9, 0, (0, 0, 0, 0))])
    )
    certificate = certify_sequence(in_a_triangle(4, 10))
    assert certificate.worst.margin == pytest.approx(1 / 5)
    assert certificate.verdict == "CERTIFIED"


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu"])
def test_activations_and_slopes_are_enclosed(name: str) -> None:
    """Random points of random intervals by Arb; σ'', σ''', σ'''' are within the theorem."""
    rng = np.random.default_rng(0)
    low = rng.normal(size=600) * rng.choice([1, 10, 60], 600)
    high = low + np.abs(rng.normal(size=600)) * rng.choice([0, 1e-6, 0.01, 1, 30], 600)
    value, slope = sigma(name, Interval(low, high))  # type: ignore[arg-type]
    with precision(200):
        for i in range(600):
            for x in (low[i], high[i], low[i] + (high[i] - low[i]) * rng.random()):
                point = arb(float(min(x, high[i])))
                truth = [*series(name, point, 2).coeffs(), arb(0), arb(0)]  # type: ignore[arg-type]
                assert arb(float(value.lo[i])) <= truth[0] <= arb(float(value.hi[i]))
                assert arb(float(slope.lo[i])) <= truth[1] <= arb(float(slope.hi[i]))
        for i in range(-40 * 32, 40 * 32):
            for part in range(8):
                ball = arb((i + (2 * part + 1) / 16) / 32, 1 / 512)
                terms = series(name, ball, 5).coeffs()  # type: ignore[arg-type]
                assert all(
                    abs(c) * f < LARGEST for c, f in zip(terms[2:], (2, 6, 24), strict=False)
                )


@pytest.mark.parametrize("seed", range(12))
def test_points_of_boxes_are_between_the_bounds(seed: int) -> None:
    """Margins at random points and corners of random boxes, by Arb, against both bounds."""
    network = Network(random_network(random_config(seed, addition_task(), 5, 9), seed))
    tables, rng = network.step(1), np.random.default_rng(seed)
    k, tail = len(network.heads), Tail(network)
    centre, radius = (
        rng.normal(size=(6, k)),
        np.abs(rng.normal(size=(6, k))) * rng.choice([1e-3, 0.1, 1.0], (6, 1)),
    )
    boxes, answers = Interval(centre - radius, centre + radius), rng.integers(0, 3, 6)
    start = tables.stream[np.zeros(6, dtype=np.int64)]
    found = tail.margins(start, boxes, answers)
    for share in (0.0, 1.0, *rng.random((4, 6, k))):
        points = np.clip(boxes.lo + share * (boxes.hi - boxes.lo), boxes.lo, boxes.hi)
        with precision(200):
            balls = np.vectorize(lambda x: arb(float(x)), otypes=[object])
            middle = np.vectorize(lambda x, y: arb((x + y) / 2), otypes=[object])(
                start.lo, start.hi
            )
            logits = after_attention(network.weights, middle + balls(points) @ balls(network.rows))
        for i, answer in enumerate(answers):
            right = network.task.answers[answer]
            best = (
                max(x.lower() for x in logits[i][right]),
                max(x.upper() for x in logits[i][right]),
            )
            other = (
                max(x.lower() for x in logits[i][~right]),
                max(x.upper() for x in logits[i][~right]),
            )
            assert not arb(float(found.low[i])) > best[1] - other[0]
            assert not arb(float(found.high[i])) < best[0] - other[1]


def test_the_commands_take_a_network_on_sequences(tmp_path: Path) -> None:
    path, certificate = tmp_path / "below.safetensors", tmp_path / "below.json"
    quadlens.save(one_wrong_of(4, 3), path)
    run = command("certify", path, "-o", certificate, "--json")
    value = run.document
    assert (run.code, value["verdict"], value["inputs"], value["wrong_inputs"]) == (
        1,
        "WRONG",
        81,
        [1, 1],
    )
    assert value["margin_attained"] < 0 < value["margin_lower_bound"]
    assert value["counter_example"]["input"] == [2, 2, 2, 2]
    assert command("check", certificate, path, "--json").document["verdict"] == "VERIFIED"
    tried = command("evaluate", path, "--json").document
    assert (tried["tried"], tried["correct"], tried["wrong"]) == (81, 80, [[2, 2, 2, 2]])
    assert quadlens.check(quadlens.certify(path), path).verdict == "VERIFIED"
    with pytest.raises(BadConfig, match="is proved by cells"):
        quadlens.certify(path, "brute")


def test_attention_that_sees_what_is_not_decoded_is_refused() -> None:
    config = random_config(0, TaskSpec("cumsum-sign:3", largest=1), 3, 3, mask="tensor", rope=None)
    model = random_network(config, 0)
    mask = np.ones_like(model.mask)
    with pytest.raises(BadConfig, match="which is not decoded yet"):
        certify_sequence(model.replace(mask=mask))
    assert leads_of_set(np.array([[1.0, 3.0]]), np.array([[True, True]]))[0] == np.inf
