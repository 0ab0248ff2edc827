"""What is said of a network on sequences is true of its attention, its intervals and its answers on words tried."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import quadlens as ql
from cli_runner import quadlens, refused
from quadlens.errors import BadConfig
from quadlens.figures.adders import sequence_axis
from quadlens.figures.registry import all_pictures
from quadlens.model.sequence_forward import forward, tensor
from quadlens.model.weights import Weights
from quadlens.sequences.explain import SequenceExplanation, axis_of, explain_sequence
from quadlens.training.config import load_config
from quadlens.training.sequence import initial_weights


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
def test_s_lies_in_the_interval_of_its_value_on_every_word_tried(adder: SequenceExplanation) -> None:
    axis, network = adder.axis, adder.network
    assert axis is not None
    task, words = network.task, network.task.random_words(3000, 4)
    step, query = axis.step, network.task.steps[axis.step][0]
    tokens = task.tokens(words)
    weights = network.weights
    x = tensor(weights, "W_E")[tokens] + tensor(weights, "W_pos")[: tokens.shape[1]]
    n = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * tensor(weights, "ln1_w")
    brought = np.einsum("nj,njv->nv", attention(weights, tokens, query), n[:, : query + 1] @ tensor(weights, "W_V")[0])
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
    """s is x_5 + y_5 and about a tenth of x_4 + y_4; no two intervals of different digits overlap."""
    axis = adder.axis
    assert axis is not None
    assert axis.per_sum_before is not None
    assert axis.per_sum_before / axis.per_sum == pytest.approx(0.1, abs=0.02)
    assert axis.overlapping == 0
    words = adder.sentences()
    assert len(words) == 1 + 11 + 1
    assert "puts 0.819 to 0.876 on x5 y5, 0.116 to 0.170 on x4 y4 z4, at most 0.065 on all else" in words[6]
    assert "no two intervals of different right digits overlap" in words[-1]


@pytest.mark.slow
def test_the_first_and_the_last_digit_have_their_own_axis(adder: SequenceExplanation) -> None:
    first = axis_of(adder.network, 0)
    assert first is not None
    assert first.per_sum_before is None
    assert len(first.own) == 1
    assert axis_of(adder.network, 10) is None  # asked for the carry alone
    assert sequence_axis("adder").axes[0].get_xlabel() == "s, what attention brings to the step that answers z5"


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
    config = load_config("adder", flags={"task": "add:2", "p": 3, "d_model": 6, "d_mlp": 5, "d_head": 4, "d_value": 2})
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
    assert {"data/axis.csv", "figures/sequence-axis.svg", "data/explanation.json"} <= set(told["files"])
    assert json.loads((tmp_path / "report" / "manifest.json").read_bytes())["model"]["task"] == "add:2"
    without = ql.report(model, tmp_path / "report", proofs=False)
    assert "The proof was left out." in without.page.read_text(encoding="utf-8")
    only = quadlens("report", model, "-o", tmp_path / "figures", "--only", "sequence-axis", "--format", "svg")
    assert only.out.strip().endswith("sequence-axis.svg")
