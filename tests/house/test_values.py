"""Numbers that documents quote are what commands say today, rounded to the safe side."""

import importlib
import json
from fractions import Fraction
from typing import Any

import pytest

from places import ROOT

ROWS: dict[str, dict[str, Any]] = json.loads(
    (ROOT / "docs" / "data" / "values.json").read_text(encoding="utf-8")
)


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("values")


def number(text: str) -> Fraction:
    return Fraction(text.replace(",", "").replace("−", "-"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_a_value_is_what_its_command_says_today(name: str, tool: Any) -> None:
    """Compare the text, rounded to its safe side: a proof's hints are floating point."""
    (value,) = (one for one in tool.VALUES if one.name == name)
    now = value.row()
    assert tool.text(now) == tool.text(ROWS[name])
    assert now["value"] == pytest.approx(ROWS[name]["value"], rel=1e-6)
    assert {**now, "value": 0} == {**ROWS[name], "value": 0}


def test_the_file_holds_every_value_and_no_other(tool: Any) -> None:
    assert [one.name for one in tool.VALUES] == list(ROWS)


def test_documents_quote_values_as_the_file_has_them(tool: Any) -> None:
    """`make docs` puts it right."""
    for path in tool.documents():
        text = path.read_text(encoding="utf-8")
        assert tool.inserted(text, ROWS) == text, path


def test_every_value_is_quoted(tool: Any) -> None:
    quoted = {
        name
        for path in tool.documents()
        for _, name in tool.QUOTED.findall(path.read_text(encoding="utf-8"))
    }
    assert quoted == ROWS.keys()


@pytest.mark.parametrize("name", ROWS)
def test_a_bound_is_rounded_to_its_safe_side(name: str, tool: Any) -> None:
    row = ROWS[name]
    exact = Fraction(row["value"]) * (100 if row["unit"] == "%" else 1)
    if row["kind"] == "exact":
        assert isinstance(row["value"], int)
        return
    told, last = number(tool.text(row)), Fraction(1, 10 ** row["digits"])
    assert {"at least": 0 <= exact - told < last, "at most": 0 <= told - exact < last}.get(
        row["kind"], abs(told - exact) <= last / 2
    )


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("at least", 14.2299, "14.22"),
        ("at least", -0.001, "−0.01"),
        ("at most", 14.2201, "14.23"),
        ("estimate", 14.2251, "14.23"),
        ("estimate", -14.2249, "−14.22"),
        ("exact", 3481, "3,481"),
        ("exact", 10**20, "10²⁰"),
        ("exact", 10**20 + 1, "100,000,000,000,000,000,001"),
    ],
)
def test_the_kind_says_which_way_a_value_is_rounded(
    kind: str, value: float, text: str, tool: Any
) -> None:
    assert tool.text({"value": value, "kind": kind, "digits": 2, "unit": ""}) == text


def test_an_estimate_is_not_called_exact(tool: Any) -> None:
    with pytest.raises(TypeError, match="no integer"):
        tool.Value("x", "tools/values.py", lambda names: 0.5).row()


def test_what_a_document_says_otherwise_is_put_right(tool: Any) -> None:
    rows = {"x": {"value": 0.0401, "kind": "at most", "digits": 1, "unit": "%"}}
    assert (
        tool.inserted("at most 3.9<!--=x--> %, 1,000.5<!--=x-->", rows)
        == "at most 4.1<!--=x--> %, 4.1<!--=x-->"
    )
    for wrong in ("at most <!--=x--> %", "<!--=x-->", "4.1 <!--=x-->", "4.1 %<!--=x-->"):
        with pytest.raises(ValueError, match="right behind the number"):
            tool.inserted(wrong, rows)
    with pytest.raises(ValueError, match="no value is named y"):
        tool.inserted("4.1<!--=y-->", rows)


def test_bits_do_not_change_the_file(tool: Any) -> None:
    row = {"value": 14.225613866973317, "kind": "at least", "digits": 2, "unit": ""}
    assert tool.same(row, row | {"value": 14.225613866973319})
    assert not tool.same(row, row | {"value": 14.2257})
    assert not tool.same(row, row | {"digits": 3})
    assert not tool.same(None, row)
