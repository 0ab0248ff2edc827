#!/usr/bin/env python3
"""Keep the numbers that documents quote: made by a command, written once, inserted.

They stand in docs/data/values.json.

    python tools/values.py              # run the commands again and write docs/data/values.json
    python tools/values.py pizza        # those whose names begin so

A document names the value after the number, of which `make docs` writes the text:

    with margin at least 14.22<!--=pizza.margin-->, in float32 too

A new value is a new row of `VALUES`; add it and run this file. A bound is rounded to its safe side,
by its kind.
"""

import json
import math
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Literal

from quadlens.base.numbers import Direction, decimals
from quadlens.training.population.comparison import SAID_TWICE

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "data" / "values.json"
Kind = Literal["exact", "estimate", "at least", "at most"]
DIRECTIONS: dict[Kind, Direction] = {
    "exact": "nearest",
    "estimate": "nearest",
    "at least": "down",
    "at most": "up",
}
QUOTED = re.compile(r"(−?\d[\d,]*(?:\.\d+)?[⁰¹²³⁴⁵⁶⁷⁸⁹]*)<!--=([\w.-]+)-->")
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
# The same computation on another processor may differ in the last bits.
SAME = 1e-9


@dataclass(frozen=True)
class Value:
    """One number that documents quote.

    Attributes:
        name: How documents call it.
        command: What makes it: `quadlens …`, whose JSON is read, or a script, whose functions are
            called.
        take: Finds it in the JSON, or in the script's names.
        kind: What it is: an exact count, an estimate, or a bound.
        digits: Digits after the point.
        unit: `%` where a share is quoted in per cent.
    """

    name: str
    command: str
    take: Callable[[Any], float | int]
    kind: Kind = "exact"
    digits: int = 0
    unit: str = ""

    def row(self) -> dict[str, Any]:
        """Run the command; return what the file holds of this value."""
        value = self.take(output(self.command))
        if self.kind == "exact" and not isinstance(value, int):
            raise TypeError(f"{self.name} is called exact and is {value!r}, which is no integer")
        return {
            "value": value,
            "kind": self.kind,
            "digits": self.digits,
            "unit": self.unit,
            "command": self.command,
        }


@cache
def output(command: str) -> Any:
    """Return the JSON that a command prints, or the names that a script defines."""
    if command.endswith(".py"):
        # As when the script is run: it imports from its own folder.
        sys.path.insert(0, str((ROOT / command).parent))
        try:
            return runpy.run_path(str(ROOT / command))
        finally:
            sys.path.pop(0)
    *before, last = (shlex.split(one)[1:] for one in command.split(" && "))
    with tempfile.TemporaryDirectory() as folder:
        for words in [*before, [*last, "--json"]]:
            program = [sys.executable, "-m", "quadlens", *words]
            printed = subprocess.run(
                program, cwd=folder, check=True, stdout=subprocess.PIPE, text=True
            ).stdout
    return json.loads(printed)


def text(row: Mapping[str, Any]) -> str:
    """Return a value as it is quoted.

    A bound is rounded to its safe side, and a long power of ten is a power.

    >>> text({"value": 0.04071, "kind": "at most", "digits": 1, "unit": "%"})
    '4.1'
    >>> text({"value": 10**20, "kind": "exact", "digits": 0, "unit": ""})
    '10²⁰'
    """
    value = row["value"]
    if row["kind"] == "exact":
        power = next(
            (f"{base}{n}" for base in (10, 11) for n in range(9, 40) if base**n == value), None
        )
        return f"{power[:2]}{power[2:].translate(SUPERSCRIPTS)}" if power else f"{value:,}"
    exact = Fraction(value) * (100 if row["unit"] == "%" else 1)
    return decimals(exact, row["digits"], DIRECTIONS[row["kind"]]).replace("-", "−")


def inserted(document: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the document with every quoted value as `text` writes it.

    Raises:
        ValueError: A comment stands behind no number, or names no value.
    """
    if len(QUOTED.findall(document)) != document.count("<!--="):
        raise ValueError("a comment <!--=NAME--> must stand right behind the number that it names")
    if unknown := {name for _, name in QUOTED.findall(document)} - rows.keys():
        raise ValueError(
            f"no value is named {', '.join(sorted(unknown))}; tools/values.py has the names"
        )
    return QUOTED.sub(lambda found: f"{text(rows[found[2]])}<!--={found[2]}-->", document)


def read() -> dict[str, dict[str, Any]]:
    """Return the file's rows by name."""
    rows: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return rows


def documents() -> list[Path]:
    """Return what may quote a value."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def same(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> bool:
    """Return whether a row need not be written again.

    It reads the same, and differs by rounding at most.
    """
    if old is None or {**old, "value": 0} != {**new, "value": 0} or text(old) != text(new):
        return False
    return math.isclose(old["value"], new["value"], rel_tol=SAME)


# What the takes below pick from the JSON of one command.
def _differing(population: Any) -> list[Any]:
    """The comparisons with the paper that are tested and differ."""
    return [one for one in _tested(population) if one["verdict"] == "differs"]


def _tested(population: Any) -> list[Any]:
    """Statements and histograms alike, none twice."""
    named = {**population, **population["histograms"]}
    return [
        one
        for name, one in named.items()
        if name != SAID_TWICE and isinstance(one, dict) and one.get("p") is not None
    ]


def _errors(study: Any) -> tuple[float, ...]:
    """The exact errors of all key clusters of the shipped population, in order."""
    errors: tuple[float, ...] = study["cluster_errors"](study["read"](study["shipped_path"]()))[
        0
    ].errors
    return errors


def _cards(gallery: Any) -> Any:
    """What the gallery says of each network, by name."""
    return json.loads((ROOT / gallery["FACTS"]).read_text(encoding="utf-8"))


def _inputs(gallery: Any) -> list[int]:
    return [card["inputs"] for card in _cards(gallery).values()]


def _registered(study: Any) -> Any:
    return study["finding"](study["registered_models"]())


def _proved_lines(names: tuple[str, ...]) -> Callable[[Any], int]:
    return lambda tool: int(tool["of_proved"](*names))


def _of_rules(key: str, choose: Callable[[list[float]], float]) -> Callable[[Any], float]:
    return lambda bounds: choose([cluster[key] for cluster in bounds["clusters"]])


def _at(*path: str | int) -> Callable[[Any], Any]:
    def take(found: Any) -> Any:
        for step in path:
            found = found[step]
        return found

    return take


MOMENTS, THIN = "quadlens certify pizza", "quadlens certify pizza --strategy thin"
BOUNDS, POPULATION, CLUSTERS = (
    "quadlens bounds pizza",
    "quadlens population",
    "experiments/beyond_the_paper.py",
)
COUNTS = "tools/counts.py"
GALLERY, KEYS = "tools/gallery.py", "experiments/few_neurons.py"
LINES = "tools/trust_lines.py"
# What Coq has read of networks that add, and a reader need not.
WORDS_PROOFS = (
    *("Enclosure.v", "Vectors.v", "Paths.v", "Cells.v", "Tables.v"),
    *("Attention.v", "Forms.v", "Tail.v", "Box.v", "Addition.v"),
)
TANH = (
    "quadlens ablate original --activation tanh -o tanh.safetensors && quadlens evaluate "
    "tanh.safetensors"
)
VALUES = (
    Value("pizza.p", "quadlens evaluate pizza", _at("p")),
    Value("pizza.neurons", "quadlens evaluate pizza", _at("config", "d_mlp")),
    Value("pizza.inputs", MOMENTS, _at("inputs")),
    Value("pizza.margin", MOMENTS, _at("margin_lower_bound"), "at least", 2),
    Value(
        "pizza.cost-beyond-collapse", MOMENTS, _at("cost_share_beyond_collapse"), "at most", 1, "%"
    ),
    Value("pizza.thin.margin", THIN, _at("margin_lower_bound"), "at least", 2),
    Value("pizza.thin.cost", THIN, _at("cost_share"), "at most", 1, "%"),
    Value("pizza.smallest-margin", "quadlens evaluate pizza", _at("min_margin"), "at least", 2),
    Value("clock.cost", "quadlens certify clock", _at("cost_share"), "at most", 1, "%"),
    # Errors over all a, b and c, relative to the integral's mean size: of what ReLU neurons
    # compute, then of |x|.
    Value(
        "pizza.smallest-relu-error",
        BOUNDS,
        _of_rules("relative_exact_relu_psi", min),
        "at most",
        1,
        "%",
    ),
    Value(
        "pizza.largest-relu-error",
        BOUNDS,
        _of_rules("relative_exact_relu_psi", max),
        "at most",
        1,
        "%",
    ),
    Value("pizza.smallest-error", BOUNDS, _of_rules("relative_exact_psi", min), "at most", 1, "%"),
    Value("pizza.largest-error", BOUNDS, _of_rules("relative_exact_psi", max), "at most", 1, "%"),
    Value(
        "pizza.smallest-bound-of-the-paper",
        BOUNDS,
        _of_rules("relative_bound", min),
        "at most",
        0,
        "%",
    ),
    Value(
        "pizza.largest-bound-of-the-paper",
        BOUNDS,
        _of_rules("relative_bound", max),
        "at most",
        0,
        "%",
    ),
    Value(
        "pizza.r2-pizza", "quadlens explain pizza", _at("r2", "all_logits", "pizza"), "estimate", 2
    ),
    Value(
        "pizza.r2-clock", "quadlens explain pizza", _at("r2", "all_logits", "clock"), "estimate", 2
    ),
    Value(
        "pizza.r2-pizza-of-abs",
        "quadlens explain pizza",
        _at("r2", "abs_component", "pizza"),
        "estimate",
        2,
    ),
    Value(
        "pizza.r2-clock-of-abs",
        "quadlens explain pizza",
        _at("r2", "abs_component", "clock"),
        "estimate",
        2,
    ),
    Value(
        "original.D12", "quadlens explain original", _at("coefficients", "12", "D"), "estimate", 2
    ),
    Value(
        "original.D12-from-a",
        "quadlens explain original",
        _at("identity", "of_a", "D", "12"),
        "estimate",
        2,
    ),
    Value(
        "original.D12-from-b",
        "quadlens explain original",
        _at("identity", "of_b", "D", "12"),
        "estimate",
        2,
    ),
    Value(
        "original.D12-from-embedding",
        "quadlens explain original",
        lambda found: found["identity"]["of_b"]["D"]["12"] - found["identity"]["of_a"]["D"]["12"],
        "estimate",
        2,
    ),
    # The strength of the right answer at k = 12 where |cos u| is smallest.
    *(
        Value(f"original.spot.{name}", "quadlens explain original", take, "estimate", 2)
        for name, take in (
            ("identity", _at("weak_spots", 0, "identity_component")),
            ("abs", _at("weak_spots", 0, "abs_component")),
            ("pizza", _at("weak_spots", 0, "pizza_term")),
            ("skip", _at("weak_spots", 0, "skip")),
            (
                "mlp",
                lambda found: sum(
                    found["weak_spots"][0][f"{part}_component"] for part in ("abs", "identity")
                ),
            ),
            ("logits", _at("weak_spots", 0, "all_logits")),
        )
    ),
    Value("original.tanh-right", TANH, _at("correct")),
    Value("original.cells-that-agree", "quadlens bounds original", _at("papers_numbers", "agree")),
    Value("original.cells", "quadlens bounds original", _at("papers_numbers", "printed")),
    *(
        Value(f"original.{name}-by-papers-relu-rule", "quadlens bounds original", take)
        for name, take in (
            (
                "fewest-cells",
                lambda found: min(found["papers_numbers"]["agree_by_papers_relu_rule"]),
            ),
            ("most-cells", lambda found: max(found["papers_numbers"]["agree_by_papers_relu_rule"])),
        )
    ),
    # What goes with inaccurate rules in the 50 models of the registered experiment on doubled keys.
    *(
        Value(f"registered.{name}", KEYS, take, "estimate", digits)
        for name, take, digits in (
            ("auc-of-score", lambda study: _registered(study).score, 3),
            ("auc-of-number-of-keys", lambda study: _registered(study).keys, 3),
            ("auc-of-a-double", lambda study: _registered(study).double, 3),
            ("z-of-a-double", lambda study: _registered(study).double_given_keys, 2),
        )
    ),
    Value("population.models", POPULATION, _at("models", "ours")),
    Value("population.good", POPULATION, _at("good_models", "ours")),
    Value(
        "population.good-of-the-paper", POPULATION, lambda found: int(found["good_models"]["paper"])
    ),
    Value("population.good-margin", POPULATION, _at("good_models", "margin"), "at most", 1, "%"),
    Value("population.comparisons", POPULATION, lambda found: len(_tested(found))),
    Value("population.differ", POPULATION, lambda found: len(_differing(found))),
    Value(
        "population.agree", POPULATION, lambda found: len(_tested(found)) - len(_differing(found))
    ),
    Value(
        "population.differ-after-holm",
        POPULATION,
        lambda found: sum(one["p_holm"] < 0.05 for one in _tested(found)),
    ),
    Value("clusters.all", CLUSTERS, lambda study: len(_errors(study))),
    Value(
        "clusters.median-error",
        CLUSTERS,
        lambda study: _errors(study)[len(_errors(study)) // 2],
        "at most",
        1,
        "%",
    ),
    Value(
        "clusters.above-10", CLUSTERS, lambda study: sum(error > 0.1 for error in _errors(study))
    ),
    Value("clusters.above-100", CLUSTERS, lambda study: sum(error > 1 for error in _errors(study))),
    Value("clusters.largest-error", CLUSTERS, lambda study: max(_errors(study)), "at most", 1, "%"),
    # Rounded to thousands or hundreds: code changes daily.
    Value("lines.quadlens", LINES, lambda tool: tool["of_package"]()),
    Value("lines.checker", LINES, lambda tool: tool["of_checker"]()),
    Value("lines.checker-for-sequences", LINES, lambda tool: tool["of_sequences"]()),
    Value("lines.checker-for-pairs", LINES, lambda tool: tool["of_pairs"]()),
    *(
        Value(f"lines.proved.{name}", LINES, _proved_lines(names))
        for name, names in (
            ("network", ("Network.v",)),
            ("check", ("Check.v",)),
            ("proofs", ("Matrix.v", "Collapse.v", "LowRank.v")),
            ("extract", ("Extract.v",)),
            ("main", ("files.ml", "main.ml", "sequences.ml")),
            ("words", ("Words.v",)),
            ("words-check", ("CheckWords.v", "Sums.v")),
            ("words-proofs", WORDS_PROOFS),
        )
    ),
    Value("pizza.tf32-logits", COUNTS, lambda tool: tool["tf32_logits"]("pizza"), "at least"),
    Value("adder.seed", COUNTS, lambda tool: tool["config"]("adder")["seed"]),
    Value("adder.steps", COUNTS, lambda tool: tool["config"]("adder")["epochs"]),
    Value("adder.learning-rate", COUNTS, lambda tool: tool["config"]("adder")["lr"], "estimate", 3),
    # Networks like `adder` at other seeds: all, those that pass a test on random sums, those right
    # on all inputs.
    Value("adder.seeds", COUNTS, lambda tool: len(tool["rows"]("adder_seeds"))),
    Value(
        "adder.seeds-tested-on",
        COUNTS,
        lambda tool: max(int(row["tried"]) for row in tool["rows"]("adder_seeds")),
    ),
    Value(
        "adder.seeds-that-pass",
        COUNTS,
        lambda tool: sum(row["right"] == row["tried"] for row in tool["rows"]("adder_seeds")),
    ),
    Value(
        "adder.seeds-right",
        COUNTS,
        lambda tool: sum(row["verdict"] == "CERTIFIED" for row in tool["rows"]("adder_seeds")),
    ),
    Value("adders.wrong", COUNTS, lambda tool: len(tool["wrong_adders"]())),
    Value(
        "adders.close",
        COUNTS,
        lambda tool: sum(map(tool["known_to_a_factor_of_two"], tool["wrong_adders"]())),
    ),
    Value("adders.board", COUNTS, lambda tool: tool["on_the_board"]()),
    Value("adders.board-right", COUNTS, lambda tool: tool["on_the_board"]("CERTIFIED")),
    Value("adders.board-wrong", COUNTS, lambda tool: tool["on_the_board"]("WRONG")),
    Value("gallery.networks", GALLERY, lambda tool: len(_inputs(tool))),
    Value("gallery.fewest-inputs", GALLERY, lambda tool: min(_inputs(tool))),
    Value("gallery.most-inputs", GALLERY, lambda tool: max(_inputs(tool))),
    Value("adder.inputs", GALLERY, lambda tool: _cards(tool)["adder"]["inputs"]),
    # Shares of random inputs of which the middle digit is right, with parts of what attention
    # brings.
    *(
        Value(
            f"adder.{name}",
            "quadlens explain adder",
            _at("axis_controls", key),
            "estimate",
            digits,
            "%",
        )
        for name, key, digits in (
            ("s-alone", "s_alone", 1),
            ("without-s", "without_s", 1),
            ("s-as-drawn", "as_drawn", 2),
            ("s-linear", "linear", 1),
            ("s-shuffled", "lower_sum_shuffled", 1),
        )
    ),
    Value("chughtai-s5.inputs", GALLERY, lambda tool: _cards(tool)["chughtai-s5"]["inputs"]),
    Value("microadder-57.inputs", GALLERY, lambda tool: _cards(tool)["microadder-57"]["inputs"]),
)


def refresh(start: str = "") -> None:
    """Write the rows whose names begin so; the others stay."""
    old = read() if FILE.exists() else {}
    rows = {}
    for one in VALUES:
        new = one.row() if one.name.startswith(start) or one.name not in old else old[one.name]
        rows[one.name] = old[one.name] if same(old.get(one.name), new) else new
    FILE.write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    refresh(*sys.argv[1:2])
