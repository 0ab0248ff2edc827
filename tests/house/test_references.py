"""Pages, modules and files that code and pages name exist; public words name no file of a clone."""

import contextlib
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import quadlens
from cli_runner import quadlens as run
from places import ROOT

PAGE = re.compile(r"(?<![\w/.])((?:[\w-]+/)*[\w-]+)\.md\b`?(?:\)?(?:,)? §(\d+(?:\.\d+)?))?")
SUFFIXES = (".py", ".toml", ".j2", ".md")
# Pages of other projects, and names that stand for any page.
OTHERS = {"README", "CHANGELOG", "CONTRIBUTING", "page", "PREFIX", "NAME"}


def texts() -> Iterator[Path]:
    for place in ("src", "docs"):
        yield from (path for path in sorted((ROOT / place).rglob("*")) if path.suffix in SUFFIXES)


def named(path: Path) -> Iterator[tuple[str, str | None]]:
    for name, section in PAGE.findall(path.read_text(encoding="utf-8")):
        if name.rpartition("/")[2] not in OTHERS:
            yield name, section or None


def page(name: str, at: Path) -> Path | None:
    """The page of this name: beside the text, in docs, or from the top of the repository."""
    places = (at.parent, ROOT / "docs", ROOT)
    return next(
        (place / f"{name}.md" for place in places if (place / f"{name}.md").is_file()), None
    )


@pytest.mark.parametrize("path", tuple(texts()), ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_that_are_named_exist(path: Path) -> None:
    for name, section in named(path):
        found = page(name, path)
        assert found is not None, f"{name}.md is nowhere"
        if section is not None:
            heading = rf"^#+ {re.escape(section.partition('.')[0])}\."
            assert re.search(heading, found.read_text(encoding="utf-8"), re.MULTILINE), (
                f"{name}.md has no §{section}"
            )


MODULE = re.compile(r"(?<![\w./-])quadlens((?:\.[a-z_]\w*)+)")
FILE = re.compile(r"`((?:[\w-]+/)+[\w-]+\.(?:py|toml|js|j2))`")
# What an errand of extend.md makes.
NEW = {"figures.loudness", "proofs.pairs.slow", "readers.largest", "readers.trio"}


def is_there(name: str) -> bool:
    """Return whether `quadlens.name` is a module, or what is in one."""
    value: object = quadlens
    for number, part in enumerate(parts := name.split(".")):
        with contextlib.suppress(ImportError):
            importlib.import_module(".".join(["quadlens", *parts[: number + 1]]))
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


@pytest.mark.slow
def test_modules_and_files_that_are_named_exist() -> None:
    """What is named may have moved; CHANGELOG, decisions and history name what was."""
    was = {ROOT / "docs" / f"{name}.md" for name in ("changelog", "decisions", "history")}
    folders = [
        ROOT / name for name in ("src", "tests", "tools", "docs", "benchmarks", "experiments")
    ]
    known = [path.as_posix() for folder in folders for path in folder.rglob("*.*")]
    pages = {*texts(), ROOT / "README.md", ROOT / "CONTRIBUTING.md"} - was
    missing = set()
    for path in pages:
        text = path.read_text(encoding="utf-8")
        names = {name.removeprefix(".") for name in MODULE.findall(text)} - NEW
        missing |= {f"{path.name}: quadlens.{name}" for name in names if not is_there(name)}
        missing |= {
            f"{path.name}: {file}"
            for file in FILE.findall(text)
            if not any(one.endswith(f"/{file}") for one in known)
        }
    assert missing == set()


def public_docstrings() -> Iterator[tuple[str, str]]:
    for name in quadlens.__all__:
        value = getattr(quadlens, name)
        yield name, inspect.getdoc(value) or ""
        if inspect.isclass(value):
            for member, inner in inspect.getmembers(value):
                if not member.startswith("__"):
                    yield f"{name}.{member}", inspect.getdoc(inner) or ""


def test_public_words_name_no_file_of_a_clone() -> None:
    """Whoever installed the package has the site and no docs/."""
    for name, words in public_docstrings():
        assert not re.search(r"\w\.md\b|_config\.py", words), name
    for command in ("check", "certify", "import", "bounds"):
        assert ".md" not in run(command, "--help").out
    assert ".md" not in run("bounds", "pizza").out
