"""The site builds without a warning or a network, tutorials run, the wheel stands alone."""

import dataclasses
import inspect
import json
import os
import re
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import nbformat
import pytest

import quadlens
import quadlens_checker
from places import ROOT

pytestmark = pytest.mark.slow

CELL = re.compile(r"^```\{code-cell\} python\n(?::tags:[^\n]*\n\n)?(.*?)^```", re.M | re.S)
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


def run(*words: str | Path, folder: Path | None = None) -> str:
    """A command that must end well; the package under test comes first."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if folder is None:
        environment["PYTHONPATH"] = str(ROOT / "src")
    done = subprocess.run(
        [*map(str, words)],
        cwd=folder or ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_has_one_idea_and_two_exercises(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n# ") == 1
    assert text.count("[hide-cell]") == 2
    assert text.count("**How to read this figure.**") >= 1


def notebook_of(path: Path) -> Any:
    """The notebook that the site offers of a tutorial."""
    pytest.importorskip("myst_nb", reason="the extra 'docs' is not installed")
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    try:
        return import_module("notebooks").notebook_of(path.read_text(encoding="utf-8"))
    finally:
        sys.path.pop(0)


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_notebook_has_the_cells_of_its_page(path: Path) -> None:
    notebook, text = notebook_of(path), path.read_text(encoding="utf-8")
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.source for cell in code] == [cell.strip() for cell in CELL.findall(text)]
    assert [cell.metadata.get("tags") for cell in code].count(["hide-cell"]) == 2
    assert {cell.cell_type for cell in notebook.cells} == {"markdown", "code"}
    words = "".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert re.search(r"^# .*", text, re.M)[0] in words  # type: ignore[index]
    for target in re.findall(r"\]\(([^)]*)\)", words):
        assert (
            target.startswith("https://") or (path.parent / target).with_suffix(".md").is_file()
        ), target


def test_a_notebook_runs(tmp_path: Path) -> None:
    client = pytest.importorskip("nbclient", reason="the extra 'docs' is not installed")
    notebook = notebook_of(TUTORIALS[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT / "src"))
        client.NotebookClient(
            notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
        ).execute()
    assert "right: " in notebook.cells[-2].outputs[0].text


def test_every_public_name_has_an_entry() -> None:
    said = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    names = [
        name
        for name in dir(quadlens)
        if not name.startswith("_") and name not in ("edit", "figures")
    ]
    assert [name for name in names if not re.search(rf"quadlens\.{name}$", said, re.M)] == []


def test_every_value_is_listed_with_its_members() -> None:
    """Fields are in the docstring's Attributes, and what takes arguments has a docstring."""
    said = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    values = [
        value for name in quadlens.__all__ if inspect.isclass(value := getattr(quadlens, name))
    ]
    for value in (value for value in values if not issubclass(value, Exception)):
        assert f".. autoclass:: quadlens.{value.__name__}\n   :members:\n" in said
    inner = [
        getattr(import_module(module), name)
        for module, name in re.findall(r":: (quadlens\.\S+)\.([A-Z]\w+)$", said, re.M)
    ]
    assert len(inner) >= 10
    for value in {*values, *inner}:
        described = "".join(
            (one.__doc__ or "").partition("Attributes:")[2] for one in value.__mro__
        )
        if dataclasses.is_dataclass(value):
            names = [one.name for one in dataclasses.fields(value) if not one.name.startswith("_")]
            assert [
                name
                for name in names
                if not re.search(rf"^ +(\w+, )*{name}\b.*: ", described, re.M)
            ] == [], value
        members = {name: getattr(value, name) for name in vars(value) if not name.startswith("_")}
        takers = [
            name
            for name, one in members.items()
            if inspect.isfunction(one) and one.__code__.co_argcount > 1
        ]
        assert [name for name in takers if not inspect.getdoc(members[name])] == [], value


@pytest.mark.timeout(900)
def test_the_site_builds_without_a_warning_and_cuts_no_table(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    pytest.importorskip("sphinx", reason="the extra 'docs' is not installed")
    run(sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", ROOT / "docs", tmp_path / "site")
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        loaded = re.findall(
            r'<(?:script|img|iframe|link)[^>]*?(?:src|href)="(https?:[^"]*)"',
            page.read_text("utf-8"),
        )
        assert loaded == [], page
    for path in TUTORIALS:
        there = tmp_path / "site" / "tutorials" / path.name
        assert f'href="{path.stem}.ipynb"' in there.with_suffix(".html").read_text("utf-8")
        assert nbformat.read(there.with_suffix(".ipynb"), as_version=4) == notebook_of(path)  # type: ignore[no-untyped-call]
    # Skipped from here on where there is no browser.
    chromium: Any = request.getfixturevalue("chromium")
    wide = "e => e.scrollWidth > e.clientWidth + 1"
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    try:
        tab = context.new_page()
        for page in pages:
            tab.goto(page.as_uri())
            assert (
                tab.evaluate(
                    f"[...document.querySelectorAll('.table-wrapper')].filter({wide}).length"
                )
                == 0
            ), page
            assert tab.evaluate("document.documentElement.scrollWidth") <= 1280, page
    finally:
        context.close()


def test_the_release_has_one_version_and_one_date() -> None:
    """The version is written once; what quotes it has the same, as the changelog."""
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    (version,) = re.findall(r"^version: (.*)$", cited, re.M)
    (day,) = re.findall(r'^date-released: "(.*)"$', cited, re.M)
    assert version == quadlens.__version__
    sections = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert next(section for section in sections if section != "Unreleased") == f"{version} ({day})"
    for field in (
        "cff-version",
        "title",
        "message",
        "type",
        "license",
        "abstract",
        "authors",
        "references",
    ):
        assert re.search(rf"^{field}:", cited, re.M), field


@pytest.mark.timeout(900)
def test_the_wheel_stands_alone(tmp_path: Path) -> None:
    """It is built from the source archive, and installed beside its dependencies alone."""
    run(sys.executable, "-m", "build", "--outdir", tmp_path / "quadlens", ROOT)
    run(
        sys.executable,
        "-m",
        "build",
        "--outdir",
        tmp_path / "checker",
        ROOT / "src" / "quadlens_checker",
    )
    (wheel,), (_,) = (tmp_path / "quadlens").glob("*.whl"), (tmp_path / "quadlens").glob("*.tar.gz")
    (checker,), (_,) = (tmp_path / "checker").glob("*.whl"), (tmp_path / "checker").glob("*.tar.gz")
    assert quadlens.__version__ in wheel.name
    assert quadlens_checker.__version__ in checker.name
    tree = [
        path
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    for_readers = ("README.md", "pyproject.toml")  # of a wing, and of the other distribution
    tree = [path for path in tree if path.name not in for_readers and "egg-info" not in str(path)]
    ours = {str(path.relative_to(ROOT / "src")) for path in tree}
    packed = {file: set(zipfile.ZipFile(file).namelist()) for file in (wheel, checker)}
    assert ours - packed[wheel] - packed[checker] == set()
    assert [name for name in packed[wheel] if name.startswith("quadlens_checker")] == []
    # Neither pip inside nor bytecode, which is more than half of the time that an environment
    # takes.
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty")
    python, program = tmp_path / "empty" / "bin" / "python", tmp_path / "empty" / "bin" / "quadlens"
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "--disable-pip-version-check",
        "install",
        "-q",
        "--no-compile",
    )
    run(*pip, "-c", ROOT / "constraints.txt", checker, wheel, folder=tmp_path)
    assert run(program, "--version", folder=tmp_path).strip() == f"quadlens {quadlens.__version__}"
    assert "certify" in run(program, "--help", folder=tmp_path)
    run(program, "certify", "pizza", "-q", "-o", "c.json", folder=tmp_path)
    assert (
        json.loads(run(program, "check", "c.json", "pizza", "--json", folder=tmp_path))["verdict"]
        == "VERIFIED"
    )
    run(python.parent / "quadlens-check", "--write", "checker.pyz", folder=tmp_path)
    model = (
        python.parent.parent
        / "lib"
        / f"python3.{sys.version_info.minor}"
        / "site-packages/quadlens/data/pizza.safetensors"
    )
    assert "VERIFIED" in run(python, "-I", "-S", "checker.pyz", "c.json", model, folder=tmp_path)
