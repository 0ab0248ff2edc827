"""Tasks at the edge: digits of other scripts, positions that no step reads, windows without end."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import quadlens
from cli_runner import quadlens as command
from quadlens.base.errors import BadConfig, QuadlensError
from quadlens.network import Weights
from quadlens.network.sequence import Automaton, Fed, SequenceConfig, Step, TaskSpec
from quadlens.network.sequence_forward import sequence_config
from quadlens.network.sequence_task import expand
from quadlens.proofs.sequences.certificate import certify_sequence
from sequence_oracle import check
from small_sequences import addition_task, random_config, random_network

TWELVE = addition_task(12, 2)


@pytest.mark.parametrize(
    "spec",
    [
        replace(addition_task(12, 2), name="add:1\u0662"),
        replace(
            TWELVE,
            template=tuple("x1\u0660" if name == "x10" else name for name in TWELVE.template),
        ),
        TaskSpec("max:\u0662", tokens=2),
        TaskSpec("cumsum-sign:1\u0662", largest=1),
    ],
)
def test_digits_are_those_that_the_checker_reads(spec: TaskSpec) -> None:
    with pytest.raises(BadConfig, match="expected"):
        expand(random_config(0, spec, 4, 50))


@pytest.mark.parametrize(
    "name", ["linear:\u0662,3", "linear:2,\u0663", "C\u0667", "S\u0664", "C2xC\u0663"]
)
def test_digits_of_tasks_on_pairs_too(name: str) -> None:
    with pytest.raises(QuadlensError):
        quadlens.task(name, 7)


def test_positions_that_no_step_reads_need_no_place_in_the_network(tmp_path: Path) -> None:
    """The last digit of an answer is never read: a network may lack its position."""
    whole = random_network(random_config(3, addition_task(1, 3), 5, 6, mask="causal", rope=None), 3)
    config = replace(sequence_config(whole), n_ctx=5)
    tensors = {name: x[:5] if name == "W_pos" else x for name, x in whole.tensors.items()}
    tensors |= {"score_bias": whole.score_bias[:, :5, :5]} if "score_bias" in tensors else {}
    short = Weights(config, **tensors)
    assert quadlens.evaluate(short) == quadlens.evaluate(whole)
    check(certify_sequence(short))
    path = quadlens.save(short, tmp_path / "short.safetensors")
    assert command("evaluate", path).code == 0
    assert command("certify", path, "-o", tmp_path / "short.json").code == 1
    assert quadlens.check(tmp_path / "short.json", path).verdict == "VERIFIED"


def distant(letters: int, alphabet: int = 4) -> Weights:
    """A task whose window is the whole word.

    The step that asks for the first letter is read at the last one.
    """
    same = ((0,) * alphabet,)
    fed = tuple(Fed(i, (tuple(range(alphabet)),)) for i in range(letters))
    step = Step(letters - 1, 0, (tuple(i % 2 for i in range(alphabet)),))
    task = TaskSpec("distant", automaton=Automaton((same,) * letters, fed, (step,), ((0,), (1,))))
    config = SequenceConfig(alphabet, alphabet, letters, 2, 1, 2, 1, 0, task)
    draw = np.random.default_rng(0)
    return Weights(
        config,
        **{
            name: draw.standard_normal(config.shapes[name])
            for name in ("W_E", "W_Q", "W_K", "W_V", "W_O", "W_U")
        },
    )


@pytest.mark.parametrize("letters", [12, 40, 200])
def test_a_window_of_too_many_cells_is_refused_before_it_takes_memory(
    letters: int, tmp_path: Path
) -> None:
    path = quadlens.save(distant(letters), tmp_path / "distant.safetensors")
    run = command("certify", path)
    assert (run.code, "internal error" in run.err) == (2, False)
    assert "cells" in run.err
    assert f"0 … {letters - 1}" in run.err
    assert command("explain", path).code == 0


def test_a_window_of_few_cells_is_decided() -> None:
    check(certify_sequence(distant(4, 3)))
