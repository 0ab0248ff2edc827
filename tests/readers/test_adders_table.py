"""The table over public adders: what its rows say, from what the commands print."""

import csv
import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
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
        about = {
            "repository": "someone/adders",
            "path": "kept/best_57.pt",
            "stated": "100 %",
            "seconds": "2.1",
        }
        about |= {"drawn": "20000", "drawn_wrong": "1"}
        row = dict.fromkeys(table.FIELDS, "") | about | table.facts(summary)
        return (
            table.line({name: str(value) for name, value in row.items()}).strip("| ").split(" | ")
        )

    name = "someone: `best_57.pt`"
    assert cells() == [
        name,
        "100 %",
        "19,999",
        "**right on all**",
        "≥ 0.9668, attained 1.003",
        "0",
        "2.1",
        "–",
    ]
    summary |= {"verdict": "PARTLY", "wrong_inputs": [0, 1234567]}
    assert cells()[3:6] == ["PARTLY", "", "at most 1.235·10^6"]
    summary |= {"verdict": "WRONG", "wrong_inputs": [7, 270_000_000_001]}
    summary |= {"counter_example": {"input": [99, 1], "answered": [0, 0, 9, 12, 5]}}
    assert cells()[3:6] == ["wrong", "99 + 1 → 900", "7 … 2.701·10^11"]
    summary |= {"task": "max:4", "counter_example": {"input": [1, 2], "answered": [1]}}
    assert cells()[4] == "[1, 2] → [1]"


def test_a_row_takes_its_place(table: Any, tmp_path: Path) -> None:
    data = tmp_path / "adders.csv"
    for path, verdict in (("a.pt", "WRONG"), ("b.pt", "CERTIFIED"), ("a.pt", "PARTLY")):
        table.update({"repository": "o/n", "path": path, "verdict": verdict}, data)
    rows = list(csv.DictReader(data.read_text(encoding="utf-8").splitlines()))
    assert [(row["path"], row["verdict"]) for row in rows] == [
        ("a.pt", "PARTLY"),
        ("b.pt", "CERTIFIED"),
    ]


def test_weights_are_read_from_a_programs_text(table: Any, tmp_path: Path) -> None:
    program = tmp_path / "submission.py"
    program.write_text(
        "import torch\nraise SystemExit\nRIGHT = {'a': 1}\nW = {'x.weight': torch.tensor([[1.5, "
        "-2.0]], dtype=torch.float32), 'y': torch.tensor(0.1)}\n"
    )
    found = table.weights_in_text(program)
    assert list(found) == ["x.weight", "y"]
    np.testing.assert_array_equal(found["x.weight"], np.array([[1.5, -2.0]], dtype=np.float32))
    assert found["y"] == np.float32(0.1)


def test_a_program_is_decided_only_where_it_is_named(table: Any, tmp_path: Path) -> None:
    known = [{"repository": "someone/gist", "path": "submission.py"}]
    for name in ("someone/gist/submission.py", "someone/gist/other.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert table.checkpoints(tmp_path, known) == [tmp_path / "someone/gist/submission.py"]
    (tmp_path / "m.pt").write_bytes(b"")
    assert [path.name for path in table.checkpoints(tmp_path, known)] == ["m.pt", "submission.py"]


def test_counts_are_those_of_the_rows(table: Any, tmp_path: Path) -> None:
    def row(verdict: str, wrong: int, stated: str = "–", drawn: int = 1000) -> dict[str, Any]:
        about = {"repository": "o/n", "path": f"{verdict}{wrong}{stated}.pt", "verdict": verdict}
        return about | {"stated": stated, "drawn": drawn, "drawn_wrong": wrong}

    rows = [
        row("CERTIFIED", 0),
        row("WRONG", 0, "100 %"),
        row("WRONG", 10, "100.00 % in a table"),
        row("WRONG", 11),
    ]
    data = tmp_path / "adders.csv"
    for one in rows:
        table.update(one, data)
    assert table.counts(data) == {
        "networks": 4,
        "nearly_right": 3,
        "right": 1,
        "wrong": 2,
        "wrong_stated_100": 2,
        "others": 1,
        "others_fail_least": 0.011,
        "others_fail_most": 0.011,
    }


def test_the_data_have_every_network_and_a_verdict(table: Any) -> None:
    facts = tomllib.loads(table.FACTS.read_text(encoding="utf-8"))["adder"]
    rows = list(csv.DictReader(table.DATA.read_text(encoding="utf-8").splitlines()))
    key = ("repository", "path", "claimed")
    assert sorted((r["repository"], r["path"], r["stated"]) for r in rows) == sorted(
        tuple(fact.get(name, "–") for name in key) for fact in facts
    )
    wrong = [row for row in rows if row["verdict"] == "WRONG"]
    assert len(wrong) + sum(row["verdict"] == "CERTIFIED" for row in rows) == len(rows)


def test_the_networks_of_the_board_are_as_the_rows_say(table: Any) -> None:
    facts = tomllib.loads(table.FACTS.read_text(encoding="utf-8"))["adder"]
    rows = list(csv.DictReader(table.DATA.read_text(encoding="utf-8").splitlines()))
    verdict = {(row["repository"], row["path"]): row["verdict"] for row in rows}
    words = {"CERTIFIED": "right on all", "WRONG": "wrong"}
    decided = {
        (
            str(fact["board"]),
            fact["repository"].partition("/")[0],
            words[verdict[fact["repository"], fact["path"]]],
        )
        for fact in facts
        if "board" in fact
    }
    section = (
        (ROOT / "docs" / "sequences.md")
        .read_text(encoding="utf-8")
        .partition("### The trained networks")[2]
    )
    listed = [
        line.strip("| ").split(" | ") for line in section.splitlines() if re.match(r"\| \d", line)
    ]
    assert {
        (cells[0], cells[1], cells[4]) for cells in listed if cells[4] in words.values()
    } == decided
    assert sum(len(cells[0].split(", ")) for cells in listed) == 29
