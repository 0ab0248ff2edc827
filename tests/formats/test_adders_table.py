"""The table over public adders: what its rows say, from what the commands print."""

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
    assert table.told(summary) == ("CERTIFIED", "≥ 0.9668, attained 1.003", "0")
    summary |= {"verdict": "PARTLY", "wrong_inputs": [0, 1234567]}
    assert table.told(summary)[2] == "at most 1.24·10^6"
    summary |= {"verdict": "WRONG", "wrong_inputs": [7, 270_000_000_001]}
    summary |= {"counter_example": {"input": [99, 1], "answered": [0, 0, 9, 12, 5]}}
    assert table.told(summary) == ("WRONG", "99 + 1 → 900", "7 … 2.71·10^11")
    summary |= {"task": "max:4", "counter_example": {"input": [1, 2], "answered": [1]}}
    assert table.told(summary)[1] == "[1, 2] → [1]"
