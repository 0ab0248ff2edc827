"""docs/trust.md counts the lines of the checker that no import for pairs reaches."""

import ast
import importlib
from pathlib import Path
from typing import Any

import pytest

from places import ROOT


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("trust_lines")


def imported(path: Path) -> set[str]:
    """Return the checker's modules that a module imports at its top, before any sequence."""
    found = set[str]()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("quadlens_checker"):
            name = (node.module or "").partition(".")[2]
            found |= {name} if name else {alias.name for alias in node.names}
    return found


def test_what_is_for_sequences_alone_is_not_imported_for_pairs(tool: Any) -> None:
    reached, open_ = set[str](), {"__main__", "guard", "verdict"}
    while open_:
        name = open_.pop()
        reached.add(name)
        open_ |= imported(tool.CHECKER / f"{name}.py") - reached
    modules = {path.stem for path in tool.CHECKER.glob("*.py")} - {"__init__"}
    assert modules - reached == set(tool.OF_SEQUENCES)


def test_lines_are_rounded_to_the_nearest_step(tool: Any) -> None:
    assert [tool.rounded(count, 500) for count in (4_749, 4_751, 5_249)] == [4_500, 5_000, 5_000]
    assert abs(tool.lines(sorted(tool.CHECKER.rglob("*.py"))) - tool.of_checker()) <= 250
    assert tool.of_package() % 5_000 == 0
