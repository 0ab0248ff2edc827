"""The table over public adders: what its rows say, from what the commands print."""

import csv
import importlib.util
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from places import ROOT

SCRIPT = ROOT / "experiments" / "adders.py"


@pytest.fixture(scope="module")
def table() -> Any:
    spec = importlib.util.spec_from_file_location("adders", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["adders"] = module
    spec.loader.exec_module(module)
    return module


def test_every_checkpoint_is_named_once(table: Any) -> None:
    facts = tomllib.loads(table.FACTS.read_text(encoding="utf-8"))["adder"]
    named = [Path("clones") / fact["repository"] / fact["path"] for fact in facts]
    assert len(set(named)) == len(facts) >= 40
    assert [table.facts_of(path, facts) for path in named] == facts
    assert table.facts_of(Path("clones/own/model.pt"), facts) == {}


def test_a_row_says_what_was_proved(table: Any) -> None:
    summary: dict[str, Any] = {
        "verdict": "CERTIFIED",
        "task": "add:10",
        "wrong_inputs": [0, 0],
        "counter_example": None,
    }
    summary |= {"margin_lower_bound": 0.96688, "margin_attained": 1.00277}

    def cells() -> list[str]:
        about = {"repository": "someone/adders", "path": "kept/best_57.pt", "stated": "100 %", "seconds": "2.1"}
        row = dict.fromkeys(table.FIELDS, "") | about | table.facts(summary)
        return table.line({name: str(value) for name, value in row.items()}).strip("| ").split(" | ")

    name = "someone: `best_57.pt`"
    assert cells() == [name, "100 %", "**right on all**", "≥ 0.9668, attained 1.003", "0", "2.1", "–"]
    summary |= {"verdict": "PARTLY", "wrong_inputs": [0, 1234567]}
    assert cells()[2:5] == ["PARTLY", "", "at most 1.235·10^6"]
    summary |= {"verdict": "WRONG", "wrong_inputs": [7, 270_000_000_001]}
    summary |= {"counter_example": {"input": [99, 1], "answered": [0, 0, 9, 12, 5]}}
    assert cells()[2:5] == ["wrong", "99 + 1 → 900", "7 … 2.701·10^11"]
    summary |= {"task": "max:4", "counter_example": {"input": [1, 2], "answered": [1]}}
    assert cells()[3] == "[1, 2] → [1]"


def test_a_row_takes_its_place(table: Any, tmp_path: Path) -> None:
    data = tmp_path / "adders.csv"
    for path, verdict in (("a.pt", "WRONG"), ("b.pt", "CERTIFIED"), ("a.pt", "PARTLY")):
        table.update({"repository": "o/n", "path": path, "verdict": verdict}, data)
    rows = list(csv.DictReader(data.read_text(encoding="utf-8").splitlines()))
    assert [(row["path"], row["verdict"]) for row in rows] == [("a.pt", "PARTLY"), ("b.pt", "CERTIFIED")]


def test_the_table_in_docs_is_that_of_the_data(table: Any) -> None:
    facts = tomllib.loads(table.FACTS.read_text(encoding="utf-8"))["adder"]
    rows = list(csv.DictReader(table.DATA.read_text(encoding="utf-8").splitlines()))
    key = ("repository", "path", "claimed")
    assert sorted((r["repository"], r["path"], r["stated"]) for r in rows) == sorted(
        tuple(fact.get(name, "–") for name in key) for fact in facts
    )
    text = (ROOT / "docs" / "sequences.md").read_text(encoding="utf-8")
    assert table.table() in text
    wrong = [row for row in rows if row["verdict"] == "WRONG"]
    right = sum(row["verdict"] == "CERTIFIED" for row in rows)
    assert f"All {len(rows)} are decided: {right} are right on all inputs, {len(wrong)} are not." in text
    close = sum(int(r["wrong_at_most"]) < 2 * int(r["wrong_at_least"]) for r in wrong if r["wrong_at_most"])
    assert f"Of {close} of the {len(wrong)} wrong ones the two bounds are less than a factor of 2 apart." in text
