"""Messages of the command line: flags as flags, what was asked by its name, and what to do with an
unknown file.
"""

from pathlib import Path

import numpy as np
import pytest

import quadlens as package
from cli_runner import quadlens, refused
from quadlens.base.errors import BadConfig
from quadlens.cli.main import in_flags
from torch_zips import torch_zip


def test_flags_stand_in_the_sentence() -> None:
    error = BadConfig(
        "give the table with answers=FILE (CSV), or answers=model", settings=("answers",)
    )
    assert (
        in_flags(error, "import")
        == "error: give the table with --answers FILE (CSV), or --answers model\n"
    )
    error = BadConfig("p is 5 by the setting p", settings=("attention_rate",))
    assert in_flags(error, "import") == "error: p is 5 by the setting p\nflags: --attention-rate\n"


@pytest.mark.parametrize("name", ["onnx", "transformer-lens"])
def test_an_export_names_the_flag(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    run = quadlens("export", "adder", "--format", name, "-o", tmp_path / "m.safetensors")
    refused(run, "--format quadlens")
    assert "format=" not in run.err


def test_an_unknown_file_is_told_by_its_tensors_and_its_remedies(tmp_path: Path) -> None:
    state = {f"layer{i}.weight": np.zeros((3, i + 1), dtype=np.float32) for i in range(8)}
    (tmp_path / "mine.pt").write_bytes(torch_zip(state))
    run = quadlens("import", tmp_path / "mine.pt", "-o", tmp_path / "m.safetensors")
    refused(run, "mine.pt, which holds layer0.weight [3, 1], layer1.weight [3, 2]")
    assert "and 2 more, is in no known format" in run.err
    assert "--map embed=…,hidden=…,out=…" in run.err
    assert run.err.endswith("say so with --format NAME\n")


def test_cells_are_for_networks_on_sequences() -> None:
    refused(
        quadlens("certify", "pizza", "--strategy", "cells"),
        "strategy 'cells' is for networks on sequences",
    )
    with pytest.raises(BadConfig, match="is for networks on sequences; this one answers pairs"):
        package.certify("pizza", "cells")


@pytest.mark.parametrize("command", [("bounds",), ("lens",), ("compare", "-q", "pizza")])
def test_what_was_asked_is_named(command: tuple[str, ...]) -> None:
    refused(
        quadlens(*command, "adder"), f"`quadlens {command[0]}` is for networks that answer pairs"
    )


def test_a_format_for_two_tasks_says_so(tmp_path: Path) -> None:
    from quadlens.readers.transformer_lens import _task

    assert _task("a file", "max:3", 6).tokens == 6
    with pytest.raises(
        BadConfig, match="in this format for the tasks cumsum-sign:N and max:N, not for add:3"
    ):
        _task("a file", "add:3", 12)
    with pytest.raises(BadConfig, match="has an odd number of tokens"):
        _task("a file", "cumsum-sign:3", 12)
