"""Networks on sequences are trained as others: their step, and runs by settings."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from cli_runner import quadlens, refused
from quadlens.base.errors import BadConfig
from quadlens.network import load
from quadlens.network.sequence_forward import sequence_config as config_of
from quadlens.proofs.sequences import expand, forward
from quadlens.training.config import TrainConfig, load_config
from quadlens.training.kinds import sequence_config
from quadlens.training.layout import Layout, SequenceLayout, position_rows
from quadlens.training.outputs import Outcome
from quadlens.training.sequence import answer, draw, initial_weights
from quadlens.training.train import Hooks, Interrupted, train

SMALL = {
    "task": "add:3",
    "p": 4,
    "d_model": 6,
    "d_mlp": 5,
    "d_head": 4,
    "d_value": 2,
    "epochs": 12,
    "batch": 16,
}
ADDER = load_config("adder", flags=SMALL)
MAX = load_config(
    "max", flags={"task": "max:3", "p": 5, "d_model": 6, "d_head": 4, "epochs": 12, "batch": 16}
)


@pytest.mark.parametrize("config", [ADDER, MAX, dataclasses.replace(ADDER, n_heads=2)])
def test_the_step_answers_as_the_forward_pass_does(config: TrainConfig) -> None:
    import torch

    params = initial_weights(dataclasses.replace(config, precision="float64", initial_scale=2.0))
    layout = SequenceLayout.of(sequence_config(config))
    words = draw(config, np.random.default_rng(0), 40, full_of_carries=True)
    loss, right, margins = answer(torch.from_numpy(layout.flatten(params)), layout, words)
    task, smallest, losses = expand(sequence_config(config)), np.full(40, np.inf), []
    for step, (query, _, _) in enumerate(task.steps):
        logits, which = forward(params, words.tokens, query), words.right[:, step]
        of_right = np.take_along_axis(logits, which[:, None], 1)[:, 0]
        losses.append(np.log(np.exp(logits).sum(axis=1)) - of_right)
        np.put_along_axis(logits, which[:, None], -np.inf, 1)
        smallest = np.minimum(smallest, of_right - logits.max(axis=1))
    assert np.allclose(margins, smallest, atol=1e-12)
    assert np.isclose(loss, np.mean(losses))
    assert np.array_equal(right, smallest > 0)


@pytest.mark.parametrize("config", [ADDER, MAX])
def test_words_and_their_answers_are_those_of_the_task(config: TrainConfig) -> None:
    task, words = (
        expand(sequence_config(config)),
        draw(config, np.random.default_rng(1), 300, full_of_carries=True),
    )
    size, p = (3, 4) if config is ADDER else (3, 5)
    letters = (
        words.tokens[:, :size] * p + words.tokens[:, size + 1 : 2 * size + 1]
        if config is ADDER
        else words.tokens
    )
    letters = (
        np.concatenate([letters, np.zeros((300, 1), int)], axis=1) if config is ADDER else letters
    )
    assert np.array_equal(task.tokens(letters)[:, : words.tokens.shape[1]], words.tokens)
    for step in range(len(task.steps)):
        assert np.array_equal(task.right(letters, step).argmax(axis=1), words.right[:, step])
    assert np.array_equal(task.right(letters, 0).sum(axis=1), np.ones(300))


def test_half_of_the_words_are_full_of_carries() -> None:
    words = draw(load_config("adder"), np.random.default_rng(2), 2000, full_of_carries=True)
    passed_on = (words.tokens[:, :10] + words.tokens[:, 11:21] == 9).mean(axis=1)
    assert passed_on[:1000].mean() > 0.5
    assert passed_on[1000:].mean() < 0.15


def test_digits_of_one_place_share_a_position() -> None:
    config = sequence_config(ADDER)
    assert position_rows(config) == [0, 1, 2, 3, 0, 1, 2, 4, 0, 1, 2, 3]
    layout = Layout.of_run(ADDER)
    flat = np.arange(layout.size, dtype=float)
    params = layout.params(flat)
    assert np.array_equal(params.W_pos[0], params.W_pos[4])
    again = layout.params(layout.flatten(params))
    assert all(np.array_equal(array, again.tensors[name]) for name, array in params.tensors.items())


def test_the_presets_have_the_sizes_that_their_files_say() -> None:
    sizes = [
        sum(np.prod(s) for s in Layout.of_run(load_config(name)).shapes.values())
        for name in ("adder", "max")
    ]
    assert sizes == [1776, 2 * 64 * 32 + 4 * 32 + 4 * 32 * 32]


@pytest.mark.parametrize("config", [ADDER, MAX])
def test_a_stopped_run_goes_on_to_the_same_weights(config: TrainConfig) -> None:
    whole = train(config, threads=1, device="cpu")
    asked = iter([False] * 7 + [True])
    with pytest.raises(Interrupted) as stopped:
        train(config, threads=1, device="cpu", hooks=Hooks(should_stop=lambda: next(asked)))
    (checkpoint,) = stopped.value.checkpoints
    again = train(config, resume=checkpoint)
    assert checkpoint.epoch == 7
    assert all(
        np.array_equal(array, again.params.tensors[name])
        for name, array in whole.params.tensors.items()
    )
    assert not np.array_equal(
        whole.params.W_E, train(dataclasses.replace(config, seed=1), threads=1).params.W_E
    )


def test_threads_do_not_change_a_run() -> None:
    """At the preset's size several threads would add gradients in another order."""
    config = load_config("adder", flags={"epochs": 12, "warmup": 2})
    alone, *others = (
        train(config, threads=threads, device="cpu").params.tensors for threads in (1, 2, 2)
    )
    assert all(
        np.array_equal(array, other[name]) for other in others for name, array in alone.items()
    )


def test_a_cosine_is_of_one_length() -> None:
    end = train(ADDER, threads=1, device="cpu").end
    with pytest.raises(BadConfig, match=r"falls to 0 over 12 epochs .* and 13 are asked for"):
        train(dataclasses.replace(ADDER, epochs=13), resume=end)
    rates = [ADDER.learning_rate(epoch) for epoch in (0, 6, 12)]
    assert rates == pytest.approx([1e-2 / 500, 1e-2 * 7 / 500 / 2, 0.0])


@pytest.mark.slow
def test_a_small_adder_learns_to_add_and_is_saved(tmp_path: Path) -> None:
    settings = {
        "task": "add:2",
        "p": 3,
        "d_model": 24,  # wide enough that it learns from every seed, and so on every processor
        "d_mlp": 64,
        "d_head": 8,
        "epochs": 900,
        "lr": 1e-2,
        "warmup": 50,
    }
    output = tmp_path / "adder.safetensors"
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    done = quadlens("train", "--preset", "adder", "--threads", "1", *words, "-o", str(output))
    assert done.code == 0, done.err
    assert "10010 of 10010 words tried right" in done.out
    assert "training add:2 in base 3, 64 neurons, seed 0 on 256 new words a step" in done.err
    model = load(output)
    task = expand(config_of(model))
    every = np.stack(
        np.meshgrid(*(np.arange(n) for n in task.alphabets), indexing="ij"), -1
    ).reshape(-1, task.letters)
    for step, (query, _, _) in enumerate(task.steps):
        answers = forward(model, task.tokens(every), query).argmax(axis=1)
        assert task.right(every, step)[np.arange(len(every)), answers].all()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"batch": 0}, "batch = 0; expected at least 1"),
        ({"task": "add"}, r"task 'add' of a network on sequences; expected add:N or max:N"),
        (
            {"seeding": "gbmi"},
            "have seeding = quadlens, loss = cross-entropy, activation = relu alone",
        ),
        ({"activation": "tanh"}, "activation = relu alone"),
        ({"architecture": "transformer"}, "d_value: for networks on sequences"),
    ],
)
def test_settings_that_cannot_be_are_refused(flags: dict[str, object], message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        load_config("adder", flags=flags)


def test_a_sample_is_no_proof_and_says_so() -> None:
    outcome = Outcome.of(train(ADDER, threads=1, device="cpu"))
    assert outcome.pairs == 10_010
    assert outcome.correct < 10_010
    assert outcome.min_margin < 0


def test_a_sweep_is_of_networks_on_pairs(tmp_path: Path) -> None:
    words = ("sweep", "--preset", "adder", "--seeds", "0:1", "-o", tmp_path / "sweep")
    refused(
        quadlens(*words),
        "a sweep analyses networks on pairs; train networks on sequences by quadlens train --seeds",
    )
