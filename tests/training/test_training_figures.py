"""The two figures of a training history, and that they are the same bytes."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from quadlens.network.study import study_of
from quadlens.show.figures import frequencies_over_training, learning_curve
from quadlens.show.figures.style import FIGURE_FORMATS, FigureFormat, figure_bytes
from quadlens.training.config import TrainConfig
from quadlens.training.history import History, read_history
from quadlens.training.outputs import RunFiles, write_run
from quadlens.training.train import TrainingResult, train

pytestmark = pytest.mark.slow

TINY = TrainConfig(
    p=5, d_model=8, d_mlp=12, n_heads=1, d_head=4, epochs=50, history_every=5, spectrum_every=10
)


@pytest.fixture(scope="module")
def result() -> TrainingResult:
    return train(TINY, threads=1)


def test_learning_curve_passes_through_the_data(result: TrainingResult) -> None:
    loss, accuracy = learning_curve(result).axes
    assert [line.get_label() for line in loss.lines] == ["train", "validation"]
    np.testing.assert_array_equal(loss.lines[0].get_ydata(), result.history.curves[:, 1])
    np.testing.assert_array_equal(accuracy.lines[1].get_ydata(), 100 * result.history.curves[:, 4])


def test_learning_curve_without_validation_pairs_has_one_line(result: TrainingResult) -> None:
    curves = result.history.curves.copy()
    curves[:, 3:] = np.nan
    history = History(
        curves,
        result.history.spectrum_epochs,
        result.history.input_power,
        result.history.output_power,
    )
    assert len(learning_curve(study_of(result).given(history=history)).axes[0].lines) == 1


def test_every_frequency_is_drawn_on_both_sides(result: TrainingResult) -> None:
    for axis in frequencies_over_training(result).axes:
        assert len(axis.lines) == 2
        total = sum(np.asarray(line.get_ydata()) for line in axis.lines)
        np.testing.assert_allclose(total, 100)


@pytest.mark.parametrize("kind", FIGURE_FORMATS)
def test_the_same_figure_is_the_same_bytes(result: TrainingResult, kind: FigureFormat) -> None:
    first, second = (figure_bytes(learning_curve(result), kind) for _ in range(2))
    assert first == second


def test_the_command_writes_them_from_the_files_of_a_run(
    result: TrainingResult, tmp_path: Path
) -> None:
    files = RunFiles(tmp_path / "run.safetensors")
    write_run(files, result, 1.0)
    read = read_history(files.history, files.spectrum)
    assert read.curve_frame().equals(result.history.curve_frame())
    assert read.spectrum_frame().equals(result.history.spectrum_frame())

    def run(*flags: str) -> subprocess.CompletedProcess[str]:
        words = [
            sys.executable,
            "-m",
            "quadlens",
            "report",
            str(files.model),
            "-o",
            str(tmp_path / "out"),
            *flags,
        ]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    done = run("--format", "svg", "--json", "--only", "learning-curve,frequencies-over-training")
    assert [Path(f).name for f in json.loads(done.stdout)["files"]] == [
        "learning-curve.svg",
        "frequencies-over-training.svg",
    ]
    for flags, message in (
        (("--only", "figures", "--format", "gif"), "expected some of"),
        (("--only", "x"), "no figure is named 'x'"),
    ):
        refused = run(*flags)
        assert refused.returncode == 2
        assert message in refused.stderr
    files.history.write_bytes(b"no")
    assert "are not the history of a run" in run("--only", "figures").stderr
    files.history.unlink()
    assert (
        "no figure of this model is named learning-curve" in run("--only", "learning-curve").stderr
    )
