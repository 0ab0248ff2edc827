"""The command that a report prints for its certificate runs in the report's directory."""

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadlens
from cli_runner import quadlens as command
from quadlens.base.errors import BadFile
from quadlens.network.config import Config
from quadlens.network.weights import Weights


def small_mlp() -> Weights:
    config = Config.mlp(5, 12, "relu", bias=True)
    rng = np.random.default_rng(0)
    return Weights(
        config, **{name: rng.normal(size=shape) for name, shape in config.shapes.items()}
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda directory: quadlens.build(5, (1,), 12),
        lambda directory: quadlens.save(
            quadlens.build(5, (1,), 12), directory / "with a blank.safetensors"
        ),
    ],
    ids=["in memory", "from a file"],
)
def test_the_command_for_the_certificate_runs(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = quadlens.report(make(tmp_path), tmp_path / "report")
    words = re.search(r"<code>quadlens (check [^<]*)</code>", made.page.read_text())
    assert words is not None
    monkeypatch.chdir(made.directory)
    run = command(*html.unescape(words[1]).split(), "--json")
    assert run.document["verdict"] == "VERIFIED"
    assert "data/model.safetensors" in made.files
    assert quadlens.study("data/model.safetensors").sha256 == made.results.sha256


@pytest.mark.slow
def test_a_model_file_that_changes_meanwhile_is_noticed(tmp_path: Path) -> None:
    path = quadlens.save(quadlens.build(5, (1,), 12), tmp_path / "m.safetensors")
    study = quadlens.study(path)
    quadlens.save(small_mlp(), path)
    with pytest.raises(BadFile, match="has changed since it was read"):
        quadlens.report(study, tmp_path / "report")
    assert not (tmp_path / "report").exists()
