"""`experiments/attention_rates.py`: a small sweep and the kept models beside the published ones."""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cli_runner import quadlens
from places import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "experiments")
    return importlib.import_module("attention_rates")


def printed(
    rates: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *words: str,
) -> str:
    """What the script prints."""
    monkeypatch.setattr(sys, "argv", ["attention_rates.py", *words])
    rates.main()
    return capsys.readouterr().out


def test_attention_rates_beside_the_published_ones(
    rates: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = [
        "--p",
        "11",
        "--d-mlp",
        "24",
        "--d-model",
        "12",
        "--n-heads",
        "2",
        "--d-head",
        "6",
        "--epochs",
        "60",
    ]
    where = ["--seeds", "0:1", "--processes", "1", "--strategies", "moments", "-q", "-o"]
    sweep = ("sweep", "--preset", "zhong", *sizes, *where, str(tmp_path / "rates"))
    made = quadlens(*sweep, "--attention-rate", "0,0.5")
    assert made.code == 0, made.err

    def document(*words: str) -> Any:
        place = str(tmp_path / "rates")
        return json.loads(printed(rates, monkeypatch, capsys, place, "--json", *words))

    value = document("--figures", str(tmp_path / "figures"))
    assert [row["attention_rate"] for row in value["rows"]] == [0.0, 0.5]
    assert all(-1 <= row["gradient_symmetricity"] <= 1 for row in value["rows"])
    assert value["rows"][0]["product_share"] == pytest.approx(0, abs=1e-12)
    assert [row["measure"] for row in value["verdicts"]] == list(rates.MEASURES)
    assert (tmp_path / "figures" / "population-attention-rate.svg").is_file()
    assert document("--where", "attention_rate>0")["models"] == 1

    other = ("--initial-rule", "gpt2", "--initial-scale", "0.8", "--attention-rate", "0.5")
    made = quadlens(*sweep, *other)
    assert made.code == 0, made.err
    value = document()
    assert [(row["initial_rule"], row["attention_rate"]) for row in value["rows"]] == [
        ("gpt2", 0.5),
        ("zhong", 0.0),
        ("zhong", 0.5),
    ]
    assert [(row["initial_rule"], row["models"]) for row in value["verdicts"]] == 3 * [
        ("gpt2", 1)
    ] + 3 * [("zhong", 2)]


def test_published_attention_rates_are_all_there(rates: ModuleType) -> None:
    tenths = rates.published()
    assert sum(tenth.runs for tenth in tenths) == 2373
    for tenth in tenths:
        for name in rates.MEASURES:
            assert list(tenth.quantiles[name]) == sorted(tenth.quantiles[name])


def test_the_kept_attention_rates_are_all_accurate_and_proved(rates: ModuleType) -> None:
    kept = rates.read(rates.KEPT)
    assert kept["attention_rate"].n_unique() == 21
    assert (kept["correct"] == kept["inputs"]).all()
    assert (kept["certified_inputs"] == kept["inputs"]).all()
