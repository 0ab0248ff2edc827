"""Which rules are inaccurate: every measure against loops over pairs, and what the two sets of
models show."""

import importlib
import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from places import ROOT
from quadlens.training.population import dataset


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "experiments")
    return importlib.import_module("few_neurons")


def auc_by_pairs(scores: Sequence[float], outcome: Sequence[bool]) -> float:
    points = [
        1.0 if x > y else 0.5 if x == y else 0.0
        for (x, bad), (y, worse) in itertools.product(zip(scores, outcome, strict=True), repeat=2)
        if bad and not worse
    ]
    return sum(points) / len(points)


def test_auc_is_the_share_of_ordered_pairs(study: Any) -> None:
    rng = random.Random(0)
    for _ in range(30):
        scores = [float(rng.randrange(5)) for _ in range(20)]
        outcome = [True, False, *(rng.random() < 0.4 for _ in range(18))]
        assert study.auc(scores, outcome) == pytest.approx(auc_by_pairs(scores, outcome))


def test_z_within_strata_has_the_moments_of_shuffled_exposures(study: Any) -> None:
    """One stratum: mean and variance over every way to place the exposures, counted one by one."""
    outcome, exposures = [True, True, False, False, True, False], 2
    counts = [
        sum(outcome[i] for i in chosen) for chosen in itertools.combinations(range(6), exposures)
    ]
    mean = sum(counts) / len(counts)
    variance = sum((count - mean) ** 2 for count in counts) / len(counts)
    exposed = [True, True, False, False, False, False]
    z = study.mantel_haenszel(exposed, outcome, [3] * 6)
    assert z == pytest.approx((2 - mean) / math.sqrt(variance))
    # A stratum of one model says nothing, and strata add up.
    assert study.mantel_haenszel(
        [*exposed, True], [*outcome, True], [3] * 6 + [4]
    ) == pytest.approx(z)
    twice = study.mantel_haenszel(exposed * 2, outcome * 2, [3] * 6 + [4] * 6)
    assert twice == pytest.approx(z * math.sqrt(2))


def test_a_pair_is_a_key_and_its_double(study: Any) -> None:
    model = study.model_of(
        59, [5, 10, 28], [(5, 100, 0.2), (10, 90, 0.05), (28, 200, None), (7, 9, 1)]
    )
    assert [(rule.k, rule.paired, rule.inaccurate) for rule in model.rules] == [
        (5, True, True),
        (10, True, False),
    ]
    assert model.has_double
    assert model.inaccurate
    assert model.registered_score == 4
    assert study.model_of(59, [5, 15], []).registered_score == 2.5
    assert not study.model_of(59, [3, 28], []).rules
    assert study.model_of(59, [3, 28], []).has_double  # 2 · 28 = 56 = -3


@pytest.mark.slow
def test_doubling_adds_nothing_measurable_in_the_registered_models(study: Any) -> None:
    new = study.finding(study.registered_models())
    old = study.finding(study.population_models(dataset.read(dataset.shipped_path())))
    assert (round(new.keys, 3), round(new.score, 3), round(new.double, 3)) == (0.855, 0.838, 0.580)
    assert (round(new.double_given_keys, 2), round(old.double_given_keys, 2)) == (0.63, 3.17)
    assert (round(new.few_neurons, 3), round(new.pair, 3)) == (0.856, 0.567)
    assert (round(old.few_neurons, 3), round(old.pair, 3)) == (0.822, 0.655)
    assert study.paired_share(study.registered_models(), 0.3) == "4 of 15"
