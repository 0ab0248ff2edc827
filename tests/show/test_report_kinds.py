"""A report of a small model of every kind: task, attention, activation; only what applies, and in
its own words.
"""

import html
import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from network.test_deep import config_of, random_deep
from quadlens.analysis.explanation.of_study import outline_of
from quadlens.analysis.spectrum.of_study import no_waves
from quadlens.network import Config, Weights
from quadlens.network.activation import ACTIVATIONS
from quadlens.network.config import Softmax
from quadlens.network.study import Study, study_of
from quadlens.network.task import Task, task_by_name, task_from_table
from quadlens.show.compare import compare
from quadlens.show.figures import gates, irreps
from quadlens.show.figures.beyond_waves import all_gates
from quadlens.show.figures.registry import all_pictures
from quadlens.show.pages import report
from quadlens.show.pages.data_files import data_files
from quadlens.show.pages.page import page_html
from quadlens.show.pages.render import Rendered
from quadlens.show.pages.tables import page_tables

pytestmark = pytest.mark.slow

TASKS = {
    "add": task_by_name("add", 7),
    "add, even": task_by_name("add", 6),
    "add, two elements": task_by_name("add", 2),
    "add, composite": task_by_name("add", 9),
    "subtract": task_by_name("subtract", 7),
    "linear": task_by_name("linear:2,3", 7),
    "multiply": task_by_name("multiply", 6),
    "divide": task_by_name("divide", 6),
    "multiply0": task_by_name("multiply0", 5),
    "a group": task_by_name("S3"),
    "a commutative group": task_by_name("C2xC2"),
    "no group": task_from_table(np.array([[0, 1, 2], [1, 1, 0], [2, 0, 0]])),
}
Attention = Literal["none", "constant", "softmax", "mixture"]
ATTENTIONS: tuple[Attention, ...] = ("none", "constant", "softmax", "mixture")
# The smallest picture that a page can hold.
DOT = Rendered(
    "any", (("svg", b"<svg></svg>"), ("png", bytes(16) + (160).to_bytes(4, "big") * 2)), "data:,"
)
# Of these nothing is said where a model has none.
OPTIONAL = {"attention", "irreps", "others", "index", "absent"}


def made(task: Task, attention: Attention, activation: Any) -> Weights:
    """Random weights."""
    n, rng = task.n, np.random.default_rng(5)
    if attention == "none":
        mlp = Config.mlp(n, 14, activation, task)
        return Weights(
            mlp, **{name: rng.standard_normal(shape) for name, shape in mlp.shapes.items()}
        )
    config = Config(
        p=n,
        d_model=8,
        d_mlp=12,
        n_heads=2,
        d_head=4,
        d_vocab=n + 1,
        d_vocab_out=n,
        n_ctx=3,
        attention=(0.5, 0.5)
        if attention == "constant"
        else (0.0, 0.0, 0.0)
        if attention == "softmax"
        else (0.3, 0.2),
        read_position=2 if attention == "softmax" else 1,
        activation=activation,
        softmax=None
        if attention == "constant"
        else Softmax(1.0 if attention == "softmax" else 0.5, 2.0),
        task=task,
    )
    return Weights(
        config=config, **{name: rng.standard_normal(shape) for name, shape in config.shapes.items()}
    )


def page_of(study: Study) -> str:
    return page_html(study, {one.name: DOT for one in all_pictures(study)})


def words(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def check_page(study: Study) -> None:
    """What is there is not empty, what is not there is named with a reason, and the task has its
    own words.
    """
    page, task = page_of(study), study.config.task
    sections = dict(
        re.findall(r'<section id="(\w+)">\s*<h2>.*?</h2>(.*?)</section>', page, re.DOTALL)
    )
    assert all("<figure" in text or len(words(text)) > 60 for text in sections.values())
    assert all(f'href="#{name}"' in page for name in sections)
    expected = "adds modulo" if task.name == "add" else f"computes {task.words}"
    assert expected in words(re.findall(r"<h1>.*?</h1>", page)[0])
    assert f"{study.config.d_mlp} " in words(sections["task"])
    assert study.config.task.question(*study.evaluation.min_margin_pair) in words(sections["task"])
    left_out = words(sections.get("absent", ""))
    for name, title in (
        ("algorithm", "The algorithm in four steps"),
        ("error", "How large the error is"),
    ):
        assert (name in sections) != (f"{title}" in left_out)
    waves = study.once(no_waves) is None
    assert ("algorithm" in sections) == ("population" in sections) == waves
    assert ("attention" in sections) == bool(study.anatomy.layer.gated)
    assert ("irreps" in sections) == (task.is_group and task.cyclic is None)
    if waves and task.name != "add":
        assert "renames elements so that the task is addition" in sections["task"]
    files = data_files(study)
    for picture in all_pictures(study):
        assert page.count(f'id="fig-{picture.name}"') == 1
        assert picture.data in files
    for table in page_tables(study):
        assert page.count(f'id="table-{table.name}"') == 1


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("name", TASKS)
def test_pages_of_every_activation(name: str, attention: Attention) -> None:
    for activation in ACTIVATIONS:
        check_page(study_of(made(TASKS[name], attention, activation), "any").without_proofs())


@pytest.mark.parametrize("name", TASKS)
def test_every_figure_of_every_task_can_be_drawn(name: str) -> None:
    place = list(TASKS).index(name)
    study = study_of(
        made(TASKS[name], ATTENTIONS[place % 3], ACTIVATIONS[place % len(ACTIVATIONS)]), "any"
    )
    for picture in all_pictures(study):
        assert picture.draw().axes
    check_page(study)


def test_two_models_of_other_kinds_are_compared() -> None:
    pair = compare(made(TASKS["add"], "constant", "relu"), made(TASKS["add"], "softmax", "relu"))
    assert [pair.tables[0].title, pair.tables[3].title] == ["what they are", "what is proved"]
    assert pair.tables[0].rows[2] == ["attention", "constant", "softmax"]


def test_a_whole_report_of_a_group_with_softmax_attention(tmp_path: Path) -> None:
    model = made(TASKS["a group"], "softmax", "gelu")
    written = report(model, tmp_path / "report")
    assert {"data/gates.csv", "data/irreps.csv", "figures/gates.svg", "figures/irreps.png"} <= set(
        written.files
    )
    outline = study_of(model).once(outline_of)
    assert outline is not None
    assert outline.summary() in html.unescape(written.page.read_text())
    assert {"data/explanation.json", "data/neurons.csv"} & set(written.files) == {
        "data/explanation.json"
    }
    rows = (tmp_path / "report/data/gates.csv").read_text().splitlines()
    assert rows[0] == "a,b,head,on_a,on_b,on_="
    assert len(rows) == 1 + 36 * 2


def test_several_layers_are_drawn_by_other_processes(tmp_path: Path) -> None:
    model = random_deep(config_of(2, 2, Softmax(0.5, 2.0)))
    written = report(study_of(model, "deep"), tmp_path / "report", proofs=False, workers=2)
    assert {f"figures/strength.{kind}" for kind in ("svg", "png", "pdf")} <= set(written.files)


def test_gates_drawn_are_the_models_own() -> None:
    study = study_of(made(TASKS["subtract"], "softmax", "relu"))
    layer = study.anatomy.layer
    assert layer.gated
    values = all_gates(layer)
    np.testing.assert_allclose(values.sum(axis=0), 1.0)
    axes = gates(study).axes
    drawn = [axis.images[0].get_array() for axis in axes if axis.images]
    assert len(drawn) >= 6
    np.testing.assert_array_equal(np.asarray(drawn[1]), values[1, 0])
    np.testing.assert_array_equal(np.asarray(drawn[3]), values[0, 1])
    a, b = 3, 5
    np.testing.assert_allclose(
        values[:, :, a, b], layer.gates(np.array([a]), np.array([b]))[:, :, 0]
    )


def test_shares_of_irreps_add_up() -> None:
    study = study_of(made(TASKS["a group"], "none", "relu"))
    bars: Any = irreps(study).axes[0].patches
    heights = [bar.get_height() for bar in bars]
    assert np.isclose(sum(heights), 300)
