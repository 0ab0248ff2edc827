"""Files of our own on the way in and out.

A setting that contradicts one is refused, and a task is not lost.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadlens
from quadlens.base.errors import QuadlensError
from quadlens.network import Recipe, build_mlp, build_transformer
from quadlens.network.native import save
from quadlens.network.task import task_by_name
from quadlens.readers.protocol import Hints, SoftmaxAttention
from quadlens.readers.registry import export_file, import_file

CONTRADICTIONS: dict[str, tuple[str, Hints]] = {
    "p": ("pizza", Hints(p=17)),
    "activation": ("pizza", Hints(activation="gelu")),
    "attention": ("pizza", Hints(attention=(0.5, 0.5, 0.5))),
    "softmax": ("pizza", Hints(attention=SoftmaxAttention())),
    "constant": ("clock", Hints(attention=(0.5, 0.5))),
    "position": ("pizza", Hints(read_position=0)),
    "task": ("pizza", Hints(task="subtract")),
    "of sequences": ("adder", Hints(task="subtract")),
    "its activation": ("adder", Hints(activation="gelu")),
    "its p": ("adder", Hints(p=17)),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_setting_that_contradicts_our_own_file_is_refused(name: str, tmp_path: Path) -> None:
    bundled, hints = CONTRADICTIONS[name]
    path = quadlens.save(bundled, tmp_path / "model.safetensors")
    with pytest.raises(QuadlensError, match=r"by the setting|was given, which"):
        import_file(path, hints=hints)


@pytest.mark.parametrize("bundled", ["pizza", "clock", "times", "adder"])
def test_a_setting_that_says_the_same_is_taken(bundled: str, tmp_path: Path) -> None:
    path = quadlens.save(bundled, tmp_path / "model.safetensors")
    config: Any = quadlens.load(bundled).config
    own: dict[str, Any] = {"task": config.task.name, "activation": config.activation}
    if not config.on_sequences:
        own |= {
            "p": config.p,
            "attention": SoftmaxAttention() if config.softmax else config.attention,
        }
    imported = import_file(path, hints=Hints(**own))
    assert imported.model.config == config
    assert not any("nothing says" in note for note in imported.notes)


@pytest.mark.parametrize("name", ["add", "subtract", "linear:2,3", "multiply0", "multiply"])
def test_a_task_survives_the_way_through_transformer_lens(name: str, tmp_path: Path) -> None:
    if name == "multiply":
        model = quadlens.load("times")
    else:
        model = build_transformer(Recipe(p=11, keys=(1, 4), neurons=24)).asked(
            task_by_name(name, 11)
        )
    export_file(model, "transformer-lens", tmp_path / "model.safetensors")
    imported = import_file(tmp_path / "model.safetensors")
    assert imported.model.config.task == model.config.task
    assert json.loads((tmp_path / "config_model.json").read_text())["task"] == name


def test_a_table_is_not_in_a_config_and_that_is_said(tmp_path: Path) -> None:
    model = build_transformer(Recipe(p=11, keys=(1, 4), neurons=24))
    table = np.add.outer(np.arange(11), np.arange(11)) // 2 % 11
    _, notes = export_file(
        model.asked(quadlens.task(table)), "transformer-lens", tmp_path / "model.safetensors"
    )
    assert any("cannot say the task" in note for note in notes)


def test_a_mixture_is_not_softmax_alone(tmp_path: Path) -> None:
    mixed = quadlens.edit.mix_attention("clock", 0.5)
    assert mixed.config.attention_kind == "mixture"
    path = quadlens.save(mixed, tmp_path / "model.safetensors")
    with pytest.raises(
        QuadlensError, match="attention is softmax by the setting but a mixture by the file"
    ):
        import_file(path, hints=Hints(attention=SoftmaxAttention()))


def test_an_mlp_of_our_own_with_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(build_mlp(Recipe(p=11, keys=(1, 4), neurons=24)), path)
    assert import_file(path, hints=Hints(p=11, activation="relu")).correct is not None
    with pytest.raises(
        QuadlensError, match=r"attention is 0\.5, 0\.5 by the setting but none by the file"
    ):
        import_file(path, hints=Hints(attention=(0.5, 0.5)))
