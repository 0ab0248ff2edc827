"""The report on disk: every file, the tables, the page in a browser, and that it is written whole
or not at all.
"""

import csv
import dataclasses
import hashlib
import io
import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import html5lib
import pytest

from quadlens.analysis.explanation.of_study import strongest_keys_of
from quadlens.analysis.quadrature.of_study import rule_clusters, worst_errors
from quadlens.base.errors import BadFile
from quadlens.base.numbers import fit, percent
from quadlens.network import Recipe, build_mlp, save
from quadlens.network.study import Study, study_of
from quadlens.show.figures.answers import secondary_repair
from quadlens.show.figures.registry import all_pictures, chosen_pictures
from quadlens.show.figures.style import FIGURE_FORMATS, OUTLINES, figure_bytes
from quadlens.show.glossary import mentioned, typeset
from quadlens.show.pages.data_files import data_files
from quadlens.show.pages.directory import check_target, replaced_directory
from quadlens.show.pages.page import page_html
from quadlens.show.pages.render import Rendered, data_address
from quadlens.show.pages.tables import bound_tables, model_table, page_tables
from quadlens.show.pages.write import LARGEST_EXPLORER, _explorer

pytestmark = pytest.mark.slow


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "quadlens", *words], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A report of a toy through the command, drawn by two processes; made once, also where workers
    share the tests.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return _make(tmp_path_factory.mktemp("report"))
    shared = tmp_path_factory.getbasetemp().parent / "shared-report"
    try:
        shared.mkdir()
    except FileExistsError:
        while not (shared / "said.json").exists():
            time.sleep(0.2)
        return shared / "out", json.loads((shared / "said.json").read_text())
    return _make(shared)


def _make(folder: Path) -> tuple[Path, dict[str, Any]]:
    save(build_mlp(Recipe(p=5, keys=(2,), neurons=7, jitter=0.2)), folder / "toy.safetensors")
    done = run(
        "report",
        str(folder / "toy.safetensors"),
        "-o",
        str(folder / "out"),
        "--workers",
        "2",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    assert "figures …" in done.stderr
    (folder / "said.json").write_text(done.stdout)
    return folder / "out", json.loads(done.stdout)


@pytest.mark.slow
def test_files_do_not_depend_on_how_many_processes_draw(tmp_path: Path) -> None:
    """Nor on threads: outside these tests a product may have as many as there are cores, and sums
    another order.
    """
    environment = {
        name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"
    }
    reports = []
    for workers in ("1", "2"):
        words = (
            "report",
            "clock",
            "-o",
            str(tmp_path / workers),
            "--workers",
            workers,
            "--no-proofs",
            "--quiet",
        )
        subprocess.run([sys.executable, "-m", "quadlens", *words], env=environment, check=True)
        files = sorted(path for path in (tmp_path / workers).rglob("*") if path.is_file())
        reports.append(
            {str(path.relative_to(tmp_path / workers)): path.read_bytes() for path in files}
        )
        del reports[-1]["manifest.json"]  # it has the command
    assert reports[0] == reports[1]


@pytest.fixture(scope="module")
def pizza() -> Study:
    return study_of("pizza").without_proofs()


@pytest.fixture(scope="module")
def page(pizza: Study, made: tuple[Path, dict[str, Any]]) -> str:
    """The page of the pizza model with one small picture in every place: all its words and tables,
    quickly.
    """
    files = {
        kind: (made[0] / "figures" / f"freqcount.{kind}").read_bytes() for kind in FIGURE_FORMATS
    }
    picture = Rendered("any", tuple(files.items()), data_address(files["svg"], files["png"]))
    return words_of(pizza, picture)


# The smallest picture that a page can hold.
DOT = Rendered(
    "any", (("svg", b"<svg></svg>"), ("png", bytes(16) + (160).to_bytes(4, "big") * 2)), "data:,"
)


def words_of(study: Study, picture: Rendered = DOT) -> str:
    """The page with one picture in every place."""
    return page_html(study, {one.name: picture for one in all_pictures(study)})


def test_the_command_says_what_it_made(made: tuple[Path, dict[str, Any]]) -> None:
    directory, said = made
    assert said["page"] == str(directory / "index.html")
    assert '<a href="explorer.html">' in (directory / "index.html").read_text()
    assert "Drag a neuron" in (directory / "explorer.html").read_text()
    assert said["page_bytes"] == (directory / "index.html").stat().st_size < 4_000_000
    assert said["verdict"] in ("CERTIFIED", "PARTLY", "UNPROVED")
    on_disk = {
        path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()
    }
    assert on_disk == {*said["files"], "manifest.json"}
    assert not [path for path in directory.parent.iterdir() if path.name.startswith(".")]


def test_the_manifest_has_the_hash_of_every_file(made: tuple[Path, dict[str, Any]]) -> None:
    directory, said = made
    manifest = json.loads((directory / "manifest.json").read_text())
    assert manifest["format"] == "quadlens-report"
    assert manifest["command"].startswith("quadlens report ")
    assert set(manifest["files"]) == set(said["files"])
    for name, entry in manifest["files"].items():
        assert hashlib.sha256((directory / name).read_bytes()).hexdigest() == entry["sha256"]


def test_every_link_of_the_page_leads_to_a_file_or_an_anchor(
    made: tuple[Path, dict[str, Any]],
) -> None:
    directory, _ = made
    document = html5lib.parse((directory / "index.html").read_text(), namespaceHTMLElements=False)
    anchors = {element.get("id") for element in document.iter() if element.get("id")}
    links = [element.get("href") for element in document.iter("a")]
    assert links
    for link in links:
        assert link[1:] in anchors if link.startswith("#") else (directory / link).is_file(), link


def test_the_page_ends_with_the_meanings_of_words_and_symbols(
    made: tuple[Path, dict[str, Any]],
) -> None:
    text = (made[0] / "index.html").read_text(encoding="utf-8")
    for one in typeset().entries:
        assert f'<dt id="word-{one.name}">{one.term}</dt><dd>{one.meaning}</dd>' in text
    assert 'class="term"' not in text


def test_every_word_asked_for_is_in_the_glossary() -> None:
    wanted = [
        "φ",
        "ψ",
        "δ",
        "ω",
        "cluster",
        "clusters",
        "kink",
        "T1",
        "T2",
        "T3",
        "moments",
        "thin",
        "margin",
    ]
    wanted += ["collapse", "key frequency", "the key frequencies", "lens"]
    assert all(len(mentioned([word])) == 1 for word in wanted)
    assert mentioned(["thinner, clusterings, a-cluster, T12"]) == ()


def test_files_do_not_depend_on_the_number_of_processes(made: tuple[Path, dict[str, Any]]) -> None:
    directory, _ = made
    results = study_of(directory.parent / "toy.safetensors")
    (picture,) = chosen_pictures(results, ["frontier"])
    figure = picture.draw()
    for kind in FIGURE_FORMATS:
        assert (directory / "figures" / f"frontier.{kind}").read_bytes() == figure_bytes(
            figure, kind, OUTLINES
        )
    for name, content in data_files(results).items():
        assert (directory / name).read_bytes() == content


@pytest.mark.parametrize("which", ["toy", "pizza"])
def test_valid_html_with_words_for_every_picture(
    which: str, made: tuple[Path, dict[str, Any]], page: str
) -> None:
    text = page if which == "pizza" else (made[0] / "index.html").read_text()
    document = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)
    images = list(document.iter("img"))
    assert images
    for image in images:
        assert image.get("src").startswith("data:image/")
        assert len(image.get("alt")) > 20
    identifiers = [element.get("id") for element in document.iter() if element.get("id")]
    assert len(identifiers) == len(set(identifiers))
    assert not list(document.iter("script"))
    assert len(
        [1 for caption in document.iter("b") if caption.text == "How to read this figure."]
    ) == len(images)


def test_every_picture_is_on_the_page_once(pizza: Study, page: str) -> None:
    for picture in all_pictures(pizza):
        assert page.count(f'id="fig-{picture.name}"') == 1
    for table in page_tables(pizza):
        assert page.count(f'id="table-{table.name}"') == 1
    assert re.findall(r'<section id="(\w+)">', page)[:10] == [
        "task",
        "algorithm",
        "neuron",
        "cluster",
        "integral",
        "error",
        "lens",
        "secondary",
        "theorem",
        "population",
    ]


def test_the_angles_r2_has_the_same_digits_in_text_caption_and_table(
    pizza: Study, page: str
) -> None:
    """Rounded down, so that only perfection reads as 1."""
    r2 = {phases.k: phases.r2 for phases in pizza.explanation.phases if phases.k in pizza.keys}
    assert fit(r2[pizza.once(rule_clusters)[0].k]) in page
    for k, value in r2.items():
        (picture,) = chosen_pictures(pizza, [f"angles-{k}"])
        assert fit(value) in picture.finding
    facts = {name: ours for name, ours, _ in model_table(pizza).shown.rows}
    assert facts["least R² of ψ = 2φ"] == min(fit(value) for value in r2.values())


def test_tables_hold_our_numbers_and_the_papers(pizza: Study) -> None:
    relative, more, relu, beyond = bound_tables(pizza)
    assert (relative.label, more.label, relu.label, beyond.label) == (
        "table:error",
        "table:error:more",
        "table:error:relu",
        None,
    )
    assert [len(table.shown.rows) for table in (relative, more, relu)] == [2, 11, 9]
    assert relative.shown.rows[1][5:] == ["0.70", "0.49", "0.54", "0.48"]
    lines = list(csv.reader(io.StringIO(more.csv)))
    assert lines[0] == [
        "row",
        "kind",
        "k=5",
        "k=9",
        "k=11",
        "paper k=12",
        "paper k=18",
        "paper k=21",
        "paper k=22",
    ]
    for (_, mark, *ours), line in zip(more.shown.rows, lines[1:], strict=True):
        assert len(line) == len(lines[0])
        for shown, full in zip(ours[:3], line[2:5], strict=True):
            assert abs(float(shown) - float(full)) <= 1e-4
            if mark == "≤":
                assert float(shown) >= float(full)
    latex = more.latex or ""
    assert beyond.latex is None
    assert all(
        word in latex
        for word in (r"\toprule", r"\midrule", r"\bottomrule", r"\label{table:error:more}")
    )
    assert all(
        line.count("&") == 8
        for line in latex.split("\n")
        if line.endswith(r"\\") and "multicolumn" not in line
    )
    facts = {name: paper for name, _, paper in model_table(pizza).shown.rows}
    assert facts["R² of all logits, clock form"] == "0.98"


def test_an_honest_page_for_a_model_without_structure() -> None:
    noisy = build_mlp(Recipe(p=7, keys=(1, 2, 3), neurons=30, noise=5.0))
    results = study_of(noisy, "noisy")
    text = words_of(results)
    assert "This model is wrong on" in text
    assert "no clear clusters" in text
    assert "it cannot be said to follow these steps" in text
    assert "its error is" not in text


def test_the_error_of_the_relu_rule_is_not_that_of_its_absolute_part(
    pizza: Study, page: str
) -> None:
    rules = pizza.once(worst_errors)
    assert rules is not None
    relu = max(
        one.exact_psi.relu.upper / (one.baseline.lower / 2) for one in pizza.once(rule_clusters)
    )
    assert math.isclose(rules.relu, relu, rel_tol=1e-9)
    assert 0.09 < rules.relu < 0.1
    assert 0.04 < rules.absolute < 0.05
    assert rules.model.k == 11
    assert all(percent(error, 1, "up") in page for error in (rules.relu, rules.absolute))


def test_one_quantity_has_one_value_on_the_page(pizza: Study, page: str) -> None:
    logits = pizza.explanation.logits
    assert logits is not None
    for r2 in (logits.forms.by_parts.r2, logits.r2.all_logits.clock, logits.r2.abs_component.pizza):
        assert r2 is not None
        assert page.count(f"{r2:.3f}") >= 2
        down = f"{math.floor(r2 * 1000) / 1000:.3f}"
        assert down == f"{r2:.3f}" or down not in page


@pytest.mark.parametrize(
    ("activation", "words"), [("square", "30 x² neurons"), ("abs", "30 |x| neurons")]
)
def test_the_page_names_the_models_own_activation(activation: Any, words: str) -> None:
    built = build_mlp(Recipe(p=13, keys=(1, 2), neurons=30))
    model = built.replace(dataclasses.replace(built.config, activation=activation))
    study = study_of(model, "other").without_proofs()
    page = words_of(study)
    assert words in page
    assert "ReLU neurons" not in page.split('id="task"')[1]
    assert bool(study.once(rule_clusters)) == (activation == "abs")
    if activation == "abs":
        # Two of facts, four of bounds, and which frequencies' errors cancel.
        assert page.count("<table>") == 7
        assert (
            "<mo>&#x0003D;</mo><mfrac><mrow><mn>4</mn></mrow><mrow><mn>3</mn></mrow></mfrac>"
            in page
        )
        assert not any(
            one.name.startswith(("integrated-relu", "3D")) for one in all_pictures(study)
        )


def test_many_frequencies_the_strongest_are_shown_and_pairs_are_counted() -> None:
    noisy = build_mlp(Recipe(p=41, keys=tuple(range(1, 21)), neurons=400))
    study = study_of(noisy, "many").without_proofs()
    keys = study.keys
    assert len(keys) > 8
    weights = {one.k: float((one.rho * one.omega).sum()) for one in study.explanation.clusters}
    shown = study.once(strongest_keys_of)
    assert len(shown) == 8
    assert min(weights[k] for k in shown) >= max(weights[k] for k in keys if k not in shown)
    assert len(secondary_repair(study).axes) == 9
    summary = study.explanation.summary()
    (said,) = re.findall(
        r"(\d+) key frequencies are another's double modulo 41: ([^.]*)\.", summary
    )
    assert int(said[0]) == len(study.explanation.doubled_keys)
    assert said[1].count(" of ") == 4
    assert said[1].endswith(f"and {int(said[0]) - 4} more")


def test_refuses_a_place_that_cannot_be_written_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (Path("/proc/report"), tmp_path / "file" / "report"):
        with pytest.raises(
            BadFile, match=r"choose a place that is writable|give the name of a directory"
        ):
            check_target(place)
    check_target(tmp_path / "new" / "report")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_refuses_what_is_not_a_report_and_replaces_what_is(tmp_path: Path) -> None:
    target = tmp_path / "mine"
    target.mkdir()
    check_target(target)
    (target / "thesis.tex").write_text("years of work")
    with pytest.raises(BadFile, match="not a report of quadlens"):
        check_target(target)
    refused = run("report", "-o", str(target))
    assert refused.returncode == 2
    assert "choose another directory" in refused.stderr
    assert (target / "thesis.tex").read_text() == "years of work"
    (tmp_path / "file").write_text("")
    with pytest.raises(BadFile, match="is a file"):
        check_target(tmp_path / "file")
    report = tmp_path / "report"
    for content in ("first", "second"):
        with replaced_directory(report) as fresh:
            (fresh / "manifest.json").write_text(
                json.dumps({"format": "quadlens-report", "content": content})
            )
    assert json.loads((report / "manifest.json").read_text())["content"] == "second"
    with pytest.raises(ZeroDivisionError):
        _fail_half_way(report)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "mine", "report"]
    assert json.loads((report / "manifest.json").read_text())["content"] == "second"


def _fail_half_way(target: Path) -> None:
    with replaced_directory(target) as fresh:
        (fresh / "half").write_text("a part")
        raise ZeroDivisionError


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1024, 1280])
@pytest.mark.parametrize("which", ["toy", "pizza"])
def test_the_page_opens_from_disk(
    which: str,
    width: int,
    scheme: str,
    chromium: Any,
    made: tuple[Path, dict[str, Any]],
    page: str,
    tmp_path: Path,
) -> None:
    path = made[0] / "index.html"
    if which == "pizza":
        path = tmp_path / "index.html"
        path.write_text(page)
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    try:
        tab = context.new_page()
        problems: list[str] = []
        requests: list[str] = []
        tab.on("console", lambda message: problems.append(message.text))
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(path.as_uri())
        tab.wait_for_load_state("load")
        assert problems == []
        assert {url for url in requests if not url.startswith("data:")} == {path.as_uri()}
        shown, broken, scroll = tab.evaluate(
            "[document.images.length, [...document.images].filter(i => !(i.complete && "
            "i.naturalWidth)).length, document.documentElement.scrollWidth]"
        )
        assert shown > 20
        assert broken == 0
        assert scroll <= width
        # On a screen no figure and no table is cut at its right; on a phone they scroll inside
        # their cards.
        cut = tab.evaluate(
            "[...document.querySelectorAll('.paper, .scroll')].filter(e => e.scrollWidth > "
            "e.clientWidth + 1).map(e => e.parentElement.id)"
        )
        assert width < 1024 or cut == []
        ground, ink = tab.evaluate(
            "[getComputedStyle(document.body).backgroundColor, "
            "getComputedStyle(document.body).color]"
        )
        light = [sum(int(part) for part in colour[4:-1].split(",")[:3]) for colour in (ground, ink)]
        assert (light[0] > light[1]) == (scheme == "light")
    finally:
        context.close()


def test_the_reports_explorer_plays_the_training_and_stays_small(
    pizza: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = _explorer(pizza, lambda step: None)
    assert page is not None
    assert 'id="played-run"' in page
    assert len(page.encode()) <= LARGEST_EXPLORER == 3_500_000
    monkeypatch.setattr("quadlens.show.pages.write.LARGEST_EXPLORER", len(page.encode()) - 1)
    without = _explorer(pizza, lambda step: None)
    assert without is not None
    assert 'id="played-run"' not in without


def test_help_stays_light() -> None:
    heavy = ("matplotlib", "jinja2", "numpy", "torch")
    code = (
        f"import sys; import quadlens.cli.main; print([name for name in {heavy} if name in "
        "sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == "[]"
