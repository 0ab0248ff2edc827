"""One number, one value: whatever README, documents, tutorials, commands and a report say of a quantity is its value,
rounded to the safe side.

A row of `QUANTITIES` is a name, how the value is computed, which way it may be rounded, and the phrases that quote it.
Every place where a phrase occurs is compared; a number may have any number of digits, but the last one is rounded as
the row says: lower bounds down, upper bounds and costs up.
"""

import ast
import contextlib
import html
import io
import re
import runpy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import quadlens
from cli_runner import quadlens as run
from places import ROOT
from quadlens.numbers import Direction, decimals
from quadlens.population import dataset
from quadlens.population.comparison import Comparison, compare
from quadlens.published import read_published

pytestmark = pytest.mark.slow

CELL = re.compile(r"^```\{code-cell\} python\n(?::tags:[^\n]*\n+)?(.*?)^```", re.MULTILINE | re.DOTALL)
NUMBER = r"(-?\d[\d,]*(?:\.\d+)?)"
COMMANDS = (
    "evaluate pizza",
    "explain pizza",
    "bounds pizza",
    "lens pizza",
    "certify pizza",
    "certify pizza --strategy thin",
    "explain original",
    "bounds original",
    "population --markdown",
)


@dataclass(frozen=True)
class Quantity:
    """One number that a reader meets in several places.

    Attributes:
        name: What it is.
        value: Computes it.
        phrases: Patterns with # for the number.
        towards: Which way it is rounded.
        scale: What is printed is the value times this: 100 for per cent.
        places: How many different texts have it at least.
    """

    name: str
    value: Callable[[], float | Fraction | None]
    phrases: tuple[str, ...]
    towards: Direction
    scale: int = 1
    places: int = 1


@cache
def key_clusters() -> Any:
    study = runpy.run_path(str(ROOT / "experiments" / "beyond_the_paper.py"))
    return study["cluster_errors"](dataset.read(dataset.shipped_path()))[0]


@cache
def proof(strategy: str, model: str = "pizza") -> Any:
    return quadlens.certify(quadlens.study(model), strategy=strategy)


@cache
def rules() -> dict[int, Any]:
    return {one.k: one for one in quadlens.bounds("pizza").bounded}


@cache
def population() -> Comparison:
    return compare(dataset.read(dataset.shipped_path()))


def logits(model: str) -> Any:
    return quadlens.study(model).explanation.logits


def spot() -> Any:
    return logits("original").weak_spots[0]


def least_angle(model: str) -> float:
    study = quadlens.study(model)
    return min(one.r2 for one in study.explanation.phases if one.k in study.keys and one.r2 is not None)


QUANTITIES = (
    Quantity(
        "margin of pizza proved by moments",
        lambda: proof("moments").proof.margin,
        (
            r"3,481 inputs (?:of `pizza` )?are answered right, with margin at least #",
            r"inputs proved, margin at least #",
            r"where `moments`, the default, proves #",
            r"\| 0 \| [\d.]+ \| [\d.]+ % \| 6, [\d.]+ %, # \|",
            r"moments proves 3,481 inputs for [\d.]+ % with a margin of at least #",
        ),
        "down",
        places=5,
    ),
    Quantity(
        "margin of pizza proved by thin",
        lambda: proof("thin").proof.margin,
        (
            r"it proves one of #, where `moments`",
            r"\| all \| [\d.]+ \| margin proved # \|",
            r"thin proves 3,481 inputs for [\d.]+ % with a margin of at least #",
            r"strategy thin .*?margin_lower_bound #",
        ),
        "down",
        places=4,
    ),
    Quantity(
        "smallest margin of pizza",
        lambda: quadlens.evaluate("pizza").min_margin,
        (
            r"`quadlens evaluate pizza`: the smallest is #",
            r"\| 0 \| # \| [\d.]+ % \| 6,",
            r"Its smallest margin is #, at",
        ),
        "down",
        places=3,
    ),
    Quantity(
        "cost of thin, everything included",
        lambda: proof("thin").cost_share,
        (
            r"does not multiply out the weights: # %",
            r"thin proves 3,481 inputs for # %",
            r"strategy thin: [\d.]+ % of inputs proved at # %",
            r"strategy thin .*?cost_share # %",
        ),
        "up",
        100,
        3,
    ),
    Quantity(
        "cost of moments, everything included",
        lambda: proof("moments").cost_share,
        (
            r"operations: # % of brute force, everything included",
            r"moments proves 3,481 inputs for # %",
            r"strategy moments: [\d.]+ % of inputs proved at # %",
            r"strategy moments .*?cost_share # %",
        ),
        "up",
        100,
        3,
    ),
    Quantity(
        "cost of moments beyond the collapse",
        lambda: proof("moments").cost_share_beyond_collapse,
        (
            r"beyond multiplying out the weights: # %",
            r"which brute force needs as well, it takes # % of brute force's operations",
            r"\| 0 \| [\d.]+ \| [\d.]+ % \| 6, # %",
            r"strategy moments .*?cost_share_beyond_collapse # %",
        ),
        "up",
        100,
        4,
    ),
    Quantity(
        "cost of clock's proof",
        lambda: proof("auto", "clock").cost_share,
        (r"does it for softmax attention, in # % of brute force",),
        "up",
        100,
    ),
    *(
        Quantity(
            f"exact error at frequency {k}",
            lambda k=k: rules()[k].relative_exact_psi.upper,  # type: ignore[misc]
            (rf"frequency {k}: at most # % of the integral's mean size",),
            "up",
            100,
        )
        for k in (5, 9, 11)
    ),
    Quantity(
        "smallest exact error of pizza",
        lambda: min(one.relative_exact_psi.upper for one in rules().values()),
        (r"the truth, over all a, b and c, is # to",),
        "up",
        100,
    ),
    Quantity(
        "largest exact error of pizza",
        lambda: max(one.relative_exact_psi.upper for one in rules().values()),
        (
            r"the truth, over all a, b and c, is [\d.]+ to # %",
            r"\|x\|/2 alone is off by at most # %",
        ),
        "up",
        100,
        2,
    ),
    Quantity(
        "the paper's largest bound for pizza",
        lambda: max(one.relative_bound.value for one in rules().values()),
        (r"by 40 to # % of the integral's mean size",),
        "up",
        100,
    ),
    *(
        Quantity(
            f"least R² of ψ = 2φ, {model}",
            lambda model=model: least_angle(model),  # type: ignore[misc]
            (phrase, r"least R² of ψ = 2φ #") if model == "pizza" else (phrase,),
            "down",
        )
        for model, phrase in (
            ("pizza", r"three frequencies: 5, 9, 11\..{0,400}?with R² of at least #"),
            ("original", r"four frequencies: 12, 18, 21, 22\..{0,400}?with R² of at least #"),
        )
    ),
    Quantity(
        "R² of all logits against a pizza, pizza",
        lambda: logits("pizza").r2.all_logits.pizza,
        (
            r"all logits: R² pizza / clock \| # /",
            r"R² [\d.]+ and the pizza form with #; the absolute-value part of the MLP alone fits them with 0\.857",
            r"R² of all logits, pizza form #",
            r"and R² # / 0\.99 \(all logits",
        ),
        "nearest",
        places=3,
    ),
    Quantity(
        "D_12 from a",
        lambda: logits("original").identity.of_a.D[0],
        (r"k = 12: # and", r"-3\.69 is # from a"),
        "nearest",
    ),
    Quantity("D_12 from b", lambda: logits("original").identity.of_b.D[0], (r"k = 12: -[\d.]+ and #\)",), "nearest"),
    Quantity(
        "D_12",
        lambda: logits("original").identity.D[0],
        (r"D_12 = #", r"\| D \| # \|", r"\bD # -3\.86"),
        "nearest",
        places=3,
    ),
    Quantity(
        "identity half at the weak spot",
        lambda: spot().identity_component,
        (r"wave has # from the identity half",),
        "nearest",
    ),
    Quantity(
        "absolute half at the weak spot", lambda: spot().abs_component, (r"# from the absolute-value half",), "nearest"
    ),
    Quantity(
        "pizza term at the weak spot",
        lambda: spot().pizza_term,
        (r"C_k \|cos u\| is #, and", r"make # \+ 3\.69 of"),
        "nearest",
    ),
    Quantity(
        "what the MLP writes at the weak spot",
        lambda: spot().identity_component + spot().abs_component,
        (r"3\.69 of the # that the MLP writes",),
        "nearest",
    ),
    Quantity("all logits at the weak spot", lambda: spot().all_logits, (r"skip connection, together #\.",), "nearest"),
    Quantity(
        "tanh in original",
        lambda: quadlens.evaluate(quadlens.edit.swap_activation("original", "tanh")).correct,
        (r"tanh in `original` answers # of 3,481",),
        "nearest",
    ),
    Quantity(
        "good models",
        lambda: next(one.ours for one in population().statements if one.name == "good_models"),
        (
            r"seeds 0 to 150, # are \"good\"",
            r"two thirds of the models are good, # of 151",
            r"same frequency \| # of 151",
        ),
        "nearest",
        places=2,
    ),
    Quantity(
        "good models of the paper",
        lambda: read_published().population.counts["models_all_neuron_frequencies_match"],
        (r"writes another \(the paper: # of 151", r"104 of 151 beside its # of 151"),
        "nearest",
        places=2,
    ),
    Quantity(
        "margin of the agreement on good models",
        lambda: next(one.tested.margin for one in population().statements if one.name == "good_models" and one.tested),
        (r"agreement to within # points", r"68\.9% against 66\.2%.*?to within # points"),
        "up",
        100,
        2,
    ),
    Quantity(
        "comparisons that differ",
        lambda: sum(one.verdict == "differs" for one in population().tests),
        (r"of 17 such comparisons # differ", r"either way 8 agree and # differ"),
        "nearest",
        places=2,
    ),
    Quantity(
        "comparisons that differ after Holm",
        lambda: sum((one.p_holm or 0) < 0.05 for one in population().tests),
        (r"9 differ, # of them after Holm", r"differ at 95 %, # of these also"),
        "nearest",
        places=2,
    ),
    Quantity(
        "clusters",
        lambda: len(key_clusters().errors),
        (
            r"of # such rules in 151 networks",
            r"Of the # key clusters 81",
            r"all key clusters \| # \|",
            r"and all # of the \[population\]",
        ),
        "nearest",
        places=3,
    ),
    Quantity(
        "clusters above 10 %",
        lambda: key_clusters().above(0.1),
        (r"within 4 %, # are off by more than 10 %", r"key clusters # have an exact error above 10 %"),
        "nearest",
        places=2,
    ),
    Quantity(
        "clusters above 100 %",
        lambda: key_clusters().above(1.0),
        (r"and # by more than 100 %", r"mean size and # above 100 %"),
        "nearest",
        places=2,
    ),
    Quantity(
        "largest exact error of all",
        lambda: max(key_clusters().errors),
        (
            r"above 100 %, the largest # %",
            r"largest error of all, # % at k = 10",
            r"all key clusters \| 533 \| [\d.]+ % \| [\d.]+ % \| # %",
        ),
        "up",
        100,
    ),
    Quantity(
        "cells of the paper that agree",
        lambda: (quadlens.quadrature.papers_cells(quadlens.quadrature.tables(quadlens.bounds("original"))) or (0, 0))[
            0
        ],
        (
            r"less well: # of 72 numbers",
            r"has # of the 72 numbers",
            r"# of the 72 numbers that it prints",
            r"of these # of 72 numbers agree",
        ),
        "nearest",
        places=4,
    ),
)


def flat(text: str) -> str:
    """One line; tags, entities and the marks around words gone."""
    return re.sub(r"\s+", " ", html.unescape(text).replace("’", "'"))


def without_tags(page: str) -> str:
    return flat(re.sub(r"<[^>]+>", " ", re.sub(r"<(script|style|svg).*?</\1>", " ", page, flags=re.DOTALL)))


def executed(path: Path) -> str:
    """What the cells of a tutorial print, values that end a cell included."""
    printed, namespace = io.StringIO(), {"__name__": "__main__"}  # type: tuple[io.StringIO, dict[str, Any]]
    with contextlib.redirect_stdout(printed):
        for cell in CELL.findall(path.read_text(encoding="utf-8")):
            *body, last = ast.parse(cell).body
            if isinstance(last, ast.Expr):
                exec(compile(ast.Module(body, []), str(path), "exec"), namespace)
                print(repr(eval(compile(ast.Expression(last.value), str(path), "eval"), namespace)))
            else:
                exec(compile(ast.Module([*body, last], []), str(path), "exec"), namespace)
    return printed.getvalue()


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """All that a reader meets, by where."""
    tutorials = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *tutorials]
    found = {str(path.relative_to(ROOT)): flat(path.read_text(encoding="utf-8")) for path in documents}
    found |= {f"{path.name}, executed": flat(executed(path)) for path in tutorials if path.name[0] in "24"}
    found |= {f"quadlens {words}": flat(run(*words.split()).out) for words in COMMANDS}
    page = tmp_path_factory.mktemp("report")
    quadlens.report("pizza", page)
    return {**found, "report of pizza": without_tags((page / "index.html").read_text(encoding="utf-8"))}


@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda one: one.name)
def test_every_occurrence_is_the_value(quantity: Quantity, texts: Mapping[str, str]) -> None:
    value = quantity.value()
    assert value is not None
    exact = Fraction(value) * quantity.scale
    places = set()
    for where, text in texts.items():
        for phrase in quantity.phrases:
            for match in re.finditer(phrase.replace("#", NUMBER), text):
                said = match[1].replace(",", "")
                right = decimals(exact, len(said.partition(".")[2]), quantity.towards)
                assert said == right, f"{where}: …{match[0][-120:]}… says {said}; {float(exact)} is {right}"
                places.add(where)
    assert len(places) >= quantity.places, f"found in {sorted(places)} only"


def test_no_phrase_is_dead(texts: Mapping[str, str]) -> None:
    """A phrase that no text has any more compares nothing."""
    everything = " ".join(texts.values())
    dead = [
        phrase for one in QUANTITIES for phrase in one.phrases if not re.search(phrase.replace("#", NUMBER), everything)
    ]
    assert dead == []


def test_errors_are_of_the_integrals_mean_size(texts: Mapping[str, str]) -> None:
    """A per cent "of the integral" is said of what it is a share: the integral itself can be 0."""
    for where, text in texts.items():
        assert not re.search(r"% of the integral(?!['’]s mean size)", text), where
