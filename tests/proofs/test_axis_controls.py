"""Controls of the axis of s: counted again by a written-out forward pass and another network."""

import dataclasses
import json

import numpy as np
import pytest

import quadlens as ql
from cli_runner import quadlens
from quadlens.network.sequence_forward import attended, forward, tensor
from quadlens.network.weights import Weights
from quadlens.proofs.sequences.axis_controls import FITTED, TRIED, axis_controls
from quadlens.proofs.sequences.explain import Axis, SequenceExplanation, axis_of, explain_sequence
from quadlens.proofs.sequences.tables import Network
from quadlens.training.config import load_config
from quadlens.training.sequence import initial_weights

INPUTS = 600


@pytest.fixture(scope="module")
def adder() -> SequenceExplanation:
    return explain_sequence(ql.load("adder"))


def normalised(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1) + 1e-5) * weight


def one_input(weights: Weights, tokens: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The query's own stream and what the one head brings to it, of one input."""
    names = ("W_E", "W_pos", "W_Q", "W_K", "W_V", "W_O", "ln1_w")
    W = {name: tensor(weights, name) for name in names}
    streams = [W["W_E"][token] + W["W_pos"][j] for j, token in enumerate(tokens)]
    normal = [normalised(x, W["ln1_w"]) for x in streams]
    query = normal[-1] @ W["W_Q"][0]
    divisor = weights.config.need_sequences().divisor
    e = [np.exp(query @ (n @ W["W_K"][0]) / divisor) for n in normal]
    brought = sum(w * (n @ W["W_V"][0] @ W["W_O"][0]) for w, n in zip(e, normal, strict=True))
    return streams[-1], brought / sum(e)


def answer(weights: Weights, stream: np.ndarray) -> int:
    """The digit that follows from a stream behind attention."""
    names = ("W_in", "W_out", "W_U", "ln2_w", "ln_final_w", "b_in", "b_out")
    W = {name: tensor(weights, name) for name in names}
    hidden = np.maximum(normalised(stream, W["ln2_w"]) @ W["W_in"] + W["b_in"], 0)
    stream = stream + hidden @ W["W_out"] + W["b_out"]
    return int((normalised(stream, W["ln_final_w"]) @ W["W_U"] + tensor(weights, "b_U")).argmax())


def counted(network: Network, axis: Axis, direction: np.ndarray) -> dict[str, float]:
    """The controls again, input by input; the fit by the normal equations."""
    weights, task, i = network.weights, network.task, axis.step
    query = task.steps[i][0]

    def drawn(seed: int) -> list[tuple[np.ndarray, np.ndarray, int, int, int]]:
        found = []
        for word in task.random_words(INPUTS, seed):
            x, y = (
                sum(int(d) * 10**n for n, d in enumerate(part)) for part in np.divmod(word[:10], 10)
            )
            tokens = task.tokens(word[None])[0, : query + 1].tolist()
            stream, brought = one_input(weights, tokens)
            sums = [int(word[n]) // 10 + int(word[n]) % 10 for n in (i, i - 1)]
            found.append((stream, brought, sums[0], sums[1], (x + y) // 10**i % 10))
        return found

    fit, tried = drawn(FITTED), drawn(TRIED)
    owns = {
        seed: task.tokens(task.random_words(INPUTS, seed))[:, query] for seed in (FITTED, TRIED)
    }
    mean = np.mean([row[1] for row in fit], axis=0)

    def design(
        rows: list[tuple[np.ndarray, np.ndarray, int, int, int]], own: np.ndarray, lower: list[int]
    ) -> np.ndarray:
        return np.array(
            [
                [row[2], low, *np.eye(10)[token]]
                for row, low, token in zip(rows, lower, own, strict=True)
            ]
        )

    A = design(fit, owns[FITTED], [row[3] for row in fit])
    slopes = np.linalg.solve(A.T @ A, A.T @ np.array([row[1] for row in fit]))
    lower = [row[3] for row in tried]
    shuffled = np.random.default_rng(TRIED).permutation(np.array(lower)).tolist()
    linear, other = (design(tried, owns[TRIED], one) @ slopes for one in (lower, shuffled))
    right = dict.fromkeys(("s_alone", "without_s", "as_drawn", "linear", "lower_sum_shuffled"), 0)
    for n, (stream, brought, _, _, digit) in enumerate(tried):
        s = float((brought - mean) @ direction)
        near = int(np.abs(axis.points - brought @ direction).argmin())
        band = axis.winner[axis.own.index(int(owns[TRIED][n])), near]
        answers = {
            "s_alone": answer(weights, stream + mean + s * direction),
            "without_s": answer(weights, stream + brought - s * direction),
            "as_drawn": int(band),
            "linear": answer(weights, stream + linear[n]),
            "lower_sum_shuffled": answer(weights, stream + other[n]),
        }
        for name, given in answers.items():
            right[name] += given == digit
    return {name: count / INPUTS for name, count in right.items()}


@pytest.mark.slow
def test_controls_are_as_counted_input_by_input(adder: SequenceExplanation) -> None:
    axis, network = adder.axis, adder.network
    assert axis is not None
    found = axis_controls(network, axis, INPUTS)
    expected = counted(network, axis, network.rows[axis.coordinate])
    assert {name: getattr(found, name) for name in expected} == pytest.approx(
        expected, abs=1.5 / INPUTS
    )
    assert (found.step, found.inputs) == (5, INPUTS)


def test_s_alone_is_not_the_whole_answer_and_without_it_nothing_is_left(
    adder: SequenceExplanation,
) -> None:
    found = adder.axis_controls
    assert found is not None
    assert 0.88 < found.s_alone < 0.96
    assert found.as_drawn > 0.999
    assert found.without_s < 0.15
    assert found.linear is not None
    assert found.lower_sum_shuffled is not None
    assert found.linear > 0.95
    assert 0.5 < found.lower_sum_shuffled < 0.65


def test_s_alone_is_what_a_network_that_writes_only_s_answers(adder: SequenceExplanation) -> None:
    """Values along s and the mean of all else in b_O: nothing but s is left to put at its mean."""
    network, axis, controls = adder.network, adder.axis, adder.axis_controls
    assert axis is not None
    assert controls is not None
    weights, task = network.weights, network.task
    query, row = task.steps[axis.step][0], network.rows[axis.coordinate]
    words = {seed: task.random_words(controls.inputs, seed) for seed in (FITTED, TRIED)}
    _, (brought,) = attended(weights, task.tokens(words[FITTED]), query)
    mean = brought.mean(axis=0)
    tensors = dict(weights.tensors)
    tensors["W_V"] = (tensor(weights, "W_V")[0] @ tensor(weights, "W_O")[0] @ row)[None, :, None]
    tensors |= {"W_O": row[None, None], "b_O": tensor(weights, "b_O") + mean - (mean @ row) * row}
    config = dataclasses.replace(weights.config.need_sequences(), d_value=1)
    narrow = SequenceExplanation(Network(Weights(config, **tensors)), adder.steps)
    logits = forward(narrow.network.weights, task.tokens(words[TRIED]), query)
    right = task.right(words[TRIED], axis.step)[
        np.arange(controls.inputs), logits.argmax(axis=1)
    ].mean()
    assert controls.s_alone == pytest.approx(right, abs=1.5 / controls.inputs)
    assert narrow.axis_controls is not None
    assert narrow.axis_controls.s_alone == pytest.approx(right, abs=1.5 / controls.inputs)


def test_controls_are_in_words_and_json(adder: SequenceExplanation) -> None:
    controls = adder.axis_controls
    assert controls is not None
    told = adder.to_dict()["axis_controls"]
    assert told == json.loads(json.dumps(dataclasses.asdict(controls)))
    assert controls.words() == adder.sentences()[-1]
    assert "s alone gives the right z5 for" in controls.words()
    assert controls.words().count("%") == 5


def test_the_first_digit_has_no_lower_sum(adder: SequenceExplanation) -> None:
    axis = axis_of(adder.network, 0)
    assert axis is not None
    controls = axis_controls(adder.network, axis, INPUTS)
    assert controls.lower_sum_shuffled is None
    assert controls.as_drawn == 1
    assert "of another input" not in controls.words()
    assert controls.words().count("%") == 4


def test_a_network_without_an_axis_has_no_controls() -> None:
    config = load_config("max", flags={"task": "max:3", "p": 5, "d_model": 6, "d_head": 4})
    explanation = explain_sequence(initial_weights(config))
    assert explanation.axis_controls is None
    assert explanation.to_dict()["axis_controls"] is None


@pytest.mark.slow
def test_explain_prints_the_controls() -> None:
    done = quadlens("explain", "adder", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["axis_controls"]["step"] == 5
