"""Numbers of documents that no command prints, called by tools/values.py.

They are counts of rows of data, and a bound.
"""

import csv
import json
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def rows(name: str) -> list[dict[str, Any]]:
    """Return the rows of a table of `experiments/data/`."""
    with (ROOT / "experiments" / "data" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def wrong_adders() -> list[dict[str, Any]]:
    """Return the public adders that are wrong on some input."""
    return [row for row in rows("adders") if row["verdict"] == "WRONG"]


def on_the_board(verdict: str = "") -> int:
    """Return how many networks of AdderBoard are decided here, or have this verdict."""
    facts = tomllib.loads((ROOT / "experiments" / "adders.toml").read_text(encoding="utf-8"))[
        "adder"
    ]
    listed = {(fact["repository"], fact["path"]) for fact in facts if "board" in fact}
    found = [row for row in rows("adders") if (row["repository"], row["path"]) in listed]
    return sum(verdict in ("", row["verdict"]) for row in found)


def known_to_a_factor_of_two(row: dict[str, Any]) -> bool:
    """Whether the bounds on a network's number of wrong inputs are that close."""
    return bool(row["wrong_at_most"]) and int(row["wrong_at_most"]) < 2 * int(row["wrong_at_least"])


def config(name: str) -> dict[str, Any]:
    """Return the settings that a bundled network was trained with."""
    path = ROOT / "src" / "quadlens" / "data" / f"{name}.manifest.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["config"]
    return found


def tf32_logits(name: str) -> float:
    """Return what the theorem of float32 would allow with TF32 inputs.

    A path has ten operands of 11 bits.
    """
    from quadlens.network.bundled import load
    from quadlens.proofs.pairs.float32 import UNIT_ROUNDOFFS, bound_float32, magnitude

    model = load(name)
    lost = Fraction(10, 2**11) + Fraction(bound_float32(model).roundings, UNIT_ROUNDOFFS)
    return float(lost / (1 - lost) * magnitude(model))
