"""Every figure on a clean model, a hard model and a 5-token toy: what is drawn, and that it can be
read.
"""

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch

from cli_runner import quadlens, refused
from quadlens.analysis.published import Histogram, PopulationSummary, read_published
from quadlens.analysis.quadrature import rectangles
from quadlens.analysis.quadrature.integrals import brute_force_error
from quadlens.analysis.quadrature.of_study import rule_clusters
from quadlens.base.errors import BadConfig
from quadlens.base.numbers import at_least, at_most, listed, percent
from quadlens.network import Recipe, build_mlp, save
from quadlens.network.study import Study, study_of
from quadlens.network.weights import Weights
from quadlens.show import figures
from quadlens.show.figures.error_sizes import errors
from quadlens.show.figures.neurons import frequency_counts
from quadlens.show.figures.phases import draw_multiple
from quadlens.show.figures.picture import Picture
from quadlens.show.figures.population_bars import share_beyond
from quadlens.show.figures.rectangles import area_of, band
from quadlens.show.figures.registry import (
    all_pictures,
    chosen_pictures,
    families_of,
    needs_proofs,
    pictures_by_family,
)
from quadlens.show.figures.style import FIGURE_FORMATS, FigureFormat, figure_bytes

pytestmark = pytest.mark.slow

MODELS = ("pizza", "mismatched", "toy")
# Labels of the paper that do not depend on the model's frequencies.
LABELS = {
    "infinite-width",
    "single-frequency",
    "overlap",
    "secondary-phi-twice-primary",
    "tertiary-phi-thrice-primary",
    "quaternary-phi-vs-primary",
    "3D",
    "freqcount",
    "nfreqcountmul",
    "freqcountmul",
    "residual",
    "freqstrengthmul",
    "uoutstrengthmul",
    "nibound",
    "primsecfreq",
    "primsecr2",
}


@pytest.fixture(scope="module")
def models() -> dict[str, Study]:
    toy = build_mlp(Recipe(p=5, keys=(1, 2), neurons=13, jitter=0.2))
    return {
        "pizza": study_of("pizza").without_proofs(),
        "mismatched": study_of("mismatched").without_proofs(),
        "toy": study_of(toy, "toy"),
    }


@pytest.fixture(scope="module")
def drawn(models: dict[str, Study]) -> dict[str, dict[str, Figure]]:
    return {
        name: {one.name: one.draw() for one in all_pictures(results)}
        for name, results in models.items()
    }


def axes_of(figure: Figure) -> list[Axes]:
    return [axis for axis in figure.axes if axis.get_visible()]


@pytest.mark.parametrize("name", MODELS)
def test_no_panel_is_empty_and_every_axis_is_finite(
    name: str, drawn: dict[str, dict[str, Figure]]
) -> None:
    for figure_name, figure in drawn[name].items():
        assert axes_of(figure), figure_name
        for axis in axes_of(figure):
            assert axis.has_data(), figure_name
            assert np.isfinite([*axis.get_xlim(), *axis.get_ylim()]).all(), figure_name


@pytest.mark.parametrize("name", ["pizza", "toy"])
def test_tick_labels_do_not_overlap(name: str, drawn: dict[str, dict[str, Figure]]) -> None:
    for figure_name, figure in drawn[name].items():
        if figure_name in ("3D", "error-waterfall"):
            # One is in perspective, the other's labels are slanted: boxes around them overlap,
            # letters do not.
            continue
        figure.draw_without_rendering()
        for axis in axes_of(figure):
            shown = [
                label
                for label in axis.get_xticklabels()
                if label.get_visible() and label.get_text()
            ]
            low, high = sorted(axis.get_xlim())
            inside = [
                label for label in shown if low - 1e-9 <= label.get_position()[0] <= high + 1e-9
            ]
            boxes = sorted((label.get_window_extent() for label in inside), key=lambda box: box.x0)
            for left, right in itertools.pairwise(boxes):
                assert left.x1 <= right.x0 + 0.5, (
                    figure_name,
                    [label.get_text() for label in inside],
                )


@pytest.mark.parametrize("name", MODELS)
def test_every_label_of_the_paper_is_there(name: str, models: dict[str, Study]) -> None:
    results = models[name]
    labels = [one.label for one in all_pictures(results) if one.label]
    assert len(labels) == len(set(labels))
    # Five tokens have two frequencies, no third and no fourth; the toy's neurons read one of them
    # alone, and nothing skips them.
    toy = {"tertiary-phi-thrice-primary", "quaternary-phi-vs-primary", "primsecfreq", "residual"}
    missing = toy if name == "toy" else set()
    assert LABELS - missing <= set(labels)
    for k in results.keys:
        mine = {
            f"angles:{k}",
            f"quadrature:{k}:-",
            f"quadrature:{k}:-half-",
            f"error:{k}:-",
            f"error:{k}:-half-",
        }
        assert mine <= set(labels)


@pytest.mark.parametrize("name", MODELS)
def test_findings_state_numbers_of_the_model(name: str, models: dict[str, Study]) -> None:
    for one in all_pictures(models[name]):
        assert one.finding.endswith((".", "right"))
        assert any(character.isdigit() for character in one.finding)
        assert "nan" not in one.finding
        assert not one.finding.startswith(one.name)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("half", [False, True])
def test_rectangles_have_the_weights_and_the_curve_passes_through_the_neurons(
    name: str, half: bool, models: dict[str, Study]
) -> None:
    for cluster in models[name].once(rule_clusters):
        figure = figures.quadrature(models[name], cluster.k, half)
        (axis,) = figure.axes
        (patch,) = (one for one in axis.patches if isinstance(one, PathPatch))
        # The outline of a box: four corners and the closing point.
        corners = np.asarray(patch.get_path().vertices).reshape(-1, 5, 2)
        assert len(corners) == cluster.neurons
        widths = corners[:, 2, 0] - corners[:, 0, 0]
        order = rectangles(cluster.scheme, half).order
        np.testing.assert_allclose(widths, cluster.scheme.w[order] / (2 if half else 1), atol=1e-12)
        curve, neurons = axis.lines
        phi, height = (np.asarray(data, dtype=float) for data in neurons.get_data())
        np.testing.assert_allclose(height, np.abs(np.cos(phi)) * np.cos(2 * phi), atol=1e-12)
        along, up = (np.asarray(data, dtype=float) for data in curve.get_data())
        np.testing.assert_allclose(np.interp(phi, along, up), height, atol=5e-3)
        np.testing.assert_allclose(corners[:, 1, 1], height, atol=1e-12)
        assert math.isclose(
            area_of(rectangles(cluster.scheme, half)), float(widths @ height), abs_tol=1e-9
        )


@pytest.mark.parametrize("half", [False, True])
def test_the_band_holds_curve_and_rectangles_and_has_the_bounds_area(
    half: bool, models: dict[str, Study]
) -> None:
    for cluster in models["pizza"].once(rule_clusters):
        region = band(rectangles(cluster.scheme, half))
        area = 0.0
        for shape in region:
            x, upper, lower = shape[:3, 0], shape[:3, 1], shape[5:2:-1, 1]
            fine = np.linspace(x[0], x[-1], 50)
            high, low = np.interp(fine, x, upper), np.interp(fine, x, lower)
            curve = np.abs(np.cos(fine)) * np.cos(2 * fine)
            assert (low - 1e-9 <= curve).all()
            assert (curve <= high + 1e-9).all()
            area += float(np.trapezoid(upper - lower, x)) / 2
        rows = cluster.rows
        bound = rows.numerical_abs_bound_half.value if half else rows.numerical_abs_bound_full.value
        assert math.isclose(area, bound, rel_tol=1e-9)


def test_one_mark_a_neuron(models: dict[str, Study], drawn: dict[str, dict[str, Figure]]) -> None:
    results = models["pizza"]
    for cluster in results.explanation.clusters:
        (axis,) = drawn["pizza"][f"angles-{cluster.k}"].axes
        assert len(np.asarray(axis.collections[0].get_offsets())) == len(cluster.neurons)
    bars = drawn["pizza"]["freqcount"].axes[0].patches
    alive = ~results.explanation.roles.dead
    heights = [bar.get_height() for bar in bars]  # type: ignore[attr-defined]
    assert sum(heights) == alive.sum()
    every, stray = frequency_counts(models["mismatched"].explanation)
    assert (
        stray.sum()
        == (
            models["mismatched"].explanation.roles.k_in
            != models["mismatched"].explanation.roles.k_out
        ).sum()
    )
    assert (stray <= every).all()


def test_histograms_count_every_neuron(models: dict[str, Study]) -> None:
    roles = models["pizza"].explanation.roles
    shares = (roles.variance_input, roles.variance_output)
    figure = figures.single_frequency(models["pizza"])
    for axis, share in zip(figure.axes, shares, strict=True):
        drawn = sum(bar.get_height() for bar in axis.patches if hasattr(bar, "get_height"))
        assert math.isclose(drawn, 100 * float((share >= axis.get_xlim()[0]).mean()), abs_tol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_exact_errors_drawn_are_brute_force(name: str, models: dict[str, Study]) -> None:
    for cluster in models[name].once(rule_clusters):
        drawn = errors(cluster.scheme)
        assert len(drawn) == models[name].p
        claim = cluster.exact_psi.absolute
        assert claim.lower <= drawn.max() + 1e-12
        assert drawn.max() - 1e-12 <= claim.upper
        assert math.isclose(
            brute_force_error(cluster.scheme).value, cluster.exact.absolute.middle, abs_tol=1e-9
        )


def test_a_multiple_is_drawn_as_lines_within_the_square() -> None:
    figure = Figure()
    axis = figure.subplots()
    draw_multiple(axis, 3, 1.0)
    for line in axis.lines:
        x, y = (np.asarray(data, dtype=float) for data in line.get_data())
        assert (np.abs(x) <= np.pi + 1e-9).all()
        assert (np.abs(y) <= np.pi + 1e-9).all()
        np.testing.assert_allclose(np.exp(1j * y), np.exp(1j * (3 * x + 1)), atol=1e-9)
    assert math.isclose(
        sum(np.ptp(np.asarray(line.get_xdata(), dtype=float)) for line in axis.lines), 2 * np.pi
    )


@pytest.mark.parametrize("kind", FIGURE_FORMATS)
def test_same_picture_same_bytes_fonts_inside(kind: FigureFormat, models: dict[str, Study]) -> None:
    (picture,) = chosen_pictures(models["toy"], ["quadrature-1"])
    first, second = (figure_bytes(picture.draw(), kind) for _ in range(2))
    assert first == second
    if kind == "svg":
        assert b"<text" not in first
        assert b"http" not in first.split(b"<defs>", 1)[1].replace(b"http://www.w3.org", b"")
    if kind == "pdf":
        assert b"FontFile2" in first
        assert b"CreationDate" not in first


def test_chosen_by_name_by_label_and_by_family(models: dict[str, Study]) -> None:
    toy = models["toy"]
    assert [one.name for one in chosen_pictures(toy, ["angles:2", "task"])] == ["angles-2", "task"]
    assert len(chosen_pictures(toy, ["quadrature"])) == 4
    with pytest.raises(BadConfig, match="no figure of this model is named angles-7; there are: 3D"):
        chosen_pictures(toy, ["angles-7"])


@pytest.mark.parametrize("name", ["toy", "pizza"])
def test_names_are_known_before_anything_is_computed(name: str, models: dict[str, Study]) -> None:
    for family, pictures in pictures_by_family(models[name]).items():
        families_of(
            [
                family,
                *(text for one in pictures for text in (one.name, one.label) if text is not None),
            ]
        )
    with pytest.raises(BadConfig, match=r"no figure is named 'nosuch'.*3D.*frontier.*quadrature-K"):
        families_of(["task", "nosuch"])


def test_names_that_need_proofs_are_listed_without_proofs(models: dict[str, Study]) -> None:
    with pytest.raises(BadConfig, match=r"frontier"):
        chosen_pictures(models["toy"].without_proofs(), ["angles-7"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "nosuch"], "no figure is named 'nosuch'"),
        (["-o", "file/x"], "Not a directory; choose a place that is writable"),
    ],
)
def test_the_command_refuses_before_it_works(
    tmp_path: Path, words: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object, **more: object) -> None:
        raise AssertionError("worked before it refused")

    monkeypatch.setattr("quadlens.network.study.study_of", never)
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    refused(quadlens("report", "--only", "figures", "-o", "new", *words), message)
    refused(
        quadlens("report", "--only", "figures", "-o", "file"),
        "file: it is a file; give the name of a directory",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_modules_say_which_pictures_need_proofs(models: dict[str, Study]) -> None:
    toy = models["toy"]
    proved, unproved = pictures_by_family(toy), pictures_by_family(toy.without_proofs())
    for family, pictures in proved.items():
        without = {one.name: one.finding for one in unproved[family]}
        changes = {one.name: one.finding for one in pictures} != without
        assert needs_proofs([family]) == changes, family
        for one in pictures:
            names = [name for name in (one.name, one.label) if name is not None]
            assert (
                all(needs_proofs([name]) for name in names) if changes else not needs_proofs(names)
            ), names


def test_the_command_draws_a_proof_by_name(tmp_path: Path) -> None:
    save(build_mlp(Recipe(p=5, keys=(1, 2), neurons=13, jitter=0.2)), tmp_path / "toy.safetensors")
    words = (
        "report",
        tmp_path / "toy.safetensors",
        "--only",
        "frontier",
        "--format",
        "svg",
        "--json",
    )
    run = quadlens(*words, "-o", tmp_path / "figures")
    assert run.code == 0, run.err
    assert run.document["files"] == [str(tmp_path / "figures" / "frontier.svg")]


def test_a_model_that_does_nothing_has_no_pictures_of_clusters() -> None:
    model = build_mlp(Recipe(p=5, keys=(1,), neurons=4))
    zeros = {name: np.zeros_like(array) for name, array in model.tensors.items()}
    silent = Weights(model.config, **zeros)
    results = study_of(silent, "silent").without_proofs()
    families = pictures_by_family(results)
    for empty in (
        "quadrature",
        "angles",
        "error",
        "overlap",
        "3D",
        "algorithm",
        "exact-error",
        "frontier",
    ):
        assert families[empty] == ()
    for picture in (
        families["task"] + families["population-counts"] + families["population-histograms"]
    ):
        assert isinstance(picture.draw(), Figure)


def test_our_population_is_drawn_beside_the_papers(
    models: dict[str, Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    paper = read_published().population
    assert paper.models == 152
    bars = Histogram(np.array([0.0, 0.5, 1.0]), np.array([1.0, 3.0]))
    histograms = tuple((dict(paper.histograms) | {"primary_vs_secondary_phase_r2": bars}).items())
    ours = PopulationSummary(
        4, (("good_model_frequency_pairs", 9.0),), ((4, 3), (5, 1)), (1, 2), histograms
    )
    monkeypatch.setattr("quadlens.show.figures.population_bars.read_population", lambda: ours)
    drawn = {one.name: one for one in all_pictures(models["toy"])}
    assert "In ours it is 4." in drawn["nfreqcountmul"].finding
    assert "4 models" in drawn["primsecr2"].how_to_read
    assert len(drawn["primsecr2"].draw().axes[0].patches) > len(paper.histograms[-1][1].count)
    assert math.isclose(share_beyond(bars, 0.75, above=True), 0.375)


def test_published_file_is_read_whole() -> None:
    published = read_published()
    assert published.key_neurons == ((12, 116), (18, 110), (21, 138), (22, 148))
    assert published.variance_input.total == 512
    # The paper's residual figure counts the 3,481 inputs of p = 59, its axis at a tenth of the
    # labels.
    residual = published.population.histogram("residual_attention_variance_over_logits")
    assert math.isclose(10 * residual.total, 59**2, abs_tol=0.5)


@given(st.floats(0, 1e6), st.integers(0, 6))
def test_rounding_keeps_the_inequality(value: float, digits: int) -> None:
    assert float(at_least(value, digits)) <= value <= float(at_most(value, digits)) + 1e-9
    from fractions import Fraction

    assert Fraction(at_least(value, digits)) <= Fraction(value) <= Fraction(at_most(value, digits))


def test_words() -> None:
    assert percent(0.99999) == "99.9 %"
    assert percent(1.0) == "100.0 %"
    assert listed((5, 9, 11)) == "5, 9 and 11"
    assert listed((5,)) == "5"
    assert listed(()) == "none"
    with pytest.raises(BadConfig, match="letters, digits and hyphens"):
        Picture("a b", None, "t", "f", "h", "d", Figure)
    with pytest.raises(BadConfig, match="needs a finding"):
        Picture("a", None, "t", "", "h", "d", Figure)


def test_files_of_a_model_without_history_draw_no_learning_curve(models: dict[str, Study]) -> None:
    assert pictures_by_family(models["toy"])["learning-curve"] == ()
    assert len(pictures_by_family(models["pizza"])["learning-curve"]) == 1
    assert Path(pictures_by_family(models["pizza"])["learning-curve"][0].data).suffix == ".csv"


def test_a_phase_without_offset_is_said_without_one(models: dict[str, Study]) -> None:
    """Not "of 6φ -0.00 0.990"."""
    for study in models.values():
        for picture in all_pictures(study.without_proofs()):
            assert not re.search(r"φ [+-]\s?0\.00|φ [+-]\d", picture.finding), picture.finding
