"""Commands and Python refuse, for networks on sequences, what is for pairs alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadlens
from cli_runner import quadlens as command_line
from quadlens.analysis import edit
from quadlens.base.errors import QuadlensError

COMMANDS = (
    "lens adder",
    "bounds adder",
    "certify adder --all -o OUT",
    "ablate adder --share 0.1 -o OUT",
    "build --from adder -o OUT",
    "explore adder -o OUT",
    "compare pizza adder",
    "compare adder adder",
    "export adder --format onnx -o OUT",
    "export adder --format transformer-lens -o OUT",
)
CALLS: dict[str, Callable[[Any], object]] = {
    "bounds": quadlens.bounds,
    "lens": quadlens.lens,
    "parameterise": quadlens.parameterise,
    "ablate": lambda model: edit.ablate(model, share=0.1),
    "swap_activation": lambda model: edit.swap_activation(model, "abs"),
    "mix_attention": lambda model: edit.mix_attention(model, 0.5),
    "collapse": lambda model: quadlens.load(model).collapse(),
    "forward": lambda model: quadlens.load(model).forward(np.zeros((1, 2), int)),
    "asked": lambda model: quadlens.load(model).asked(quadlens.task("subtract", 13)),
    "evaluation": lambda model: quadlens.study(model).evaluation,
    "margins": lambda model: quadlens.study(model).margins,
    "explanation": lambda model: quadlens.study(model).explanation,
    "keys": lambda model: quadlens.study(model).keys,
    "bounds of a study": lambda model: quadlens.study(model).bounds,
    "lens of a study": lambda model: quadlens.study(model).lens,
    "collapsed": lambda model: quadlens.study(model).collapsed,
    "skip shares": lambda model: quadlens.study(model).skip_shares,
    "p": lambda model: quadlens.study(model).p,
}


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_refuses_in_a_sentence(words: str, tmp_path: Path) -> None:
    run = command_line(
        *[str(tmp_path / "out") if word == "OUT" else word for word in words.split()]
    )
    assert (run.code, run.out) == (2, "")
    assert "internal error" not in run.err
    assert "sequences" in run.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", CALLS)
def test_a_function_refuses_in_a_sentence(name: str) -> None:
    with pytest.raises(QuadlensError, match="sequences"):
        CALLS[name]("adder")


def test_what_a_study_of_sequences_has() -> None:
    study = quadlens.study("adder")
    assert study.config.task.name == "add:10"
    assert study.certificates == ()


@pytest.mark.parametrize("task", ["max:4", 7])
def test_a_task_that_is_none(task: Any) -> None:
    with pytest.raises(QuadlensError, match="expected a Task"):
        quadlens.load("pizza").asked(task)
