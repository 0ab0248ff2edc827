"""What takes long says what it is at, on stderr; what is quick is silent in a log."""

import pytest

import quadlens
from quadlens.analysis.explanation import outline
from quadlens.cli.output import Output
from quadlens.training.config import PRESETS


def test_a_log_hears_of_steps_that_begin_late(capsys: pytest.CaptureFixture[str]) -> None:
    for after, said in ((0.0, "answers …\nfigures …\n"), (60.0, "")):
        with Output(json=False, quiet=False).step_line(after) as step:
            for one in ("answers", "figures 1/2", "figures 2/2"):
                step(one)
        assert capsys.readouterr().err == said


@pytest.mark.slow
def test_long_work_tells_its_steps() -> None:
    steps: list[str] = []
    a, b = (quadlens.build(p=5, neurons=12, seed=seed) for seed in (0, 1))
    quadlens.compare(a, b).prepare(steps.append)
    assert steps[::2] == [
        "settings of model (1)",
        "answers of model (1)",
        "hidden layer of model (1)",
        "proofs of model (1)",
    ]
    steps.clear()
    outline(quadlens.load("clock"), steps.append)
    assert steps == [
        "what neurons read",
        "attention",
        "answers",
        "irreps",
        "measures of the algorithm",
    ]


def test_the_docstring_of_train_names_every_preset_and_device() -> None:
    words = quadlens.train.__doc__ or ""
    assert ", ".join(PRESETS[:-1]) + f" or {PRESETS[-1]}" in words
    assert "auto, cpu, cuda or mps" in words
