"""What is documented is executed: docstring examples, and the code blocks of README and docs.

In Markdown, ```python blocks of a file run in order in one namespace, and each `$ quadlens …` line
of its ```console blocks runs in one temporary directory and must exit with 0, or with N when it
ends in `# exit N`. A block after the line `<!-- not run: REASON -->` is left out.
"""

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import quadlens
from places import ROOT

pytestmark = pytest.mark.slow

FENCE = re.compile(
    r"(<!-- not run: (?P<reason>.*?) -->\n+)?^```(?P<kind>python|console)\n(?P<body>.*?)^```",
    re.M | re.S,
)
EXIT = re.compile(r"#\s*exit (\d)\s*$")

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(quadlens.__path__, "quadlens.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name.startswith("quadlens.training"):
        pytest.importorskip("torch", reason="training needs the extra 'train'")
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testmod(
        importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert failed == 0


class Block(NamedTuple):
    kind: str
    body: str


def blocks(text: str) -> list[Block]:
    return [Block(m["kind"], m["body"]) for m in FENCE.finditer(text) if m["reason"] is None]


def commands(body: str) -> list[str]:
    """Lines that start with `$ quadlens`, or run the checker alone, with their continuations."""
    joined = body.replace("\\\n", " ")
    return [
        line[2:].strip()
        for line in joined.splitlines()
        if re.match(r"\$ (quadlens|python (-m quadlens_checker|-I -S checker\.pyz))\b", line)
    ]


DOCUMENTS = [
    path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if blocks(path.read_text())
]


def run_command(command: str, folder: Path) -> None:
    """Through a shell, as a reader would, with `quadlens` being this checkout."""
    programs = folder / ".bin"
    programs.mkdir(exist_ok=True)
    for name, words in (("quadlens", "-m quadlens"), ("python", "")):
        shim = programs / name
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        shim.chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    wanted = EXIT.search(command)
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == (int(wanted[1]) if wanted else 0), (
        f"$ {command}\n{result.stdout}{result.stderr}"
    )
    assert "Traceback" not in result.stderr, result.stderr


@pytest.mark.parametrize("path", DOCUMENTS, ids=[str(path.relative_to(ROOT)) for path in DOCUMENTS])
def test_code_blocks(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(path.read_text()):
        if block.kind == "python":
            exec(compile(block.body, str(path), "exec"), namespace)
        else:
            for command in commands(block.body):
                run_command(command, tmp_path)


def test_blocks_are_found_as_promised(tmp_path: Path) -> None:
    text = """
```python
x = 1
```
<!-- not run: takes an hour -->
```console
$ quadlens nonsense
```

```console
$ quadlens --version
quadlens 0
$ ls
$ quadlens evaluate \\
    absent   # exit 2
```
"""
    assert [block.kind for block in blocks(text)] == ["python", "console"]
    words = commands(blocks(text)[1].body)
    assert [word.split()[:2] for word in words] == [
        ["quadlens", "--version"],
        ["quadlens", "evaluate"],
    ]
    for word in words:
        run_command(word, tmp_path)
    with pytest.raises(AssertionError, match="no such file"):
        run_command("quadlens evaluate absent", tmp_path)


def test_output_quoted_in_documents_is_what_the_commands_print() -> None:
    """`make docs` puts it right."""
    done = subprocess.run(
        [sys.executable, "tools/refresh_docs.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
