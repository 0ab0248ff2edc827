"""Cards of the gallery say what the program says, and each has what it needs."""

import hashlib
import importlib.util
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import quadlens
from places import ROOT
from quadlens.network.bundled import bundled_names

SPEC = importlib.util.spec_from_file_location("gallery", ROOT / "tools" / "gallery.py")
assert SPEC is not None
assert SPEC.loader is not None
gallery = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(gallery)

CARDS: dict[str, dict[str, Any]] = json.loads((ROOT / gallery.FACTS).read_text(encoding="utf-8"))
PUBLIC: dict[str, dict[str, Any]] = tomllib.loads(
    (ROOT / gallery.PUBLIC).read_text(encoding="utf-8")
)
# A proof's hints are found in floating point: another processor may lose a little more, or less, of
# the margin.
MARGIN_TOLERANCE = 1e-3


def differing(card: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return what a card says otherwise than the program.

    Seconds are of one machine, and the picture's text is not a fact.
    """
    same = [key for key in card.keys() - {"seconds", "picture", "margin"} if card[key] != now[key]]
    margins = [float(facts["margin"]) for facts in (card, now)]
    return same + ["margin"] * (abs(margins[0] - margins[1]) > MARGIN_TOLERANCE * margins[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", bundled_names())
def test_a_bundled_networks_card_says_what_the_program_says(name: str) -> None:
    assert differing(CARDS[name], gallery.facts(quadlens.study(name))) == []


def test_a_card_that_says_otherwise_is_found() -> None:
    card = CARDS["clock"]
    assert differing(card, card) == []
    assert differing(card | {"right": card["right"] - 1}, card) == ["right"]
    assert differing(card | {"margin": str(1.01 * float(card["margin"]))}, card) == ["margin"]


def test_every_network_has_a_card_and_a_small_picture() -> None:
    assert CARDS.keys() == {*bundled_names(), *PUBLIC}
    pictures = [ROOT / gallery.PICTURES / f"{name}.png" for name in CARDS]
    assert sorted(pictures) == sorted((ROOT / gallery.PICTURES).iterdir())
    assert sum(path.stat().st_size for path in [*pictures, ROOT / gallery.PAGE]) < 1_500_000


def test_cards_stand_by_number_of_inputs_and_link_what_is_public() -> None:
    text = gallery.page(CARDS, PUBLIC)
    titles = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    names = {PUBLIC.get(name, {}).get("title", name): name for name in CARDS}
    inputs = [CARDS[names[title]]["inputs"] for title in titles]
    assert inputs == sorted(inputs)
    assert len(inputs) == len(CARDS)
    for entry in PUBLIC.values():
        assert f"(https://github.com/{entry['repository']})" in text


def test_wrong_networks_show_an_input_and_no_margin() -> None:
    wrong = [name for name, card in CARDS.items() if card["verdict"] == "WRONG"]
    assert wrong
    for name in wrong:
        shown = gallery.shown(name, CARDS[name], PUBLIC[name])
        assert "| wrong on | " in shown
        assert re.search(r"^\| right of 20,000 random inputs \| [\d,]+ \|$", shown, re.MULTILINE)
        x, y = CARDS[name]["counter_example"]["input"]
        assert not shown.partition("→ ")[2].startswith(f"{x + y} ")


@pytest.mark.parametrize("path", ["README.md", "docs/index.md"])
def test_the_strip_shows_networks_that_are_certified(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    names = re.findall(r"pictures/gallery/([\w-]+)\.png", text)
    assert len(names) >= 4
    assert [name for name in names if CARDS[name]["verdict"] != "CERTIFIED"] == []


def test_a_public_file_is_known_by_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "renamed.pt").write_bytes(b"weights")
    (tmp_path / "other.pt").write_bytes(b"others")
    wanted = {"network": {"sha256": hashlib.sha256(b"weights").hexdigest()}}
    assert gallery.found_below([tmp_path], wanted) == {"network": tmp_path / "sub" / "renamed.pt"}
