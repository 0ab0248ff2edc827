"""No command ends in an internal error, whatever the weights: models of every family, from denormal
to overflow.
"""

import os
import traceback
from pathlib import Path

import numpy as np
import pytest

from any_model import any_model, extreme_weights
from cli_runner import Run, quadlens
from quadlens.network.native import save

pytestmark = pytest.mark.slow

LONG = os.environ.get("QUADLENS_HYPOTHESIS") == "long"
MODELS = 2000 if LONG else 150
# Ten tests, so that several processes share them.
SHARES = 10
# Figures and reports take longer than all other commands together: one figure and one report in so
# many models.
FIGURE_EVERY, REPORT_EVERY = 5, 200
FIGURES = (
    "quadrature",
    "angles",
    "error",
    "algorithm",
    "neuron",
    "3D",
    "harmonic-phases",
    "residual",
)


def commands(number: int, model: Path, folder: Path) -> list[tuple[str | Path, ...]]:
    """What is run on one model."""
    out = folder / f"{number}"
    words: list[tuple[str | Path, ...]] = [
        ("evaluate", model),
        ("evaluate", model, "--json"),
        ("explain", model),
        ("explain", model, "--json"),
        ("bounds", model),
        ("bounds", model, "--json"),
        ("certify", model, "-o", out.with_suffix(".json"), "--quiet"),
        ("explore", model, "-o", out.with_suffix(".html")),
    ]
    if number % FIGURE_EVERY == 0:
        figure = FIGURES[number // FIGURE_EVERY % len(FIGURES)]
        words.append(
            (
                "report",
                model,
                "--only",
                figure,
                "--format",
                "svg",
                "-o",
                folder / "figures",
                "--quiet",
            )
        )
    if number % REPORT_EVERY == 0:
        words.append(("report", model, "-o", folder / "report", "--workers", "1", "--quiet"))
    return words


def problem(run: Run) -> str | None:
    """What is wrong with an end: an exit code without a meaning, or words that are not for the
    user.
    """
    if run.code not in (0, 1, 2):
        return f"exit code {run.code}"
    wrong = any(words in run.err for words in ("internal error", "Traceback", "RuntimeWarning"))
    return run.err if wrong else None


def run_all(numbers: range, folder: Path) -> list[str]:
    """Everything that went wrong on models of these numbers."""
    found = []
    for number in numbers:
        rng = np.random.default_rng([20, number])
        model, path = any_model(rng, extreme_weights(rng)), folder / f"{number}.safetensors"
        save(model, path)
        for words in commands(number, path, folder):
            try:
                wrong = problem(quadlens(*words))
            except BaseException:
                wrong = traceback.format_exc()
            if wrong:
                found.append(f"model {number}, {words[0]}: {wrong}")
        path.unlink()
    return found


@pytest.mark.timeout(0 if LONG else 300)
@pytest.mark.parametrize("share", range(SHARES))
def test_no_command_ends_in_an_internal_error(share: int, tmp_path: Path) -> None:
    assert run_all(range(share, MODELS, SHARES), tmp_path) == []
