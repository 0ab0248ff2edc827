"""Each wing is small enough for one person, and has a page that says where to begin."""

import tomllib
from pathlib import Path

import pytest

from places import ROOT

SOURCE = ROOT / "src"
BUDGETS = tomllib.loads((ROOT / "tests" / "house" / "wings.toml").read_text(encoding="utf-8"))

# The module that old pickles name refuses them for the network's `Study`.
HOME_OF = {"studies": "network"}


def wing_of(path: Path) -> str:
    """Return the wing of a file below src/: its folder, or the door where it has none."""
    package, *folders, _ = path.relative_to(SOURCE).parts
    if package == "quadlens_checker":
        return "checker"
    return HOME_OF.get(folders[0], folders[0]) if folders else "door"


def characters(source: Path = SOURCE) -> dict[str, int]:
    """Return the characters of all Python files of each wing."""
    sizes = dict.fromkeys(BUDGETS, 0)
    for path in source.rglob("*.py"):
        sizes[wing_of(path)] += len(path.read_text(encoding="utf-8"))
    return sizes


@pytest.mark.parametrize("wing", BUDGETS)
def test_a_wing_keeps_to_its_budget(wing: str) -> None:
    """In thousands of characters; a wing above its budget may not grow beyond what it has today."""
    budget, size = BUDGETS[wing]["budget"], characters()[wing]
    most = BUDGETS[wing].get("today", budget)
    assert size <= 1000 * most, (
        f"{wing} has {size:,} characters; its budget is {budget},000 and it may have {most},000 "
        "today (tests/house/wings.toml): take something away before you add"
    )


def test_a_wing_within_its_budget_has_no_other_number() -> None:
    for wing, numbers in BUDGETS.items():
        assert numbers.get("today", numbers["budget"] + 1) > numbers["budget"], wing


def test_every_wing_has_a_budget() -> None:
    wings = {
        path.parent.name for path in (SOURCE / "quadlens").glob("*/__init__.py")
    } - HOME_OF.keys()
    assert wings | {"checker", "door"} == BUDGETS.keys()


@pytest.mark.parametrize("wing", sorted(BUDGETS.keys() - {"door"}))
def test_every_wing_has_a_page(wing: str) -> None:
    """What it is, in which order to read it, what is frozen, how to run its tests: one page."""
    name = "quadlens_checker" if wing == "checker" else f"quadlens/{wing}"
    assert (SOURCE / name / "README.md").is_file(), f"src/{name} has no README.md"
