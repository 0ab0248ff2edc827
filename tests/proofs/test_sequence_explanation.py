"""Explanations of networks on sequences are true of attention, intervals and answers."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb

import quadlens as ql
from checker.sequence_certificates import network_of, words_of
from cli_runner import quadlens, refused
from quadlens.base.errors import BadConfig
from quadlens.base.numbers import precision
from quadlens.network.sequence import Automaton, Fed, SequenceConfig, Step, TaskSpec
from quadlens.network.sequence_forward import forward, tensor
from quadlens.network.weights import Weights
from quadlens.proofs.sequences.explain import (
    SequenceExplanation,
    Share,
    axis_of,
    explain_sequence,
    position_name,
)
from quadlens.proofs.sequences.tables import Network
from quadlens.show.figures.adders import sequence_axis
from quadlens.show.figures.registry import all_pictures
from quadlens.training.config import load_config
from quadlens.training.sequence import initial_weights
from sequences_truth import Truth
from small_sequences import PARITY, addition_task, random_config, random_network


@pytest.fixture(scope="module")
def adder() -> SequenceExplanation:
    return explain_sequence(ql.load("adder"))


def attention(weights: Weights, tokens: np.ndarray, query: int) -> np.ndarray:
    """Softmax of one head with RMSNorm before it, written out, [word, position]."""
    x = tensor(weights, "W_E")[tokens] + tensor(weights, "W_pos")[: tokens.shape[1]]
    n = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * tensor(weights, "ln1_w")
    q, k = n[:, query] @ tensor(weights, "W_Q")[0], n[:, : query + 1] @ tensor(weights, "W_K")[0]
    e = np.exp(np.einsum("nd,njd->nj", q, k) / weights.config.divisor)  # type: ignore[attr-defined]
    return e / e.sum(axis=1, keepdims=True)


def test_every_share_of_attention_is_within_what_is_said(adder: SequenceExplanation) -> None:
    network = adder.network
    task, words = network.task, network.task.random_words(400, 3)
    tokens, template = task.tokens(words), network.config.task.template
    for one, (query, _, _) in zip(adder.steps, task.steps, strict=True):
        found = attention(network.weights, tokens, query)
        for share in one.shares[0]:
            at = [
                j
                for j in range(query + 1)
                if (str(template[j]) if isinstance(template[j], str) else f"token {template[j]}")
                in share.names.split(" ")
                or f"token {template[j]}" in share.names
            ]
            total = found[:, at].sum(axis=1)
            assert share.low <= total.min(), (one, share)
            assert total.max() <= share.high, (one, share)


@pytest.mark.slow
def test_s_lies_in_the_interval_of_its_value_on_every_word_tried(
    adder: SequenceExplanation,
) -> None:
    axis, network = adder.axis, adder.network
    assert axis is not None
    task, words = network.task, network.task.random_words(3000, 4)
    step, query = axis.step, network.task.steps[axis.step][0]
    tokens = task.tokens(words)
    weights = network.weights
    x = tensor(weights, "W_E")[tokens] + tensor(weights, "W_pos")[: tokens.shape[1]]
    n = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * tensor(weights, "ln1_w")
    brought = np.einsum(
        "nj,njv->nv",
        attention(weights, tokens, query),
        n[:, : query + 1] @ tensor(weights, "W_V")[0],
    )
    s = brought @ tensor(weights, "W_O")[0] @ network.rows[0]
    value = words[:, step] // 10 + words[:, step] % 10 + task.trace(words)[:, step]
    own = np.array([axis.own.index(token) for token in tokens[:, query].tolist()])
    assert (axis.low[own, value] <= s + 1e-9).all()
    assert (s - 1e-9 <= axis.high[own, value]).all()
    # Where s is, the digit of the band is the network's answer, and the right one.
    answers = forward(weights, tokens, query).argmax(axis=1)
    band = axis.winner[own, np.abs(axis.points[None] - s[:, None]).argmin(axis=1)]
    assert np.array_equal(answers, value % 10)
    assert (band == answers).mean() > 0.99


def test_the_adder_reads_two_places_as_a_decimal_number(adder: SequenceExplanation) -> None:
    """s is x_5 + y_5 and about a tenth of x_4 + y_4; intervals of other digits are disjoint."""
    axis = adder.axis
    assert axis is not None
    assert axis.per_sum_before is not None
    assert axis.per_sum_before / axis.per_sum == pytest.approx(0.1, abs=0.02)
    assert axis.overlapping == 0
    words = adder.sentences()
    assert len(words) == 1 + 11 + 2
    assert (
        "puts 0.819 to 0.876 on x5 y5, 0.116 to 0.170 on x4 y4 z4, at most 0.065 on all else"
        in words[6]
    )
    assert "no two intervals of different right digits overlap" in words[-2]


@pytest.mark.slow
def test_the_first_and_the_last_digit_have_their_own_axis(adder: SequenceExplanation) -> None:
    first = axis_of(adder.network, 0)
    assert first is not None
    assert first.per_sum_before is None
    assert len(first.own) == 1
    assert axis_of(adder.network, 10) is None  # asked for the carry alone
    assert (
        sequence_axis("adder").axes[0].get_xlabel()
        == "s, what attention brings to the step that answers z5"
    )


def test_a_network_that_only_attends_is_explained_without_an_axis() -> None:
    config = load_config("max", flags={"task": "max:3", "p": 5, "d_model": 6, "d_head": 4})
    model = initial_weights(config)
    found = explain_sequence(model)
    assert found.axis is None
    assert len(found.sentences()) == 2
    assert "position 2" in found.sentences()[1]
    with pytest.raises(BadConfig, match="only additions that answer the lowest digit first"):
        sequence_axis(model)
    assert all_pictures(ql.study(model)) == ()


def test_two_heads_have_two_shares() -> None:
    config = dataclasses.replace(load_config("adder", flags={"task": "add:2"}), n_heads=2)
    (first, *_) = explain_sequence(initial_weights(config)).steps
    assert len(first.shares) == 2
    assert "head 1 " in first.words()


@pytest.mark.slow
def test_explain_says_it_on_the_command_line() -> None:
    done = quadlens("explain", "adder")
    assert done.code == 0, done.err
    assert "The answer z5 is read at z4: attention puts 0.819 to 0.876 on x5 y5" in done.out
    told = json.loads(quadlens("explain", "adder", "--json").out)
    assert told["inputs"] == 10**20
    assert len(told["steps"]) == 11
    refused(quadlens("explain", "adder", "--no-logits"), "a network on sequences has no --neurons")


@pytest.mark.slow
def test_a_report_of_an_adder_is_a_page_with_its_picture_and_its_verdict(tmp_path: Path) -> None:
    config = load_config(
        "adder",
        flags={"task": "add:2", "p": 3, "d_model": 6, "d_mlp": 5, "d_head": 4, "d_value": 2},
    )
    model = tmp_path / "small.safetensors"
    ql.save(initial_weights(dataclasses.replace(config, initial_scale=2.0)), model)
    done = quadlens("report", model, "-o", tmp_path / "report", "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["verdict"] == "WRONG"
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    for words in (
        "What <em>small</em> computes",
        "The verdict is WRONG: on ",
        "The answer z1 is read at z0",
        "data:image",
    ):
        assert words in page
    assert {"data/axis.csv", "figures/sequence-axis.svg", "data/explanation.json"} <= set(
        told["files"]
    )
    assert (
        json.loads((tmp_path / "report" / "manifest.json").read_bytes())["model"]["task"] == "add:2"
    )
    without = ql.report(model, tmp_path / "report", proofs=False)
    assert "The proof was left out." in without.page.read_text(encoding="utf-8")
    only = quadlens(
        "report", model, "-o", tmp_path / "figures", "--only", "sequence-axis", "--format", "svg"
    )
    assert only.out.strip().endswith("sequence-axis.svg")


def shares_of(weights: Weights, head: int, step: int) -> dict[str, list[Any]]:
    """The attention shares on each letter and on all constants, of every input, in balls."""
    truth, network = Truth(weights), network_of(weights)
    task, (query, _, _) = network.task, network.task.steps[step]
    ours, found = Network(weights), dict[str, list[Any]]()
    sources = [-1 if isinstance(fed, int) else fed[0] for fed in task.fed[: query + 1]]
    for word in words_of(network):
        tokens = task.tokens(list(word))
        powers = {
            j: truth.score(head, query, tokens[query], j, tokens[j]).exp()
            for j in truth.seen(head, query)
        }
        total = sum(powers.values(), arb(0))
        for source in set(sources):
            positions = [j for j, of in enumerate(sources) if of == source]
            name = " ".join(position_name(ours, j) for j in positions)
            found.setdefault(name, []).append(
                sum((powers.get(j, arb(0)) for j in positions), arb(0)) / total
            )
    return found


def check_shares(weights: Weights) -> int:
    """No share is outside what is said of it on any input; how many were looked at."""
    looked_at = 0
    with precision(2000):
        for reading in explain_sequence(weights).steps:
            for head, shares in enumerate(reading.shares):
                truth = shares_of(weights, head, reading.step)
                for share in shares:
                    for ball in truth[share.names]:
                        assert not ball < arb(share.low), (reading, share, ball)
                        assert not ball > arb(share.high), (reading, share, ball)
                    looked_at += len(truth[share.names])
    return looked_at


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_no_share_of_attention_is_outside_its_bounds_on_any_input(seed: int) -> None:
    """Of networks of every kind; scores are up to some 10^4 apart."""
    task, tokens, positions = (
        (addition_task(2, 2), 4, 9),
        (PARITY, 3, 4),
        (addition_task(1, 3, stop=True), 5, 7),
    )[seed % 3]
    weights = random_network(random_config(seed, task, tokens, positions), seed)
    sharp = weights.replace(W_Q=weights.W_Q * np.float32([1, 10, 100, 1e4][seed % 4]))
    assert check_shares(sharp)


def reading_one_of_two() -> Weights:
    """Scores 0 or -46 on the first of two bits, always -41 on the second.

    When the first is 1 the second gets all attention.
    """
    task = Automaton(
        next=(((0, 0),), ((0, 0),)), positions=(Fed(0, ((0, 1),)), Fed(1, ((0, 1),)), 2),
        steps=(Step(2, 0, ((0, 1),)),), answers=((0,), (1,)),
    )  # fmt: skip
    config = SequenceConfig(3, 2, 3, 2, 1, 2, 2, 0, TaskSpec("bits", automaton=task), mask="tensor")
    zero, bias = np.zeros((1, 2, 2)), np.zeros((1, 3, 3))
    bias[0, 2] = 0, -41, -60
    keys = np.array([[[0.0, 0.0], [-46.0, 0.0]]])
    mask = np.array([[[1, 0, 0], [1, 1, 0], [1, 1, 1]]], dtype=np.float64)
    return Weights(
        config, W_E=np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), W_Q=zero, b_Q=np.array([[1.0,
        0.0]]), W_K=keys,
        W_V=np.eye(2)[None], W_O=np.eye(2)[None], W_U=np.eye(2), score_bias=bias, mask=mask,
    )  # fmt: skip


def test_what_the_others_get_is_added_up_and_not_taken_off_the_whole() -> None:
    weights = reading_one_of_two()
    assert check_shares(weights)
    (first, *_) = explain_sequence(weights).steps[0].shares[0]
    assert first.low < 0.0067  # e^-46 / (e^-46 + e^-41), where the whole is 1 to all digits


def test_a_share_of_which_nothing_is_known_is_not_printed() -> None:
    """Scores of 10^400 are no floats: their weights are between 0 and 1."""
    weights = reading_one_of_two().replace(
        b_Q=np.array([[1e200, 0.0]]), W_K=np.full((1, 2, 2), 1e200)
    )
    (reading,) = explain_sequence(weights).steps
    assert {(share.low, share.high) for share in reading.shares[0]} == {(0.0, 1.0)}
    assert "1.000" not in reading.words()
    assert "no bound of its weights" in reading.words()
    known = dataclasses.replace(
        reading, shares=((Share("x0", 0.25, 0.5), Share("x1", 0.0002, 0.9998)),)
    )
    assert "attention puts 0.250 to 0.500 on x0, at most 0.750 on all else." in known.words()
