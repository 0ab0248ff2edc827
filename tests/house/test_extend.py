"""The errands of docs/howto/extend.md, each done on a copy of the tree, work."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from places import ROOT

pytestmark = pytest.mark.slow

# The most files that each may change.
MOST = {
    "A figure": 2,
    "A strategy": 3,
    "A checkpoint format": 2,
    "A layout of networks on words": 2,
    "An activation": 4,
    "A group": 3,
    "A norm": 4,
    "A part of the analysis": 4,
    "An option of a command": 1,
    "A task on words": 4,
}
SECTIONS = {
    title: (int(said), body)
    for title, said, body in re.findall(
        r"^## (.*?): (\d) files?\n(.*?)(?=^## |\Z)",
        (ROOT / "docs/howto/extend.md").read_text("utf-8"),
        re.M | re.S,
    )
}


def change(tree: Path, diff: list[str]) -> str:
    """Do what one block says: lines with a blank or a minus become those with a blank or a plus.

    Returns the file.
    """
    (_, name), *lines = [
        line.split(" ", 1) if at == 0 else (line[:1], line[1:]) for at, line in enumerate(diff)
    ]
    old = "\n".join(text for sign, text in lines if sign in " -")
    new = "\n".join(text for sign, text in lines if sign in " +")
    path = tree / name
    if not path.exists():
        assert not old, f"{name} is not there"
        path.write_text(new + "\n", encoding="utf-8")
        return name
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{name} has {text.count(old)} times:\n{old}"
    path.unlink()  # a link to the tree's own
    path.write_text(text.replace(old, new), encoding="utf-8")
    return name


def test_every_errand_is_there() -> None:
    assert SECTIONS.keys() == MOST.keys()
    assert all(said <= MOST[title] for title, (said, _) in SECTIONS.items())


@pytest.mark.parametrize("title", MOST)
def test_an_errand_changes_so_many_files_and_works(title: str, tmp_path: Path) -> None:
    said, body = SECTIONS[title]
    tree, work = tmp_path / "tree", tmp_path / "work"
    shutil.copytree(
        ROOT / "src",
        tree / "src",
        copy_function=os.link,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    work.mkdir()
    diffs = [block.splitlines() for block in re.findall(r"^```diff\n(.*?)^```", body, re.M | re.S)]
    changed = {change(tree, diff) for diff in diffs}
    assert len(changed) == said
    for script in sorted(name for name in changed if name.endswith(".js") and shutil.which("node")):
        subprocess.run(["node", "--check", tree / script], check=True)
    (then,) = re.findall(r"^Then:\n\n```py\n(.*?)^```", body, re.M | re.S)
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", then]
    ran = subprocess.run(
        command, check=False, cwd=work, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
