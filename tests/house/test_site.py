"""The site builds without a warning and without a network, with every tutorial executed; the wheel stands alone."""

import json
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

import quadlens
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
        [*map(str, words)], cwd=folder or ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_has_one_idea_and_two_exercises(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n# ") == 1
    assert text.count("[hide-cell]") == 2
    assert text.count("**How to read this figure.**") >= 1


@pytest.mark.no_cover
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_takes_seconds(path: Path) -> None:
    names: dict[str, object] = {}
    began = time.process_time()
    for cell in CELL.findall(path.read_text(encoding="utf-8")):
        exec(compile(cell, str(path), "exec"), names)
    assert time.process_time() - began < 20


def test_every_public_name_has_an_entry() -> None:
    said = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    names = [name for name in dir(quadlens) if not name.startswith("_") and name not in ("edit", "figures")]
    assert [name for name in names if not re.search(rf"quadlens\.{name}$", said, re.M)] == []


@pytest.mark.timeout(900)
def test_the_site_builds_without_a_warning_and_cuts_no_table(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("sphinx", reason="the extra 'docs' is not installed")
    run(sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", ROOT / "docs", tmp_path / "site")
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        loaded = re.findall(r'<(?:script|img|iframe|link)[^>]*?(?:src|href)="(https?:[^"]*)"', page.read_text("utf-8"))
        assert loaded == [], page
    # Skipped from here on where there is no browser.
    chromium: Any = request.getfixturevalue("chromium")
    wide = "e => e.scrollWidth > e.clientWidth + 1"
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    try:
        tab = context.new_page()
        for page in pages:
            tab.goto(page.as_uri())
            assert tab.evaluate(f"[...document.querySelectorAll('.table-wrapper')].filter({wide}).length") == 0, page
            assert tab.evaluate("document.documentElement.scrollWidth") <= 1280, page
    finally:
        context.close()


def test_the_release_has_one_version_and_one_date() -> None:
    """The version is written once, in the package; what quotes it has the same, and the changelog begins with it."""
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    (version,) = re.findall(r"^version: (.*)$", cited, re.M)
    (day,) = re.findall(r'^date-released: "(.*)"$', cited, re.M)
    assert version == quadlens.__version__
    first = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)[0]
    assert first == f"{version} ({day})"
    for field in ("cff-version", "title", "message", "type", "license", "abstract", "authors", "references"):
        assert re.search(rf"^{field}:", cited, re.M), field


@pytest.mark.timeout(900)
def test_the_wheel_stands_alone(tmp_path: Path) -> None:
    """Built from the source archive, with every file of the tree in it; installed beside its dependencies alone."""
    run(sys.executable, "-m", "build", "--outdir", tmp_path, ROOT)
    (wheel,), (_,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    assert quadlens.__version__ in wheel.name
    tree = [path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    ours = {str(path.relative_to(ROOT / "src")) for path in tree if "egg-info" not in str(path)}
    assert ours - set(zipfile.ZipFile(wheel).namelist()) == set()
    # Neither pip inside nor bytecode, which is more than half of the time that an environment takes.
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
    run(*pip, "-c", ROOT / "constraints.txt", wheel, folder=tmp_path)
    assert run(program, "--version", folder=tmp_path).strip() == f"quadlens {quadlens.__version__}"
    assert "certify" in run(program, "--help", folder=tmp_path)
    run(program, "certify", "pizza", "-q", "-o", "c.json", folder=tmp_path)
    assert json.loads(run(program, "check", "c.json", "pizza", "--json", folder=tmp_path))["verdict"] == "VERIFIED"
    run(python, "-m", "quadlens_checker", "--write", "checker.pyz", folder=tmp_path)
    model = (
        python.parent.parent
        / "lib"
        / f"python3.{sys.version_info.minor}"
        / "site-packages/quadlens/data/pizza.safetensors"
    )
    assert "VERIFIED" in run(python, "-I", "-S", "checker.pyz", "c.json", model, folder=tmp_path)
