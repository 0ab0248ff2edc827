"""Reports of nine models: what their templates are given, computed a second way, and what a page
may claim.

Which number stands in which sentence is the template's business; how it is rounded is
`test_rounding.py`'s.
"""

import html
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from network.test_deep import config_of, random_deep
from quadlens.analysis.explanation.of_study import outline_of
from quadlens.analysis.infinite_width.of_study import integration_of, lens_if_any
from quadlens.analysis.integration import BROKEN, KEPT, LOST, STANDS_FOR_LOGITS, Integration
from quadlens.analysis.quadrature import rectangles
from quadlens.analysis.quadrature.of_study import rule_clusters, worst_errors
from quadlens.base.numbers import decimals, percent
from quadlens.network import Recipe, Weights, build_mlp
from quadlens.network.config import Config, Softmax
from quadlens.network.study import Study, study_of
from quadlens.readers import import_file
from quadlens.show.explorer import build_page
from quadlens.show.figures.beyond_waves import all_gates
from quadlens.show.figures.registry import FIGURES, all_pictures
from quadlens.show.pages.page import page_html
from show.test_report_kinds import DOT, TASKS, made

pytestmark = pytest.mark.slow

BUNDLED = ("pizza", "original", "mismatched", "clock", "times")
MODELS = (*BUNDLED, "embedding", "group", "layers", "wrong")


def embedding_mlp() -> Weights:
    """An MLP whose neurons read a and b at phases of their own, nine to a frequency, and write at
    twice their mean.
    """
    p, rng = 29, np.random.default_rng(4)
    k = np.repeat([2, 5, 7, 11], 9)
    phi, delta = rng.uniform(-np.pi, np.pi, (2, len(k)))
    angle = 2 * np.pi * np.outer(np.arange(p), k) / p
    W_a, W_b, W_out = (
        np.cos(angle + phi + delta),
        np.cos(angle + phi - delta),
        np.cos(angle + 2 * phi).T,
    )
    return Weights(Config.mlp(p, len(k)), W_a=W_a, W_b=W_b, W_out=W_out)


def group_model() -> Weights:
    """S5 as trained by others, where it is at hand; else random weights for products in S3."""
    peers = os.environ.get("QUADLENS_PEERS")
    if peers and (file := Path(peers, "chughtai", "S5_T_seed1", "model.pt")).exists():
        return import_file(file).model
    return made(TASKS["a group"], "softmax", "relu")


@cache
def studied(name: str) -> Study:
    if name in BUNDLED:
        return study_of(name).without_proofs() if name == "original" else study_of(name)
    makers: dict[str, Callable[[], Weights]] = {
        "embedding": embedding_mlp,
        "group": group_model,
        "layers": lambda: random_deep(config_of(2, 2, Softmax(0.5, 2.0))),
        "wrong": lambda: build_mlp(Recipe(p=23, keys=(2, 5, 7), neurons=60, noise=0.35, seed=1)),
    }
    study = study_of(makers[name](), name)
    return study.without_proofs() if name == "group" else study


@cache
def text_of(name: str) -> str:
    """The page's words, without code, hashes, formulas, the glossary and how it was made."""
    study = studied(name)
    page = page_html(study, {one.name: DOT for one in all_pictures(study)})
    body = page[page.index("<body") :]
    for gone in (
        r'<section id="(?:words|made|index)">.*?</section>',
        r"<(math|code|svg)\b.*?</\1>",
    ):
        body = re.sub(gone, " ", body, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", body)).split())


def given(name: str, family: str) -> list[Mapping[str, Any]]:
    """What the templates of a figure are filled with, one for each of its pictures."""
    (one,) = (one for one in FIGURES if one.name == family)
    values = one.values(studied(name)) if one.is_of(studied(name)) else None
    return [values] if isinstance(values, Mapping) else list(values or ())


@pytest.mark.parametrize("name", MODELS)
def test_no_number_of_a_page_has_all_its_digits(name: str) -> None:
    """The guard of the templates does not see what is joined, nor sentences that Python makes."""
    words = text_of(name).replace(_statement(name), "")
    numbers = re.findall(r"(?<![\w.])\d+\.\d+", words)
    assert [one for one in numbers if len(one.replace(".", "").lstrip("0")) > 7] == []
    assert re.findall(r"\b(?:nan|None|np\.\w+|inf)\b", words) == []


def _statement(name: str) -> str:
    """The theorem, whose bounds have nine digits."""
    certificate = studied(name).certificate
    return "" if certificate is None else " ".join(certificate.statement.split())


# ---- What templates are given, a second way ----


@pytest.mark.parametrize("name", ["pizza", "mismatched", "wrong"])
def test_sums_and_areas_of_rules(name: str) -> None:
    for values in given(name, "infinite-width"):
        scheme = values["scheme"]
        terms = scheme.w * np.maximum(np.cos(scheme.phi), 0) * np.cos(2 * scheme.phi)
        assert values["total"] == pytest.approx(terms.sum(), rel=1e-12)
    seen = given(name, "quadrature")
    assert seen
    for values in seen:
        layout = rectangles(values["cluster"].scheme, values["half"])
        area = sum(
            (right - left) * abs(np.cos(phi)) * np.cos(2 * phi)
            for left, right, phi in zip(
                layout.edges[:-1], layout.edges[1:], layout.phi, strict=True
            )
        )
        assert values["area"] == pytest.approx(area, rel=1e-12)
        assert values["integral"] == (2 / 3 if values["half"] else 4 / 3)


@pytest.mark.parametrize("name", ["pizza", "mismatched", "wrong", "times"])
def test_worst_errors_of_rules(name: str) -> None:
    """By the sums over neurons at every a + b; ReLU's integral is half as large as that of |x|."""
    study = studied(name)
    rules = study.once(worst_errors)
    assert rules is not None
    sizes = {}
    for one in study.once(rule_clusters):
        scheme, angle = one.scheme, 2 * np.pi * one.k * np.arange(2 * study.p) / study.p
        active = np.maximum(np.cos(angle[:, None] / 2 + scheme.phi), 0) * scheme.w
        wave = 2 / 3 * np.exp(-1j * angle)
        by_hand = np.abs(active @ np.exp(1j * scheme.psi) - wave).max()
        assert by_hand <= one.exact_psi.relu.upper * (1 + 1e-12)
        sizes[one.k] = one.exact_psi.relu.upper / (one.baseline.lower / 2)
    assert rules.model.k == max(sizes, key=lambda k: sizes[k])
    assert rules.relu == pytest.approx(max(sizes.values()), rel=1e-12)
    assert rules.model.size == rules.relu
    assert rules.absolute == max(one.relative_exact_psi.upper for one in study.once(rule_clusters))
    assert rules.bound == max(one.relative_bound.value for one in study.once(rule_clusters))
    assert rules.moment == max(
        one.relative_moment_bound_psi.value for one in study.once(rule_clusters)
    )
    errors = {values["k"]: values["error"] for values in given(name, "integrated-relu")}
    assert {k: error.size for k, error in errors.items()} == pytest.approx(sizes, rel=1e-12)
    said = Fraction(rules.model.words.removesuffix(" %"))
    assert 0 <= said - 100 * Fraction(rules.model.size) < Fraction(1, 10)


@pytest.mark.parametrize("name", ["pizza", "mismatched"])
def test_moments_overlaps_and_waterfalls(name: str) -> None:
    study = studied(name)
    (drawn,) = given(name, "moments")
    for one in drawn["moments"]:
        scheme = one["cluster"].scheme
        for size, order in zip(one["size"], one["order"], strict=True):
            whole = abs((scheme.w * np.exp(1j * order * scheme.phi)).sum()) / (2 * np.pi)
            assert size == pytest.approx(whole, abs=1e-12)
        assert list(one["order"]) == list(range(2, drawn["order"] + 1, 2))
    (waterfall,) = given(name, "error-waterfall")
    for one in study.once(rule_clusters):
        bound, slope, angle, exact = waterfall["heights"][one.k]
        assert bound == pytest.approx(one.relative_bound.value, rel=1e-9)
        assert bound - slope - angle == pytest.approx(exact)
        assert one.relative_exact_psi.lower <= exact * (1 + 1e-9)
        assert exact <= one.relative_exact_psi.upper * (1 + 1e-9)


@pytest.mark.parametrize("name", ["pizza", "mismatched", "times", "wrong", "embedding"])
def test_neurons(name: str) -> None:
    study = studied(name)
    roles = study.explanation.roles
    alive = [i for i in range(study.config.d_mlp) if not roles.dead[i]]
    (explained,) = given(name, "single-frequency")
    for place, share in enumerate((roles.variance_input, roles.variance_output)):
        ordered = sorted(float(share[i]) for i in alive)
        middle = (ordered[(len(alive) - 1) // 2] + ordered[len(alive) // 2]) / 2
        assert explained["half"][place] == pytest.approx(middle, rel=1e-12)
        assert explained["every"][place] == ordered[0]
    assert explained["living"] == len(alive)
    for counts in given(name, "freqcount"):
        read = {int(roles.k_in[i]) for i in alive}
        assert {int(k) + 1 for k in np.flatnonzero(counts["every"])} == read
        assert counts["stray"].sum() == sum(roles.k_in[i] != roles.k_out[i] for i in alive)
        assert len(counts["every"]) == study.p // 2
    (one,) = given(name, "neuron")
    first = next(cluster for cluster in study.explanation.clusters if cluster.k in study.keys)
    strengths = {int(i): float(roles.rho[i] * roles.omega[i]) for i in first.neurons}
    assert one["number"] == max(strengths, key=lambda i: strengths[i])
    turn = np.exp(1j * (one["double"] - 2 * roles.phi[one["number"]]))
    assert abs(turn - 1) < 1e-12
    assert abs(one["double"]) <= np.pi


@pytest.mark.parametrize("name", ["clock", "group"])
def test_attention(name: str) -> None:
    """Over all inputs, for each position and head."""
    layer = studied(name).anatomy.layer
    (ranges,) = given(name, "gates")
    every = all_gates(layer)
    for place, position in enumerate(ranges["positions"]):
        for head in range(layer.heads):
            weights = every[place, head].ravel().tolist()
            assert (position["low"][head], position["high"][head]) == (min(weights), max(weights))


def test_irreps() -> None:
    study = studied("group")
    found = study.once(outline_of)
    assert found is not None
    (drawn,) = given("group", "irreps")
    shares = {irrep.name: share for irrep, share in drawn["key"]}
    outline = {one.irrep.name: one.share_W_L for one in found.key_irreps}
    assert shares == pytest.approx({key: outline[key] for key in shares}, rel=1e-9)


@pytest.mark.parametrize("name", ["pizza", "original"])
def test_what_a_run_left(name: str) -> None:
    history = studied(name).history
    assert history is not None
    (drawn,) = given(name, "frequencies-over-training")
    shares = [
        power / power.sum(axis=1, keepdims=True)
        for power in (history.input_power, history.output_power)
    ]
    assert drawn["first"] == pytest.approx(max(share[0].max() for share in shares), rel=1e-12)
    kept = {
        k
        for k in range(1, shares[0].shape[1] + 1)
        if any(share[-1, k - 1] >= 0.02 for share in shares)
    }
    assert set(drawn["survivors"]) == kept
    assert drawn["named"] == 0.02


@pytest.mark.parametrize("name", ["pizza", "times"])
def test_marks_among_the_paper_s_models_are_medians(name: str) -> None:
    study = studied(name)
    alive, roles = ~study.explanation.roles.dead, study.explanation.roles
    expected: dict[str, list[float]] = {
        "freqstrengthmul": list(roles.variance_input[alive]),
        "uoutstrengthmul": list(roles.variance_output[alive]),
        "nibound": [one.rows.total_abs_bound_half.value for one in study.once(rule_clusters)],
        "primsecr2": [
            one.phase_r2 for one in study.explanation.cluster_doubling if one.phase_r2 is not None
        ],
    }
    for values in given(name, "population-histograms"):
        of_model = expected[values["label"]]
        assert values["mark"] == (pytest.approx(np.median(of_model)) if of_model else None)


@pytest.mark.parametrize("name", ["pizza", "clock", "times"])
def test_the_lens(name: str) -> None:
    study = studied(name)
    (drawn,) = given(name, "strength")
    for one in drawn["strongest"]:
        sizes = np.abs(one.reading.strength)
        assert one.dip == pytest.approx(sizes.min() / sizes.max(), rel=1e-9)
    keys = [one.k for one in study.lens.clusters]
    folded = {(k, min(2 * k % study.p, -2 * k % study.p)) for k in keys}
    chained = {k for pair in folded if pair[1] in keys and pair[0] != pair[1] for k in pair}
    values = given(name, "chain-nodes")
    assert {one.k for one in (values[0]["chained"] if values else ())} == chained
    for one in values[0]["chained"] if values else ():
        cluster = one.reading.cluster
        weight = cluster.rho * cluster.omega
        for order in (2, 4):
            size = abs((weight * np.exp(1j * order * cluster.phi)).sum()) / weight.sum()
            assert abs(one.reading.rule.moment(order)) / one.reading.rule.A == pytest.approx(
                size, rel=1e-9
            )


# ---- What a page may claim ----


@pytest.mark.parametrize("name", MODELS)
def test_pages_claim_an_integral_by_the_rule_alone(name: str) -> None:
    """Report and explorer have one verdict, which is the rule's on values measured here anew."""
    study = studied(name)
    lens = study.once(lens_if_any)
    expected: bool | None = None
    if lens is not None:
        permuted, even, half = (
            float(x or 0)
            for x in (
                lens.controls.shared_permuted,
                lens.controls.resampled_even,
                lens.controls.resampled_half,
            )
        )
        shared = lens.r2.shared
        expected = shared >= 0.9 and permuted <= shared - 0.5 and even >= 0.99 and half < 0.9
    assert study.once(integration_of).holds is expected
    assert expected == {**dict.fromkeys(BUNDLED, True), "group": None}.get(name, False)
    text = text_of(name)
    assert ("computes integrals numerically" in text) == (expected is True)
    assert all(part.words in text for part in study.once(integration_of).fails)
    if name != "layers":
        explorer = html.unescape(build_page(study, name).split("<main>")[0])
        assert (study.once(integration_of).sentence or "") in explorer


def test_an_mlp_has_no_attention_and_nothing_that_skips_it() -> None:
    study = studied("embedding")
    assert "attention adds" not in text_of("embedding")
    assert "skip connection" not in text_of("embedding")
    assert study.config.adds_by in text_of("embedding")
    assert study.config.adds_by != studied("pizza").config.adds_by


def test_a_weak_spot_of_one_sign_has_one() -> None:
    """The embedding MLP's neurons read a and b at other phases: |cos u| is smallest at d, and not
    at -d.
    """
    for name in ("embedding", "pizza"):
        logits = studied(name).explanation.logits
        assert logits is not None
        for spot, shift in zip(logits.weak_spots, logits.parts.shifts, strict=True):
            assert spot.both_signs == (not shift)
            assert spot.where.startswith("±") == (not shift)
    spots = studied("embedding").explanation.logits.weak_spots  # type: ignore[union-attr]
    assert not all(spot.both_signs for spot in spots)


RULE = Integration(0.95, 0.44, 0.991, 0.89, 1.0)


def test_the_rule_names_the_part_that_fails() -> None:
    assert (STANDS_FOR_LOGITS, LOST, KEPT, BROKEN) == (0.9, 0.5, 0.99, 0.9)
    assert Integration(None, None, None, None, None).holds is None
    assert RULE.holds
    failing = {
        "shared": (0.899, "shared function"),
        "permuted": (0.46, "permuted phases"),
        "even": (0.98, "even nodes"),
    }
    for field, (value, part) in {**failing, "half": (0.9, "half the nodes")}.items():
        fails = replace(RULE, **{field: value}).fails
        assert part in [one.name for one in fails]
        assert len(fails) == 1 + (field == "shared")  # less is left to lose, too


def test_a_value_is_rounded_away_from_its_threshold() -> None:
    """What fails by a hair does not read as if it reached the threshold."""
    near = Integration(0.89999, 0.40001, 0.98999, 0.90001, 1.0)
    digits = [re.findall(r"\d+\.\d+", part.words) for part in near.parts]
    assert [found[0] for found in digits] == ["0.899", "0.401", "98.99", "90.01"]
    assert len(near.fails) == 4


def test_answers_of_functions_far_from_the_logits_are_not_told() -> None:
    """What they answer says nothing about the network; of others it is said, right or not."""
    far, close = replace(RULE, shared=0.3201, right=0.034), replace(RULE, right=0.034)
    assert percent(0.034) in close.sentence
    assert percent(0.034) not in far.sentence
    assert decimals(0.3201, 3, "down") in far.sentence
