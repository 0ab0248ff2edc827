"""Figures from Python: public functions, on the caller's own axes, that leave the caller's
matplotlib as it was.
"""

import contextlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from quadlens.base.errors import BadConfig
from quadlens.network import Recipe, Weights, build_mlp
from quadlens.network.study import Study, study_of
from quadlens.network.task import task_by_name
from quadlens.show import figures
from quadlens.show.figures.picture import Family
from quadlens.show.figures.registry import FIGURES
from show.test_report_kinds import made

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def toy() -> Study:
    return study_of(build_mlp(Recipe(p=13, keys=(1, 2), neurons=40, jitter=0.2)), "toy")


@pytest.fixture(scope="module")
def pizza() -> Study:
    return study_of("pizza").without_proofs()


def studied(name: str, toy: Study, pizza: Study) -> Study:
    """A study that has what the figure needs: the bundled model has a history and a skip
    connection, the toy proofs.
    """
    if name in ("gates", "irreps"):
        return study_of(made(task_by_name("S3"), "softmax", "relu"))
    if name == "sequence_axis":
        return study_of("adder")
    return (
        pizza
        if name in ("learning_curve", "frequencies_over_training", "primsecfreq", "residual")
        else toy
    )


@pytest.fixture
def own_matplotlib() -> Iterator[None]:
    """The caller has a backend and rcParams of their own."""
    before = mpl.get_backend()
    mpl.use("svg")
    with mpl.rc_context({"font.size": 17, "axes.grid": False, "lines.linewidth": 3.0}):
        yield
    mpl.use(before)


def test_dir_lists_the_figures_only() -> None:
    functions = [family.draw for family in FIGURES]
    assert dir(figures) == sorted(function.__name__ for function in functions)
    assert len(set(functions)) == len(FIGURES)
    for function in functions:
        assert getattr(figures, function.__name__) is function
        parameters = list(inspect.signature(function).parameters)
        assert (parameters[0], parameters[-1]) == ("study", "ax")
        assert "ax: " in str(function.__doc__)
    with pytest.raises(AttributeError, match="no attribute 'nosuch'; figures: algorithm"):
        _ = figures.nosuch


@pytest.mark.parametrize("name", figures.__all__)
def test_a_figure_leaves_the_callers_matplotlib_alone(
    name: str, toy: Study, pizza: Study, own_matplotlib: None
) -> None:
    rc, backend = dict(mpl.rcParams), mpl.get_backend()
    first = getattr(figures, name)(studied(name, toy, pizza))
    assert isinstance(first, Figure)
    assert (dict(mpl.rcParams), mpl.get_backend()) == (rc, backend)
    panels = [
        axis for axis in first.axes if axis.get_visible() and axis.get_label() != "<colorbar>"
    ]
    mine = Figure()
    ax: Any = (
        mine.subplots()
        if len(panels) == 1
        else [
            mine.add_subplot(2, 4, n, projection=panel.name)
            for n, panel in enumerate(panels, start=1)
        ]
    )
    again = getattr(figures, name)(studied(name, toy, pizza), ax=ax)
    assert again is mine
    for given, panel in zip(ax if len(panels) > 1 else [ax], panels, strict=True):
        assert (len(given.lines), len(given.patches)) == (len(panel.lines), len(panel.patches))
        assert given.get_xlabel() == panel.get_xlabel()
    assert (dict(mpl.rcParams), mpl.get_backend()) == (rc, backend)


@pytest.mark.parametrize("name", figures.__all__)
def test_a_figure_is_drawn_into_a_subfigure(name: str, toy: Study, pizza: Study) -> None:
    whole = Figure(figsize=(20, 9), layout="constrained")
    left, right = whole.subfigures(1, 2, squeeze=False)[0]
    assert getattr(figures, name)(studied(name, toy, pizza), ax=right) is whole
    assert right.axes
    assert not left.axes
    whole.draw_without_rendering()


def test_no_backend_is_chosen_for_a_caller_who_has_none() -> None:
    code = (
        "import matplotlib, quadlens.figures; before = "
        "matplotlib.rcParams._get_backend_or_none(); quadlens.show.figures.quadrature('pizza', "
        "k=5).savefig('/dev/null', format='png'); print(before, "
        "matplotlib.rcParams._get_backend_or_none(), 'matplotlib.pyplot' in "
        "__import__('sys').modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "None", "False"]


def test_the_same_from_a_model_a_study_and_a_name(pizza: Study) -> None:
    titles = {
        figures.quadrature(subject, k=9, half=True).axes[0].get_title(loc="left")
        for subject in (pizza, pizza.model, "pizza")
    }
    assert len(titles) == 1


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "quadrature",
            {"ax": "here"},
            "ax: got str; expected one matplotlib Axes, a Figure or SubFigure",
        ),
        (
            "overlap",
            {"ax": Figure().subplots()},
            "ax: got 1 axes; expected a sequence of 2 matplotlib Axes",
        ),
        ("integration_3d", {"ax": Figure().subplots(2, 2)}, "axes 0 without projection='3d'"),
        (
            "quadrature",
            {"k": 5},
            "frequency 5 of this model is no cluster that is a quadrature rule; there are: 1, 2",
        ),
        ("angles", {"k": 5}, "no cluster of this model has frequency 5; there are: 1 and 2"),
        ("neuron", {"i": 40}, "neuron 40; this model has neurons 0 to 39"),
        ("harmonic_phases", {"rank": 7}, "rank 7; expected 2, 3 or 4"),
        ("algorithm", {"pair": (1, 13)}, "both numbers must be between 0 and 12"),
        ("learning_curve", {}, "the files of the training run are not beside this model"),
        (
            "population_counts",
            {"label": "x"},
            "label 'x'; expected one of nfreqcountmul, freqcountmul",
        ),
    ],
)
def test_what_cannot_be_drawn_says_so(
    name: str, options: dict[str, Any], message: str, toy: Study
) -> None:
    with pytest.raises(BadConfig, match=message.replace("(", r"\(")):
        getattr(figures, name)(toy, **options)


@pytest.mark.parametrize("model", ["clock", "adder"])
@pytest.mark.parametrize("family", FIGURES, ids=lambda family: str(family.name))
def test_a_network_without_what_a_figure_shows_says_so(model: str, family: Family) -> None:
    study = study_of(model).without_proofs()
    if not family.of(study):
        with contextlib.suppress(
            BadConfig
        ):  # some can be drawn all the same, with nothing to say of them
            assert family.draw(study).axes


def test_figures_of_proofs_need_proofs(toy: Study) -> None:
    assert len(figures.frontier(toy.without_proofs()).axes) == 1
    model = build_mlp(Recipe(p=5, keys=(1,), neurons=4))
    zeros = Weights(
        model.config, **{name: np.zeros_like(array) for name, array in model.tensors.items()}
    )
    with pytest.raises(
        BadConfig, match="this model has no cluster that is a quadrature rule; there is none"
    ):
        figures.quadrature(zeros)


def test_a_notebook_shows_the_figure_itself() -> None:
    figure: Any = figures.angles("pizza")
    engine = figure.get_layout_engine()
    assert "<svg" in figure._repr_mimebundle_()["image/svg+xml"]
    assert figure.get_layout_engine() is engine


def test_a_notebook_shows_a_figure_of_very_many_marks_as_pixels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("quadlens.show.figures.shown.LARGEST_SHOWN", 1000)
    figure: Any = figures.angles("pizza")
    assert figure._repr_mimebundle_()["image/png"].startswith(b"\x89PNG")
