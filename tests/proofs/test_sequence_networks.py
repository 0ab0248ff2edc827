"""Networks on sequences: files, the forward pass against loops, tasks against their definitions."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import quadlens
from quadlens.base.errors import BadConfig, BadFile, BadWeights
from quadlens.network.native import to_bytes
from quadlens.network.sequence import TaskSpec
from quadlens.network.sequence_forward import seen, sequence_config, tensor
from quadlens.network.weights import Weights
from quadlens.proofs.sequences import expand, forward
from small_sequences import PARITY, addition_task, random_config, random_network


def network(seed: int, **fixed: object) -> Weights:
    return random_network(random_config(seed, addition_task(), 5, 9, **fixed), seed)


@pytest.mark.parametrize("seed", range(12))
def test_a_file_gives_back_the_network(seed: int, tmp_path: Path) -> None:
    model = network(seed)
    quadlens.network.save(model, tmp_path / "model.safetensors")
    again = quadlens.load(tmp_path / "model.safetensors")
    assert again.config == model.config
    assert again.tensors.keys() == model.tensors.keys()
    assert to_bytes(again) == to_bytes(model)


def slow_norm(kind: str, eps: float, x: list[float], w: np.ndarray, b: np.ndarray) -> list[float]:
    mean = sum(x) / len(x) if kind == "layer" else 0.0
    root = math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + eps)
    return [(v - mean) / root * float(w[i]) + float(b[i]) for i, v in enumerate(x)]


def slow_forward(model: Weights, tokens: list[int], query: int) -> list[float]:
    """One input in plain Python, one number at a time."""
    config, d = sequence_config(model), sequence_config(model).d_model

    def norm(place: str, name: str, x: list[float]) -> list[float]:
        one = getattr(config.norms, place)
        return (
            x
            if one is None
            else slow_norm(
                one.kind, one.eps, x, tensor(model, name + "_w"), tensor(model, name + "_b")
            )
        )

    def linear(x: list[float], W: np.ndarray, b: np.ndarray) -> list[float]:
        return [
            sum(x[i] * float(W[i, j]) for i in range(len(x))) + float(b[j])
            for j in range(W.shape[1])
        ]

    def rotated(x: list[float], t: int) -> list[float]:
        out, half = list(x), config.d_head // 2
        for i in range(half if config.rope else 0):
            first, second = (i, half + i) if config.rope == "halves" else (2 * i, 2 * i + 1)
            cos, sin = (
                float(tensor(model, "rope_cos")[t, i]),
                float(tensor(model, "rope_sin")[t, i]),
            )
            out[first], out[second] = (
                x[first] * cos - x[second] * sin,
                x[first] * sin + x[second] * cos,
            )
        return out

    def sigma(x: float) -> float:
        if config.activation == "relu":
            return max(x, 0.0)
        if config.activation == "gelu":
            return x * (1 + math.erf(x / math.sqrt(2))) / 2
        if config.activation == "silu":
            return x / (1 + math.exp(-x))
        return x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    x = [
        (tensor(model, "W_E")[token] + tensor(model, "W_pos")[t]).tolist()
        for t, token in enumerate(tokens)
    ]
    n = [norm("attention", "ln1", one) for one in x]
    out = [x[query][i] + float(tensor(model, "b_O")[i]) for i in range(d)]
    for h in range(config.n_heads):
        q, *k = (
            rotated(
                linear(n[t], tensor(model, f"W_{name}")[h], tensor(model, f"b_{name}")[h])
                if config.norms.query_key is None
                else slow_norm(
                    config.norms.query_key.kind,
                    config.norms.query_key.eps,
                    linear(n[t], tensor(model, f"W_{name}")[h], tensor(model, f"b_{name}")[h]),
                    tensor(model, f"{name.lower()}_norm_w"),
                    np.zeros(config.d_head),
                ),
                t,
            )
            for t, name in [(query, "Q"), *((j, "K") for j in seen(model, query, h))]
        )
        weights = [
            math.exp(
                sum(a * b for a, b in zip(q, key, strict=True)) / config.divisor
                + float(tensor(model, "score_bias")[h, query, j])
            )
            for key, j in zip(k, seen(model, query, h), strict=True)
        ]
        for weight, j in zip(weights, seen(model, query, h), strict=True):
            value = linear(n[j], tensor(model, "W_V")[h], tensor(model, "b_V")[h])
            written = linear(value, tensor(model, "W_O")[h], np.zeros(d))
            out = [a + weight / sum(weights) * b for a, b in zip(out, written, strict=True)]
    if config.d_mlp:
        n2 = norm("mlp", "ln2", out)
        hidden = linear(n2, tensor(model, "W_in"), tensor(model, "b_in"))
        gate = (
            linear(n2, tensor(model, "W_gate"), tensor(model, "b_gate")) if config.gated else hidden
        )
        hidden = [
            sigma(g) * (v if config.gated else 1.0) for g, v in zip(gate, hidden, strict=True)
        ]
        written = linear(hidden, tensor(model, "W_out"), tensor(model, "b_out"))
        out = [a + b for a, b in zip(out, written, strict=True)]
    return linear(norm("final", "ln_final", out), tensor(model, "W_U"), tensor(model, "b_U"))


@pytest.mark.parametrize("seed", range(24))
def test_the_forward_pass_is_the_one_written_with_loops(seed: int) -> None:
    model = network(seed)
    tokens = np.random.default_rng(seed).integers(0, 5, (3, 9))
    for query in (0, 5, 8):
        slow = [slow_forward(model, row, query) for row in tokens.tolist()]
        assert np.allclose(forward(model, tokens, query), slow, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("highest_first", [False, True])
def test_addition_is_addition(highest_first: bool) -> None:
    spec = addition_task(3, 4, stop=True, highest_first=highest_first)
    config = random_config(0, spec, 6, 13)
    task = expand(config)
    words = task.random_words(200, 0)
    tokens = task.tokens(words)
    x, y = (sum(4**i * part[:, i] for i in range(3)) for part in (words // 4, words % 4))
    digits = [(x + y) // 4**i % 4 for i in range(4)]
    order = [3, 2, 1, 0] if highest_first else [0, 1, 2, 3]
    assert task.inputs == 4**6
    assert tokens.shape == (200, 12)
    for place, i in enumerate(order):
        assert (tokens[:, 8 + place] == digits[i]).all()
        right = task.right(words, place)
        assert (right.argmax(axis=1) == digits[i]).all()
        assert (right.sum(axis=1) == 1).all()
        assert task.steps[place][0] == 7 + place
    assert (tokens[:, 0] == x % 4).all()
    assert (tokens[:, 4] == y % 4).all()
    assert task.right(words, 4).tolist() == [[False] * 4 + [True] * 2] * 200
    assert sum(task.words_to[-2]) == 4**6
    assert task.words_from[0] == 4**6


def test_the_sign_of_sums_and_the_largest_are_what_they_say() -> None:
    task = expand(random_config(0, TaskSpec("cumsum-sign:3", largest=2), 5, 3))
    words = np.array(list(itertools.product(range(5), repeat=3)))
    assert task.inputs == len(words)
    assert (task.tokens(words) == words).all()
    for i in range(3):
        assert (
            task.right(words, i).argmax(axis=1) == np.sign((words[:, : i + 1] - 2).sum(axis=1)) + 1
        ).all()
    task = expand(random_config(0, TaskSpec("max:3", tokens=4), 4, 3))
    words = np.array(list(itertools.product(range(4), repeat=3)))
    assert (task.right(words, 0).argmax(axis=1) == words.max(axis=1)).all()
    assert task.steps[0][0] == 2


def test_a_task_of_ones_own() -> None:
    task = expand(random_config(0, PARITY, 3, 4))
    words = np.array(list(itertools.product(range(2), repeat=3)))
    odd = words.sum(axis=1) % 2 == 1
    assert (task.right(words, 1)[:, 0] == ~odd).all()
    assert (task.right(words, 1)[:, 2] == odd).all()
    assert (task.tokens(words)[:, 0] == 2).all()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (TaskSpec("sort:3"), "is not known; expected add:N"),
        (TaskSpec("add"), "expected add:N"),
        (replace(PARITY, name="max:2"), "and no automaton: the name says it"),
        (TaskSpec("max:3"), "expected `tokens`"),
        (TaskSpec("cumsum-sign:3", largest=0), "expected `largest`"),
        (TaskSpec("add:1", ("x0", "z0", "z1"), (0,)), "at least two digits"),
        (TaskSpec("add:1", ("x0", "y1", "z0", "z1"), (0, 1)), "'y1' in its template"),
        (TaskSpec("add:1", ("x0", "y0", "z0"), (0, 1)), "expected z0 … z1 at the end"),
        (TaskSpec("add:1", ("x0", 77, "z0", "z1"), (0, 1)), "token 77"),
        (TaskSpec("max:30", tokens=3), "reads position 29"),
        (TaskSpec("parity of all", automaton=PARITY.automaton), "a name of one word"),
    ],
)
def test_what_is_no_task_is_told(spec: TaskSpec, words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        expand(random_config(0, spec, 5, 9))


def test_what_is_no_network_is_told(tmp_path: Path) -> None:
    model = network(0)
    with pytest.raises(
        BadWeights, match="a network on sequences: missing weights W_Q, weights without use W_a"
    ):
        Weights(
            model.config, W_a=np.ones(1), **{k: v for k, v in model.tensors.items() if k != "W_Q"}
        )
    for change, words in (
        ({"d_head": 3, "rope": "pairs"}, "expected an even width"),
        ({"divisor": 0.0}, "expected a finite number above 0"),
        ({"d_mlp": 0, "gated": True}, "a gate without an MLP"),
        ({"d_model": 0}, "d_model = 0"),
    ):
        with pytest.raises(BadConfig, match=words):
            random_config(0, addition_task(), 5, 9, **change)
    with pytest.raises(BadConfig, match="answers pairs"):
        sequence_config(quadlens.load("pizza"))
    path = tmp_path / "model.safetensors"
    path.write_bytes(to_bytes(model).replace(b'\\"d_model\\"', b'\\"d_mudel\\"'))
    with pytest.raises(BadFile, match="damaged"):
        quadlens.load(path)
